//go:build linux

package nsexec_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// helpers are the programs that this binary is besides being the test.
var helpers map[string]func(args []string) int

func init() {
	helpers = map[string]func([]string) int{
		"nested": helpNested, "embed": helpEmbed, "terminal": helpTerminal,
		"calls": helpCalls, "loopback": helpLoopback, "trace": helpTrace, "tiocsti": helpTiocsti,
		"files": helpFiles, "group": helpGroup, "chrooted": helpChrooted, "climb": helpClimb,
		"hold": helpHold, "victim": helpVictim, "scan": helpScan, "abstract": helpAbstract,
		"elevated": helpElevated, "effective": helpEffective, "setid": helpSetID, "chown": helpChown, "become": helpBecome, "ping": helpPing, "port": helpPort, "userns": helpUserns, "usernsattack": helpUsernsAttack,
		"fixed": helpFixed, "covered": helpCovered, "leave": helpLeave, "leaveattack": helpLeaveAttack,
		"reaper": helpReaper, "refused": helpRefused,
		"counter": helpCounter,
		"stop":    helpStop,
		"nomemfd": helpNoMemfd, "mountsahead": helpMountsAhead, "otherlauncher": helpOtherLauncher, "nofiles": helpNoFiles,
		"lost": helpLost, "setids": helpSetIDs,
	}
}

// helpNested starts a sandbox, itself being in one.
func helpNested([]string) int {
	c := nsexec.Command("echo", "nested")
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/")}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		if e, ok := errors.AsType[*nsexec.Error](err); ok {
			fmt.Println(string(e.Op) + ": " + e.Err.Error())
			return 0
		}
		fmt.Println(err)
	}
	return 0
}

// helpChrooted makes args[0]/root its root directory and runs helpClimb in a
// sandbox that shares the user namespace, or without one as a control. It must be
// in a mount namespace of its own.
func helpChrooted(args []string) int {
	dir, kind, plan := args[0], args[1], args[2]
	root := dir + "/root/"
	// Host trees are only ever bound read-only.
	bind := func(source, at string, rec uintptr) error {
		return errors.Join(unix.Mount(source, at, "", unix.MS_BIND|rec, ""), unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if kind == "mount" {
		err = errors.Join(err, unix.Mount(root, root, "", unix.MS_BIND, ""))
	}
	err = errors.Join(err, unix.Mount("proc", root+"proc", "proc", 0, ""),
		bind(exe, root+"exe", 0), bind("/dev/null", root+"dev/null", 0))
	for _, name := range []string{"lib", "lib64", "usr"} {
		// The loader and libraries, in case this binary needs them.
		if _, missing := os.Stat("/" + name); missing == nil {
			err = errors.Join(err, os.MkdirAll(root+name, 0o755), bind("/"+name, root+name, 0))
		}
	}
	// As systemd has it.
	err = errors.Join(err, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""), unix.Chroot(root), os.Chdir("/"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if plan == "control" {
		return helpClimb([]string{dir + "/secret"})
	}
	c := nsexec.Command("/exe", dir+"/secret")
	c.Env = append(nsexec.BaseEnv(), helperVars("climb")...)
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Proc("/proc")}
	if plan == "built" {
		c.Mounts = mounts.Plan{mounts.Proc("/proc")}
		for _, at := range []string{"/exe", "/inside", "/lib", "/lib64", "/usr"} {
			c.Mounts = append(c.Mounts, mounts.ROBind(at, at).Try())
		}
	}
	sandbox.Of(c).ClassicMounts = args[3] == "classic"
	c.Share = nsexec.User
	c.Capabilities = 1 << unix.CAP_SYS_CHROOT
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Println(err)
	}
	return 0
}

// helpClimb says what it finds: the file /inside, and, once it left its root
// directory as a process with CAP_SYS_CHROOT can, the file that the argument names.
func helpClimb(args []string) int {
	_, err := os.Stat("/inside")
	if err == nil {
		fmt.Println("inside")
	}
	if err := errors.Join(os.Chdir("/"), unix.Chroot("proc"), os.Chdir(strings.Repeat("../", 100)), unix.Chroot(".")); err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := os.Stat(args[0]); err == nil {
		fmt.Println("outside")
	}
	return 0
}

// helpFiles lists open descriptors, with their content where they are files that
// can be read; into pipes it writes.
func helpFiles([]string) int {
	var list []string
	for fd := range 256 {
		mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		text := strconv.Itoa(fd)
		b := make([]byte, 64)
		switch link, _ := os.Readlink("/proc/self/fd/" + text); {
		case link == "anon_inode:[eventpoll]", link == "anon_inode:[eventfd]", strings.HasPrefix(link, "/sys/fs/cgroup/"):
			continue // the Go runtime's
		case fd > 2 && mode&unix.O_ACCMODE == unix.O_WRONLY:
			_, _ = unix.Write(fd, []byte("hello from "+text+"\n"))
		case fd > 2:
			n, err := unix.Read(fd, b)
			text += "=" + string(b[:max(n, 0)])
			if err != nil {
				text += link
			}
		}
		list = append(list, text)
	}
	fmt.Println(strings.Join(list, " "))
	return 0
}

// helpEmbed is an embedding program that will be killed: it starts a sandbox,
// says its number, and waits. The argument says what kind of sandbox.
func helpEmbed(args []string) int {
	c := nsexec.Command("sh", "-c", "sleep 1000 & sleep 1000")
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev")}
	switch args[0] {
	case "pid1":
		sandbox.Of(c).AsPID1 = true
	case "session":
		c.NewSession = true
	case "shared":
		c.Share = nsexec.PID
		c.Args = []string{"sh", "-c", "sleep 1000; exit"} // nobody but the test ends what it starts: one process
	case "credential":
		c.UIDMap = []nsexec.IDMap{{0, uint32(os.Getuid()), 1}}
		c.GIDMap = []nsexec.IDMap{{0, uint32(os.Getgid()), 1}}
		c.Credential = &nsexec.Credential{}
	case "other":
		c.Credential = &nsexec.Credential{UID: 1234, GID: 1234}
	case "capabilities":
		c.Capabilities = nsexec.AllCapabilities()
	case "other with capabilities":
		c.Credential = &nsexec.Credential{UID: 1234, GID: 1234}
		c.Capabilities = nsexec.AllCapabilities()
	}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(c.Process.Pid)
	_ = c.Wait()
	return 0
}

// helpTerminal is an embedding program at a terminal: it runs a script with the
// terminal as standard files. With "forward" it passes on the signals it gets.
func helpTerminal(args []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT)
	signal.Notify(make(chan os.Signal, 1), unix.SIGQUIT) // for the command
	c := nsexec.Command("sh", "-c", args[1])
	c.Mounts = base()
	c.Env = append(nsexec.BaseEnv(), helperVars("tiocsti")...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	switch args[0] {
	case "filter":
		c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter()}
	case "session":
		c.NewSession = true
	}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	if args[0] == "forward" {
		go func() {
			for s := range signals {
				_ = c.Process.Signal(s)
			}
		}()
	}
	if err := c.Wait(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("embedder is done")
	return 0
}

// helpCounter says each interrupt that reaches it, and how many there were when it is asked.
func helpCounter([]string) int {
	interrupts, lines := make(chan os.Signal, 8), make(chan string)
	signal.Notify(interrupts, unix.SIGINT)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		close(lines)
	}()
	fmt.Println("<ready>")
	for n := 0; ; {
		select {
		case <-interrupts:
			n++
			fmt.Printf("<interrupt %d>\n", n)
		case line := <-lines:
			if line != "count" {
				fmt.Println("<end>")
				return 0
			}
			fmt.Printf("<count %d>\n", n)
		}
	}
}

