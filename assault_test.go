//go:build linux

package nsrun_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// prey is what commands without namespaces attack: all of it is the same user's, and outside.
type prey struct {
	Out      string // a directory that is shown read-only, with the files f and g in it
	Secret   string // a file that is hidden
	Victim   int    // a process
	Socket   string // a unix socket
	Abstract string // another one, without a path
	Datagram string // a third one, for datagrams
	Port     int    // of a TCP server on 127.0.0.1
	Shared   int    // a shared memory segment
}

func (p *prey) f() string { return filepath.Join(p.Out, "f") }

// of is a file of the victim's in /proc.
func (p *prey) of(name string) string { return "/proc/" + strconv.Itoa(p.Victim) + "/" + name }

// call is a system call by its number.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

// readOnly opens the file f outside for reading, which is allowed.
func (p *prey) readOnly(use func(fd int) error) error {
	fd, err := unix.Open(p.f(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("BUG: the file cannot be opened: %w", err)
	}
	defer unix.Close(fd)
	return use(fd)
}

// read reads a file, and fails where there is nothing in it.
func read(name string) error {
	b, err := os.ReadFile(name)
	if err == nil && len(b) == 0 {
		err = unix.ENODATA
	}
	return err
}

// fresh makes a file in the working directory.
func fresh(name string) string {
	_ = os.RemoveAll(name)
	_ = os.WriteFile(name, []byte("x"), 0o644)
	return name
}

// An assault returns nil where it worked.
type assault struct {
	name string
	try  func(p *prey) error
}

var fileAssaults = []assault{
	{"read a secret", func(p *prey) error { return read(p.Secret) }},
	{"read a secret through a link", func(p *prey) error {
		_ = os.Remove("l")
		return errors.Join(os.Symlink(p.Secret, "l"), read("l"))
	}},
	{"list a hidden directory", func(p *prey) error { _, err := os.ReadDir(filepath.Dir(p.Secret)); return err }},
	{"write", func(p *prey) error { return os.WriteFile(p.f(), []byte("f"), 0o644) }},
	{"append", func(p *prey) error {
		f, err := os.OpenFile(p.f(), os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	}},
	{"write through a link", func(p *prey) error {
		_ = os.Remove("l")
		return errors.Join(os.Symlink(p.f(), "l"), os.WriteFile("l", []byte("f"), 0o644))
	}},
	{"write by a descriptor's link", func(p *prey) error {
		return p.readOnly(func(fd int) error { return os.WriteFile("/proc/self/fd/"+strconv.Itoa(fd), []byte("f"), 0) })
	}},
	{"make a file", func(p *prey) error { return os.WriteFile(filepath.Join(p.Out, "new"), nil, 0o644) }},
	{"make a nameless file", func(p *prey) error {
		fd, err := unix.Open(p.Out, unix.O_TMPFILE|unix.O_WRONLY, 0o600)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}},
	{"make a directory", func(p *prey) error { return os.Mkdir(filepath.Join(p.Out, "newdir"), 0o755) }},
	{"make a FIFO", func(p *prey) error { return unix.Mkfifo(filepath.Join(p.Out, "fifo"), 0o600) }},
	{"make a link", func(p *prey) error { return os.Symlink("x", filepath.Join(p.Out, "newlink")) }},
	{"remove", func(p *prey) error { return os.Remove(filepath.Join(p.Out, "g")) }},
	{"truncate", func(p *prey) error { return unix.Truncate(p.f(), 0) }},
	{"truncate by opening", func(p *prey) error {
		fd, err := unix.Open(p.f(), unix.O_RDONLY|unix.O_TRUNC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}},
	{"move out", func(p *prey) error { return os.Rename(fresh("m"), filepath.Join(p.Out, "moved")) }},
	{"move in", func(p *prey) error { return os.Rename(p.f(), "taken") }},
	{"exchange", func(p *prey) error {
		return unix.Renameat2(unix.AT_FDCWD, fresh("m"), unix.AT_FDCWD, p.f(), unix.RENAME_EXCHANGE)
	}},
	{"link in", func(p *prey) error { _ = os.Remove("hard"); return os.Link(p.f(), "hard") }},
	{"link out", func(p *prey) error { return os.Link(fresh("m"), filepath.Join(p.Out, "hard")) }},
	{"link by a descriptor", func(p *prey) error {
		return p.readOnly(func(fd int) error {
			_ = os.Remove("hard")
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, "hard", unix.AT_SYMLINK_FOLLOW)
		})
	}},
	{"change a mode", func(p *prey) error { return os.Chmod(p.f(), 0o600) }},
	{"change a mode through a link", func(p *prey) error {
		_ = os.Remove("l")
		return errors.Join(os.Symlink(p.f(), "l"), os.Chmod("l", 0o600))
	}},
	{"change a mode in a directory that is a link", func(p *prey) error {
		_ = os.Remove("l")
		return errors.Join(os.Symlink(p.Out, "l"), os.Chmod("l/f", 0o600))
	}},
	{"change a mode from a directory", func(p *prey) error {
		dir, err := unix.Open(p.Out, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return fmt.Errorf("BUG: %w", err)
		}
		defer unix.Close(dir)
		return unix.Fchmodat(dir, "f", 0o600, 0)
	}},
	{"change a mode by a descriptor", func(p *prey) error { return p.readOnly(func(fd int) error { return unix.Fchmod(fd, 0o600) }) }},
	{"change a mode by a descriptor's link", func(p *prey) error {
		return p.readOnly(func(fd int) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o600) })
	}},
	{"change a mode by its process's directory", func(p *prey) error {
		return errors.Join(os.Chdir(p.Out), unix.Chmod("/proc/self/cwd/f", 0o600))
	}},
	{"change an owner", func(p *prey) error { return os.Lchown(p.f(), os.Getuid(), os.Getgid()) }},
	{"change times", func(p *prey) error { return os.Chtimes(p.f(), time.Unix(1, 0), time.Unix(1, 0)) }},
	{"change times by a descriptor", func(p *prey) error {
		return p.readOnly(func(fd int) error { return unix.Futimes(fd, []unix.Timeval{{}, {}}) })
	}},
	{"set an attribute", func(p *prey) error { return unix.Setxattr(p.f(), "user.x", []byte("1"), 0) }},
	{"set an attribute by a descriptor", func(p *prey) error {
		return p.readOnly(func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("1"), 0) })
	}},
	{"set flags", func(p *prey) error {
		return p.readOnly(func(fd int) error {
			flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return fmt.Errorf("BUG: %w", err)
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|0x40)) // FS_NODUMP_FL
		})
	}},
}

