//go:build linux

package sshagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// agent is a real ssh-agent with two keys, "chosen" and "other".
type agent struct {
	path          string
	chosen, other Key
}

func startAgent(t testing.TB) *agent {
	t.Helper()
	program, err := exec.LookPath("ssh-agent")
	if err != nil {
		testenv.Skip(t, "ssh-agent", err.Error())
	}
	a := &agent{path: filepath.Join(testenv.Dir(t), "agent")}
	cmd := exec.Command(program, "-D", "-a", a.path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testenv.Eventually(t, "the agent", func() bool { // the socket is there before it listens
		conn, err := a.dial(t.Context())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	a.chosen, a.other = a.add(t, "chosen"), a.add(t, "other")
	return a
}

func (a *agent) dial(context.Context) (net.Conn, error) { return net.Dial("unix", a.path) }

// addIdentity is the body of a request that adds a new key.
func addIdentity(t testing.TB, comment string) (body []byte, k Key) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body = appendText(appendText(nil, []byte("ssh-ed25519")), public)
	k = Key{bytes.Clone(body), comment}
	return appendText(appendText(body, private), []byte(comment)), k
}

func (a *agent) add(t testing.TB, comment string) Key {
	t.Helper()
	body, k := addIdentity(t, comment)
	if kind := a.direct(t, 17, body); kind != success {
		t.Fatalf("the agent takes no key: %d", kind)
	}
	return k
}

// direct makes a request of the agent itself.
func (a *agent) direct(t testing.TB, kind byte, body []byte) byte {
	t.Helper()
	conn, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, _, err := call(conn, kind, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (a *agent) keys(t testing.TB) int {
	t.Helper()
	conn, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	list, err := Keys(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// served is a proxy with its socket.
type served struct {
	path  string
	asked atomic.Int32
	last  atomic.Pointer[Use]
}

// serve serves a proxy that lists the chosen key, and answers questions with yes.
func serve(t testing.TB, a *agent, yes bool) *served {
	t.Helper()
	s := &served{path: filepath.Join(testenv.Dir(t), "proxy")}
	l, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		Dial:   a.dial,
		Listed: func(_ context.Context, k Key) bool { return k.Is("chosen") },
		Sign: func(_ context.Context, u *Use) bool {
			s.asked.Add(1)
			s.last.Store(u)
			return yes
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *served) dial(t testing.TB) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testenv.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func (s *served) call(t testing.TB, kind byte, body []byte) (byte, []byte) {
	t.Helper()
	answer, b, err := call(s.dial(t), kind, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, b
}

// TestOnlyChosen: a client gets the chosen key and no other function of the agent. The control is the agent itself.
func TestOnlyChosen(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	kind, body := s.call(t, requestKeys, nil)
	list, err := parseKeys(body)
	if kind != keysAnswer || err != nil || len(list) != 1 || !bytes.Equal(list[0].Blob, a.chosen.Blob) {
		t.Errorf("%d, %v, %v", kind, list, err)
	}
	if kind, _ := s.call(t, requestSign, signRequest(a.chosen.Blob, []byte("data"), 0)); kind != signAnswer {
		t.Errorf("the chosen key: %d", kind)
	}
	added, _ := addIdentity(t, "added")
	lock := appendText(nil, []byte("password"))
	for _, c := range []struct {
		name string
		kind byte
		body []byte
	}{
		{"sign with another key", requestSign, signRequest(a.other.Blob, []byte("data"), 0)},
		{"add a key", 17, added},
		{"add a key with a constraint", 25, append(added, 1, 0, 0, 0, 9)},
		{"lock", 22, lock},
		{"unlock", 23, lock},
		{"remove the chosen key", 18, appendText(nil, a.chosen.Blob)},
		{"remove all keys", 19, nil},
	} {
		before := a.keys(t)
		if kind, _ := s.call(t, c.kind, c.body); kind != failure {
			t.Errorf("%s: the proxy answers %d", c.name, kind)
		}
		if after := a.keys(t); after != before {
			t.Errorf("%s: the agent has %d keys, and had %d", c.name, after, before)
		}
		if control := a.direct(t, c.kind, c.body); control == failure {
			t.Errorf("%s: the control: the agent answers %d", c.name, control)
		}
	}
}

// TestNoYes: without a yes nothing is signed.
func TestNoYes(t *testing.T) {
	a := startAgent(t)
	for _, yes := range []bool{false, true} {
		s := serve(t, a, yes)
		kind, _ := s.call(t, requestSign, signRequest(a.chosen.Blob, []byte("data"), 0))
		if (kind == signAnswer) != yes || s.asked.Load() != 1 {
			t.Errorf("yes %t: answer %d after %d questions", yes, kind, s.asked.Load())
		}
	}
}

// TestHostile: what no agent would take ends a connection, or fails, and the next client is served.
func TestHostile(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	long := binary.BigEndian.AppendUint32(nil, maxMessage+1)
	for name, raw := range map[string][]byte{
		"empty":            {0, 0, 0, 0},
		"too long":         append(long, make([]byte, 100)...),
		"four gigabytes":   {0xff, 0xff, 0xff, 0xff, requestSign},
		"truncated":        {0, 0, 1, 0, requestSign, 0, 0},
		"no length":        {0, 0},
		"key too long":     {0, 0, 0, 9, requestSign, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"more behind":      append([]byte{0, 0, 0, 2, requestKeys}, 1),
		"negative binding": append(binary.BigEndian.AppendUint32(nil, uint32(1+4+len(sessionBindName))), append([]byte{extension}, appendText(nil, []byte(sessionBindName))...)...),
	} {
		conn := s.dial(t)
		if _, err := conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		for {
			b, err := readMessage(conn)
			if err != nil {
				break
			}
			if b[0] != failure {
				t.Errorf("%s: answer %d", name, b[0])
			}
		}
		if kind, _ := s.call(t, requestKeys, nil); kind != keysAnswer {
			t.Errorf("after %s: %d", name, kind)
		}
	}
	if s.asked.Load() != 0 {
		t.Errorf("%d questions", s.asked.Load())
	}
}

// TestDescriptors: descriptors that a client passes are not kept.
func TestDescriptors(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	conn := s.dial(t)
	if _, _, err := conn.WriteMsgUnix([]byte{0, 0, 0, 1, requestKeys}, rights(int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if b, err := readMessage(conn); err != nil || b[0] != keysAnswer {
		t.Errorf("%v, %v", b, err)
	}
	// The last copy of the other end is gone.
	if err := r.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestManyClients: there are as many clients at once as may be, and another one is served when one of them leaves.
func TestManyClients(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	var all []*net.UnixConn
	for range maxClients {
		conn := s.dial(t)
		if kind, _, err := call(conn, requestKeys, nil); err != nil || kind != keysAnswer {
			t.Fatal(kind, err)
		}
		all = append(all, conn)
	}
	more := s.dial(t)
	if err := writeMessage(more, requestKeys, nil); err != nil {
		t.Fatal(err)
	}
	_ = more.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := readMessage(more); !os.IsTimeout(err) {
		t.Errorf("client %d is served: %v", maxClients+1, err)
	}
	all[0].Close()
	_ = more.SetReadDeadline(time.Now().Add(testenv.Patience))
	if b, err := readMessage(more); err != nil || b[0] != keysAnswer {
		t.Errorf("%v, %v", b, err)
	}
}

// loginData is what ssh has signed to log in.
func loginData(session []byte, user string, key []byte) []byte {
	return loginBy("publickey", session, user, key)
}

// hostLoginData is the same from a client and for a host that both name the host in it.
func hostLoginData(session []byte, user string, key, host []byte) []byte {
	return appendText(loginBy("publickey-hostbound-v00@openssh.com", session, user, key), host)
}

func loginBy(method string, session []byte, user string, key []byte) []byte {
	b := append(appendText(nil, session), 50)
	b = appendText(appendText(appendText(b, []byte(user)), []byte("ssh-connection")), []byte(method))
	return appendText(appendText(append(b, 1), []byte("ssh-ed25519")), key)
}

// bindBody is a session-bind, whose signature is good or not.
func bindBody(t testing.TB, session []byte, forwarding byte, good bool) (body, host []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host = appendText(appendText(nil, []byte("ssh-ed25519")), public)
	signed := session
	if !good {
		signed = []byte("another session")
	}
	signature := appendText(appendText(nil, []byte("ssh-ed25519")), ed25519.Sign(private, signed))
	body = appendText(appendText(appendText(nil, []byte(sessionBindName)), host), session)
	return append(appendText(body, signature), forwarding), host
}

// TestWhatFor: the question says what the signature is for. A host is named only if its signature is good.
func TestWhatFor(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	session := []byte("the session's identifier, 32 bytes")
	for _, good := range []bool{true, false} {
		conn := s.dial(t)
		body, host := bindBody(t, session, 0, good)
		kind, _, err := call(conn, extension, body)
		if err != nil || (kind == success) != good {
			t.Fatalf("good %t: %d, %v", good, kind, err)
		}
		if kind, _, err := call(conn, requestSign, signRequest(a.chosen.Blob, loginData(session, "git", a.chosen.Blob), 0)); err != nil || kind != signAnswer {
			t.Fatal(kind, err)
		}
		u := s.last.Load()
		if u.Kind != Login || u.User != "git" || good != bytes.Equal(u.Host, host) {
			t.Errorf("good %t: %+v", good, u)
		}
		text := u.String(func([]byte) []string { return []string{"example.org"} })
		if strings.Contains(text, Fingerprint(host)+", known as example.org") != good || good == strings.Contains(text, "not known") {
			t.Errorf("good %t: %s", good, text)
		}
		if good { // another session on the same connection has no host
			if kind, _, err := call(conn, requestSign, signRequest(a.chosen.Blob, loginData([]byte("other"), "git", a.chosen.Blob), 0)); err != nil || kind != signAnswer || s.last.Load().Host != nil {
				t.Errorf("another session: %+v, %v", s.last.Load(), err)
			}
		}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"commit":                {append([]byte(sshsig), appendText(appendText(appendText(appendText(nil, []byte("git")), nil), []byte("sha512")), make([]byte, 64))...), "for git"},
		"in nsrun's words":      {append([]byte(sshsig), appendText(appendText(appendText(appendText(nil, []byte("git? [yes/N] and")), nil), []byte("sha512")), nil)...), `for "git? [yes/N] and"`},
		"hostile":               {append([]byte(sshsig), appendText(appendText(appendText(appendText(nil, []byte("\x1b[2Jgit")), nil), []byte("sha512")), nil)...), `for "\x1b[2Jgit"`},
		"long":                  {append([]byte(sshsig), appendText(appendText(appendText(appendText(nil, bytes.Repeat([]byte("a"), 9999)), nil), nil), nil)...), "a…"},
		"host in a user's name": {loginData(session, "git on the host with the key SHA256:x, known as example.org", a.chosen.Blob), `to log in as "git on the host with the key SHA256:x, known as example.org" on a host that is not known (the agent did not confirm its key)`},
		"another's login":       {loginData(session, "root", a.other.Blob), "unknown kind"},
		"no login":              {append(loginData(session, "root", a.chosen.Blob), 0), "unknown kind"},
		"nothing":               {nil, "unknown kind"},
	} {
		if kind, _ := s.call(t, requestSign, signRequest(a.chosen.Blob, c.data, 0)); kind != signAnswer && len(c.data) > 0 {
			t.Errorf("%s: %d", name, kind)
		}
		if got := s.last.Load().String(nil); !strings.HasSuffix(got, c.want) || strings.Contains(got, "\x1b") || len(got) > 200 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestVouchedFor: the agent takes any host's word for a session. So a command can make a key itself, as that of a host,
// and let it vouch for its session with another host. The question names this key only if the request does so too: then
// no other host accepts the signature. The control: the agent has accepted the binding and signs.
func TestVouchedFor(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	session := []byte("of a session with another host  ")
	known := func([]byte) []string { return []string{"example.org"} }
	unknown := func([]byte) []string { return nil }
	for name, c := range map[string]struct {
		named bool // in the request
		names func([]byte) []string
		host  bool // the question says that it is this host
		more  string
	}{
		"made up":        {false, unknown, false, "can be anybody's)"},
		"made up, named": {true, unknown, true, ""},
		"known":          {false, known, true, ", known as example.org, or where this host passes it on"},
		"known, named":   {true, known, true, ", known as example.org"},
	} {
		conn := s.dial(t)
		body, host := bindBody(t, session, 0, true)
		if kind, _, err := call(conn, extension, body); err != nil || kind != success {
			t.Fatal(kind, err)
		}
		data := loginData(session, "git", a.chosen.Blob)
		if c.named {
			data = hostLoginData(session, "git", a.chosen.Blob, host)
		}
		if kind, _, err := call(conn, requestSign, signRequest(a.chosen.Blob, data, 0)); err != nil || kind != signAnswer {
			t.Fatal(name, kind, err)
		}
		got := s.last.Load().String(c.names)
		if strings.Contains(got, "on the host with the key "+Fingerprint(host)) != c.host || !strings.HasSuffix(got, c.more) {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Another host in the request than the one that has vouched.
	conn := s.dial(t)
	body, _ := bindBody(t, session, 0, true)
	_, other := bindBody(t, session, 0, true)
	if kind, _, err := call(conn, extension, body); err != nil || kind != success {
		t.Fatal(kind, err)
	}
	data := hostLoginData(session, "git", a.chosen.Blob, other)
	if kind, _, err := call(conn, requestSign, signRequest(a.chosen.Blob, data, 0)); err != nil || kind != signAnswer || s.last.Load().Host != nil {
		t.Errorf("another host: %d, %v, %+v", kind, err, s.last.Load())
	}
}

// TestForwarded: where the agent was forwarded to a host, and a program there asks, the question says so.
func TestForwarded(t *testing.T) {
	a := startAgent(t)
	s := serve(t, a, true)
	conn := s.dial(t)
	for i, forwarding := range []byte{1, 0} {
		body, _ := bindBody(t, []byte{byte(i), 1}, forwarding, true)
		if kind, _, err := call(conn, extension, body); err != nil || kind != success {
			t.Fatal(kind, err)
		}
	}
	if kind, _, err := call(conn, requestSign, signRequest(a.chosen.Blob, loginData([]byte{1, 1}, "git", a.chosen.Blob), 0)); err != nil || kind != signAnswer || !s.last.Load().Forwarded {
		t.Errorf("%d, %v, %+v", kind, err, s.last.Load())
	}
}

// lastWord is an agent that ends while it is asked, as does the context.
type lastWord struct {
	net.Conn
	cancel context.CancelFunc
	closed chan struct{}
}

func (c *lastWord) Write(b []byte) (int, error) { return len(b), nil }

func (c *lastWord) Read([]byte) (int, error) {
	c.cancel()
	return 0, io.EOF
}

func (c *lastWord) Close() error {
	c.closed <- struct{}{}
	return nil
}

// TestEndsTogether: an agent that ends at the same time as the command is closed by both, and by nobody as nil.
func TestEndsTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that what the context begins runs last
	ctx, cancel := context.WithCancel(t.Context())
	agent := &lastWord{cancel: cancel, closed: make(chan struct{}, 2)}
	c := client{proxy: &Proxy{}, agent: agent}
	if _, _, err := c.ask(ctx, requestKeys, nil); err != io.EOF || c.agent != nil {
		t.Errorf("%v, %v", err, c.agent)
	}
	<-agent.closed
	<-agent.closed
}
