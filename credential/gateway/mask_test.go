//go:build linux

package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// TestGuess: what a client gets of an answer, and when, does not depend on whether the answer contains the beginning of
// the secret. A client can have hosts send what it likes, so it could find out the secret character by character.
func TestGuess(t *testing.T) {
	next := make(chan bool)
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "line\n%s", b)
		w.(http.Flusher).Flush()
		<-next
		fmt.Fprint(w, "\nend")
	})
	address := open(t, h, ",user=me")
	const wrong = "#"
	value := "bWU6czNjcjN0LXQwa2VuLTAxMjM0NTY3ODk="
	seen := map[int][]string{} // by the length of the guess: what came before the host went on
	for _, from := range [...]string{secret, value} {
		for n := 1; n < len(from); n++ {
			for _, guess := range [...]string{from[:n], from[:n-1] + wrong, strings.Repeat(wrong, n)} {
				first, all := firstChunk(t, address, guess, next)
				if all != "line\n"+guess+"\nend" {
					t.Errorf("the answer with %q is %q", guess, all)
				}
				seen[n] = append(seen[n], fmt.Sprint(first))
			}
		}
	}
	for n, sizes := range seen {
		for _, size := range sizes {
			if size != sizes[0] {
				t.Errorf("of answers with %d characters, %v came at once", n, sizes)
				break
			}
		}
	}
}

// firstChunk has the host send a text, and returns the size of the first chunk, and all that came. After the first
// chunk, the host may go on.
func firstChunk(t *testing.T, address, text string, next chan<- bool) (size uint64, all string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	r := bufio.NewReader(c)
	for line := ""; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	head, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	next <- true
	if size, err = strconv.ParseUint(strings.TrimSpace(head), 16, 32); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(httputil.NewChunkedReader(io.MultiReader(strings.NewReader(head), r)))
	if err != nil {
		t.Fatal(err)
	}
	return size, string(b)
}

// TestPieces: a secret is masked wherever an answer is cut into pieces, and everything else arrives as it was sent.
func TestPieces(t *testing.T) {
	m := newMask(secret, "Basic bWU6czNjcjN0")
	text := "\x00é\n" + secret + secret + "x" + secret[:9] + "\r\nbWU6czNjcjN0" + strings.Repeat("long line ", 20) + secret + "\n\n" + secret[:5]
	want := m.text(text)
	if strings.Contains(want, secret) || strings.Count(want, "*") != 3*len(secret)+12 {
		t.Fatalf("the mask leaves %q", want)
	}
	for n := 1; n <= len(text); n++ {
		pieces := make([]io.Reader, 0, len(text))
		for i := 0; i < len(text); i += n {
			pieces = append(pieces, strings.NewReader(text[i:min(i+n, len(text))]))
		}
		ended := 0
		got, err := io.ReadAll(&masked{ReadCloser: io.NopCloser(io.MultiReader(pieces...)), mask: m, trailer: func() { ended++ }})
		if err != nil || string(got) != want || ended != 1 {
			t.Errorf("in pieces of %d bytes: %q, %v, the end %d times", n, got, err, ended)
		}
	}
}

// TestBroken: of an answer that breaks off, what may be the beginning of the secret does not arrive. The control is an
// answer that ends.
func TestBroken(t *testing.T) {
	m := newMask(secret, "Bearer "+secret)
	for _, c := range []struct {
		err  error
		want string
	}{{io.ErrUnexpectedEOF, "line\n"}, {io.EOF, "line\n" + secret[:9]}} {
		body := io.MultiReader(strings.NewReader("line\n"+secret[:4]), strings.NewReader(secret[4:9]), iotest.ErrReader(c.err))
		got, err := io.ReadAll(&masked{ReadCloser: io.NopCloser(body), mask: m, trailer: func() {}})
		if string(got) != c.want || err != nil != (c.err != io.EOF) {
			t.Errorf("%v: %q, %v, want %q", c.err, got, err, c.want)
		}
	}
}

// TestTrailerName: the host can name the secret as a header that follows the answer.
func TestTrailerName(t *testing.T) {
	name := http.CanonicalHeaderKey(secret)
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", name+", X-Late")
		fmt.Fprint(w, "hello")
		w.(http.Flusher).Flush()
		w.Header().Set(name, "late")
		w.Header().Set("X-Late", "late")
	})
	direct := request(t, "GET", h.URL, nil)
	res, err := h.Client().Do(direct)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if err != nil || res.Trailer.Get(name) != "late" {
		t.Fatalf("the control: %v, %v", err, res.Trailer)
	}
	c, err := net.Dial("tcp", open(t, h, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: close\r\n\r\n")
	b, err := io.ReadAll(c)
	if answer := string(b); err != nil || strings.Contains(strings.ToLower(answer), secret) || !strings.Contains(answer, "X-Late: late") {
		t.Errorf("%v\n%s", err, answer)
	}
}

// TestForms: a host takes a header's value apart, and sends parts of it back. The control is that what only looks like
// one is left as it is.
func TestForms(t *testing.T) {
	for _, c := range []struct{ secret, value, text, want string }{
		{"ghp_0123456789", "Bearer ghp_0123456789", "you are ghp_0123456789!", "you are **************!"},
		{"token ghp_0123456789", "token ghp_0123456789", "token ghp_0123456789", "********************"},
		{"token ghp_0123456789", "token ghp_0123456789", `{"token": "ghp_0123456789"}`, `{"token": "**************"}`},
		{"ApiKey 0123456789", "ApiKey 0123456789", "ApiKey: 0123456789", "ApiKey: **********"},
		{" ghp_0123456789  ", "Bearer  ghp_0123456789  ", `"ghp_0123456789"`, `"**************"`},
		{"correct horse battery", "Bearer correct horse battery", "correct horse battery", "*********************"},
		{"correct horse battery", "Bearer correct horse battery", "correct horse", "correct horse"},
		{`quotes " 0123456789`, `Bearer quotes " 0123456789`, `{"is": "quotes \" 0123456789"}`, `{"is": "********************"}`},
		{"short", "Bearer short", "short", "short"},
	} {
		if got := newMask(c.secret, c.value).text(c.text); got != c.want {
			t.Errorf("the mask of %q makes %q of %q, not %q", c.secret, got, c.text, c.want)
		}
	}
}
