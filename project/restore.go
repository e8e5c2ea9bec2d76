//go:build linux

package project

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
)

// Versions returns the copies of the file at path, which must be absolute: its backups, newest first, then the versions
// before executions, newest first.
func (r *Registry) Versions(path string) (list []Version, err error) {
	f, err := r.File(path)
	if err != nil && !missing(err) {
		return nil, err
	}
	edited, err := r.copies(editedName, false)
	if err != nil && !missing(err) {
		return nil, err
	}
	defer edited.close()
	for _, b := range f.Backups {
		if copyThere(edited, b.Copy) {
			v := Version{Path: path, Copy: b.Copy, Size: b.Size, Mode: b.Mode, Date: b.Date, Execution: b.Execution, owner: b.owner}
			if isExecution(b.Execution) {
				v.Time = executionTime(b.Execution)
			}
			list = append(list, v)
		}
	}
	restorations := map[string]bool{}
	for e, err := range r.Executions(Filter{Path: path}) {
		if err != nil {
			continue // the other versions are still useful
		}
		restorations[e.ID] = e.Session == "" && slices.Equal(e.Command, restoration(path))
		for _, c := range e.Changes {
			if c.Name() != path || c.Before == "" || c.Kind == Added {
				continue
			}
			old, err := r.OpenBefore(c)
			if err != nil {
				continue
			}
			st, err := sys.Regular(old)
			_ = old.Close()
			if err != nil {
				continue
			}
			t := executionTime(e.ID)
			list = append(list, Version{Path: path, Copy: c.Before, Size: st.Size, Mode: c.OldMode, Date: t.Local().Format(dateLayout), Time: t, Execution: e.ID, Before: true})
		}
	}
	for i, v := range list {
		list[i].still = restorations[v.Execution] && r.isStill(v)
	}
	return list, nil
}

// restoration is the command that the log has for a restoration.
func restoration(path string) []string { return []string{"nsrun", "restore", path} }

