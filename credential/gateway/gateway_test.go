//go:build linux

package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/testenv"
)

// The certificate of httptest's servers is the only one that is trusted here.
func TestMain(m *testing.M) {
	s := httptest.NewTLSServer(nil)
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	s.Close()
	fd, err := unix.MemfdCreate("ca", unix.MFD_CLOEXEC) // nobody has to remove it
	if err == nil {
		_, err = unix.Write(fd, b)
	}
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("SSL_CERT_FILE", fmt.Sprintf("/proc/self/fd/%d", fd))
	testenv.Main(m, func() {})
}

const secret = "s3cr3t-t0ken-0123456789"

// host is the server that the credential is for.
type host struct {
	*httptest.Server
	hits atomic.Int32
}

func newHost(t *testing.T, handler http.HandlerFunc) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.hits.Add(1)
		handler(w, r)
	}))
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// open serves a gateway to it, and returns its address.
func open(t *testing.T, h *host, options string) (address string) {
	t.Helper()
	at := netip.MustParseAddrPort(strings.TrimPrefix(h.URL, "https://"))
	rule, err := credential.Parse(at.String() + "=env:TOKEN" + options)
	if err != nil {
		t.Fatal(err)
	}
	return serveRoute(t, credential.Route{Rule: rule, Secret: func(context.Context) (string, error) { return secret, nil }})
}

func serveRoute(t *testing.T, r credential.Route) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	serve, err := Gateway{}.Open(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// fetch makes a request, and returns all of the answer as text.
func fetch(t *testing.T, r *http.Request) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d\n", res.StatusCode)
	_ = res.Header.Write(&text)
	_ = res.Trailer.Write(&text)
	return text.String() + "\n" + string(b)
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHeader: requests have the header once, with the secret, whatever a client sends.
func TestHeader(t *testing.T) {
	for options, want := range map[string]string{
		"":                  "Authorization: Bearer " + secret,
		",header=X-Api-Key": "X-Api-Key: " + secret,
		",user=me":          "Authorization: Basic bWU6czNjcjN0LXQwa2VuLTAxMjM0NTY3ODk=",
	} {
		got := make(chan *http.Request, 1)
		h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			got <- r
			fmt.Fprint(w, "hello")
		})
		address := open(t, h, options)
		r := request(t, "POST", "http://"+address+"/a/b?c=d", strings.NewReader("body"))
		name, _, _ := strings.Cut(want, ": ")
		r.Header = http.Header{
			name: {"the client's"}, strings.ToLower(name): {"another"}, strings.ReplaceAll(name, "-", "_") + "": {"a third"},
			"Connection": {name}, "Proxy-Authorization": {"x"}, "X-Forwarded-For": {"x"}, "Accept-Encoding": {"gzip"},
		}
		r.Host = "elsewhere.example"
		if answer := fetch(t, r); !strings.HasSuffix(answer, "\nhello") {
			t.Errorf("%s: %s", options, answer)
		}
		in := <-got
		all := strings.Builder{}
		_ = in.Header.Write(&all)
		if !strings.Contains(all.String(), want+"\r\n") || strings.Contains(all.String(), "client's") || strings.Contains(all.String(), "another") ||
			strings.Contains(all.String(), "third") || strings.Contains(all.String(), "Proxy") || strings.Contains(all.String(), "Forwarded") {
			t.Errorf("%s: %s", options, all.String())
		}
		body, _ := io.ReadAll(in.Body)
		if in.Method != "POST" || in.RequestURI != "/a/b?c=d" || in.Host != strings.TrimPrefix(h.URL, "https://") || string(body) != "body" {
			t.Errorf("%s: %s %s %s %s", options, in.Method, in.Host, in.RequestURI, body)
		}
	}
}

