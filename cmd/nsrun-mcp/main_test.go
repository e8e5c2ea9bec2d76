//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
)

// The server is this binary under its own name, in a process of its own; the client is
// the SDK's.

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nsrun-mcp" {
		if d, err := time.ParseDuration(os.Getenv("NSRUN_TEST_GRACE")); err == nil {
			grace = d
		}
		main()
	}
	// What a killed server leaves behind becomes a child of the test, where the search for
	// leaks finds it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m, reap)
}

// reap has the search for leaks wait for what was adopted.
var reap = testenv.Reap

// place is where a server works: a project p, a home directory.
type place struct {
	t   testing.TB
	dir string
}

func newPlace(t testing.TB, project ...string) place {
	t.Helper()
	testenv.Leaks(t, reap)
	p := place{t, testenv.Dir(t)}
	testenv.Tree(t, p.dir, "p/", "home/", "bin/")
	testenv.Tree(t, p.at("p"), project...)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, p.at("bin/nsrun-mcp")); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p place) at(name string) string { return filepath.Join(p.dir, name) }

// playground is $HOME/playground as it is on the host.
func (p place) playground(name string) string {
	dir, err := nsrun.ProjectPlayground(p.at("p"))
	if err != nil {
		panic(err)
	}
	return filepath.Join(p.at("home/.local/share/nsrun/playgrounds"), filepath.Base(dir), name)
}

func (p place) content(name string) string {
	b, err := os.ReadFile(p.at(name))
	if err != nil {
		return "-"
	}
	return string(b)
}

// sessions are those in the state directory, whatever became of them; what is left of one for
// the next has a dot.
func (p place) sessions() []string {
	list, _ := filepath.Glob(p.at("home/.local/state/nsrun/sessions/[^.]*-*"))
	return list
}

// command is the server, with p/ as its directory.
func (p place) command(args ...string) *exec.Cmd {
	c := exec.Command(p.at("bin/nsrun-mcp"), args...)
	c.Dir = p.at("p")
	c.Env = append(os.Environ(), "HOME="+p.at("home"), "XDG_STATE_HOME=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C")
	return c
}

// client is a connection to a server.
type client struct {
	*mcp.ClientSession
	t      testing.TB
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

// versions are the generations of the protocol: without and with tickets.
var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// connect starts a server, which is gone after the test.
func (p place) connect(version string, o *mcp.ClientOptions, args ...string) client {
	p.t.Helper()
	return connect(p.t, p.command(args...), version, o)
}

func connect(t testing.TB, cmd *exec.Cmd, version string, o *mcp.ClientOptions) client {
	t.Helper()
	c := client{t: t, cmd: cmd, stderr: &bytes.Buffer{}}
	c.cmd.Stderr = c.stderr
	var err error
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(t.Context(), &mcp.CommandTransport{Command: c.cmd, TerminateDuration: testenv.Patience}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("%v\n%s", err, c.stderr)
	}
	t.Cleanup(c.close)
	return c
}

// close ends the connection, as often as it is called.
func (c client) close() {
	c.t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	if err := c.Close(); err != nil {
		c.t.Errorf("the server's end: %v\n%s", err, c.stderr)
	}
	if s := c.stderr.String(); s != "" {
		c.t.Errorf("the server said %q", s)
	}
}

// args are the arguments of run_command.
type args = map[string]any

func (c client) try(ctx context.Context, a args) (*mcp.CallToolResult, error) {
	return c.CallTool(ctx, &mcp.CallToolParams{Name: toolName, Arguments: a})
}

// call is a call that is answered.
func (c client) call(a args) *mcp.CallToolResult {
	c.t.Helper()
	res, err := c.try(c.t.Context(), a)
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", a, err, c.stderr)
	}
	return res
}

// sh is the text that a command makes; it is not an error.
func (c client) sh(command string) string {
	c.t.Helper()
	res := c.call(args{"command": command})
	if res.IsError {
		c.t.Errorf("%s: %s", command, text(res))
	}
	return text(res)
}

func text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		} else {
			fmt.Fprintf(&b, "<%T>", c)
		}
	}
	return b.String()
}

// structured is the other half.
func structured(t testing.TB, res *mcp.CallToolResult) (r report) {
	t.Helper()
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return r
}

// await waits for a file.
func await(t testing.TB, name string) {
	t.Helper()
	testenv.Eventually(t, name+" is there", func() bool { _, err := os.Lstat(name); return err == nil })
}

// running reports whether a process with that word among its arguments runs.
func running(word string) bool {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("\x00"+word+"\x00")) {
			return true
		}
	}
	return false
}

// raw is a client that writes what it likes.
type raw struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File    // is closed by a client that reads no more
	lines chan string // what the server writes

	stderr lockedBuffer
}

// lockedBuffer can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (p place) raw(args ...string) *raw {
	p.t.Helper()
	return rawOf(p.t, p.command(args...))
}

// rawOf is for a server with an environment of its own.
func rawOf(t testing.TB, cmd *exec.Cmd) *raw {
	t.Helper()
	r := &raw{t: t, cmd: cmd, lines: make(chan string, 100)}
	r.cmd.Stderr = &r.stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.in, r.out, r.cmd.Stdout = in, out, w
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go func() {
		defer close(r.lines)
		defer out.Close()
		var rest []byte
		buf := make([]byte, 64<<10)
		for {
			n, err := out.Read(buf)
			rest = append(rest, buf[:n]...)
			for {
				line, after, found := bytes.Cut(rest, []byte("\n"))
				if !found {
					break
				}
				r.lines <- string(line)
				rest = bytes.Clone(after)
			}
			if err != nil {
				if len(rest) > 0 {
					r.lines <- string(rest)
				}
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = r.in.Close()
		for range r.lines {
		}
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Wait()
		}
	})
	return r
}

func (r *raw) send(lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(r.in, line+"\n"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// hello is the handshake; what answers it is read.
func (r *raw) hello() {
	r.t.Helper()
	r.helloIn("2025-06-18")
}

func (r *raw) helloIn(version string) {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	r.answer(`"hello"`)
}

// answer is the answer to the request with that id.
func (r *raw) answer(id string) string {
	r.t.Helper()
	limit := time.After(testenv.Patience)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("the server ended; standard error: %s", r.stderr.String())
			}
			var m struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				r.t.Errorf("unexpected line on standard output: %q", line)
			} else if string(m.ID) == id {
				return line
			}
		case <-limit:
			r.t.Fatalf("there is no answer to %s", id)
		}
	}
}