// isStill reports whether the file is as in a version.
func (r *Registry) isStill(v Version) bool {
	fd, err := unix.Open(v.Path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	now := os.NewFile(uintptr(fd), v.Path)
	defer now.Close()
	st, err := sys.Regular(now)
	if err != nil || st.Size != v.Size || fs.FileMode(st.Mode&0o777) != v.Mode.Perm() {
		return false
	}
	was, err := r.OpenVersion(v)
	if err != nil {
		return false
	}
	defer was.Close()
	a, b := bufio.NewReader(now), bufio.NewReader(was)
	for range v.Size {
		x, xerr := a.ReadByte()
		y, yerr := b.ReadByte()
		if xerr != nil || yerr != nil || x != y {
			return false
		}
	}
	return true
}

// OpenVersion opens a copy. If its size has changed, the error is ErrDamaged.
func (r *Registry) OpenVersion(v Version) (*os.File, error) {
	if v.Before {
		return r.OpenBefore(Change{Root: "/", Path: strings.TrimPrefix(v.Path, "/"), Before: v.Copy})
	}
	name := filepath.Base(v.Copy)
	if _, _, ok := parseBackup(name); !ok {
		return nil, &Error{"open backup", v.Copy, fs.ErrNotExist}
	}
	d, err := r.copies(editedName, false)
	if err != nil {
		return nil, err
	}
	defer d.close()
	f, err := d.file(name, unix.O_RDONLY)
	if err != nil {
		return nil, &Error{"open backup", v.Copy, err}
	}
	if st, err := sys.Regular(f); err != nil || st.Size != v.Size {
		_ = f.Close()
		return nil, &Error{"open backup", v.Copy, errors.Join(err, ErrDamaged)}
	}
	return f, nil
}

// Choose returns the version of a day (YY-MM-DD) or of an execution. If both are empty, it returns the newest backup,
// or if there is none, the version before the newest execution; but not what a restoration saved and did not replace
// then. If there is no such version, the error is ErrNoVersion.
func Choose(list []Version, date, execution string) (Version, error) {
	i := slices.IndexFunc(list, func(v Version) bool {
		if execution != "" {
			return v.Before && idMeans(v.Execution, execution)
		}
		return date == "" && !v.still || v.Date == date
	})
	if i < 0 && len(list) > 0 && date == "" && execution == "" {
		i = 0
	}
	if i < 0 {
		return Version{}, ErrNoVersion
	}
	return list[i], nil
}

// Restore restores a version, at its path or at another one, which must be absolute and have no symbolic links on the
// way. It first saves what is there now; if it cannot, or if that changes meanwhile, it does nothing. It makes missing
// directories. The file gets the mode it had, and for root the owner; other attributes are not kept. When Restore
// returns without an error, the file is on disk. With an error, Restored.Done says whether it was restored.
func (r *Registry) Restore(ctx context.Context, v Version, path string) (out Restored, err error) {
	const step = "restore"
	path = cmp.Or(path, v.Path)
	out.Path = path
	fail := func(err error) (Restored, error) { return out, wrap(step, path, err) }
	if !filepath.IsAbs(path) || !clean(path) || path == "/" {
		return fail(errors.New("not an absolute path of a file"))
	}
	src, err := r.OpenVersion(v)
	if err != nil {
		return out, err
	}
	defer src.Close()
	parent, made, err := makeParents(path)
	defer func() {
		if !out.Done {
			made.remove()
		}
		made.close()
	}()
	if err != nil {
		return fail(err)
	}
	defer parent.close()
	name := filepath.Base(path)
	now, have, err := openCurrent(parent, name)
	if err != nil {
		return fail(err)
	}
	defer now.Close() // of nil: nothing
	temp := restorePrefix + sys.RandomText(8)
	dst, named, err := createIn(parent, temp)
	if err != nil {
		return fail(err)
	}
	defer dst.Close()
	noted := func() {}
	theirs := false // temp is what another program has just written
	defer func() {
		if named && !theirs {
			_ = parent.unlink(temp, 0) // ours, or what was exchanged with it
		}
		noted()
	}()
	if noted, err = r.noteRestoring(parent, made, name, temp, dst, now, &have); err != nil {
		return out, err
	}
	if _, err = sys.CopyData(ctx, dst, src); err == nil {
		err = dress(dst, parent, v, now != nil, &have)
	}
	if err == nil {
		err = made.sync()
	}
	if err == nil {
		err = sys.Fsync(int(dst.Fd()))
	}
	if err != nil {
		return fail(err)
	}
	// After everything else that may fail, so that the log has no restoration that failed.
	if out, err = r.saveCurrent(ctx, path, v, now); err != nil {
		return out, err
	}
	if !named {
		named = true
		if err := giveName(dst, parent, temp); err != nil {
			return fail(err)
		}
	}
	if theirs, err = exchange(parent, temp, name, now, &have); err != nil {
		return fail(err)
	}
	out.Done = true
	_ = parent.unlink(temp, 0)
	if err := r.restored(parent, dst, path); err != nil {
		return fail(fmt.Errorf("%w; the file was restored", sys.Bare(err)))
	}
	return out, nil
}

// restored brings the name of a restored file to disk, and notes that the file is there.
func (r *Registry) restored(parent *dir, dst *os.File, path string) error {
	if err := parent.sync(); err != nil {
		return err
	}
	st, err := sys.Regular(dst)
	if err != nil {
		return err
	}
	return r.append(&op{Files: []fileOp{{Path: text(path), Time: nanos(r.now()), There: true, Modified: st.Mtim.Nano(), Mode: st.Mode & 0o777}}})
}

// giveName gives a file without a name one, and flushes it: btrfs flushed nothing of it before.
func giveName(f *os.File, parent *dir, name string) error {
	own := sys.ProcPath(int(f.Fd()))
	if err := unix.Linkat(unix.AT_FDCWD, own, int(parent.fd), name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return err
	}
	return sys.Fsync(int(f.Fd()))
}

// createIn makes a file, without a name where the file system can: then nothing is left if this program is killed while
// it copies.
func createIn(parent *dir, name string) (f *os.File, named bool, err error) {
	fd, err := openat(parent.fd, ".", unix.O_RDWR|unix.O_TMPFILE, 0o600)
	if named = err != nil; named {
		fd, err = openat(parent.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, false, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(parent.path, name)), named, nil
}

// errMoved is the error of a restoration whose target changed meanwhile.
var errMoved = errors.New("it changed meanwhile, and nothing was done")

// openCurrent opens the present file at name. Nil: there is none.
func openCurrent(parent *dir, name string) (*os.File, unix.Stat_t, error) {
	st, err := parent.lstat(name)
	if err == unix.ENOENT {
		return nil, st, nil
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = sys.ErrNotRegular // not even opened: it may be a device
	}
	if err != nil {
		return nil, st, err
	}
	fd, err := openat(parent.fd, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(parent.path, name))
	if st, err = sys.Regular(f); err != nil {
		_ = f.Close()
		return nil, st, err
	}
	return f, st, nil
}

// saveCurrent records the restoration, and keeps what is at path now.
func (r *Registry) saveCurrent(ctx context.Context, path string, v Version, now *os.File) (Restored, error) {
	out := Restored{Path: path}
	root := filepath.Dir(path)
	if f, err := r.File(v.Path); err == nil && paths.Inside(path, f.Project) && path != f.Project {
		root = f.Project
	}
	below, err := filepath.Rel(root, path)
	if err != nil {
		return out, &Error{"restore", path, err}
	}
	c := Change{Kind: Added, Root: root, Path: below, Mode: v.Mode.Perm(), Size: v.Size}
	if now != nil {
		st, err := sys.Regular(now)
		if err != nil {
			return out, &Error{"restore", path, err}
		}
		c.Kind, c.OldMode, c.OldSize = Modified, fs.FileMode(st.Mode&0o777), st.Size
	}
	e := Execution{Command: restoration(path), Dir: root, Roots: []string{root}, Began: r.now(), Ended: r.now(), State: StateCommitted}
	// It is nowhere else: no limit holds, and it is on disk before the file is replaced.
	w := &recorder{r: r, ctx: ctx, mostFile: 1 << 62, mostAll: 1 << 62, flushed: true, original: func(Change) (*os.File, error) {
		fd, err := unix.FcntlInt(now.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), path), nil
	}}
	rec, err := w.record(e, []Change{c})
	out.Execution = rec.ID
	if len(w.rec.Changes) == 1 && w.rec.Changes[0].Before != "" && now != nil {
		out.Saved = filepath.Join(r.o.Cache, tempName, rec.ID, string(w.rec.Changes[0].Before))
	}
	if err == nil && now != nil && out.Saved == "" {
		err = &Error{"keep version of", path, errors.New("it was not kept")}
	}
	if err == nil {
		err = r.Flush()
	}
	return out, err
}

// dress sets the mode and owner of a restored file.
func dress(dst *os.File, parent *dir, v Version, had bool, have *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		owner := v.owner
		if owner == nil {
			st := *have
			if !had {
				if err := unix.Fstat(int(parent.fd), &st); err != nil {
					return err
				}
			}
			owner = &ownerRecord{st.Uid, st.Gid}
		}
		if err := dst.Chown(int(owner.UID), int(owner.GID)); err != nil {
			return sys.Bare(err)
		}
	}
	return sys.Bare(dst.Chmod(v.Mode.Perm()))
}