func helpTiocsti([]string) int {
	for _, request := range []uint{unix.TIOCSTI, 0x541c} {
		b := byte('X')
		if request != unix.TIOCSTI {
			b = 2 // paste
		}
		// The upper half means nothing to the kernel, and must not to a filter.
		_, _, e := unix.Syscall(unix.SYS_IOCTL, 0, uintptr(request)|1<<32, uintptr(unsafe.Pointer(&b)))
		fmt.Printf("ioctl %#x: %s\n", request, name(e))
	}
	null := int32(27) // N_NULL: a terminal with this line discipline neither shows nor reads anything
	for _, r := range [...]struct {
		what             string
		request, undo    uintptr
		argument, undone uintptr
	}{
		{"stop", unix.TCXONC, unix.TCXONC, 0, 1}, // TCOOFF, TCOON
		{"discipline", unix.TIOCSETD, unix.TIOCSETD, uintptr(unsafe.Pointer(&null)), uintptr(unsafe.Pointer(new(int32)))},
		{"graphics", 0x4b3a, 0x4b3a, 1, 0}, {"switch", 0x5606, 0, 63, 0},
	} {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, 0, r.request|1<<32, r.argument)
		if e == 0 && r.undo != 0 {
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, 0, r.undo, r.undone)
		}
		fmt.Printf("%s: %s\n", r.what, name(e))
	}
	return 0
}

func name(e syscall.Errno) string {
	if e == 0 {
		return "done"
	}
	return unix.ErrnoName(e)
}

