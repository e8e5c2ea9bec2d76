package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/mounts"
)

// mounts turns the steps of the set-up into a Plan.
func (d *dropped) mounts() error {
	for i := range d.cfg.Ops {
		op := &d.cfg.Ops[i]
		if op.Kind == bwrap.OpHostname {
			d.cmd.Hostname = op.Dest
			continue
		}
		m, err := d.mount(op)
		if err != nil {
			return err
		}
		m.Optional = op.Try
		if op.HasPerms {
			m = m.WithPerm(fileMode(op.Perms))
		}
		m.ParentPerm = fs.FileMode(op.ParentMode())
		d.cmd.Mounts = append(d.cmd.Mounts, m)
		d.ops = append(d.ops, op)
	}
	return nil
}

// mount is one step.
func (d *dropped) mount(op *bwrap.SetupOp) (m mounts.Mount, err error) {
	dest := op.Dest
	if !path.IsAbs(dest) {
		dest = "/" + dest
	}
	switch op.Kind {
	case bwrap.OpBind, bwrap.OpROBind, bwrap.OpDevBind:
		source, err := absolute(op.Source)
		if err != nil {
			return m, err
		}
		m = mounts.Bind(source, dest)
		m.ReadOnly, m.Devices = op.Kind == bwrap.OpROBind, op.Kind == bwrap.OpDevBind
		return m, nil
	case bwrap.OpBindFD, bwrap.OpROBindFD:
		m, err := d.bindFD(op.FD, dest)
		m.ReadOnly = op.Kind == bwrap.OpROBindFD
		return m, err
	case bwrap.OpRemountRO:
		return mounts.Remount(dest), nil
	case bwrap.OpProc:
		m := mounts.Proc(dest)
		if !d.cfg.UnsharePID && !d.cfg.PIDNS.Set {
			m.Source = "/proc"
		}
		return m, nil
	case bwrap.OpDev:
		m := mounts.Dev(dest)
		if d.plainShm {
			m.Perm = 0o755
		}
		m.Source, m.Same = console()
		return m, nil
	case bwrap.OpTmpfs:
		return mounts.Tmpfs(dest).WithSize(op.Size), nil
	case bwrap.OpMqueue:
		return mounts.Mqueue(dest), nil
	case bwrap.OpDir:
		return mounts.Dir(dest), nil
	case bwrap.OpFile, bwrap.OpBindData, bwrap.OpROBindData:
		data, err := readFD(op.FD)
		if err != nil {
			return m, &bwrap.Error{Text: "Can't write data to file " + op.Dest, Err: err}
		}
		d.cmd.Close = append(d.cmd.Close, op.FD)
		if op.Kind == bwrap.OpFile {
			return mounts.File(dest, data).WithPerm(0o666), nil
		}
		m := mounts.Data(dest, data)
		m.ReadOnly = op.Kind == bwrap.OpROBindData
		return m, nil
	case bwrap.OpSymlink:
		return mounts.Symlink(op.Source, dest), nil
	case bwrap.OpChmod:
		return mounts.Chmod(0, dest), nil
	case bwrap.OpOverlay, bwrap.OpTmpOverlay, bwrap.OpROOverlay:
		return overlayMount(op, dest)
	}
	return m, errors.New("Unexpected type " + strconv.Itoa(int(op.Kind)))
}

// overlayMount is one of the overlays.
func overlayMount(op *bwrap.SetupOp, dest string) (m mounts.Mount, err error) {
	layers := make([]string, len(op.Layers))
	for i, l := range op.Layers {
		if layers[i], err = absolute(l); err != nil {
			return m, err
		}
	}
	switch op.Kind {
	case bwrap.OpTmpOverlay:
		return mounts.TmpOverlay(dest, layers...), nil
	case bwrap.OpROOverlay:
		return mounts.ROOverlay(dest, layers...), nil
	}
	upper, err := absolute(op.Source)
	if err != nil {
		return m, err
	}
	work, err := absolute(op.WorkDir)
	return mounts.Overlay(dest, upper, work, layers...), err
}

// bindFD binds what a descriptor refers to. A descriptor belongs to the caller's
// mounts, of which the sandbox has a copy: so its path is looked up there, and must
// lead to the same file.
func (d *dropped) bindFD(fd int, dest string) (m mounts.Mount, err error) {
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return m, &bwrap.Error{Text: "Can't find source path " + name, Err: unix.ENOENT}
	}
	source, err := os.Readlink(name)
	if err == nil && !path.IsAbs(source) {
		err = unix.ENOENT
	}
	if err != nil {
		return m, &bwrap.Error{Text: "Can't find source path " + name, Err: err}
	}
	d.cmd.Close = append(d.cmd.Close, fd)
	m = mounts.Bind(source, dest)
	m.Same = fileID(&st)
	return m, nil
}

func fileID(st *unix.Stat_t) mounts.FileID {
	return mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
}

// console is the terminal that standard output is, if it is one.
func console() (name string, id mounts.FileID) {
	if !isTerminal(os.Stdout) {
		return "", id
	}
	var st, named unix.Stat_t
	name, err := os.Readlink("/proc/self/fd/1")
	if err != nil || unix.Fstat(1, &st) != nil || unix.Stat(name, &named) != nil || fileID(&st) != fileID(&named) {
		return "", id
	}
	return name, fileID(&st)
}

// absolute is a path of the host.
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
	return wd + "/" + p, nil // not cleaned: ".." after a link is the kernel's to follow
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