var processAssaults = []assault{
	{"read an environment", func(p *prey) error { return read(p.of("environ")) }},
	{"open memory", func(p *prey) error {
		f, err := os.Open(p.of("mem"))
		if err == nil {
			_ = f.Close()
		}
		return err
	}},
	{"enter a working directory", func(p *prey) error { _, err := os.ReadDir(p.of("cwd")); return err }},
	{"use a root directory", func(p *prey) error { return read(p.of("root" + p.Secret)) }},
	{"use a descriptor", func(p *prey) error { _, err := os.Stat(p.of("fd/0")); return err }},
	{"read memory", func(p *prey) error {
		var b [1]byte
		local := []unix.Iovec{{Base: &b[0], Len: 1}}
		_, err := unix.ProcessVMReadv(p.Victim, local, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
		if err == unix.EFAULT {
			return nil // it was looked at
		}
		return err
	}},
	{"trace", func(p *prey) error {
		err := unix.PtraceSeize(p.Victim)
		if err == nil {
			_ = unix.PtraceDetach(p.Victim)
		}
		return err
	}},
	{"take a descriptor", func(p *prey) error {
		fd, err := unix.PidfdOpen(p.Victim, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(fd, 0, 0)
		}
		return err
	}},
	{"send a signal", func(p *prey) error { return unix.Kill(p.Victim, unix.SIGCONT) }},
	{"send a signal to a thread", func(p *prey) error { return unix.Tgkill(p.Victim, p.Victim, unix.SIGCONT) }},
	{"send a signal by a descriptor", func(p *prey) error {
		fd, err := unix.PidfdOpen(p.Victim, 0)
		if err == nil {
			err = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
		}
		return err
	}},
	{"send a signal to a group", func(p *prey) error { return unix.Kill(-p.Victim, unix.SIGCONT) }},
	{"set limits", func(p *prey) error {
		var l unix.Rlimit
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &l); err != nil {
			return fmt.Errorf("BUG: %w", err)
		}
		return unix.Prlimit(p.Victim, unix.RLIMIT_NOFILE, &l, nil)
	}},
	{"set a priority", func(p *prey) error { return unix.Setpriority(unix.PRIO_PROCESS, p.Victim, 19) }},
	{"set a group's priority", func(p *prey) error { return unix.Setpriority(unix.PRIO_PGRP, p.Victim, 19) }},
	{"set processors", func(p *prey) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			return fmt.Errorf("BUG: %w", err)
		}
		return unix.SchedSetaffinity(p.Victim, &set)
	}},
	{"set a scheduler", func(p *prey) error {
		var param [1]uint32
		return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(p.Victim), 3, uintptr(unsafe.Pointer(&param))) // SCHED_BATCH
	}},
	{"set a priority of input", func(p *prey) error { return call(unix.SYS_IOPRIO_SET, 1, uintptr(p.Victim), 3<<13) }},
	{"change a score", func(p *prey) error { return os.WriteFile(p.of("oom_score_adj"), []byte("1000"), 0) }},
	{"compare", func(p *prey) error { return call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(p.Victim), 2, 0, 0) }},
}

