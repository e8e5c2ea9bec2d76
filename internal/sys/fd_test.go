//go:build linux

package sys

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPipe(t *testing.T) {
	testenv.Leaks(t)
	r, w, err := Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range []FD{r, w} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("flags %#x, %v: would be inherited", flags, err)
		}
	}
	if _, err := unix.Write(int(w), []byte("hi")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	buf := make([]byte, 8)
	if n, err := r.Read(buf); err != nil || string(buf[:n]) != "hi" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if n, err := r.Read(buf); n != 0 || err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}
	r.Close()
}

// TestCloseOnce: closing twice does not close what got the number meanwhile.
func TestCloseOnce(t *testing.T) {
	testenv.Leaks(t)
	r, w, err := Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := r
	r.Close()
	if r != None {
		t.Errorf("closed, it is %d", r)
	}
	other, err := unix.FcntlInt(uintptr(w), unix.F_DUPFD_CLOEXEC, int(old))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	r.Close()
	if _, err := unix.FcntlInt(uintptr(other), unix.F_GETFD, 0); err != nil {
		t.Errorf("descriptor %d: %v", other, err)
	}
	w.Close()
	none := None
	none.Close()
}

func TestSend(t *testing.T) {
	testenv.Leaks(t)
	a, b, err := SeqPacket()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	r, w, err := Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := a.Send([]byte("one"), int(w)); err != nil {
		t.Fatal(err)
	}
	if err := a.Send([]byte("two")); err != nil {
		t.Fatal(err)
	}
	buf, control := make([]byte, 64), make([]byte, 64)
	n, cn, _, _, err := unix.Recvmsg(int(b), buf, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || string(buf[:n]) != "one" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	msgs, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil || len(msgs) != 1 {
		t.Fatalf("%v, %v", msgs, err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	passed := FD(fds[0])
	defer passed.Close()
	if _, err := unix.Write(int(passed), []byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := r.Read(buf); n != 1 || err != nil {
		t.Errorf("through the passed descriptor: %d, %v", n, err)
	}
	if n, err := b.Read(buf); err != nil || !bytes.Equal(buf[:n], []byte("two")) {
		t.Errorf("messages are not kept apart: %q, %v", buf[:n], err)
	}
	b.Close()
	if err := a.Send([]byte("three")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a message to a closed end: %v", err)
	}
}

func TestRetry(t *testing.T) {
	n := 0
	err := Retry(func() error {
		if n++; n < 3 {
			return unix.EINTR
		}
		return unix.EIO
	})
	if n != 3 || err != unix.EIO {
		t.Errorf("%d calls, %v", n, err)
	}
}

func TestWait(t *testing.T) {
	testenv.Leaks(t)
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	Wait(c.Process.Pid)
	if err := c.Wait(); !errors.Is(err, unix.ECHILD) {
		t.Errorf("after Wait: %v", err)
	}
}

// TestRetryEnds: a call that is interrupted is made again, but not for ever where something answers so each time.
func TestRetryEnds(t *testing.T) {
	n := 0
	if err := Retry(func() error {
		if n++; n < 100 {
			return unix.EINTR
		}
		return unix.EBADF
	}); err != unix.EBADF || n != 100 {
		t.Errorf("%v after %d calls", err, n)
	}
	if err := Retry(func() error { return unix.EINTR }); err != unix.EINTR {
		t.Error(err)
	}
}

// TestOneProcess: numbers that stand for several processes are none's.
func TestOneProcess(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid(), 1<<32 - 1, 1<<32 + 1} {
		if err := Kill(pid, 0); err != unix.ESRCH {
			t.Errorf("kill %d: %v", pid, err)
		}
		if status := Wait(pid); status != 0 {
			t.Errorf("wait for %d: %#x", pid, status)
		}
	}
	if err := Kill(os.Getpid(), 0); err != nil {
		t.Error(err)
	}
}