// TestEcho: if a host sends the secret back, the client does not get it, wherever in the answer it is. The control is
// the host itself.
func TestEcho(t *testing.T) {
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		value := r.Header.Get("Authorization")
		w.Header().Set("Trailer", "X-Late")
		w.Header().Set("Link", value)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Echo", "you sent "+value)
		w.Header().Set("X-"+strings.TrimPrefix(value, "Bearer "), "x")
		for _, part := range []string{"a " + value[:9], value[9:12], value[12:] + value + " b", value[:12]} {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Late", value)
	})
	direct := request(t, "GET", h.URL, nil)
	direct.Header.Set("Authorization", "Bearer "+secret)
	res, err := h.Client().Do(direct)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || strings.Count(string(b), secret) != 2 || !strings.Contains(fmt.Sprint(res.Header, res.Trailer), secret) {
		t.Fatalf("the control: %v, %s", err, b)
	}
	r := request(t, "GET", "http://"+open(t, h, ""), nil)
	early := ""
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
		early += fmt.Sprint(header)
		return nil
	}}))
	answer := fetch(t, r)
	stars := strings.Repeat("*", len(secret))
	if strings.Contains(strings.ToLower(answer+early), secret) || !strings.HasSuffix(answer, "\na Bearer "+stars+"Bearer "+stars+" bBearer s3cr3") ||
		!strings.Contains(answer, "X-Echo: you sent Bearer "+stars) || !strings.Contains(answer, "X-Late: Bearer "+stars) {
		t.Errorf("%s\n%s", early, answer)
	}
}

// TestMalformed: if a host's answer cannot be read, the error, which quotes it, does not have the secret. The control
// is what the host sends.
func TestMalformed(t *testing.T) {
	sent := ""
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if sent = r.Header.Get("Authorization"); r.URL.Path == "/header" {
			sent = "HTTP/1.1 200 OK\r\n" + sent
		}
		fmt.Fprintf(c, "%s\r\n\r\n", sent)
	})
	h.TLS.NextProtos = []string{"http/1.1"}
	address := open(t, h, "")
	const quotes = `s3cr3t"t0ken\\0123456789`
	rule, err := credential.Parse(strings.TrimPrefix(h.URL, "https://") + "=env:TOKEN")
	if err != nil {
		t.Fatal(err)
	}
	quoting := serveRoute(t, credential.Route{Rule: rule, Secret: func(context.Context) (string, error) { return quotes, nil }})
	if answer := fetch(t, request(t, "GET", "http://"+quoting+"/status", nil)); !strings.Contains(sent, quotes) || strings.Contains(answer, "s3cr3t") {
		t.Errorf("the host sent %q: %s", sent, answer)
	}
	for _, path := range []string{"/status", "/header"} {
		answer := fetch(t, request(t, "GET", "http://"+address+path, nil))
		if !strings.Contains(sent, secret) || !strings.HasPrefix(answer, "502\n") || strings.Contains(answer, secret) || !strings.Contains(answer, "malformed") {
			t.Errorf("%s: the host sent %q: %s", path, sent, answer)
		}
	}
}

// TestRange: a client cannot get the secret in pieces by asking for parts of an answer, nor compressed, whatever
// servers take for the name of such a header. The control is the host itself, which takes what Apache and CGI programs
// take.
func TestRange(t *testing.T) {
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		answer := r.Header.Get("Authorization")
		for name, values := range r.Header {
			switch plain := strings.ToLower(strings.ReplaceAll(name, "_", "-")); {
			case plain == "request-range":
				r.Header.Set("Range", values[0])
			case plain == "accept-encoding" && values[0] == "reversed":
				b := []byte(answer)
				slices.Reverse(b)
				answer = string(b)
			}
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(answer))
	})
	half := len("Bearer ") + len(secret)/2
	address := open(t, h, "")
	for _, part := range [][2]string{
		{"Range", fmt.Sprintf("bytes=0-%d", half-1)}, {"Range", fmt.Sprintf("bytes=%d-", half)},
		{"Request-Range", fmt.Sprintf("bytes=0-%d", half-1)}, {"Request_Range", fmt.Sprintf("bytes=%d-", half)}, {"Accept_Encoding", "reversed"},
	} {
		direct := request(t, "GET", h.URL, nil)
		direct.Header.Set("Authorization", "Bearer "+secret)
		direct.Header.Set(part[0], part[1])
		res, err := h.Client().Do(direct)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || strings.Contains(string(b), secret) {
			t.Fatalf("the control: %s: %v, %s", part[0], err, b)
		}
		r := request(t, "GET", "http://"+address, nil)
		r.Header.Set(part[0], part[1])
		if got := fetch(t, r); !strings.HasSuffix(got, "\nBearer "+strings.Repeat("*", len(secret))) {
			t.Errorf("%s: %s", part, got)
		}
	}
}

