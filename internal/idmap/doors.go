//go:build linux

package idmap

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
)

// A Door is a directory of the host that the sandbox's root may not enter, with paths in it that the sandbox needs: for
// the directory root has no privileges, and may be nobody. So the sandbox gets another directory in its place, which
// everybody may enter, and which contains only these paths.
type Door struct {
	Dir   string   // the outermost such directory
	Paths []string // below it, as they are on the host
}

// Doors returns the doors on the way to the paths in list, unless a directory in open comes first.
func (r Root) Doors(list, open []string) (doors []Door) {
	for _, path := range list {
		dir := r.closed(path, open)
		switch n := len(doors) - 1; {
		case dir == "":
		case n >= 0 && doors[n].Dir == dir:
			doors[n].Paths = append(doors[n].Paths, path)
		default:
			doors = append(doors, Door{dir, []string{path}})
		}
	}
	return doors
}

// closed returns the outermost directory above a path that root may not enter. Empty: there is none.
func (r Root) closed(path string, open []string) string {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		dir := path[:i]
		if paths.InAny(dir, open) {
			return ""
		}
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Mode&r.enters(&st) == 0 {
			return dir
		}
	}
	return ""
}

// enters is the bit of a mode that lets root enter a directory of the host.
func (r Root) enters(st *unix.Stat_t) uint32 {
	switch {
	case r == HostRoot && st.Uid == 0:
		return unix.S_IXUSR
	case r == HostRoot && st.Gid == 0:
		return unix.S_IXGRP
	}
	return unix.S_IXOTH
}

// Mount returns a mount that is not attached yet: a file system with the directories, and with empty files for paths
// that are files.
func (d *Door) Mount() (*os.File, error) {
	return filled(d.Dir, func(root int) error {
		for _, path := range d.Paths {
			if err := d.add(root, path); err != nil {
				return err
			}
		}
		return nil
	})
}

// nobody is a user and group of the host that no sandbox with own ids has.
const nobody = 65534

// Masks returns the mount for sandbox.Options.Masks. Nobody in a sandbox with own ids has the owner's ids of its files,
// so nobody there can open them.
func Masks() (*os.File, error) {
	return filled("masks", func(root int) error {
		if err := unix.Mkdirat(root, "d", 0); err != nil {
			return err
		}
		if err := unix.Mknodat(root, "f", unix.S_IFREG, 0); err != nil {
			return err
		}
		if err := unix.Fchownat(root, "d", nobody, nobody, 0); err != nil {
			return err
		}
		return unix.Fchownat(root, "f", nobody, nobody, 0)
	})
}

// filled returns a small file system in memory that fill has filled.
func filled(name string, fill func(root int) error) (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	config := sys.FD(fs)
	defer config.Close()
	if err := unix.FsconfigSetString(fs, "mode", "755"); err != nil {
		return nil, err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, err
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(root), name)
	if err := fill(root); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// add makes a path in the file system.
func (d *Door) add(root int, path string) error {
	rel := strings.TrimPrefix(path, d.Dir+"/")
	file := false
	if st, err := os.Stat(path); err == nil {
		file = !st.IsDir()
	}
	for i := 1; i <= len(rel); i++ {
		if i < len(rel) && rel[i] != '/' {
			continue
		}
		var err error
		if name := rel[:i]; file && i == len(rel) {
			err = unix.Mknodat(root, name, unix.S_IFREG|0o644, 0)
		} else if err = unix.Mkdirat(root, name, 0o755); err == nil { // whatever the umask is
			err = unix.Fchmodat(root, name, 0o755, 0)
		}
		if err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "make", Path: filepath.Join(d.Dir, rel[:i]), Err: err}
		}
	}
	return nil
}
