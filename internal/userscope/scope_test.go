//go:build linux

package userscope

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// makeScope makes a Scope, where systemd makes them.
func makeScope(t *testing.T) *Scope {
	t.Helper()
	testenv.NeedUser(t)
	s, err := Make()
	if err != nil {
		testenv.Skip(t, "user manager", err.Error())
	}
	t.Cleanup(s.Close)
	if have := s.Place().Enable([]string{"memory", "pids"}); len(have) < 2 {
		testenv.Skip(t, "user manager", "it has only the controllers "+strings.Join(have, ", "))
	}
	return s
}

// TestAttach: the manager moves processes to cgroups, several at once, and limits hold there.
func TestAttach(t *testing.T) {
	s := makeScope(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			g, err := s.Place().Make()
			if err != nil {
				t.Error(err)
				return
			}
			defer g.Discard()
			if err := cgroups.Write(int(g.Dir.Fd()), "pids.max", "1"); err != nil {
				t.Error(err)
				return
			}
			cmd := exec.Command("sh", "-c", "read go; (:) && echo forked")
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			if err := s.Attach(g, cmd.Process.Pid); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(in, "go\n")
			if text, _ := io.ReadAll(out); len(text) > 0 {
				t.Errorf("with one process: %s", text)
			}
			_ = cmd.Wait()
		})
	}
	wg.Wait()
}

// TestAttachOthers: it moves no process that is gone, and none of another user's.
func TestAttachOthers(t *testing.T) {
	s := makeScope(t)
	g, err := s.Place().Make()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Discard()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{cmd.Process.Pid, 1} {
		if err := s.Attach(g, pid); !errors.Is(err, errOutside) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// TestGone: a scope that the manager has ended is gone, and the next one works.
func TestGone(t *testing.T) {
	s := makeScope(t)
	if s.Gone() {
		t.Fatal("it is gone at once")
	}
	if err := s.call(t.Context(), "StopUnit", s.unit, "fail").Err; err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the end of the scope", s.Gone)
	makeScope(t)
}

// TestSilentManager: one that does not answer, or that answers something else, is an error.
func TestSilentManager(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 50 * time.Millisecond
	for _, answer := range []string{"", "REJECTED\r\n", "OK 1234\r\n", "REJECTED EXTERNAL\r\nOK 1234\r\n", "OK 1234\r\nl\x02\x01\x01\xff\xff\xff\xff", strings.Repeat("x", 1<<16)} {
		name := filepath.Join(testenv.Dir(t), "s")
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, answer)
			_, _ = io.Copy(io.Discard, c)
		}()
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		}
		if err != nil {
			t.Fatal(os.NewSyscallError("connect", err))
		}
		var s Scope
		m := &cgroups.Manager{Sock: sys.FD(fd), Bus: true}
		if err := s.connect(m); err == nil {
			t.Errorf("%.20q: it is connected", answer)
		}
		s.Close()
		m.Sock.Close()
		_ = l.Close()
	}
}
