//go:build linux

package sys

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openat2(2) where that is refused: one component after the other, each opened below a descriptor of the one before
// it, and no link followed by the kernel. What a link says is followed here, inside of where the lookup has to stay.

// maxLinks is how many links a path can lead through, as in the kernel.
const maxLinks = 40

// A walk is a lookup that is on its way.
type walk struct {
	dir     int      // where it began; with RESOLVE_IN_ROOT and RESOLVE_BENEATH it stays below
	at      FD       // how far it is, an O_PATH descriptor
	names   []string // from dir to there, if it stays below
	rest    []string // what is left
	flags   uint64
	resolve uint64
	mount   uint64 // of dir, with RESOLVE_NO_XDEV
	links   int
}

// open2 is openat2(2) by openat(2). Magic links are never followed as such: their text is.
func open2(dir int, name string, flags, mode, resolve uint64) (FD, error) {
	if name == "" {
		return None, unix.ENOENT
	}
	w := walk{dir: dir, at: None, flags: flags | unix.O_CLOEXEC, resolve: resolve}
	defer w.at.Close()
	if err := w.follow(name); err != nil {
		return None, err
	}
	if resolve&unix.RESOLVE_NO_XDEV != 0 {
		id, ok := mountOf(int(w.at), "", unix.AT_EMPTY_PATH)
		if !ok {
			return None, unix.ENOSYS
		}
		w.mount = id
	}
	for {
		name, last := w.next()
		if last {
			fd, err := w.last(name, mode)
			if err == errFollowed {
				continue
			}
			return fd, err
		}
		if err := w.step(name); err != nil {
			return None, err
		}
	}
}

// errFollowed says that the last component was a link, and the walk goes on.
const errFollowed = unix.ERESTART

// below reports whether the walk must not leave where it began.
func (w *walk) below() bool { return w.resolve&(unix.RESOLVE_BENEATH|unix.RESOLVE_IN_ROOT) != 0 }

// next takes the next component; empty ones and "." only count at the end, where the name has to be a directory.
func (w *walk) next() (name string, last bool) {
	name, w.rest = w.rest[0], w.rest[1:]
	rest := w.rest
	for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		w.rest = rest
		return name, false
	}
	if len(w.rest) > 0 {
		w.flags |= unix.O_DIRECTORY
	}
	w.rest = nil
	return name, true
}

// follow goes on with the text of a link, or with the name that the walk is about.
func (w *walk) follow(text string) error {
	if text == "" {
		return unix.ENOENT
	}
	w.rest = append(strings.Split(text, "/"), w.rest...)
	absolute := text[0] == '/'
	switch {
	case absolute && w.resolve&unix.RESOLVE_BENEATH != 0:
		return unix.EXDEV
	case absolute && w.resolve&unix.RESOLVE_IN_ROOT != 0:
		return w.again(nil)
	case absolute:
		return w.enter(unix.AT_FDCWD, "/")
	case w.at == None && w.dir == unix.AT_FDCWD:
		return w.enter(unix.AT_FDCWD, ".")
	case w.at == None:
		return w.again(nil)
	}
	return nil
}

// enter goes to a directory, as a place.
func (w *walk) enter(dir int, name string) error {
	fd, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.at.Close()
	w.at = fd
	return nil
}

// again goes to where names lead from the beginning, none of which is a link, or was one when it was passed first.
func (w *walk) again(names []string) error {
	from := w.dir
	if from == unix.AT_FDCWD {
		if err := w.enter(from, "."); err != nil {
			return err
		}
	} else {
		fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		w.at.Close()
		w.at = FD(fd)
	}
	w.names = w.names[:0]
	for _, name := range names {
		if err := w.enter(int(w.at), name); err != nil {
			return unix.EAGAIN // somebody renames
		}
		w.names = append(w.names, name)
	}
	return nil
}

// up goes to the parent.
func (w *walk) up() error {
	switch {
	case !w.below():
		return w.enter(int(w.at), "..")
	case len(w.names) > 0:
		return w.again(w.names[:len(w.names)-1])
	case w.resolve&unix.RESOLVE_BENEATH != 0:
		return unix.EXDEV
	}
	return nil
}

