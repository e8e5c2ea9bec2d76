//go:build linux

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nsrun/nsrun/credential"
)

// A strictHost reads requests as the strictest server would. It counts them, and keeps the first one that another
// server could read in another way.
type strictHost struct {
	name     string
	requests atomic.Int64

	mu  sync.Mutex
	odd error
}

var (
	requestLine = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z` + "`" + `-]+ /[!-~]* HTTP/1\.1$`)
	headerLine  = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z` + "`" + `-]+): ([^\x00-\x08\x0a-\x1f\x7f]*)$`) // the bytes from 0x80 on are text
	chunkLine   = regexp.MustCompile(`^[0-9a-f]{1,8}$`)
	lengthValue = regexp.MustCompile(`^[0-9]{1,18}$`)
)

// line reads a line, which ends with CR LF and has no other CR or LF.
func line(r *bufio.Reader) (string, error) {
	s, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	s, ok := strings.CutSuffix(s, "\r\n")
	if !ok || strings.Contains(s, "\r") {
		return "", fmt.Errorf("the line %q", s)
	}
	return s, nil
}

func (h *strictHost) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		err := h.request(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
			return // the client has ended, and the gateway with it
		}
		var ne net.Error
		if errors.As(err, &ne) || err != nil && strings.Contains(err.Error(), "reset") {
			return
		}
		if err != nil {
			h.mu.Lock()
			h.odd = errors.Join(h.odd, err)
			h.mu.Unlock()
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// request reads one request.
func (h *strictHost) request(r *bufio.Reader) error {
	first, err := line(r)
	if err != nil {
		return err
	}
	h.requests.Add(1)
	if !requestLine.MatchString(first) {
		return fmt.Errorf("the request line %q", first)
	}
	fields := map[string][]string{}
	for {
		text, err := line(r)
		if err != nil {
			return err
		}
		if text == "" {
			break
		}
		f := headerLine.FindStringSubmatch(text)
		if f == nil {
			return fmt.Errorf("the header %q", text)
		}
		name := likely(f[1])
		fields[name] = append(fields[name], f[2])
	}
	length, chunked := fields["content-length"], fields["transfer-encoding"]
	switch {
	case len(fields["host"]) != 1 || fields["host"][0] != h.name:
		return fmt.Errorf("the hosts %q", fields["host"])
	case len(fields["authorization"]) != 1 || fields["authorization"][0] != "Bearer "+secret:
		return fmt.Errorf("the credentials %q", fields["authorization"])
	case len(length)+len(chunked) > 1:
		return fmt.Errorf("the lengths %q and %q", length, chunked)
	case len(length) == 1:
		n, err := strconv.ParseInt(length[0], 10, 64)
		if err != nil || !lengthValue.MatchString(length[0]) {
			return fmt.Errorf("the length %q", length[0])
		}
		_, err = io.CopyN(io.Discard, r, n)
		return err
	case len(chunked) == 1 && chunked[0] != "chunked":
		return fmt.Errorf("the encoding %q", chunked[0])
	case len(chunked) == 0:
		return nil
	}
	for {
		text, err := line(r)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(text, 16, 64)
		if err != nil || !chunkLine.MatchString(text) {
			return fmt.Errorf("the chunk %q", text)
		}
		if _, err := io.CopyN(io.Discard, r, n); err != nil {
			return err
		}
		if text, err = line(r); err != nil || text != "" {
			return errors.Join(err, fmt.Errorf("the end of a chunk %q", text))
		}
		if n == 0 {
			return nil
		}
	}
}

// FuzzRequests: whatever a client writes, the host gets requests that all servers read in one way, each with the
// credential once and for this host, and as many as the gateway has decided about.
func FuzzRequests(f *testing.F) {
	h, decided := new(strictHost), new(atomic.Int64)
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate
	certificate := server.TLS.Certificates
	server.Close()
	l, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{Certificates: certificate, NextProtos: []string{"http/1.1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	h.name = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	rule := credential.Rule{Host: "127.0.0.1", Port: netip.MustParseAddrPort(h.name).Port()}
	g := &gateway{route: credential.Route{Rule: rule, Secret: func(context.Context) (string, error) {
		decided.Add(1)
		return secret, nil
	}}, transport: transport()}
	g.transport.TLSClientConfig.InsecureSkipVerify = true
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.Cleanup(cancel)
	go func() { _ = g.serve(ctx, front) }()
	const post, get = "POST /x HTTP/1.1\r\nHost: h\r\n", "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, s := range []string{
		get, get + get, "GET http://other/x HTTP/1.1\r\nHost: h\r\n\r\n", "CONNECT other:443 HTTP/1.1\r\nHost: h\r\n\r\n" + get,
		post + "Content-Length: 3\r\n\r\nabc" + get, post + "Content-Length: 3\r\nContent-Length: 40\r\n\r\nabc" + get,
		post + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get,
		post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + get,
		post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + get,
		post + "Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + get, post + "Transfer_Encoding: chunked\r\n\r\n" + get,
		post + "Content.Length: 40\r\n\r\n" + get, "GET /x HTTP/1.1\r\nHost: h\r\nHost_: other\r\n!Host: other\r\n\r\n",
		post + "Transfer-Encoding: chunked\r\n\r\n3;a=\"\n\"\r\nabc\r\n0\r\n\r\n" + get, post + "Transfer-Encoding: chunked\r\n\r\n3;x\nabc\r\n0\r\n\r\n" + get,
		post + "Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n0\r\nAuthorization: x\r\n\r\n" + get,
		post + "Transfer-Encoding: chunked\r\n\r\n0003\r\nabc\r\n-0\r\n\r\n" + get, post + "Content-Length: +3\r\n\r\nabc" + get,
		"GET /x HTTP/1.1\r\nHost: h\r\nA: b\r\n c: d\r\n\r\n", "GET /x HTTP/1.1\r\nHost: h\r\nA: b\rAuthorization: y\r\n\r\n", "GET /x HTTP/1.1\nHost: h\nA : b\n\n",
		"GET /x HTTP/1.1\r\nHost: h\r\nConnection: authorization, host\r\nAUTHORIZATION: z\r\nAuthorization_: z\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /x HTTP/1.0\r\n\r\n" + get, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", "GET //other/x HTTP/1.1\r\nHost: h\r\n\r\n", "GET /\x80%0d%0a?\x01 HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n" + get, "GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 38\r\n\r\n" + get,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := net.Dial("tcp", front.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetLinger(0) // otherwise the ports of many runs are not free again soon enough
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		_, _ = c.Write(b)
		_ = c.(*net.TCPConn).CloseWrite()
		var answer bytes.Buffer
		_, _ = io.Copy(&answer, c)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.odd != nil {
			t.Errorf("%q: %v\n%s", b, h.odd, answer.Bytes())
			h.odd = nil
		}
		if asked, got := decided.Load(), h.requests.Load(); got > asked {
			t.Errorf("%q: %d requests, and %d were decided about", b, got, asked)
		}
	})
}
