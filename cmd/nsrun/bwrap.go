//go:build linux

package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/dropin"
	"github.com/nsrun/nsrun/internal/instant"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

// Bubblewrap's command line: package bwrap reads it, package nsexec carries it out,
// and what stands between the two is here: descriptors, which the options name by
// number, and messages, which are to be bubblewrap's to the letter.

// dropIn runs what bubblewrap's command line asks for. With extensions our own
// options are known too.
func dropIn(argv []string, extensions bool) int {
	d := dropped{words: argv[1:], own: extensions}
	if len(argv) == 2 && argv[1] == "--version" {
		return d.version()
	}
	if err := privileges(); err != "" {
		d.say(false, bwrap.SeverityError, err)
		return 1
	}
	cfg, err := bwrap.Parse(argv[1:], bwrap.Env{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Caps: effectiveCaps(), Extensions: extensions,
		ReadFD: d.readFD, UserNamespaces: haveUserNamespaces,
	})
	for _, w := range cfg.Warnings {
		d.say(w.LevelPrefix, bwrap.SeverityWarning, w.Text)
	}
	if stop, ok := errors.AsType[bwrap.Stop](err); ok {
		switch stop {
		case bwrap.StopHelp:
			text := bwrap.Usage(argv[0], extensions)
			if extensions {
				text += "\nThese are bubblewrap's options. nsrun help lists nsrun's own verbs, nsrun help run the flags of nsrun run.\n"
			}
			_, _ = os.Stdout.WriteString(text)
			return 0
		case bwrap.StopVersion:
			return d.version()
		}
		_, _ = os.Stderr.WriteString(bwrap.Usage(argv[0], extensions))
		d.cfg = cfg
		return d.failed(err)
	}
	d.cfg = cfg
	if err == nil {
		err = d.prepare()
	}
	if err == nil {
		err = d.start()
	}
	if err == nil {
		return d.wait()
	}
	if killed, ok := errors.AsType[*nsexec.KilledError](err); ok {
		return 128 + int(killed.Signal) // as where it dies a moment later
	}
	text := d.message(err)
	if d.own {
		if hint := cmp.Or(bwrapHint(d.words, text), advice.ForMessage(text)); hint != "" {
			text += " (" + hint + ")"
		}
	}
	d.say(cfg.LevelPrefix, bwrap.SeverityError, text)
	return d.failed(err)
}

// version prints what bubblewrap prints, or what we do.
func (d *dropped) version() int {
	if d.own {
		return version(nil)
	}
	_, _ = os.Stdout.WriteString("bubblewrap 0.12.0\n")
	return 0
}

// say prints one of bubblewrap's messages, under the name that we were called by.
func (d *dropped) say(levelPrefix bool, severity int, text string) {
	program := "bwrap"
	if d.own {
		program = "nsrun"
	}
	_, _ = os.Stderr.WriteString(bwrap.Message(program, levelPrefix, severity, text))
}

// privileges says why this process may not do what it is asked for: as a program
// with more rights than its caller it would lend them to whatever the caller likes.
func privileges() string {
	switch {
	case os.Geteuid() != os.Getuid():
		return "setuid use of bubblewrap is not supported"
	case os.Getuid() != 0 && effectiveCaps() != 0:
		return "Unexpected capabilities but not setuid, old file caps config?"
	}
	return ""
}

func effectiveCaps() uint64 {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return 0
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// readFD is readFD for parsing.
func (d *dropped) readFD(fd int) ([]byte, error) {
	d.read = append(d.read, fd)
	return readFD(fd)
}

// readFD reads a descriptor to its end and closes it. Not by an os.File, for which
// the runtime may open descriptors of its own, whose numbers options could name.
func readFD(fd int) ([]byte, error) {
	defer unix.Close(fd)
	var data []byte
	for {
		data = slices.Grow(data, 4096)
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		default:
			data = data[:len(data)+n]
		}
	}
}

func haveUserNamespaces() bool {
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return false
	}
	b, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	return err != nil || string(b) != "0\n"
}