// TestMethods: a method that has the host send back what it got, or makes a tunnel, is refused. The control is that the
// host answers TRACE with the secret.
func TestMethods(t *testing.T) {
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) { _ = r.Header.Write(w) })
	address := open(t, h, "")
	for _, method := range []string{"TRACE", "TRACK", "CONNECT"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", method)
		b, _ := io.ReadAll(c)
		c.Close()
		if h.hits.Load() != 0 || strings.HasPrefix(string(b), "HTTP/1.1 200") {
			t.Errorf("%s: %s", method, b)
		}
	}
	direct := request(t, "TRACE", h.URL, nil)
	direct.Header.Set("Authorization", "Bearer "+secret)
	res, err := h.Client().Do(direct)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), secret) {
		t.Errorf("the control: %v, %s", err, b)
	}
}

// TestOneHost: requests go to the one host: not where a request line says, and not where that host redirects to.
func TestOneHost(t *testing.T) {
	other := newHost(t, func(w http.ResponseWriter, r *http.Request) {})
	var h *host
	h = newHost(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other.URL+"/taken", http.StatusTemporaryRedirect)
		case "/own":
			http.Redirect(w, r, h.URL+"/there?x=1", http.StatusFound)
		default:
			fmt.Fprint(w, "served ", r.URL.Path)
		}
	})
	address := open(t, h, "")
	for path, want := range map[string]string{"/other": "Location: " + other.URL + "/taken\r\n", "/own": "Location: /there?x=1\r\n"} {
		if answer := fetch(t, request(t, "GET", "http://"+address+path, nil)); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", path, answer)
		}
	}
	for _, target := range []string{other.URL + "/abs", "//" + other.Listener.Addr().String() + "/abs", "http://x@" + other.Listener.Addr().String() + "/abs"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, other.Listener.Addr())
		b, _ := io.ReadAll(c)
		c.Close()
		if strings.HasPrefix(string(b), "HTTP/1.1 200") && !strings.Contains(string(b), "served") {
			t.Errorf("%s: %s", target, b)
		}
	}
	if n := other.hits.Load(); n != 0 {
		t.Errorf("the other host received %d requests", n)
	}
}

// TestTarget: the host gets the path of a request, as it is a path of its own. A server for many hosts may take the
// host from the request's target, and pass the secret on to another one. The controls are what such a server gets
// without the gateway, and a usual target.
func TestTarget(t *testing.T) {
	got := make(chan string, 1)
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) { got <- r.RequestURI + " for " + r.Host })
	h.TLS.NextProtos = []string{"http/1.1"}
	send := func(c net.Conn, target string) (seen, answer string) {
		defer c.Close()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", target)
		b, _ := io.ReadAll(c)
		select {
		case seen = <-got:
		default:
		}
		return seen, string(b)
	}
	own := h.Listener.Addr().String()
	direct, err := tls.Dial("tcp", own, h.Client().Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	if seen, _ := send(direct, "https://evil.example/x"); seen != "https://evil.example/x for evil.example" {
		t.Fatalf("the control: %q", seen)
	}
	address := open(t, h, "")
	for target, want := range map[string]string{
		"/x?y=/z":                    "/x?y=/z for " + own,
		"http://evil.example/x":      "/x for " + own,
		"http:https://evil.example/": "",
		"x:evil.example/x":           "",
		"http:x":                     "",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		seen, answer := send(c, target)
		if seen != want || want == "" && !strings.HasPrefix(answer, "HTTP/1.1 400") {
			t.Errorf("%s: the host got %q: %s", target, seen, answer)
		}
	}
}