func connects(domain, kind int, to unix.Sockaddr) error {
	fd, err := unix.Socket(domain, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

// anywhere is nil where a socket is bound, and to no loopback address.
func anywhere(fd int, err error) error {
	if err != nil {
		return err
	}
	at, err := unix.Getsockname(fd)
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		if at.Addr[0] == 127 {
			return fmt.Errorf("the socket is bound to %v", at.Addr)
		}
	case *unix.SockaddrInet6:
		if a := netip.AddrFrom16(at.Addr).Unmap(); a.IsLoopback() {
			return fmt.Errorf("the socket is bound to %v", a)
		}
	}
	return err
}

var otherAssaults = []assault{
	{"connect to a socket", func(p *prey) error {
		return connects(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Socket})
	}},
	{"connect to an abstract socket", func(p *prey) error {
		return connects(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Abstract})
	}},
	{"connect a pair of datagram sockets", func(p *prey) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		err = unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: p.Datagram})
		if _, _, rerr := unix.Recvfrom(pair[1], make([]byte, 1), unix.MSG_DONTWAIT); err == nil && rerr == nil {
			err = errors.New("it went to the other end")
		}
		return err
	}},
	{"connect a raw pair", func(p *prey) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: p.Datagram})
	}},
	{"connect by TCP", func(p *prey) error {
		return connects(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Port: p.Port, Addr: [4]byte{127, 0, 0, 1}})
	}},
	{"send by UDP", func(p *prey) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: p.Port, Addr: [4]byte{127, 0, 0, 1}})
	}},
	{"connect and send in one", func(p *prey) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: p.Port, Addr: [4]byte{127, 0, 0, 1}})
	}},
	{"connect by another protocol for TCP", func(p *prey) error {
		const mptcp = 262
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, mptcp)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: p.Port, Addr: [4]byte{127, 0, 0, 1}})
	}},
	{"listen on all addresses", func(*prey) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return anywhere(fd, unix.Listen(fd, 1))
	}},
	{"bind to all addresses", func(*prey) error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return anywhere(fd, unix.Bind(fd, &unix.SockaddrInet6{}))
	}},
	{"ask rtnetlink", func(*prey) error {
		_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
		return err
	}},
	{"attach shared memory", func(p *prey) error { return call(unix.SYS_SHMAT, uintptr(p.Shared), 0, unix.SHM_RDONLY) }},
	{"make shared memory", func(*prey) error { return call(unix.SYS_SHMGET, 0, 4096, 0o600) }},
	{"make a semaphore", func(*prey) error { return call(unix.SYS_SEMGET, 0, 1, 0o600) }},
	{"make a message queue", func(*prey) error { return call(unix.SYS_MSGGET, 0, 0o600) }},
	{"use a namespace", func(*prey) error {
		return exec.Command("unshare", "-U", "true").Run()
	}},
	{"use a ring", func(*prey) error {
		var params [120]byte
		return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))
	}},
}

// insideAssault makes the assaults that are named, and prints a line about each.
func insideAssault(args []string) int {
	var p prey
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		fmt.Println(err)
		return 1
	}
	dir, err := os.Open(".")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, a := range slices.Concat(assaults(), ownDeeds) {
		if !slices.Contains(args[1:], a.name) {
			continue
		}
		if err := a.try(&p); err != nil {
			fmt.Printf("%s: failed: %v\n", a.name, err)
		} else {
			fmt.Printf("%s: worked\n", a.name)
		}
		_ = dir.Chdir()
	}
	return 0
}

func assaults() []assault { return slices.Concat(fileAssaults, processAssaults, otherAssaults) }

// ownInNamespaces are assaults that work in namespaces, where they reach what is the command's own.
var ownInNamespaces = []string{
	"send by UDP", "listen on all addresses", "bind to all addresses", "ask rtnetlink", "make shared memory", "make a semaphore", "make a message queue",
}

// someWithout are assaults for which this host, or this user, needs no sandbox.
func someWithout(name string) bool {
	switch name {
	case "connect and send in one", "connect by another protocol for TCP": // kernels without them
		return true
	case "use a namespace", "use a ring", "compare", "set flags", "set an attribute", "set an attribute by a descriptor":
		return true // hosts that do without user namespaces, rings, kcmp; file systems without flags or attributes
	}
	return false
}

// backendEnv is the only backend that is attacked, on a host that may refuse the assaults by itself.
const backendEnv = "NSRUN_TEST_BACKEND"

