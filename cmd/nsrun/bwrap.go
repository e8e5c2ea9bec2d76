package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// dropIn is bubblewrap's command line. With extensions our own options are known
// too.
func dropIn(argv []string, extensions bool) int {
	cfg, err := bwrap.Parse(argv[1:], bwrap.Env{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Caps: effectiveCaps(), Extensions: extensions,
		ReadFD: readFD, UserNamespaces: haveUserNamespaces,
	})
	for _, w := range cfg.Warnings {
		_, _ = os.Stderr.WriteString(bwrap.Message(w.LevelPrefix, bwrap.SeverityWarning, w.Text))
	}
	if stop, ok := errors.AsType[bwrap.Stop](err); ok {
		switch stop {
		case bwrap.StopHelp:
			_, _ = os.Stdout.WriteString(bwrap.Usage(argv[0], extensions))
			return 0
		case bwrap.StopVersion:
			_, _ = os.Stdout.WriteString("bubblewrap 0.12.0\n")
			return 0
		}
		_, _ = os.Stderr.WriteString(bwrap.Usage(argv[0], extensions))
		return 1
	}
	die := func(text string) int {
		_, _ = os.Stderr.WriteString(bwrap.Message(cfg.LevelPrefix, bwrap.SeverityError, text))
		return 1
	}
	if err != nil {
		return die(err.Error())
	}
	c, err := dropInCommand(cfg)
	if err != nil {
		return die(err.Error())
	}
	err = c.Run()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitStatus(ee.ProcessState)
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == "exec" {
		return die("execvp " + e.Path + ": " + bwrap.Strerror(e.Err))
	}
	if err != nil {
		return die(err.Error())
	}
	return 0
}

// exitStatus is how shells number the end of a process.
func exitStatus(ps *os.ProcessState) int {
	if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ps.ExitCode()
}

func effectiveCaps() uint64 {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return 0
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

func readFD(fd int) ([]byte, error) {
	f := os.NewFile(uintptr(fd), strconv.Itoa(fd))
	if f == nil {
		return nil, unix.EBADF
	}
	defer f.Close()
	return io.ReadAll(f)
}

func haveUserNamespaces() bool {
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return false
	}
	b, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	return err != nil || string(b) != "0\n"
}

// unsupported is an option that this build does not act on. Going on without it
// would be silently weaker.
func unsupported(option string) error { return errors.New(option + " is not supported") }