// TestStream: what the host sends arrives at once, even after bytes that could begin the secret.
func TestStream(t *testing.T) {
	next := make(chan bool)
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			fmt.Fprint(w, "data: s3\n")
			w.(http.Flusher).Flush()
			<-next
		}
	})
	res, err := http.Get("http://" + open(t, h, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for range 3 {
		if line, err := lines.ReadString('\n'); err != nil || line != "data: s3\n" {
			t.Errorf("%q, %v", line, err)
		}
		next <- true
	}
}

// TestNoSecret: without a secret, or with one that could end the header, nothing is sent.
func TestNoSecret(t *testing.T) {
	h := newHost(t, func(http.ResponseWriter, *http.Request) {})
	at := netip.MustParseAddrPort(strings.TrimPrefix(h.URL, "https://"))
	rule := credential.Rule{Host: at.Addr().String(), Port: at.Port(), Env: "TOKEN"}
	for text, err := range map[string]error{"": nil, "x": errors.New("nobody said yes"), "a\r\nX-Other: y": nil} {
		address := serveRoute(t, credential.Route{Rule: rule, Secret: func(context.Context) (string, error) { return text, err }})
		answer := fetch(t, request(t, "GET", "http://"+address, nil))
		if !strings.HasPrefix(answer, "502\n") || h.hits.Load() != 0 || err != nil && !strings.Contains(answer, err.Error()) {
			t.Errorf("%q: %s", text, answer)
		}
	}
}

// TestStranger: a server whose certificate is not the host's gets nothing.
func TestStranger(t *testing.T) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1000)
			n, _ := c.Read(b)
			got <- string(b[:n])
			c.Close()
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	address := serveRoute(t, credential.Route{Rule: credential.Rule{Host: "127.0.0.1", Port: at.Port(), Env: "TOKEN"}, Secret: func(context.Context) (string, error) { return secret, nil }})
	if answer := fetch(t, request(t, "GET", "http://"+address, nil)); !strings.HasPrefix(answer, "502\n") || strings.Contains(answer, secret) {
		t.Error(answer)
	}
	if text := <-got; text != "" {
		t.Errorf("the other program has read %q", text)
	}
}

// TestManyConnections: there are as many at once as may be.
func TestManyConnections(t *testing.T) {
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {})
	address := open(t, h, "")
	var all []net.Conn
	get := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		return c
	}
	for range maxConns {
		c := get()
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	more := get()
	_ = more.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := more.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Errorf("one connection too many is served: %v", err)
	}
	all[0].Close()
	_ = more.SetReadDeadline(time.Now().Add(testenv.Patience))
	if _, err := more.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// FuzzMask: a body has no secret in it afterwards, however it is cut, and nothing else has changed.
func FuzzMask(f *testing.F) {
	f.Add([]byte("x"+secret[:5]+secret+secret+secret[:7]), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, cut uint8) {
		if len(body) > 1000 {
			return
		}
		body = []byte(strings.ReplaceAll(string(body), "S", secret[:cut%uint8(len(secret))]))
		m := newMask(secret, "Bearer "+secret)
		r := &masked{ReadCloser: io.NopCloser(&pieces{body, int(cut%7) + 1}), mask: m, trailer: func() {}}
		got, err := io.ReadAll(r)
		if err != nil || len(got) != len(body) || strings.Contains(string(got), secret) {
			t.Errorf("%q, %v", got, err)
		}
		if want := strings.ReplaceAll(string(body), secret, strings.Repeat("*", len(secret))); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.b)
	p.b = p.b[n:]
	return n, nil
}