// attacked are the backends of this host.
func attacked(t *testing.T) (list []nsrun.Backend) {
	if name := os.Getenv(backendEnv); name != "" {
		b, err := nsrun.ParseBackend(name)
		if err != nil {
			t.Fatal(err)
		}
		return []nsrun.Backend{b}
	}
	return []nsrun.Backend{nsrun.NativeBackend, nsrun.LandlockBackend}
}

// TestAttacks: what a command tries with the files, processes and sockets of its user fails with each backend, and all
// of it works without a sandbox.
func TestAttacks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a")
	p := preyIn(t, dir)
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range assaults() {
		names = append(names, a.name)
	}
	for _, backend := range attacked(t) {
		t.Run(backend.String(), func(t *testing.T) {
			if backend == nsrun.LandlockBackend {
				needLandlock(t)
			}
			r := runner(t, shown(t, nsrun.Config{
				Project: filepath.Join(dir, "p"), Backend: backend, After: nsrun.Discard,
				Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: p.Out}},
			}))
			before := outside(t, p.Out)
			res, err := r.Run(t.Context(), insideRequest(t, "assault", append([]string{string(text)}, names...)...))
			if err != nil {
				t.Fatal(err)
			}
			if after := outside(t, p.Out); after != before {
				t.Errorf("they changed outside: %s, before %s", after, before)
			}
			t.Logf("%d assaults on %s", len(names), res.Backend)
			lines := strings.Split(strings.TrimSuffix(string(res.Stdout.Bytes()), "\n"), "\n")
			if len(lines) != len(names) {
				t.Fatalf("%d of %d were made: %s", len(lines), len(names), res)
			}
			for i, name := range names {
				own := res.Backend != nsrun.LandlockBackend && slices.Contains(ownInNamespaces, name)
				if !own && !strings.HasPrefix(lines[i], name+": failed: ") || strings.Contains(lines[i], "BUG") {
					t.Error(lines[i])
				}
			}
		})
	}
	controls, worked := testenv.Dir(t), 0
	for _, name := range names {
		out := natively(t, controls, "assault", string(text), name)
		switch {
		case out == name+": worked\n":
			worked++
		case !someWithout(name) && os.Getenv(backendEnv) == "":
			t.Errorf("the control: %s", out)
		}
		p.renew(t)
	}
	t.Logf("%d work without a sandbox", worked)
	if worked < len(names)/2 {
		t.Errorf("only %d of %d work without a sandbox", worked, len(names))
	}
}

// outside is what is in a directory, with all that chmod(2) and the like change.
func outside(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, e.Name()), &st); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %o %d %d %d %d\n", e.Name(), st.Mode, st.Size, st.Nlink, st.Ctim.Sec, st.Ctim.Nsec)
	}
	return b.String()
}

// preyIn makes what is attacked, in a directory.
func preyIn(t *testing.T, dir string) *prey {
	t.Helper()
	testenv.Tree(t, dir, "home/.ssh/id: secret", "out/")
	p := &prey{Out: filepath.Join(dir, "out"), Secret: filepath.Join(dir, "home/.ssh/id"), Abstract: "@nsrun-test-" + strconv.Itoa(os.Getpid()),
		Socket: filepath.Join(dir, "out/s"), Datagram: filepath.Join(dir, "out/d")}
	for _, s := range []struct {
		domain, kind int
		at           unix.Sockaddr
	}{
		{unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Socket}}, {unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Abstract}},
		{unix.AF_UNIX, unix.SOCK_DGRAM, &unix.SockaddrUnix{Name: p.Datagram}}, {unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}},
	} {
		fd, err := unix.Socket(s.domain, s.kind|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, s.at)
		}
		if err == nil && s.kind == unix.SOCK_STREAM {
			err = unix.Listen(fd, 128)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		if at, err := unix.Getsockname(fd); err == nil && s.domain == unix.AF_INET {
			p.Port = at.(*unix.SockaddrInet4).Port
		}
	}
	id, _, e := unix.Syscall(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o600)
	if e != 0 {
		t.Fatal(e)
	}
	p.Shared = int(id)
	t.Cleanup(func() { _ = call(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0) })
	victim := exec.Command("sleep", "1000")
	victim.Env, victim.Dir = []string{"TOKEN=secret"}, dir
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	p.Victim = victim.Process.Pid
	p.renew(t)
	return p
}

// renew makes the files that an attack may have taken.
func (p *prey) renew(t *testing.T) {
	t.Helper()
	testenv.Tree(t, p.Out, "f: f", "g: g")
	for _, name := range []string{"new", "newdir", "newlink", "fifo", "moved", "hard"} {
		if err := os.RemoveAll(filepath.Join(p.Out, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(p.f(), 0o644); err != nil {
		t.Fatal(err)
	}
}