// step goes on through a component that is not the last one.
func (w *walk) step(name string) error {
	switch name {
	case "", ".":
		return nil
	case "..":
		return w.up()
	}
	fd, err := openat(int(w.at), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { fd.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return w.link(int(fd), "")
	case unix.S_IFDIR:
	default:
		return unix.ENOTDIR
	}
	if err := w.stays(fd); err != nil {
		return err
	}
	w.at, fd = fd, w.at
	if w.below() {
		w.names = append(w.names, name)
	}
	return nil
}

// link goes on with what a link says.
func (w *walk) link(dir int, name string) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return err
	}
	if w.links++; w.resolve&unix.RESOLVE_NO_SYMLINKS != 0 || w.links > maxLinks {
		return unix.ELOOP
	}
	return w.follow(string(buf[:n]))
}

// stays fails where fd is on another mount, and must not be.
func (w *walk) stays(fd FD) error {
	if w.resolve&unix.RESOLVE_NO_XDEV == 0 {
		return nil
	}
	switch id, ok := mountOf(int(fd), "", unix.AT_EMPTY_PATH); {
	case !ok:
		return unix.ENOSYS
	case id != w.mount:
		return unix.EXDEV
	}
	return nil
}

// last opens the last component as the caller wants it.
func (w *walk) last(name string, mode uint64) (FD, error) {
	switch name {
	case "..":
		if err := w.up(); err != nil {
			return None, err
		}
		name = "."
	case "":
		name = "."
	}
	if name == "." {
		if err := w.stays(w.at); err != nil {
			return None, err
		}
	}
	fd, err := openat(int(w.at), name, w.flags|unix.O_NOFOLLOW, mode)
	follows := w.flags&unix.O_NOFOLLOW == 0
	switch {
	case err == nil && follows && w.flags&unix.O_PATH != 0:
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil {
			fd.Close()
			return None, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			defer fd.Close()
			if err := w.link(int(fd), ""); err != nil {
				return None, err
			}
			return None, errFollowed
		}
	case (err == unix.ELOOP || err == unix.ENOTDIR) && follows:
		switch lerr := w.link(int(w.at), name); lerr {
		case nil:
			return None, errFollowed
		case unix.EINVAL: // it is not a link
			return None, err
		default:
			return None, lerr
		}
	}
	if err != nil {
		return None, err
	}
	if err := w.stays(fd); err != nil {
		fd.Close()
		return None, err
	}
	return fd, nil
}

func openat(dir int, name string, flags, mode uint64) (FD, error) {
	fd := None
	err := Retry(func() error {
		n, err := unix.Openat(dir, name, int(flags), uint32(mode))
		if err == nil {
			fd = FD(n)
		}
		return err
	})
	return fd, err
}

// mountOf says which mount something is on, by statx(2) or by what /proc has about an open file.
func mountOf(dir int, name string, flags int) (id uint64, ok bool) {
	if statxCall.state.Load() != isRefused {
		var st unix.Statx_t
		err := Retry(func() error { return unix.Statx(dir, name, flags, unix.STATX_MNT_ID, &st) })
		if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
			return st.Mnt_id, true
		}
		if err != nil && !statxCall.refused(err) {
			return 0, false
		}
	}
	if name != "" {
		open := uint64(unix.O_PATH | unix.O_CLOEXEC)
		if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
			open |= unix.O_NOFOLLOW
		}
		fd, err := openat(dir, name, open, 0)
		if err != nil {
			return 0, false
		}
		defer fd.Close()
		dir = int(fd)
	}
	info, err := openat(unix.AT_FDCWD, "/proc/self/fdinfo/"+strconv.Itoa(dir), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer info.Close()
	buf := make([]byte, 512)
	n, err := info.Read(buf)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(buf[:n]) {
		if text, found := bytes.CutPrefix(line, []byte("mnt_id:")); found {
			id, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
			return id, err == nil
		}
	}
	return 0, false
}
