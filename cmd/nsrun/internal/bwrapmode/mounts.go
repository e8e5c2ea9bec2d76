//go:build linux

package bwrapmode

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/dropin"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/mounts"
)

// mounts turns the steps of the set-up into a Plan.
func (r *run) mounts() error {
	for i := range r.cfg.Ops {
		op := &r.cfg.Ops[i]
		if op.Kind == bwrap.OpHostname {
			r.cmd.Hostname, r.options.NoHostname = op.Dest, op.Dest == ""
			continue
		}
		if op.Try && op.Source == "" {
			continue // the source does not exist
		}
		var m mounts.Mount
		dropin.Mount(&m, op, r.cfg.UnsharePID || r.cfg.PIDNS.Set, r.own == nil)
		if !path.IsAbs(m.Target) {
			m.Target = "/" + m.Target
		}
		if err := r.complete(&m, op); err != nil {
			return err
		}
		r.cmd.Mounts = append(r.cmd.Mounts, m)
		r.ops = append(r.ops, op)
		if op.Submounts {
			if err := r.submounts(&m, op); err != nil {
				return err
			}
		}
	}
	if !r.cfg.CreateMountPoints {
		return nil
	}
	plan, err := r.cmd.Mounts.CreateMountPoints()
	if err != nil {
		return &bwrap.Error{Text: "Can't create mount points", Err: err}
	}
	r.cmd.Mounts, r.ops = plan, nil // the indexes changed, so errors have no text of bubblewrap's
	return nil
}

// submounts adds the mounts below the layers of an overlay, because an overlay shows only the layers' own file systems.
// Mounts of upper layers come last.
func (r *run) submounts(m *mounts.Mount, op *bwrap.SetupOp) error {
	infos, err := mounts.ReadMountinfo()
	if err != nil {
		return &bwrap.Error{Text: "Can't read mounts", Err: err}
	}
	for k, layer := range slices.Backward(m.Lower) {
		real, err := filepath.EvalSymlinks(layer)
		if err != nil {
			return &bwrap.Error{Text: "Can't find source path " + layer, Err: err}
		}
		last := ""
		for _, below := range mounts.Below(infos, real)[1:] {
			if last != "" && strings.HasPrefix(below.Target, last+"/") || hidden(m, k, below.Target) {
				continue
			}
			last = below.Target // the bind includes mounts below it
			bind := mounts.ROBind(path.Join(real, below.Target), path.Join(m.Target, below.Target))
			r.cmd.Mounts = append(r.cmd.Mounts, bind)
			r.ops = append(r.ops, op)
		}
	}
	return nil
}

// hidden reports whether Hide or a layer above hides a path of layer k.
func hidden(m *mounts.Mount, k int, name string) bool {
	for _, h := range m.Hide {
		if name == h || strings.HasPrefix(name, h+"/") {
			return true
		}
	}
	for _, above := range m.Lower[:k] {
		if _, err := os.Lstat(path.Join(above, name)); err == nil {
			return true
		}
	}
	return false
}

// complete adds to a mount what depends on the system: absolute paths, file ids, and contents.
func (r *run) complete(m *mounts.Mount, op *bwrap.SetupOp) (err error) {
	switch op.Kind {
	case bwrap.OpBind, bwrap.OpROBind, bwrap.OpDevBind:
		m.Source, err = absolute(op.Source)
		return err
	case bwrap.OpBindFD, bwrap.OpROBindFD:
		return r.bindFD(m, op.FD)
	case bwrap.OpDev:
		m.Source, m.Same = host.Terminal(os.Stdout)
	case bwrap.OpFile, bwrap.OpBindData, bwrap.OpROBindData:
		if op.Kind == bwrap.OpFile && path.Clean(m.Target) == "/" {
			return errors.New("Can't create file " + op.Dest + ": Is a directory")
		}
		if path.Clean(m.Target) == "/" {
			return errors.New("Destination is not a file " + op.Dest)
		}
		if m.Data, err = readFD(op.FD); err != nil {
			return &bwrap.Error{Text: "Can't write data to file " + op.Dest, Err: err}
		}
		r.options.Close = append(r.options.Close, op.FD)
	case bwrap.OpSymlink:
		switch {
		case path.Clean(m.Target) == "/":
			return errors.New("Can't make symlink at " + op.Dest + ": destination exists and is not a symlink")
		case m.Source == "":
			return &bwrap.Error{Text: "Can't make symlink at " + op.Dest, Err: unix.ENOENT}
		}
	case bwrap.OpOverlay, bwrap.OpTmpOverlay, bwrap.OpROOverlay:
		m.Lower = make([]string, len(op.Layers))
		for i, l := range op.Layers {
			if m.Lower[i], err = absolute(l); err != nil {
				return err
			}
		}
		if op.Kind != bwrap.OpOverlay {
			return nil
		}
		if m.Upper, err = absolute(op.Source); err != nil {
			return err
		}
		m.Work, err = absolute(op.WorkDir)
	}
	return err
}

// bindFD binds the file of a descriptor. The descriptor belongs to the caller's mount namespace, and the sandbox has a
// copy of that. So the sandbox looks the path up in its copy, and checks that it leads to the same file.
func (r *run) bindFD(m *mounts.Mount, fd int) error {
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &bwrap.Error{Text: "Can't find source path " + name, Err: unix.ENOENT}
	}
	if slices.Contains(r.options.Close, fd) {
		return &bwrap.Error{Text: "Race condition binding dirfd", Err: unix.EINVAL} // an earlier step has closed it
	}
	source, err := os.Readlink(name)
	if err == nil && !path.IsAbs(source) {
		err = unix.ENOENT
	}
	if err != nil {
		return &bwrap.Error{Text: "Can't find source path " + name, Err: err}
	}
	r.options.Close = append(r.options.Close, fd)
	m.Source, m.Same = source, fileID(&st)
	return nil
}

func fileID(st *unix.Stat_t) mounts.FileID {
	return mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
}

// absolute makes a path of the host absolute.
func absolute(p string) (string, error) {
	if p == "" {
		return "", &bwrap.Error{Text: "Can't find source path ", Err: unix.ENOENT}
	}
	if path.IsAbs(p) {
		return p, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", &bwrap.Error{Text: "Can't find source path " + p, Err: err}
	}
	return wd + "/" + p, nil // not cleaned: after a link, ".." leads elsewhere
}