// exchange swaps temp and name, if name is still the file now, which was saved; nil: nothing was there. theirs says
// that temp is a file of another program that could not be put back.
func exchange(parent *dir, temp, name string, now *os.File, have *unix.Stat_t) (theirs bool, err error) {
	if now == nil {
		return false, sys.RenameNew(int(parent.fd), temp, int(parent.fd), name)
	}
	same := func(at string) error {
		st, err := parent.lstat(at)
		if err == nil && (st.Dev != have.Dev || st.Ino != have.Ino || st.Size != have.Size || st.Mtim != have.Mtim) || err == unix.ENOENT {
			err = errMoved
		}
		return err
	}
	swap := func() error {
		return sys.Renameat2(int(parent.fd), temp, int(parent.fd), name, unix.RENAME_EXCHANGE)
	}
	err = swap()
	if err == unix.EINVAL { // some file systems cannot exchange names
		if err := same(name); err != nil {
			return false, err
		}
		return false, unix.Renameat(int(parent.fd), temp, int(parent.fd), name)
	}
	if err == unix.ENOENT {
		return false, errMoved
	}
	if err != nil {
		return false, err
	}
	if err = same(temp); err == nil {
		return false, nil
	}
	if serr := swap(); serr != nil {
		return true, fmt.Errorf("%w (%s can have what another program wrote meanwhile)", serr, temp)
	}
	return false, err
}
