//go:build linux

package tree

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// SyncTree waits until the directory h, and everything below it, is on disk. Nobody writes there meanwhile. A few
// objects are flushed one by one, more with their whole file system.
func SyncTree(h *Handle) error {
	d, err := h.OpenDir(".")
	if err != nil {
		return err
	}
	var f Flusher
	defer f.Close()
	if f.addTree(d) {
		return f.Wait()
	}
	return sys.Syncfs(int(d.FD))
}

// addTree adds the open directory d, which then belongs to f, and what is below it. It reports false if that is too
// much, or contains something that cannot be flushed alone.
func (f *Flusher) addTree(d *Handle) bool {
	f.Dirs = append(f.Dirs, d)
	names, err := d.Names()
	if err != nil || len(names) > FsyncMost {
		return false
	}
	for _, name := range names {
		if len(f.Files)+len(f.Dirs) >= FsyncMost {
			return false
		}
		st, err := d.Lstat(name)
		switch {
		case err != nil:
			return false
		case st.IsWhiteout():
		case st.IsDir():
			below, err := d.OpenDir(name)
			if err != nil || !f.addTree(below) {
				return false
			}
		case st.IsReg():
			file, err := d.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
			if err != nil {
				return false
			}
			f.Files = append(f.Files, file)
			_ = unix.SyncFileRange(int(file.FD), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		default:
			return false
		}
	}
	return true
}
