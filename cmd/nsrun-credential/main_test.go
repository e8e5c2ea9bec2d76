//go:build linux

package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.MainWithPrograms(m, func(dir string) error {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "../nsrun", ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
		return nil
	})
}

const token = "the-secret-of-4711-tests"

// world is a project with an HTTPS server that wants the token.
type world struct {
	dir, at string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Leaks(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != token {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintln(w, "served", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	w := &world{testenv.Dir(t), strings.TrimPrefix(s.URL, "https://")}
	testenv.Tree(t, w.dir, "p/", "home/", "home/.config/nsrun/")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(w.dir, "ca.pem"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) nsrun(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(testenv.Programs(), "nsrun"), args...)
	c.Dir = filepath.Join(w.dir, "p")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.dir, "home"), "SSL_CERT_FILE=" + filepath.Join(w.dir, "ca.pem"), "MY_SETTING=" + token}
	return c
}

// get fetches with nothing but a shell.
const get = `a=${URL#http://}; exec 3<>/dev/tcp/${a%:*}/${a#*:} && printf 'GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n' >&3 && cat <&3 | tail -1; `

// gateways are the processes of this program, by their ids.
func gateways() (pids []int) {
	for _, p := range testenv.Processes() {
		if exe, err := os.Readlink("/proc/" + strconv.Itoa(p.Pid) + "/exe"); err == nil && filepath.Dir(exe) == testenv.Programs() && filepath.Base(exe) == "nsrun-credential" {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// TestNoCommand: the program says nothing if the command ended before it got its rule.
func TestNoCommand(t *testing.T) {
	testenv.Leaks(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(pair[0]); err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "gateway")
	defer theirs.Close()
	c := exec.Command(filepath.Join(testenv.Programs(), "nsrun-credential"))
	c.ExtraFiles = []*os.File{theirs}
	if out, err := c.CombinedOutput(); len(out) > 0 || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestCommandLine: a flag of nsrun run, or the user's file, makes the program serve a credential. A project's file
// cannot.
func TestCommandLine(t *testing.T) {
	testenv.NeedNamespaces(t)
	w := newWorld(t)
	rule := w.at + "=env:MY_SETTING,header=X-Key,url=URL"
	out, err := w.nsrun("run", "-q", "--discard", "--report", filepath.Join(w.dir, "report.json"), "--credential", rule, "--", "bash", "-c", get+`printenv | grep -c the-secret-of`).Output()
	if string(out) != "served /x\n0\n" {
		t.Errorf("%q, %v", out, err)
	}
	report, err := os.ReadFile(filepath.Join(w.dir, "report.json"))
	if err != nil || !strings.Contains(string(report), `"about": "requests to it have the header X-Key"`) || strings.Contains(string(report), token) {
		t.Errorf("the report: %s, %v", report, err)
	}
	for _, file := range []string{"home/.config/nsrun/config.toml", "p/.nsrun.toml"} {
		name := filepath.Join(w.dir, file)
		if err := os.WriteFile(name, []byte("[sandbox]\ncredentials = ['"+rule+"']\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := w.nsrun("run", "--discard", "--", "bash", "-c", `[ -z "$URL" ] && echo none || { `+get+`}`)
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		want := "served /x\n"
		if strings.HasPrefix(file, "p/") {
			want = "none\n"
			if !strings.Contains(said.String(), "credentials would let commands do more, and is left out") {
				t.Errorf("%s: %s", file, said.String())
			}
		}
		if string(out) != want {
			t.Errorf("%s: %q, %v, %s", file, out, err, said.String())
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for flag, want := range map[string]string{"h": "not HOST=env:NAME", "h=env:": "env:NAME", w.at + "=env:NOT_SET": "the variable NOT_SET is not set"} {
		if out, err := w.nsrun("run", "--credential", flag, "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, %v", flag, out, err)
		}
	}
	if list := gateways(); len(list) > 0 {
		t.Errorf("left: %v", list)
	}
}

// TestProgram: the secret is nowhere that other users can look, variables for commands' Go runtimes are not for the
// program's, it gets no signals of the command's, and it ends when nsrun does, however that ends.
func TestProgram(t *testing.T) {
	testenv.NeedNamespaces(t)
	w := newWorld(t)
	c := w.nsrun("run", "-q", "--discard", "--credential", w.at+"=env:MY_SETTING,header=X-Key,url=URL", "--", "bash", "-c",
		get+"trap '' INT; kill -INT 0; sleep .1; "+get+"echo ready; exec sleep 1000")
	c.Env = append(c.Env, "GOMEMLIMIT=32GiB")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 0, 100)
	for !strings.Contains(string(text), "ready") {
		b := make([]byte, 100)
		n, err := out.Read(b)
		if text = append(text, b[:n]...); err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if string(text) != "served /x\nserved /x\nready\n" {
		t.Errorf("%q", text)
	}
	list := gateways()
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	for _, name := range []string{"environ", "cmdline"} {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", list[0], name)); err != nil || strings.Contains(string(b), token) || strings.Contains("\x00"+string(b), "\x00GOMEMLIMIT=") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	// The control: nsrun has both in its environment.
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.Process.Pid)); err != nil || !strings.Contains(string(b), token) || !strings.Contains(string(b), "\x00GOMEMLIMIT=") {
		t.Errorf("the control: %q, %v", b, err)
	}
	if err := c.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	testenv.Eventually(t, "the end of the gateway", func() bool { return len(gateways()) == 0 || !testenv.Alive(list[0]) })
}

// TestAlone: the program does nothing where nsrun has not executed it.
func TestAlone(t *testing.T) {
	out, err := exec.Command(filepath.Join(testenv.Programs(), "nsrun-credential")).CombinedOutput()
	if err == nil || string(out) != "nsrun: this program is executed by nsrun run --credential\n" {
		t.Errorf("%q, %v", out, err)
	}
}