// prepare says in terms of package nsexec what the options ask for.
func (d *dropped) prepare() error {
	cfg := d.cfg
	c := new(nsexec.Cmd)
	d.cmd, d.options = c, sandbox.Of(c)
	dropin.Configure(c, cfg, os.Getuid() == 0, haveCgroupNamespaces())
	if cfg.Argv0.Set {
		c.Args = append([]string{cfg.Argv0.Value}, c.Args[1:]...)
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = cfg.Environment(os.Environ())
	d.options.Close = append(d.options.Close, d.read...)
	d.options.Forget, d.options.Ignore = instant.Environ(), instant.Ignored()
	for fd, closed := range instant.Closed() {
		if closed {
			d.options.Close = append(d.options.Close, fd)
		}
	}
	if cfg.Chdir.Set && c.Dir == "" {
		return &nsexec.Error{Op: "chdir", Err: unix.ENOENT}
	}
	c.Capabilities &= nsexec.AllCapabilities()
	if have := nsexec.Capabilities(effectiveCaps()); !cfg.UnshareUser && !cfg.UserNS.Set && c.Capabilities&^have != 0 {
		// More than there is cannot be had; bubblewrap then changes nothing, and drops
		// nothing either.
		c.Capabilities &= have
		d.options.KeepCapabilities = c.Capabilities == have
	}
	if cfg.UnshareUser {
		c.UIDMap = idMaps(cfg.UIDMap, cfg.UID.Value, uint32(os.Geteuid()))
		c.GIDMap = idMaps(cfg.GIDMap, cfg.GID.Value, uint32(os.Getegid()))
	}
	if cfg.UnshareCgroup && !haveCgroupNamespaces() {
		return errors.New("Cannot create new cgroup namespace because the kernel does not support it")
	}
	if err := d.filters(); err != nil {
		return err
	}
	if err := d.join(); err != nil {
		return err
	}
	if cfg.SyncFD.Set && isOpen(cfg.SyncFD.Value) {
		// What is closed is no reason to complain, as bubblewrap has it.
		d.options.Hold = append(d.options.Hold, os.NewFile(uintptr(cfg.SyncFD.Value), "sync"))
	}
	if cfg.BlockFD.Set && isOpen(cfg.BlockFD.Value) {
		d.options.Block = os.NewFile(uintptr(cfg.BlockFD.Value), "block")
	}
	for _, fd := range [...]bwrap.Opt[int]{cfg.InfoFD, cfg.JSONStatusFD} {
		if !fd.Set {
			continue
		}
		// Now, before the number becomes that of a descriptor of ours.
		if !isOpen(fd.Value) {
			return &bwrap.Error{Text: "Write to info_fd", Err: unix.EBADF}
		}
		d.options.Created = d.created
		d.options.Close = append(d.options.Close, fd.Value)
	}
	if fd := cfg.UsernsBlockFD; fd.Set && isOpen(fd.Value) {
		d.block = fd
		d.options.Close = append(d.options.Close, fd.Value)
	}
	if cfg.KillOnExit && c.Share&nsexec.PID != 0 {
		return errors.New("--kill-on-exit requires --unshare-pid")
	}
	return d.mounts()
}

// isOpen reports whether a number is a descriptor.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// idMaps are the caller's own id, as inside, and the ranges; the ranges alone where
// they say what the caller's own id is.
func idMaps(ranges []bwrap.IDMap, inside, own uint32) []nsexec.IDMap {
	m := []nsexec.IDMap{{Inside: inside, Outside: own, Count: 1}}
	for _, r := range ranges {
		if own >= r.Outside && own-r.Outside < r.Count {
			m = m[:0]
		}
	}
	for _, r := range ranges {
		m = append(m, nsexec.IDMap(r))
	}
	return m
}

// filters reads the seccomp programs.
func (d *dropped) filters() error {
	for _, f := range d.cfg.Filters {
		data := f.Data
		if f.File != "" {
			var err error
			if data, err = readFilter(f.File); err != nil {
				return &bwrap.Error{Text: "Can't read seccomp data from " + f.File, Err: err}
			}
			if len(data)%8 != 0 {
				return errors.New("Invalid seccomp data, must be multiple of 8")
			}
		}
		d.cmd.Seccomp = append(d.cmd.Seccomp, filter(data))
	}
	if !d.cfg.Seccomp.Set {
		return nil
	}
	d.options.Close = append(d.options.Close, d.cfg.Seccomp.Value)
	b, err := readFD(d.cfg.Seccomp.Value)
	if err != nil {
		return &bwrap.Error{Text: "Can't read seccomp data", Err: err}
	}
	if len(b)%8 != 0 {
		return errors.New("Invalid seccomp data, must be multiple of 8")
	}
	d.cmd.Seccomp = append(d.cmd.Seccomp, filter(b))
	return nil
}

// readFilter reads a file that is not longer than a filter can be.
func readFilter(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 8 * 4096 // BPF_MAXINSNS
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(data) > most {
		err = unix.EFBIG
	}
	return data, err
}

func filter(b []byte) (f nsexec.Filter) {
	for ; len(b) >= 8; b = b[8:] {
		f = append(f, unix.SockFilter{
			Code: uint16(b[0]) | uint16(b[1])<<8, Jt: b[2], Jf: b[3],
			K: uint32(b[4]) | uint32(b[5])<<8 | uint32(b[6])<<16 | uint32(b[7])<<24,
		})
	}
	return f
}

// join finds the namespaces to enter.
func (d *dropped) join() error {
	cfg, j := d.cfg, &d.options.Join
	for _, f := range [...]struct {
		fd   bwrap.Opt[int]
		to   **os.File
		name string
		text string
	}{
		{cfg.UserNS, &j.User, "user namespace", "Joining specified user namespace failed"},
		{cfg.UserNS2, &j.UserAfter, "second user namespace", "Setting userns2 failed"},
		{cfg.PIDNS, &j.PID, "PID namespace", "Setting pidns failed"},
	} {
		if !f.fd.Set {
			continue
		}
		if !isOpen(f.fd.Value) {
			return &bwrap.Error{Text: f.text, Err: unix.EBADF}
		}
		*f.to = os.NewFile(uintptr(f.fd.Value), f.name)
		if f.to != &j.UserAfter && f.fd != cfg.UserNS2 { // which is entered, and closed, later
			d.options.Close = append(d.options.Close, f.fd.Value)
		}
	}
	if cfg.UserNS.Set {
		j.UID, j.SetUID, j.GID, j.SetGID = cfg.UID.Value, cfg.UID.Set, cfg.GID.Value, cfg.GID.Set
	}
	if !cfg.NetNS.Set {
		return nil
	}
	var h netns.NsHandle
	var err error
	if name := cfg.NetNS.Value; path.Base(name) == name {
		h, err = netns.GetFromName(name)
	} else {
		h, err = netns.GetFromPath(name)
	}
	if err != nil {
		return &bwrap.Error{Text: "Can't open network namespace " + cfg.NetNS.Value, Err: err}
	}
	j.Net = os.NewFile(uintptr(h), cfg.NetNS.Value)
	return nil
}

// start starts COMMAND.
func (d *dropped) start() error {
	if d.cfg.ForwardSignals {
		d.signals = make(chan os.Signal, 16)
		for _, s := range console.Forwarded {
			if !signal.Ignored(s) {
				signal.Notify(d.signals, s)
			}
		}
	} else {
		plainSignals()
	}
	if d.cfg.DieWithParent {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return &bwrap.Error{Text: "prctl", Err: err}
		}
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	giveUpPrivileges()
	d.closeInherited()
	return nil
}

// closeInherited closes what the command has inherited: the other ends are to be told
// when it is done with it. What is ours is close-on-exec.
func (d *dropped) closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 || d.cfg.JSONStatusFD.Set && fd == d.cfg.JSONStatusFD.Value {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// giveUpPrivileges takes from this process what it does not need to wait for another.
func giveUpPrivileges() {
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if os.Getuid() == 0 {
		// Without capabilities it could be traced by a root that has none either, in the
		// sandbox.
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0])), 0)
}

