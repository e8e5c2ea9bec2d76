//go:build linux

package reexec

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec/gen/build"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestImage: the images are what gen makes of the source, and hold nothing of the Go
// runtime: no function but these is in the file.
func TestImage(t *testing.T) {
	testenv.NeedCheckout(t)
	version, err := os.ReadFile("image.version")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(version)); got != runtime.Version() {
		testenv.Skip(t, "image", "the images were made with "+got+", this is "+runtime.Version())
	}
	if _, err := exec.LookPath("go"); err != nil {
		testenv.Skip(t, "go", err.Error())
	}
	for _, arch := range build.Architectures {
		want, err := os.ReadFile("image_" + arch + ".bin")
		if err != nil {
			t.Fatal(err)
		}
		got, functions, err := build.Image("../..", arch)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("image_%s.bin is not made of this source: go run ./internal/reexec/gen", arch)
		}
		if len(functions) < 10 {
			t.Errorf("%s: only %q", arch, functions)
		}
		for _, name := range functions {
			switch name {
			case "nsrun_image", "internal/runtime/syscall/linux.Syscall6", "internal/runtime/syscall/linux.Syscall6.abi0", "syscall.RawSyscall", "syscall.RawSyscall6",
				"go:textfipsstart", "go:textfipsend", // marks of the linker
				"runtime.unreachableMethod": // an endless loop that nobody calls
				continue
			}
			if !strings.HasPrefix(name, "github.com/nsrun/nsrun/internal/reexec.") {
				t.Errorf("%s: %s is in the image", arch, name)
			}
		}
	}
}

// TestImageNumber: a number that the limit of open files does not allow is reported as such.
func TestImageNumber(t *testing.T) {
	testenv.Leaks(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if f, err := imageFile(inMemory, int(limit.Cur)-1); err != nil || f.Close() != nil {
		t.Errorf("the highest number: %v", err)
	}
	if _, err := imageFile(inMemory, int(limit.Cur)); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("a higher number: %v", err)
	}
}

// once is a Program that does nothing.
func once() *prog.Program {
	b := prog.New(prog.Native())
	b.SetNFds(1)
	b.Call(prog.SysExitGroup, prog.Int(0))
	return b.Program()
}

// TestWorker: it runs several Programs, gives a descriptor the lowest number that is free, and reports what failed.
func TestWorker(t *testing.T) {
	testenv.Leaks(t)
	w, err := Hire()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for i := range 3 {
		b := prog.New(prog.Native())
		b.SetNFds(2)
		data := b.Zero(8)
		b.Call(prog.SysRead, prog.Int(StatusFd+1), data.Arg(), prog.Int(i+1)).Full()
		b.Call(prog.SysClose, prog.Int(StatusFd+1))
		b.Call(prog.SysWrite, prog.Int(ControlFd), data.Arg(), prog.Int(i+1))
		b.Call(prog.Receive, prog.Int(ControlFd), prog.Int(0))
		if err := w.Send(b.Program(), int(file.Fd())); err != nil {
			t.Fatal(err)
		}
		if n, err := syscall.Read(w.Sock(), make([]byte, 8)); n != i+1 || err != nil {
			t.Errorf("Program %d: %d, %v", i, n, err)
		}
	}
	b := prog.New(prog.Native())
	b.SetNFds(1)
	b.Call(prog.SysChdir, b.String("/no/such/directory"))
	if err := w.Send(b.Program()); err != nil {
		t.Fatal(err)
	}
	if n, err := syscall.Read(w.Sock(), make([]byte, 8)); n != 0 || err != nil {
		t.Errorf("after a failure: %d, %v", n, err)
	}
	if err := w.Dismiss(); err != syscall.ENOENT {
		t.Errorf("dismissed: %v", err)
	}
}

// TestPerform: a failed call is reported with its errno, and descriptors come back.
func TestPerform(t *testing.T) {
	testenv.Leaks(t)
	if err := Perform(once(), nil); err != nil {
		t.Error(err)
	}
	for _, clone := range []bool{false, true} {
		b := prog.New(prog.Native())
		b.SetNFds(1)
		if clone {
			b.Call(prog.Clone, prog.Int(0))
		}
		b.Call(prog.SysChdir, b.String("/no/such/directory"))
		if err := Perform(b.Program(), nil); err != syscall.ENOENT {
			t.Errorf("clone %v: %v", clone, err)
		}
	}
	b := prog.New(prog.Native())
	b.SetNFds(1)
	fd := b.Slot()
	b.Call(prog.SysOpenat, prog.AtCwd, b.String("/dev/null"), b.Open(prog.CloseOnExec), prog.Int(0)).To(fd)
	b.SendFiles(prog.Int(ControlFd), prog.Int(syscall.MSG_NOSIGNAL), []prog.Slot{fd})
	b.Call(prog.SysExitGroup, prog.Int(0))
	got := 0
	err := Perform(b.Program(), func(sock int) error {
		rights := make([]byte, syscall.CmsgSpace(4))
		_, n, _, _, err := syscall.Recvmsg(sock, make([]byte, 1), rights, syscall.MSG_CMSG_CLOEXEC)
		if err != nil {
			return err
		}
		list, err := syscall.ParseSocketControlMessage(rights[:n])
		if err != nil || len(list) != 1 {
			return err
		}
		fds, err := syscall.ParseUnixRights(&list[0])
		got = len(fds)
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		return err
	})
	if err != nil || got != 1 {
		t.Errorf("%v, %d descriptors", err, got)
	}
}

// TestImageNumbers: whatever numbers the descriptors have that the image gets, none takes
// the place of the image's own.
func TestImageNumbers(t *testing.T) {
	testenv.Leaks(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for n := 10; n < 40; n++ {
		fd, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, n)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "null")
		p, err := Start([]*os.File{null, null, null, f}, "", nil)
		if err == nil {
			_, err = p.Wait()
		}
		if err != nil {
			t.Errorf("with descriptor %d: %v", fd, err)
		}
		f.Close()
	}
}

// TestImageFiles: the image is executed wherever it is, nobody can write to it, and where
// it cannot be executed the error says so.
func TestImageFiles(t *testing.T) {
	testenv.Leaks(t)
	run := func(dirs ...string) error {
		p, err := startIn(dirs, nil, "", nil) // without a socket it ends
		if err == nil {
			_, err = p.Wait()
		}
		return err
	}
	dir := testenv.Dir(t)
	for _, place := range []string{inMemory, dir} {
		if err := run(place); err != nil {
			t.Errorf("%s: %v", place, err)
		}
		f, err := imageFile(place, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Errorf("%s: the image can be written to", place)
		}
		if info, err := f.Stat(); err != nil || info.Sys().(*syscall.Stat_t).Nlink != 0 {
			t.Errorf("%s: the image has a name: %v", place, err)
		}
		f.Close()
	}
	if left, _ := filepath.Glob(dir + "/.*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := run("/no/such/directory", dir); err != nil {
		t.Error(err)
	}
	if err := run("/no/such/directory"); err == nil || !strings.Contains(err.Error(), "/no/such/directory") {
		t.Errorf("nowhere: %v", err)
	}
	if !testenv.Root() {
		return
	}
	noexec := testenv.Dir(t)
	if err := unix.Mount("tmpfs", noexec, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(noexec, unix.MNT_DETACH)
	if err := run(noexec); err == nil || !strings.Contains(err.Error(), "execute the launcher's image in "+noexec) {
		t.Errorf("noexec: %v", err)
	}
	if err := run(noexec, dir); err != nil {
		t.Error(err)
	}
}
