//go:build linux

package bwrapmode

import (
	"errors"
	"io"
	"os"
	"path"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/dropin"
	"github.com/nsrun/nsrun/internal/prerun"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

func (r *run) readFD(fd int) ([]byte, error) {
	r.read = append(r.read, fd)
	return readFD(fd)
}

// prepare translates the options to package nsexec's Cmd.
func (r *run) prepare() error {
	cfg := r.cfg
	c := new(nsexec.Cmd)
	r.cmd, r.options = c, sandbox.Of(c)
	dropin.Configure(c, cfg, os.Getuid() == 0, haveCgroupNamespaces())
	if cfg.Argv0.Set {
		c.Args = append([]string{cfg.Argv0.Value}, c.Args[1:]...)
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = cfg.Environment(os.Environ())
	r.options.Close = append(r.options.Close, r.read...)
	r.options.Forget, r.options.Ignore = prerun.Environ(), prerun.Ignored()
	for fd, closed := range prerun.Closed() {
		if closed {
			r.options.Close = append(r.options.Close, fd)
		}
	}
	if cfg.Chdir.Set && c.Dir == "" {
		return &nsexec.Error{Op: nsexec.StepChdir, Err: unix.ENOENT}
	}
	c.Capabilities &= nsexec.AllCapabilities()
	if have := nsexec.Capabilities(effectiveCaps()); !cfg.UnshareUser && !cfg.UserNS.Set && c.Capabilities&^have != 0 {
		// The command cannot get capabilities that this process lacks. Like bubblewrap, drop nothing then.
		c.Capabilities &= have
		r.options.KeepCapabilities = c.Capabilities == have
	}
	if cfg.UnshareUser {
		c.UIDMap = idMaps(cfg.UIDMap, cfg.UID.Value, uint32(os.Geteuid()))
		c.GIDMap = idMaps(cfg.GIDMap, cfg.GID.Value, uint32(os.Getegid()))
	}
	if cfg.UnshareCgroup && !haveCgroupNamespaces() {
		return errors.New("Cannot create new cgroup namespace because the kernel does not support it")
	}
	if err := r.filters(); err != nil {
		return err
	}
	if err := r.join(); err != nil {
		return err
	}
	if cfg.SyncFD.Set && isOpen(cfg.SyncFD.Value) {
		// Like bubblewrap, ignore a descriptor that is closed.
		r.options.Hold = append(r.options.Hold, os.NewFile(uintptr(cfg.SyncFD.Value), "sync"))
	}
	if cfg.BlockFD.Set && isOpen(cfg.BlockFD.Value) {
		r.options.Block = os.NewFile(uintptr(cfg.BlockFD.Value), "block")
	}
	for _, fd := range [...]bwrap.Opt[int]{cfg.InfoFD, cfg.JSONStatusFD} {
		if !fd.Set {
			continue
		}
		// Check now, before one of nsrun's own descriptors gets the number.
		if !isOpen(fd.Value) {
			return &bwrap.Error{Text: "Write to info_fd", Err: unix.EBADF}
		}
		r.options.Created = r.created
		r.options.Close = append(r.options.Close, fd.Value)
	}
	if fd := cfg.UsernsBlockFD; fd.Set && isOpen(fd.Value) {
		r.block = fd
		r.options.Close = append(r.options.Close, fd.Value)
	}
	if cfg.KillOnExit && c.Share&nsexec.PID != 0 {
		return errors.New("--kill-on-exit requires --unshare-pid")
	}
	return r.mounts()
}

// idMaps returns a map of the caller's own id to inside, and the ranges. It leaves out the former if a range contains
// the caller's own id.
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
func (r *run) filters() error {
	for _, f := range r.cfg.Filters {
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
		r.cmd.Seccomp = append(r.cmd.Seccomp, filter(data))
	}
	if !r.cfg.Seccomp.Set {
		return nil
	}
	r.options.Close = append(r.options.Close, r.cfg.Seccomp.Value)
	b, err := readFD(r.cfg.Seccomp.Value)
	if err != nil {
		return &bwrap.Error{Text: "Can't read seccomp data", Err: err}
	}
	if len(b)%8 != 0 {
		return errors.New("Invalid seccomp data, must be multiple of 8")
	}
	r.cmd.Seccomp = append(r.cmd.Seccomp, filter(b))
	return nil
}

// readFilter reads a file, which must not be longer than the largest filter.
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

// join opens the namespaces to enter.
func (r *run) join() error {
	cfg, j := r.cfg, &r.options.Join
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
		if f.to != &j.UserAfter && f.fd != cfg.UserNS2 { // the second user namespace is entered and closed later
			r.options.Close = append(r.options.Close, f.fd.Value)
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