// helpCalls tries system calls that DefaultFilter is about.
func helpCalls([]string) int {
	try := func(what string, nr uintptr, args ...uintptr) {
		args = append(args, 0, 0, 0, 0, 0)
		_, _, e := unix.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], 0)
		fmt.Printf("%s %s\n", what, name(e))
	}
	slash := append([]byte("/"), 0)
	tmpfs := append([]byte("tmpfs"), 0)
	p := func(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
	var params [128]byte
	// clone would make a process: with a flag that contradicts CLONE_NEWUSER it
	// cannot get further than its arguments.
	try("clone-newuser", unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS)
	try("unshare-user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_THREAD)
	try("unshare-files", unix.SYS_UNSHARE, unix.CLONE_FILES)
	try("clone3", unix.SYS_CLONE3, 0, 0)
	try("mount", unix.SYS_MOUNT, p(tmpfs), p(slash), p(tmpfs), unix.MS_BIND|unix.MS_MOVE)
	try("open_tree", unix.SYS_OPEN_TREE, ^uintptr(99), p(slash), 0)
	try("setns", unix.SYS_SETNS, ^uintptr(0), 0)
	try("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, p(params[:]))
	try("keyctl", unix.SYS_KEYCTL, 0, ^uintptr(2), 0)
	try("bpf", unix.SYS_BPF, 0, 0, 0)
	try("perf_event_open", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)
	try("userfaultfd", unix.SYS_USERFAULTFD, 0x1000000)
	try("ptrace", unix.SYS_PTRACE, unix.PTRACE_PEEKTEXT, 0, 0)
	// What would change a priority is wrong in another way, and none has this process group.
	const nobody = 1 << 21
	try("scheduler-pid1", unix.SYS_SCHED_SETSCHEDULER, 1|1<<32, unix.SCHED_IDLE, 0)
	try("param-pid1", unix.SYS_SCHED_SETPARAM, 1, 0)
	try("attr-pid1", unix.SYS_SCHED_SETATTR, 1, 0, 0)
	try("affinity-pid1", unix.SYS_SCHED_SETAFFINITY, 1, 8, 0)
	try("nice-pid1", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 1, 19)
	try("nice-group", unix.SYS_SETPRIORITY, unix.PRIO_PGRP, nobody, 19)
	try("ioprio-pid1", unix.SYS_IOPRIO_SET, 1, 1, 7<<13)
	try("ioprio-user", unix.SYS_IOPRIO_SET, 3, nobody, 2<<13)
	try("nice-own", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 19)
	try("ioprio-own", unix.SYS_IOPRIO_SET, 1, 0, 2<<13)
	socket := func(what string, family uintptr) {
		fd, _, e := unix.RawSyscall(unix.SYS_SOCKET, family, unix.SOCK_STREAM, 0)
		if e == 0 {
			unix.Close(int(fd))
		}
		fmt.Printf("%s %s\n", what, name(e))
	}
	socket("vsock", unix.AF_VSOCK)
	socket("vsock-high", unix.AF_VSOCK|1<<32)
	socket("unix", unix.AF_UNIX)
	if auditX32 {
		try("x32-getpid", unix.SYS_GETPID|0x40000000)
	}
	return 0
}

func helpLoopback([]string) int {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() {
			if c, err := l.Accept(); err == nil {
				fmt.Fprintln(c, "hello")
				c.Close()
			}
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			fmt.Println(err)
			return 1
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		fmt.Print(line)
		if err != nil {
			fmt.Println(err)
		}
		c.Close()
		l.Close()
	}
	// Elsewhere there is nothing.
	if _, err := net.Dial("tcp", "192.0.2.1:9"); errors.Is(err, unix.ENETUNREACH) {
		fmt.Println("unreachable")
	}
	return 0
}

// helpTrace tries to get at another process, by its number.
func helpTrace(args []string) int {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	say := func(what string, err error) {
		switch e, _ := errors.AsType[syscall.Errno](err); {
		case err == nil:
			fmt.Println(what, "done")
		case e != 0:
			fmt.Println(what, name(e))
		default:
			fmt.Println(what, err)
		}
	}
	err = unix.PtraceSeize(pid)
	say("ptrace", err)
	var b [8]byte
	_, err = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	say("vm", err)
	dir := "/proc/" + args[0] + "/"
	for _, f := range []string{"environ", "mem", "maps", "exe"} {
		file, err := os.Open(dir + f)
		if err == nil {
			var content []byte
			content, err = readSome(file)
			if f == "environ" && err == nil && len(content) > 0 {
				fmt.Println("environ:", strings.ReplaceAll(string(content), "\x00", " "))
			}
			file.Close()
		}
		say(f, err)
	}
	_, err = os.OpenFile(dir+"exe", os.O_WRONLY, 0)
	say("exe for writing", err)
	// Their numbers may be seen; where they lead, not.
	entries, err := os.ReadDir(dir + "fd")
	for _, e := range entries {
		_, err = os.Readlink(dir + "fd/" + e.Name())
	}
	say("fd", err)
	_, err = os.Readlink(dir + "root")
	say("root", err)
	return 0
}

func readSome(f *os.File) ([]byte, error) {
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if n == 0 && err != nil && err.Error() == "EOF" {
		return nil, nil
	}
	return b[:max(n, 0)], err
}

// helpGroup runs a command that signals its process group.
func helpGroup(args []string) int {
	c := shell("kill -USR1 0; echo done")
	sandbox.Of(c).SameSession = args[0] == "true"
	_ = c.Run()
	return 0
}

// helpAbstract connects to an abstract socket of the host's, and to one of its own.
func helpAbstract(args []string) int {
	connect := func(what, name string) {
		c, err := net.Dial("unix", name)
		if err == nil {
			c.Close()
		}
		for e := errors.Unwrap(err); e != nil; e = errors.Unwrap(err) {
			err = e
		}
		fmt.Printf("%s: %v\n", what, err)
	}
	connect("host's", args[0])
	own, err := net.Listen("unix", args[0]+"-inside")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer own.Close()
	connect("own", args[0]+"-inside")
	return 0
}
