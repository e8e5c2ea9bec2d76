//go:build linux

package host

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

const (
	crowdEnv   = "NSRUN_TEST_CROWD" // what makes the test program a crowd; "hidden": nobody else sees its directory
	crowdSize  = 30                 // processes
	crowdNames = 200                // sockets of each kind
)

func TestMain(m *testing.M) {
	if os.Getenv(crowdEnv) != "" {
		if err := crowd(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crowdTag begins the names of a crowd's sockets. The kernel also lists the sockets of another process that runs this
// test at the same time, and those of this test's other crowds.
func crowdTag(kind string, test int) string { return fmt.Sprintf("%s%d-", kind, test) }

// crowd is many processes in a directory in which they have many sockets, until standard input ends.
func crowd() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if os.Getenv(crowdEnv) == "hidden" {
		err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, ""), os.Chdir(dir))
		if err != nil {
			return err
		}
	}
	tag := crowdTag(os.Getenv(crowdEnv), os.Getppid())
	for i := range crowdNames {
		if err := os.Mkdir(fmt.Sprint("sub", i), 0o755); err != nil {
			return err
		}
		for _, name := range []string{filepath.Join(dir, fmt.Sprint(tag, "absolute", i)), fmt.Sprint(tag, "relative", i), fmt.Sprintf("sub%d/%sbelow%d", i, tag, i)} {
			s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err == nil {
				err = unix.Bind(s, &unix.SockaddrUnix{Name: name})
			}
			if err != nil {
				return err
			}
		}
	}
	fmt.Println(os.Getpid())
	for i := range crowdSize {
		c := exec.Command("cat")
		c.Stdin = os.Stdin
		if i%2 == 0 {
			c.Dir = fmt.Sprint("own", i)
			if err := os.Mkdir(c.Dir, 0o755); err != nil {
				return err
			}
		}
		if err := c.Start(); err != nil {
			return err
		}
		fmt.Println(c.Process.Pid)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

func startCrowd(t *testing.T, dir, kind string, space uintptr) (pids []string) {
	testenv.NeedNamespaces(t)
	c := exec.Command("/proc/self/exe")
	c.Env, c.Dir, c.Stderr = append(os.Environ(), crowdEnv+"="+kind), dir, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: space | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if !testenv.Root() {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	lines := bufio.NewScanner(testenv.Background(t, c))
	for lines.Scan() && lines.Text() != "ready" {
		pids = append(pids, lines.Text())
	}
	if len(pids) != 1+crowdSize {
		t.Fatal(pids)
	}
	return pids
}

// TestCrowd: what a command costs the starts of others does not grow with the product of its sockets and processes,
// because each directory is looked at once. The controls are the directories visible here, in which all sockets are
// found.
func TestCrowd(t *testing.T) {
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(proc)
	for _, kind := range []string{"hidden", "seen"} {
		for _, net := range []uintptr{0, unix.CLONE_NEWNET} {
			dir := testenv.Dir(t)
			pids := startCrowd(t, dir, kind, net)
			f := newSocketFinder(true, new(atomic.Bool))
			if net != 0 {
				f.networks(proc, pids)
			} else {
				lost := crowdSockets(t, kind)
				for _, s := range lost {
					f.known[s.ino] = true
				}
				f.lost(proc, pids, lost)
			}
			want := 0
			if kind == "seen" {
				want = 3 * crowdNames
			}
			if got := f.result(); len(got) != want {
				t.Errorf("%s, network %#x: %d sockets, not %d", kind, net, len(got), want)
			}
			// Finding and reading each directory and each working directory. Both happen again when missing
			// sockets are looked for under other names.
			if most := 4 * (crowdNames + crowdSize + 2); f.views.looked > most {
				t.Errorf("%s, network %#x: looked at directories %d times, not %d", kind, net, f.views.looked, most)
			}
		}
	}
}

// crowdSockets are the sockets of a crowd that the kernel lists.
func crowdSockets(t *testing.T, kind string) []namedSocket {
	t.Helper()
	list, err := diagSockets()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(s namedSocket) bool {
		return !strings.HasPrefix(filepath.Base(s.name), crowdTag(kind, os.Getpid()))
	})
}

// TestMounted: no process is asked for sockets on a file system that is mounted nowhere here. The control is a
// directory that is visible here, whose sockets are looked for.
func TestMounted(t *testing.T) {
	for kind, seen := range map[string]bool{"hidden": false, "seen": true} {
		startCrowd(t, testenv.Dir(t), kind, 0)
		lost := crowdSockets(t, kind)
		if len(lost) < 3*crowdNames { // more: a crowd before this one has not ended yet
			t.Errorf("%s: the kernel lists %d sockets, not %d", kind, len(lost), 3*crowdNames)
		}
		want := 0
		if seen {
			want = len(lost)
		}
		if got := len(newSocketFinder(true, new(atomic.Bool)).mounted(slices.Clone(lost))); got != want {
			t.Errorf("%s: %d sockets are looked for, not %d", kind, got, want)
		}
	}
}
