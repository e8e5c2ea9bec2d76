//go:build linux

package stuck

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestStill: a thread that waits in a call about a file is found with the file, and one that makes other calls is not.
func TestStill(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if file, still := Now().Still(); still {
		t.Errorf("control: something waits for %s", file)
	}
	done := make(chan error, 1)
	go func() { // opening waits for a writer
		fd, err := unix.Open(fifo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		done <- err
	}()
	var file string
	testenv.Eventually(t, "the thread waits", func() (still bool) {
		file, still = Now().Still()
		return still
	})
	if file != fifo {
		t.Errorf("%q", file)
	}
	before := Now()
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it has returned", func() bool { _, still := before.Still(); return !still })
}

// TestNames: a file has the name that the call says, as far as that can be read.
func TestNames(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	name, _ := unix.BytePtrFromString("a/b")
	args := [6]uint64{uint64(dir.Fd()), uint64(uintptr(unsafe.Pointer(name)))}
	if got := files[unix.SYS_OPENAT](args); got != filepath.Join(dir.Name(), "a/b") {
		t.Errorf("%q", got)
	}
	runtime.KeepAlive(name)
	if got := files[unix.SYS_OPENAT]([6]uint64{uint64(dir.Fd()), 8}); got != dir.Name() { // there is no memory
		t.Errorf("%q", got)
	}
	if got := files[unix.SYS_GETDENTS64](args); got != dir.Name() {
		t.Errorf("%q", got)
	}
}
