//go:build linux

package limiter

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

func TestHides(t *testing.T) {
	const root, shown = "1 0 8:1 / / rw - ext4 /dev/x rw\n", "2 1 0:4 / /proc rw,nosuid - proc proc rw\n"
	const ptraceable = "3 1 0:5 / /proc rw - proc proc rw,hidepid=ptraceable\n"
	for table, want := range map[string]bool{
		root: false, root + shown: false, root + ptraceable: true, root + ptraceable + shown: false, root + shown + ptraceable: true,
		root + "2 1 0:4 / /proc rw - proc proc rw,gid=4,hidepid=invisible\n": true,
		root + "2 1 0:4 / /proc rw - proc proc rw,hidepid=2\n":               true,
		root + "2 1 0:4 / /proc rw - proc proc rw,hidepid=off\n":             false,
		root + "2 1 0:4 / /x/proc rw - proc proc rw,hidepid=2\n":             false,
	} {
		infos, err := mounts.ParseMountinfo([]byte(table))
		if err != nil {
			t.Fatal(err)
		}
		if got := hides(infos); got != want {
			t.Errorf("%t: %s", got, table)
		}
	}
}

// TestLooksNoFurther: processes beyond the limit are not counted. A command could start new ones faster than nsrun
// counts them.
func TestLooksNoFurther(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exec 3<&0; for i in 1 2 3 4 5; do read end <&3 & done; echo; wait")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		t.Fatal("the command does not start")
	}
	_, _ = out.Read(make([]byte, 1))
	for limit, want := range map[int64]int64{2: 3, 10: 5} {
		w := usageWatch{pid: cmd.Process.Pid, pids: limit}
		if u := w.look(); u.pids != want {
			t.Errorf("with at most %d: %d", limit, u.pids)
		}
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// TestMeasuresNoFurther: once the limit on memory is known to be exceeded, the rest is not measured. With many large
// processes that would take long, and they would grow meanwhile.
func TestMeasuresNoFurther(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exec 3<&0; for i in 1 2 3 4 5; do read end <&3 & done; echo; wait")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		t.Fatal("the command does not start")
	}
	_, _ = out.Read(make([]byte, 1))
	measure := func(limit int64) int64 {
		w := usageWatch{pid: cmd.Process.Pid, bytes: limit, first: math.MaxInt64}
		defer func() {
			if w.root != nil {
				_ = w.root.Close()
			}
		}()
		return w.look().bytes
	}
	all := int64(0)
	for limit := int64(1 << 30); limit > 1<<10; limit -= limit / 8 {
		if n := measure(limit); n <= limit {
			all = n // with the smallest limit that they do not exceed it is exact
		}
	}
	if least := measure(1); least <= 1 || least >= all {
		t.Errorf("%d of %d bytes were measured", least, all)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// TestWorked: time in which this thread waits does not count as work.
func TestWorked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, before := time.Now(), worked()
	for worked() == before {
	}
	if done := worked() - before; done > time.Since(began) {
		t.Errorf("%v of %v", done, time.Since(began))
	}
	cmd := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	began, before = time.Now(), worked()
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if done, took := worked()-before, time.Since(began); done > took/2 {
		t.Errorf("%v of %v, in which another process worked", done, took)
	}
}

// TestRootOfAnother: the number of one of the sandbox's processes now belongs to another process. Nothing enters the
// root of that one, because a thread cannot leave it again.
func TestRootOfAnother(t *testing.T) {
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		t.Fatal("the command does not start")
	}
	w := usageWatch{pid: cmd.Process.Pid}
	if root := w.enter([]string{"/proc/" + strconv.Itoa(os.Getpid())}); root != nil {
		t.Error("the root of another process was entered")
	}
	if root := w.enter([]string{"/proc/" + strconv.Itoa(cmd.Process.Pid)}); root == nil {
		t.Error("the root of the command was not entered")
	}
	if w.root != nil {
		_ = w.root.Close()
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// apartEnv has the name of a file that the test binary holds without a name, in one thread only: see TestThreadsFiles.
const apartEnv = "LIMITER_TEST_APART"

const apartSize = 1 << 20

// holdApart holds a file in a thread that has a table of descriptors of its own, until standard input ends. It is a
// process of its own, because such a table stays if the thread is the first one.
func holdApart(name string) int {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil || os.Remove(name) != nil {
		return 1
	}
	if _, err := f.Write(make([]byte, apartSize)); err != nil {
		return 1
	}
	apart := make(chan error)
	go func() {
		runtime.LockOSThread()
		apart <- unix.Unshare(unix.CLONE_FILES)
		select {}
	}()
	if err := <-apart; err != nil || f.Close() != nil {
		return 1
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// TestThreadsFiles: a file without a name counts if only one thread has it open, in a table of descriptors of its own.
// As long as the table is that of all threads, it is read once.
func TestThreadsFiles(t *testing.T) {
	testenv.Leaks(t)
	if dirs := tables("/proc/" + strconv.Itoa(os.Getpid())); len(dirs) != 1 {
		t.Errorf("one table: %q", dirs)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), apartEnv+"="+filepath.Join(testenv.DiskDir(t), "f"))
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
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("the process does not hold the file: %q", line)
	}
	if bytes, _, lacks := new(fileSystems).unnamed(cmd.Process.Pid); bytes < apartSize || lacks != nil {
		t.Errorf("%d bytes, %v", bytes, lacks)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestBlind: what cannot be measured, because too many files are open, is not taken for nothing.
func TestBlind(t *testing.T) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd), Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	w := usageWatch{pid: os.Getpid(), pids: 1, bytes: 1}
	u := w.look()
	_, _, lacks := new(fileSystems).unnamed(os.Getpid())
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		t.Fatal(err)
	}
	if w.lacks == nil || lacks == nil {
		t.Errorf("without a free descriptor: %+v, %v, %v", u, w.lacks, lacks)
	}
	o := limits.Outcome{Held: limits.Held{Name: limits.PIDs, Value: 1, By: limits.ByRunner}}
	if w.state(&o); o.Hit || !o.Killed || o.LostText() != "killed: the process limit 1 processes could not be enforced any more: too many open files" {
		t.Errorf("%+v: %s", o, o.LostText())
	}
	w = usageWatch{pid: os.Getpid(), pids: 1}
	if u := w.look(); w.lacks != nil || !w.reached(u) {
		t.Errorf("afterwards: %+v, %v", u, w.lacks)
	}
}

// TestNoAnswer: a file system whose server does not answer delays no limit for long, and only once.
func TestNoAnswer(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testenv.Skip(t, "fuse", "/dev/fuse: "+err.Error())
	}
	defer unix.Close(server) // a process that still waits gets ENOTCONN
	if err := unix.Mount("dead", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server)); err != nil {
		testenv.Skip(t, "fuse", err.Error())
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	memory, err := unix.MemfdCreate("m", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	var f fileSystems
	ask := func(name string) (is, sure bool) {
		var st unix.Statx_t
		if err := sys.Statx(unix.AT_FDCWD, name, unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
			t.Fatal(err)
		}
		return f.inMemory(inodeOf(&st).dev, name)
	}
	memfd := "/proc/self/fd/" + strconv.Itoa(memory)
	for _, c := range []struct {
		name     string
		is, sure bool
	}{{memfd, true, true}, {dir, false, false}, {dir, false, false}, {memfd, true, true}, {"/proc", false, false}} {
		if is, sure := ask(c.name); is != c.is || sure != c.sure {
			t.Errorf("%s: %t, %t", c.name, is, sure)
		}
	}
}
