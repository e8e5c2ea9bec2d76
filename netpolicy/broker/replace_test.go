package broker

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// What is found by trying is what a list of the descriptors says, and where there are gaps it
// is left to the list.
func TestFind(t *testing.T) {
	task, e := openTask(uint32(unix.Gettid()))
	if e != 0 {
		t.Fatal(e)
	}
	defer task.close()
	if task.open() == 0 {
		testenv.Skip(t, "Linux 6.2", "the kernel does not tell how many descriptors there are")
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	old := sys.FD(fd)
	defer old.Close()
	c := &connect{b: &Broker{pid: uintptr(os.Getpid())}, task: task, old: old, number: fd}
	check := func(what string, tried bool, want ...int) {
		t.Helper()
		slices.Sort(want)
		listed, rest, e := c.list(nil)
		count := len(listed) + len(rest)
		for _, number := range rest {
			tried = tried && number <= 2*count // the tests may have been given more than the usual ones
		}
		numbers, others, ok := c.try(make([]int, 0, 64))
		if ok != tried {
			t.Errorf("%s: found by trying: %v, want %v", what, ok, tried)
		}
		slices.Sort(listed)
		slices.Sort(rest)
		if e != 0 || !slices.Equal(listed, want) {
			t.Errorf("%s: the list has %v, %v, want %v", what, listed, e, want)
		}
		if ok && (!slices.Equal(numbers, listed) || !slices.Equal(others, rest)) {
			t.Errorf("%s: tried %v and %v, listed %v and %v", what, numbers, others, listed, rest)
		}
	}
	check("one number", true, fd)
	twin, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	check("two numbers", true, fd, twin)
	_ = unix.Close(twin)
	if twin, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 900); err != nil {
		t.Fatal(err)
	}
	check("a high number", false, fd, twin)
	_ = unix.Close(twin)
	var many []int
	for range 100 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		many = append(many, fd)
	}
	check("many descriptors", false, fd)
	for _, fd := range many {
		_ = unix.Close(fd)
	}
	if task.cloexec(fd) != true || task.cloexec(1) != false || task.cloexec(fd) != true {
		t.Error("close-on-exec is not what it is")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	if task.cloexec(fd) {
		t.Error("close-on-exec was taken away, and is there for the broker")
	}
}
