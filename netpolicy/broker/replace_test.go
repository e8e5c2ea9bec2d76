//go:build linux

package broker

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// What is found by trying is what a list of the descriptors says. Where there are gaps, or
// threads, it is left to the list.
func TestFind(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fd), "socket")
	defer socket.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	own, err := os.Stat("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	gap := make([]*os.File, 20)
	for _, c := range []struct {
		name  string
		files []*os.File // from 3 on
		want  []int
		tried bool
	}{
		{"one number", []*os.File{socket}, []int{3}, true},
		{"two numbers", []*os.File{socket, null, socket}, []int{3, 5}, true},
		{"a small gap", []*os.File{nil, socket, null}, []int{4}, true},
		{"a large gap", append(slices.Clone(gap), socket), []int{23}, false},
		{"a high number", slices.Concat([]*os.File{socket}, gap, []*os.File{socket}), []int{3, 24}, false},
		{"many", append(slices.Repeat([]*os.File{null}, 100), socket), []int{103}, false},
		{"none", []*os.File{null}, nil, false},
	} {
		cmd := exec.Command("cat")
		cmd.ExtraFiles = c.files
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A program that starts opens files of its own. It has ended that once it answers.
		if _, err := in.Write([]byte{'x'}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		task, e := openTask(uint32(cmd.Process.Pid))
		if e == 0 {
			e = task.look()
		}
		if e != 0 {
			t.Fatal(e)
		}
		// Before Linux 6.2 the kernel does not tell how many there are, and all have to be listed.
		tells := own.Size() > 0
		if got := task.open(); (got > 0) != tells {
			t.Errorf("%s: the task has %d descriptors, this process %d", c.name, got, own.Size())
		}
		c.tried = c.tried && tells
		k := &call{b: &Broker{pid: uintptr(os.Getpid()), kcmp: true}, task: task, old: sys.FD(fd), number: -1}
		listed, rest, e := k.list(nil)
		slices.Sort(listed)
		slices.Sort(rest)
		if e != 0 || !slices.Equal(listed, c.want) {
			t.Errorf("%s: the list has %v, %v, want %v", c.name, listed, e, c.want)
		}
		k.b.kcmp = false
		looked, _, e := k.list(nil)
		slices.Sort(looked)
		if _, _, tried := k.try(nil); e != 0 || tried || !slices.Equal(looked, listed) {
			t.Errorf("%s: without kcmp(2) the list has %v, %v, want %v", c.name, looked, e, listed)
		}
		k.b.kcmp = true
		for _, number := range rest { // the tests may have been given more than the usual ones
			c.tried = c.tried && number <= 2*(len(listed)+len(rest))
		}
		numbers, others, ok := k.try(make([]int, 0, 64))
		if ok != c.tried {
			t.Errorf("%s: found by trying: %v, want %v", c.name, ok, c.tried)
		}
		if ok && (!slices.Equal(numbers, listed) || !slices.Equal(others, rest)) {
			t.Errorf("%s: tried %v and %v, listed %v and %v", c.name, numbers, others, listed, rest)
		}
		task.close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}

	self, e := openTask(uint32(unix.Gettid()))
	if e == 0 {
		e = self.look()
	}
	if e != 0 {
		t.Fatal(e)
	}
	defer self.close()
	if self.alone() {
		t.Error("a Go program has one thread")
	}
	if !self.cloexec(fd) || self.cloexec(1) || !self.cloexec(fd) {
		t.Error("close-on-exec is wrong")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	if self.cloexec(fd) {
		t.Error("the broker does not see that close-on-exec was removed")
	}
}
