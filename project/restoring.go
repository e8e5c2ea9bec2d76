//go:build linux

package project

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// For a moment, a restoration has a file beside the one that it replaces. It is noted before it gets its name, so that
// after a crash the next process can remove it. A note is a symbolic link: its text is never on disk only in part.
const (
	restorePrefix   = ".nsrun-restore-"
	restoringPrefix = "restoring."
	restoreLockName = "restore.lock" // shared by all who restore
)

// restoring is what a note says.
type restoring struct {
	Dir  text       `json:"dir"`
	Name text       `json:"name"`
	Temp text       `json:"temp"`
	New  uint64     `json:"new"`            // the inode of what is restored
	Old  *replacing `json:"old,omitempty"`  // nil: there was no file
	Made []uint64   `json:"made,omitempty"` // the inodes of the directories that were made: Dir, and those above it
}

// replacing is the file that was there, of which a copy was kept.
type replacing struct {
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"`
}

func (o *replacing) is(st *unix.Stat_t) bool {
	return o != nil && o.Ino == st.Ino && o.Size == st.Size && o.Mtime == st.Mtim.Nano()
}

// noteRestoring notes that dst will be temp in parent, and replace now, whose state is have; now can be nil. For this,
// made were made. Call done when temp is gone. A path that is too long for a note is no error.
func (r *Registry) noteRestoring(parent *dir, made madeDirs, name, temp string, dst, now *os.File, have *unix.Stat_t) (done func(), err error) {
	done = func() {}
	d, err := r.directory(true)
	if err != nil {
		return done, err
	}
	st, err := sys.Regular(dst)
	if err != nil {
		return done, err
	}
	note := restoring{Dir: text(parent.path), Name: text(name), Temp: text(temp), New: st.Ino, Made: made.inodes()}
	if now != nil {
		note.Old = &replacing{have.Ino, have.Size, have.Mtim.Nano()}
	}
	data, err := json.Marshal(note)
	if err != nil {
		return done, err
	}
	lock, err := d.file(restoreLockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return done, wrap("open", filepath.Join(d.path, restoreLockName), err)
	}
	at := restoringPrefix + sys.RandomText(8)
	err = sys.Retry(func() error { return unix.Flock(int(lock.Fd()), unix.LOCK_SH) })
	if err == nil {
		err = sys.Retry(func() error { return unix.Symlinkat(string(data), int(d.fd), at) })
	}
	if err == nil {
		err = d.sync()
	} else if err == unix.ENAMETOOLONG {
		err = nil
	}
	done = func() {
		_ = d.unlink(at, 0)
		_ = lock.Close()
	}
	if err != nil {
		return done, wrap("note restoration", filepath.Join(d.path, at), err)
	}
	return done, nil
}

// finishRestorations removes what processes left that were killed while they restored a file.
func finishRestorations(d *dir) {
	names, err := d.names()
	if err != nil {
		return
	}
	var lock *os.File
	for _, name := range names {
		if !strings.HasPrefix(name, restoringPrefix) {
			continue
		}
		if lock == nil {
			if lock, err = d.file(restoreLockName, unix.O_RDWR|unix.O_CREAT); err != nil {
				return
			}
			defer lock.Close()
			if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
				return // somebody restores; the next process does it
			}
		}
		var buf [unix.PathMax]byte
		n, err := unix.Readlinkat(int(d.fd), name, buf[:])
		var note restoring
		if err != nil || json.Unmarshal(buf[:n], &note) != nil || note.finish() == nil {
			_ = d.unlink(name, 0)
		}
	}
}

// finish removes what the restoration left. Nil: the note is no longer needed.
func (n restoring) finish() error {
	if err := n.finishFile(); err != nil || len(n.Made) == 0 || !clean(string(n.Dir)) {
		return err
	}
	made, err := findMade(string(n.Dir), n.Made)
	if err == nil {
		made.remove()
	}
	made.close()
	return err
}

// finishFile removes the temporary file, unless it is what another program wrote. That is put back where it was.
func (n restoring) finishFile() error {
	dirPath, name, temp := string(n.Dir), string(n.Name), string(n.Temp)
	if !clean(dirPath) || filepath.Base(name) != name || filepath.Base(temp) != temp || !strings.HasPrefix(temp, restorePrefix) {
		return nil
	}
	top, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	fd, err := openat(sys.FD(top), "."+dirPath, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	parent := &dir{fd, dirPath}
	defer parent.close()
	st, err := parent.lstat(temp)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Ino != n.New && !n.Old.is(&st) {
		there, err := parent.lstat(name)
		if err != nil || there.Ino != n.New {
			return nil // it cannot be told which one is wanted, so both stay
		}
		if err := sys.Renameat2(int(fd), temp, int(fd), name, unix.RENAME_EXCHANGE); err != nil {
			return err
		}
	}
	return parent.unlink(temp, 0)
}
