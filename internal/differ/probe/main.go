//go:build linux

// Probe prints what a process can find out about its sandbox, as one JSON object of strings. The
// differential test runs it in bubblewrap's sandboxes and in nsrun's.
//
//	probe [ROOT DEVICES]    the facts; files are listed of directories that lie
//	                        below ROOT in their file system, and of file systems
//	                        that are none of DEVICES
//	probe hold [ROOT …]     the same, then waits for the end of standard input
//	probe unshare           whether a user namespace can be made
//	probe exit N            ends so
//	probe kill N            ends by that signal
//
// Descriptor 9, if it is a procfs, is the host's: most sandboxes have none.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// procFD is the descriptor of the host's procfs.
const procFD = 9

// What belongs to a thread is asked on the first one.
func init() { runtime.LockOSThread() }

type facts map[string]string

func main() {
	args := os.Args[1:]
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "unshare":
		unshare()
		return
	case "exit":
		n, _ := strconv.Atoi(args[1])
		os.Exit(n)
	case "kill":
		n, _ := strconv.Atoi(args[1])
		// Dying of it must not depend on what the Go runtime does with it.
		_ = unix.Kill(os.Getpid(), unix.Signal(n))
		select {}
	case "hold":
		args = args[1:]
	}
	var root string
	devices := make(map[string]bool)
	if len(args) > 1 {
		root = args[0]
		for _, d := range strings.Split(args[1], ",") {
			devices[d] = true
		}
	}
	f := make(facts)
	f.descriptors() // before anything is opened here
	f["argv"] = strings.Join(os.Args, " ")
	f.process()
	f.identity()
	f.capabilities()
	f.network()
	f.fromProc()
	f.mounts(root, devices)
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(b, '\n'))
	if verb == "hold" {
		var buf [64]byte
		for {
			if n, err := os.Stdin.Read(buf[:]); n == 0 || err != nil {
				return
			}
		}
	}
}

// unshare tries to make a user namespace in a process of its own: one with several threads cannot.
func unshare() {
	_, err := syscall.ForkExec("/proc/self/exe", []string{"probe", "exit", "0"},
		&syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}})
	fmt.Println("unshare:", err)
}

// put notes a value, or the error that came instead.
func (f facts) put(key string, value any, err error) {
	if err != nil {
		f[key] = "error: " + err.Error()
		return
	}
	f[key] = fmt.Sprint(value)
}

// descriptors notes what is open. Inodes are those that the test knows.
func (f facts) descriptors() {
	for fd := range 64 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			f.put(fmt.Sprint("fd.", fd), nil, err)
			continue
		}
		key := fmt.Sprint("fd.", fd)
		f[key] = fmt.Sprintf("%#o inode %d dev %d flags %#x", st.Mode&unix.S_IFMT, st.Ino, st.Dev, flags)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			at, err := unix.Seek(fd, 0, 1)
			f.put(key+".offset", at, err)
		}
	}
	var name [256]byte
	for fd := range 64 {
		if f[fmt.Sprint("fd.", fd)] != "" {
			if n, err := unix.Readlinkat(procFD, fmt.Sprint("self/fd/", fd), name[:]); err == nil {
				f[fmt.Sprint("fd.", fd, ".link")] = string(name[:n])
			}
		}
	}
}

func (f facts) process() {
	f.put("pid", os.Getpid(), nil)
	f.put("ppid", os.Getppid(), nil)
	sid, err := unix.Getsid(0)
	f.put("sid", sid, err)
	f.put("pgid", unix.Getpgrp(), nil)
	mask := unix.Umask(0)
	unix.Umask(mask)
	f.put("umask", fmt.Sprintf("%#o", mask), nil)
	wd, err := syscall.Getwd()
	f.put("cwd", wd, err)
	var uts unix.Utsname
	err = unix.Uname(&uts)
	f.put("hostname", unix.ByteSliceToString(uts.Nodename[:]), err)
	f.put("domainname", unix.ByteSliceToString(uts.Domainname[:]), err)
	var signal int32
	err = unix.Prctl(unix.PR_GET_PDEATHSIG, ptr(&signal), 0, 0, 0)
	f.put("pdeathsig", signal, err)
	for _, p := range []struct {
		name string
		op   int
	}{
		{"dumpable", unix.PR_GET_DUMPABLE}, {"nonewprivs", unix.PR_GET_NO_NEW_PRIVS}, {"seccomp", unix.PR_GET_SECCOMP},
		{"keepcaps", unix.PR_GET_KEEPCAPS}, {"securebits", unix.PR_GET_SECUREBITS}, {"timerslack", unix.PR_GET_TIMERSLACK},
		{"mdwe", unix.PR_GET_MDWE}, {"thp", unix.PR_GET_THP_DISABLE}, {"io_flusher", unix.PR_GET_IO_FLUSHER},
	} {
		n, err := unix.PrctlRetInt(p.op, 0, 0, 0, 0)
		f.put(p.name, n, err)
	}
	var reaper int32
	err = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, ptr(&reaper), 0, 0, 0)
	f.put("subreaper", reaper, err)
	persona, _, errno := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	f.put("personality", persona, nil)
	if errno != 0 {
		f.put("personality", nil, errno)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	f.put("nice", nice, err)
	for _, name := range []string{"/dev/tty", "/dev/null", "/dev/ptmx", "/dev/console"} {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		f.put("open."+name, "ok", err)
		if err == nil {
			_ = unix.Close(fd)
		}
	}
}

func (f facts) identity() {
	var r, e, s int
	r, e, s = unix.Getresuid()
	f.put("uids", fmt.Sprint(r, e, s), nil)
	r, e, s = unix.Getresgid()
	f.put("gids", fmt.Sprint(r, e, s), nil)
	groups, err := unix.Getgroups()
	f.put("groups", groups, err)
}

func (f facts) capabilities() {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	f.put("cap.effective", fmt.Sprintf("%08x%08x", data[1].Effective, data[0].Effective), err)
	f.put("cap.permitted", fmt.Sprintf("%08x%08x", data[1].Permitted, data[0].Permitted), err)
	f.put("cap.inheritable", fmt.Sprintf("%08x%08x", data[1].Inheritable, data[0].Inheritable), err)
	var bounding, ambient uint64
	for c := range 64 {
		if n, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && n == 1 {
			bounding |= 1 << c
		}
		if n, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(c), 0, 0); err == nil && n == 1 {
			ambient |= 1 << c
		}
	}
	f.put("cap.bounding", fmt.Sprintf("%016x", bounding), nil)
	f.put("cap.ambient", fmt.Sprintf("%016x", ambient), nil)
}

// network notes the state of lo.
func (f facts) network() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		f.put("lo", nil, err)
		return
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		panic(err)
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req)
	f.put("lo.flags", fmt.Sprintf("%#x", req.Uint16()), err)
	req, _ = unix.NewIfreq("lo")
	if err = unix.IoctlIfreq(fd, unix.SIOCGIFADDR, req); err == nil {
		var a []byte
		a, err = req.Inet4Addr()
		f.put("lo.address", a, err)
	} else {
		f.put("lo.address", nil, err)
	}
}
