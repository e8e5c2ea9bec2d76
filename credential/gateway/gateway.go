// Package gateway serves commands in a sandbox that use a credential but cannot read it (package credential). It speaks
// plain HTTP to them, and TLS to the credential's host. It imports package credential, and links net/http. The nsrun
// command does not link it, but starts the program nsrun-credential.
//
//	config := nsrun.Config{Credentials: []credential.Rule{rule}, Gateway: gateway.Gateway{}}
package gateway

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nsrun/nsrun/credential"
)

// Limits of one gateway.
const (
	maxConns      = 64       // at once; more wait
	maxHeader     = 64 << 10 // bytes of a request's headers
	headerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Gateway is a nsrun.Gateway. The zero Gateway is ready for use.
type Gateway struct{}

// Open prepares a gateway for one credential. It returns an error if the Rule is invalid. serve serves the clients of a
// listener until ctx ends, and closes the listener.
func (Gateway) Open(ctx context.Context, r credential.Route) (serve func(net.Listener) error, err error) {
	if err := r.Rule.Check(); err != nil {
		return nil, err
	}
	g := &gateway{route: r, transport: transport()}
	return func(l net.Listener) error { return g.serve(ctx, l) }, nil
}

func transport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:     true,
		MaxConnsPerHost:       maxConns,
		IdleConnTimeout:       idleTimeout,
		TLSHandshakeTimeout:   headerTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // mask cannot find secrets in compressed bodies
	}
}

type gateway struct {
	route     credential.Route
	transport *http.Transport
}

func (g *gateway) serve(ctx context.Context, l net.Listener) error {
	defer g.transport.CloseIdleConnections()
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: g.rewrite, Transport: g, ModifyResponse: g.mask, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			http.Error(w, "nsrun: "+g.route.Rule.Name()+": "+g.maskOf(r.Context()).text(reason(err)), http.StatusBadGateway)
		},
	}
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.handle(proxy, w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: quiet,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	err := s.Serve(&limited{Listener: l, room: make(chan struct{}, maxConns), ended: ctx.Done()})
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

type valueKey struct{}

// handle passes requests on. It refuses methods that make a tunnel, or make the host send the request back, and targets
// that have no path: net/http would send such a target as it is, and the host could read the name of another one in it.
func (g *gateway) handle(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace || strings.EqualFold(r.Method, "TRACK") {
		http.Error(w, "nsrun: this method is not passed on", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Opaque != "" || r.URL.Path != "" && r.URL.Path[0] != '/' {
		http.Error(w, "nsrun: a request needs a path", http.StatusBadRequest)
		return
	}
	if g.route.Rule.Git && !isGit(r) {
		http.Error(w, "nsrun: only requests of git's own are passed on", http.StatusForbidden)
		return
	}
	secret, err := g.route.Secret(r.Context())
	if err == nil {
		err = credential.CheckSecret(secret)
	}
	if err != nil {
		http.Error(w, "nsrun: "+g.route.Rule.Name()+": "+err.Error(), http.StatusBadGateway)
		return
	}
	proxy.ServeHTTP(final{w}, r.WithContext(context.WithValue(r.Context(), valueKey{}, secret)))
}

// value returns the value of the header with a secret.
func (g *gateway) value(secret string) string {
	switch rule := &g.route.Rule; {
	case rule.Git:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(secret))
	case rule.Header != "":
		return secret
	case rule.User != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(rule.User+":"+secret))
	}
	return "Bearer " + secret
}

// host returns the host and the port for URLs.
func (g *gateway) host() string {
	port := g.route.Rule.Port
	if port == 0 || port == 443 {
		if strings.Contains(g.route.Rule.Host, ":") {
			return "[" + g.route.Rule.Host + "]"
		}
		return g.route.Rule.Host
	}
	return net.JoinHostPort(g.route.Rule.Host, strconv.Itoa(int(port)))
}

// dropped are headers that are not passed on, in lower case. A part of an answer could contain a part of the secret,
// and mask would find neither that nor the secret in a compressed answer. Request-Range is an old name of Range that
// Apache still takes.
var dropped = [...]string{"accept-encoding", "if-range", "proxy-authorization", "range", "request-range"}

// framing are headers that say where a request ends, what becomes of the connection, and which host is meant.
// net/http writes them itself. If a server took another name for one of these, it would read a request that the client
// has written in the body of another one, or take the next request, with the secret, for a body.
var framing = [...]string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// likely returns the name that some servers take a header's name for, in lower case: a "_" for a "-", and some take all
// other signs for it.
func likely(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// rewrite makes the request to the host. It replaces what the client sets as host and as the credential's header.
func (g *gateway) rewrite(r *httputil.ProxyRequest) {
	secret, _ := r.In.Context().Value(valueKey{}).(string)
	out := r.Out
	out.URL.Scheme, out.URL.Host, out.URL.User, out.Host = "https", g.host(), nil, g.host()
	for name := range out.Header {
		plain := likely(name)
		if plain == likely(g.route.Rule.HeaderName()) || slices.Contains(dropped[:], plain) ||
			plain != strings.ToLower(name) && slices.Contains(framing[:], plain) {
			delete(out.Header, name)
		}
	}
	if g.route.Rule.Git {
		onlyGit(out.Header)
	}
	out.Header.Set("Accept-Encoding", "identity")
	out.Trailer = nil
	out.Header.Set(g.route.Rule.HeaderName(), g.value(secret))
}

// RoundTrip makes one request, and follows no redirect.
func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) { return g.transport.RoundTrip(r) }

// mask removes the secret from an answer, and makes redirects to the host lead to the gateway.
func (g *gateway) mask(res *http.Response) error {
	if g.route.Rule.Git && res.StatusCode == http.StatusUnauthorized {
		// At 401, git would ask for a password.
		res.StatusCode = http.StatusForbidden
		res.Header.Del("WWW-Authenticate")
	}
	m := g.maskOf(res.Request.Context())
	m.header(res.Header)
	m.header(res.Trailer) // the names, which are sent first
	if at := res.Header.Get("Location"); at != "" {
		if u, err := url.Parse(at); err == nil && u.Scheme == "https" && u.Host == g.host() {
			u.Scheme, u.Host = "", ""
			res.Header.Set("Location", u.String())
		}
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	res.Body = &masked{ReadCloser: res.Body, mask: m, trailer: func() { m.header(res.Trailer) }}
	return nil
}

// maskOf returns the mask for the answer to a request.
func (g *gateway) maskOf(ctx context.Context) *mask {
	secret, _ := ctx.Value(valueKey{}).(string)
	value := g.value(secret)
	if g.route.Rule.Git {
		_, secret, _ = strings.Cut(secret, ":") // the user is no secret
	}
	return newMask(secret, value)
}

// reason returns the text of an error without the URL, which may contain the secret. It may quote the host's answer.
func reason(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

// final drops informational answers (1xx), because nobody removes secrets from their headers.
type final struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (f final) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f final) WriteHeader(code int) {
	if code >= 200 || code == http.StatusSwitchingProtocols {
		f.ResponseWriter.WriteHeader(code)
	}
}

// limited is a listener with at most cap(room) connections at once.
type limited struct {
	net.Listener
	room  chan struct{}
	ended <-chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &conn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
