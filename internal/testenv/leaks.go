//go:build linux

package testenv

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// state is what a test may leave behind: what tells each thing from others, and a line of text about it.
type state map[string]string

// Leaks checks at the end of the test that it left nothing: no descriptor, no child process, no mount, no temporary
// file. The cleanup functions are called before, at both ends. It must be called first, so that it looks last.
func Leaks(t testing.TB, cleanup ...func()) {
	t.Helper()
	for _, f := range cleanup {
		f()
	}
	before := look()
	t.Cleanup(func() {
		if left := leaked(before, cleanup); len(left) > 0 {
			t.Errorf("the test left\n\t%s", strings.Join(left, "\n\t"))
		}
	})
}

// leaked lists what is here and was not before. What goes away in a moment does
// not count: the cleanup functions are called again, for what has ended meanwhile.
func leaked(before state, cleanup []func()) (left []string) {
	Poll(Patience, func() bool {
		for _, f := range cleanup {
			f()
		}
		left = look().since(before)
		return len(left) == 0
	})
	return left
}

// since lists what was not there before.
func (s state) since(before state) (lines []string) {
	for thing, line := range s {
		if _, ok := before[thing]; !ok {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// add adds what its line tells from others.
func (s state) add(line string) { s[line] = line }

func look() state {
	s := make(state)
	descriptors(s)
	children(s)
	mountsHere(s)
	temporaries(s)
	return s
}

func descriptors(s state) {
	const dir = "/proc/self/fd/"
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		link, err := os.Readlink(dir + e.Name())
		if err != nil {
			continue // ReadDir's own
		}
		switch link {
		case "anon_inode:[eventpoll]", "anon_inode:[eventfd]":
			continue // the Go runtime's, made when they are first needed
		}
		s.add("descriptor " + e.Name() + " to " + link)
	}
}

func children(s state) {
	if childless() {
		return
	}
	for _, p := range Processes() {
		if p.Parent == os.Getpid() {
			// Its state and its name change while it runs.
			s[fmt.Sprint("child process ", p.Pid)] = fmt.Sprintf("child process %d (%s), %s", p.Pid, p.State, p.Name)
		}
	}
}

func mountsHere(s state) {
	for _, line := range Mounts() {
		s.add("mount " + line)
	}
}

// Mounts are the lines of proc_pid_mountinfo(5), without those that no test can have made: in a namespace of others, an
// ordinary user mounts only file systems of FUSE, whose options name the user, and others mount what they like.
func Mounts() (list []string) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	theirs := !Root() && os.Getenv(asUserEnv) == ""
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); !theirs || mountedBy(line, os.Getuid()) {
			list = append(list, line)
		}
	}
	return list
}

// mountedBy reports whether a line is of a file system of FUSE that a user has mounted.
func mountedBy(line string, uid int) bool {
	_, super, _ := strings.Cut(line, " - ")
	f := strings.Fields(super) // type, source, options
	return len(f) > 2 && strings.HasPrefix(f[0], "fuse") && slices.Contains(strings.Split(f[2], ","), "user_id="+strconv.Itoa(uid))
}

func temporaries(s state) {
	entries, _ := os.ReadDir(os.TempDir())
	for _, e := range entries {
		if strings.HasPrefix(os.TempDir(), "/tmp") && !strings.Contains(os.TempDir(), "nsrun-test-") {
			return // not ours alone
		}
		s.add("temporary file " + filepath.Join(os.TempDir(), e.Name()))
	}
}

// A Process is one line of the process table.
type Process struct {
	Pid, Parent, Group int
	State, Name        string // State as in proc_pid_stat(5): "R", "S", "T", "Z" …
}

// Processes lists the processes that can be seen.
func Processes() (ps []Process) {
	dirs, _ := fs.Glob(os.DirFS("/proc"), "[0-9]*")
	for _, d := range dirs {
		if p, ok := FindProcess(d); ok {
			ps = append(ps, p)
		}
	}
	return ps
}

// Reap waits for children that have ended, also those that this process has adopted: it is a cleanup for Leaks, which
// calls it again while something is left.
func Reap() {
	if childless() {
		return
	}
	for _, p := range Processes() {
		if p.Parent == os.Getpid() {
			_, _ = unix.Wait4(p.Pid, nil, unix.WNOHANG, nil)
		}
	}
}

// childless reports whether this process has no children, also none that have ended. That is one system call, and for
// most tests it is enough; the process table has a file for each process of the machine.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

func FindProcess(pid string) (p Process, ok bool) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return p, false
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[end+1:]))
	if open < 0 || end < 0 || len(f) < 3 {
		return p, false
	}
	p.Pid, _ = strconv.Atoi(pid)
	p.Parent, _ = strconv.Atoi(f[1])
	p.Group, _ = strconv.Atoi(f[2])
	p.State, p.Name = f[0], string(b[open+1:end])
	return p, true
}

// Alive reports whether there is such a process, and it has not ended.
func Alive(pid int) bool {
	p, ok := FindProcess(strconv.Itoa(pid))
	return ok && p.State != "Z" && p.State != "X"
}

// Poll asks until the answer is yes, or the time is over; it returns the last one.
func Poll(limit time.Duration, cond func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			return cond()
		}
	}
	return true
}

// Patience is for what should take milliseconds: only a test that fails waits for so long, and a busy machine
// must not be what fails it.
const Patience = 5 * time.Minute

// Eventually waits until cond holds; that it never does fails the test.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !Poll(Patience, cond) {
		t.Fatalf("waited in vain: %s", what)
	}
}