// dropInCommand is what the options ask for.
func dropInCommand(cfg *bwrap.Config) (*nsexec.Cmd, error) {
	for _, u := range []struct {
		option string
		given  bool
	}{
		{"--userns", cfg.UserNS.Set}, {"--userns2", cfg.UserNS2.Set}, {"--pidns", cfg.PIDNS.Set},
		{"--disable-userns", cfg.DisableUserns}, {"--assert-userns-disabled", cfg.AssertUsernsDisabled},
		{"--exec-label", cfg.ExecLabel.Set}, {"--file-label", cfg.FileLabel.Set},
		{"--lock-file", len(cfg.LockFiles) > 0}, {"--sync-fd", cfg.SyncFD.Set}, {"--block-fd", cfg.BlockFD.Set},
		{"--userns-block-fd", cfg.UsernsBlockFD.Set}, {"--info-fd", cfg.InfoFD.Set}, {"--json-status-fd", cfg.JSONStatusFD.Set},
		{"--netns", cfg.NetNS.Set}, {"--forward-signals", cfg.ForwardSignals}, {"--exit-codes", cfg.ExitCodes},
		{"--allow-loopback-failure", cfg.AllowLoopbackFailure},
	} {
		if u.given {
			return nil, unsupported(u.option)
		}
	}
	c := nsexec.Command(cfg.Command[0], cfg.Command[1:]...)
	if cfg.Argv0.Set {
		c.Args[0] = cfg.Argv0.Value
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = cfg.Environment(os.Environ())
	c.Dir = cfg.Chdir.Value
	if cfg.Chdir.Set {
		c.Env = bwrap.Setenv(c.Env, "PWD", c.Dir)
	}
	c.Share = share(cfg)
	c.AsPID1 = cfg.AsPID1
	c.Background = !cfg.DieWithParent && !cfg.KillOnExit
	c.NewSession, c.SameSession = cfg.NewSession, true
	c.Capabilities = nsexec.Capabilities(cfg.Caps)
	if cfg.UnshareUser {
		c.UIDMap = []nsexec.IDMap{{Inside: cfg.UID.Value, Outside: uint32(os.Geteuid()), Count: 1}}
		c.GIDMap = []nsexec.IDMap{{Inside: cfg.GID.Value, Outside: uint32(os.Getegid()), Count: 1}}
		for _, m := range cfg.UIDMap {
			c.UIDMap = append(c.UIDMap, nsexec.IDMap(m))
		}
		for _, m := range cfg.GIDMap {
			c.GIDMap = append(c.GIDMap, nsexec.IDMap(m))
		}
	}
	for _, f := range cfg.Filters {
		if f.File != "" {
			return nil, unsupported("--seccomp-file")
		}
		c.Seccomp = append(c.Seccomp, filter(f.Data))
	}
	if cfg.Seccomp.Set {
		b, err := readFD(cfg.Seccomp.Value)
		if err != nil {
			return nil, errors.New("Can't read seccomp data: " + bwrap.Strerror(err))
		}
		if len(b)%8 != 0 {
			return nil, errors.New("Invalid seccomp data, must be multiple of 8")
		}
		c.Seccomp = []nsexec.Filter{filter(b)}
	}
	for i := range cfg.Ops {
		if err := dropInMount(c, &cfg.Ops[i], cfg.UnsharePID); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func share(cfg *bwrap.Config) nsexec.Namespace {
	s := nsexec.All
	for _, u := range []struct {
		ns    nsexec.Namespace
		isNew bool
	}{
		{nsexec.User, cfg.UnshareUser}, {nsexec.IPC, cfg.UnshareIPC}, {nsexec.PID, cfg.UnsharePID},
		{nsexec.Net, cfg.UnshareNet}, {nsexec.UTS, cfg.UnshareUTS}, {nsexec.Cgroup, cfg.UnshareCgroup || cfg.UnshareCgroupTry},
	} {
		if u.isNew {
			s &^= u.ns
		}
	}
	return s
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

// dropInMount adds one step of the set-up.
func dropInMount(c *nsexec.Cmd, op *bwrap.SetupOp, newPID bool) error {
	dest := op.Dest
	if !path.IsAbs(dest) {
		dest = "/" + dest
	}
	source, err := absolute(op.Source)
	if err != nil {
		return err
	}
	work, err := absolute(op.WorkDir)
	if err != nil {
		return err
	}
	layers := make([]string, len(op.Layers))
	for i, layer := range op.Layers {
		if layers[i], err = absolute(layer); err != nil {
			return err
		}
	}
	var m mounts.Mount
	switch op.Kind {
	case bwrap.OpBind:
		m = mounts.Bind(source, dest)
	case bwrap.OpROBind:
		m = mounts.ROBind(source, dest)
	case bwrap.OpDevBind:
		m = mounts.DevBind(source, dest)
	case bwrap.OpRemountRO:
		m = mounts.Remount(dest)
	case bwrap.OpProc:
		m = mounts.Proc(dest)
		if !newPID {
			m = mounts.Bind("/proc", dest)
		}
	case bwrap.OpDev:
		m = mounts.Dev(dest)
	case bwrap.OpTmpfs:
		m = mounts.Tmpfs(dest).WithSize(op.Size)
	case bwrap.OpMqueue:
		m = mounts.Mqueue(dest)
	case bwrap.OpDir:
		m = mounts.Dir(dest)
	case bwrap.OpFile:
		b, err := readFD(op.FD)
		if err != nil {
			return errors.New("Can't read data: " + bwrap.Strerror(err))
		}
		m = mounts.File(dest, b).WithPerm(0o666)
	case bwrap.OpSymlink:
		m = mounts.Symlink(op.Source, dest)
	case bwrap.OpChmod:
		m = mounts.Chmod(0, dest)
	case bwrap.OpOverlay:
		m = mounts.Overlay(dest, source, work, layers...)
	case bwrap.OpROOverlay:
		m = mounts.ROOverlay(dest, layers...)
	case bwrap.OpHostname:
		c.Hostname = op.Dest
		return nil
	case bwrap.OpTmpOverlay:
		return unsupported("--tmp-overlay")
	default:
		return unsupported("this kind of mount")
	}
	m.Optional = op.Try
	if op.HasPerms {
		m = m.WithPerm(fileMode(op.Perms))
	}
	m.ParentPerm = fs.FileMode(op.ParentMode())
	c.Mounts = append(c.Mounts, m)
	return nil
}

// absolute is a path of the host.
func absolute(p string) (string, error) {
	if p == "" || path.IsAbs(p) {
		return p, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return path.Join(wd, p), nil
}

// fileMode is a mode as chmod(2) takes it as one of Go's.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if mode&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}
