//go:build linux

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// A WorkDir is the work directory that the kernel needs for the upper directory of an overlay: an empty directory on
// the same mount. It is locked as long as it is in use.
type WorkDir struct {
	Path string
	lock *os.File
}

const workPrefix = ".nsrun-work-"

var errNoWork = errors.New("a writable root needs a work directory on its own file system, and neither nsrun's state directory nor the parent of the root can contain one (try: without --direct)")

// NewWorkDir makes one for a directory: in state, which may be missing, or beside the directory. It removes those that
// killed programs left there.
func NewWorkDir(dir, state string) (*WorkDir, error) {
	for _, parent := range [...]string{state, filepath.Dir(dir)} {
		if parent == state && sys.MkdirAll(parent, 0o700) != nil || !sameMount(parent, dir) {
			continue
		}
		removeStale(parent, workPrefix)
		path, err := os.MkdirTemp(parent, workPrefix)
		if err != nil {
			continue
		}
		lock, err := lockDir(path)
		if err != nil {
			_ = os.Remove(path)
			return nil, &plan.Error{Op: "make directory", Path: path, Err: sys.Bare(err)}
		}
		return &WorkDir{path, lock}, nil
	}
	return nil, &plan.Error{Op: plan.OpUse, Path: dir, Err: errNoWork}
}

func (w *WorkDir) Close() {
	if w != nil {
		removeTree(w.Path)
		_ = w.lock.Close()
	}
}

// removeTree removes what commands have left, which may be unreadable and nested to any depth.
func removeTree(path string) {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = deep.Remove(parent, filepath.Base(path))
	_ = unix.Close(parent)
}

func lockDir(path string) (*os.File, error) {
	f, err := openDir(path)
	if errors.Is(err, fs.ErrPermission) && setMode(path) == nil {
		f, err = openDir(path)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	// Another nsrun may have taken it for abandoned, and removed it meanwhile.
	mine, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Lstat(path); err == nil && !os.SameFile(mine, there) {
			err = syscall.ENOENT
		}
	}
	if err == nil && mine.Mode().Perm() != ownMode { // the umask took something from it
		err = f.Chmod(ownMode)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// removeStale removes directories whose names begin like that and that nobody has locked.
func removeStale(parent, prefix string) {
	list, _ := os.ReadDir(parent)
	for _, e := range list {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		if fi, err := os.Lstat(path); err != nil || !ownedByCaller(fi) {
			continue
		}
		if lock, err := lockDir(path); err == nil {
			removeTree(path)
			_ = lock.Close()
		}
	}
}

func ownedByCaller(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// sameMount reports whether two directories are on one mount.
func sameMount(a, b string) bool {
	id := func(path string) (unix.Statx_t, bool) {
		var st unix.Statx_t
		err := sys.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st)
		return st, err == nil && st.Mask&unix.STATX_MNT_ID != 0
	}
	x, known := id(a)
	y, also := id(b)
	return known && also && x.Mnt_id == y.Mnt_id
}

const ownMode = 0o700

// setMode lets its owner open a directory that has just been made with a umask that does not.
func setMode(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return sys.Chmod(fd, ownMode)
}