// plainSignals lets signals do to this process what they do to any other: the Go
// runtime has its own ideas about some.
func plainSignals() {
	var handler, now [4]uintptr // struct sigaction
	for _, s := range [...]syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTRAP, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE,
		unix.SIGALRM, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, unix.SIGSYS,
	} {
		const ignored = 1 // SIG_IGN
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if e == 0 && now[0] != ignored {
			handler[0] = uintptr(instant.Ignored() >> (s - 1) & 1) // SIG_IGN, or SIG_DFL
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&handler)), 0, 8, 0, 0)
		}
	}
}

// wait waits for COMMAND, and returns its exit status.
func (d *dropped) wait() int {
	if d.signals != nil {
		go func() {
			for s := range d.signals {
				_ = d.cmd.Process.Signal(s)
			}
		}()
	}
	err := d.cmd.Wait()
	status := 0
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		status = exitStatus(d.cmd.ProcessState)
	} else if err != nil {
		d.say(d.cfg.LevelPrefix, bwrap.SeverityError, err.Error())
		status = 1
	}
	if d.cfg.JSONStatusFD.Set {
		_, _ = unix.Write(d.cfg.JSONStatusFD.Value, exitJSON(status))
	}
	return status
}

// exitStatus is how shells number the end of a process.
func exitStatus(ps *os.ProcessState) int {
	if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ps.ExitCode()
}
