//go:build linux

package host

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Secrets that do not exist when a command starts can be created while it runs. Where the home directory is shown
// through an overlay (see mountPoint), its front layer marks these names as deleted, so they stay absent.

// A homeView answers which names a home directory has. Most of homeSecrets do not exist: listing three directories
// finds that out faster than a look-up for each of a hundred names.
type homeView struct {
	fd     int
	home   map[string]bool                  // the names in the home directory; nil: not known
	listed [len(listedDirs)]map[string]bool // and in listedDirs; nil: not known
	kinds  map[string]uint32                // of directories; 0: missing
	modes  []mounts.Perm                    // of those that are the caller's
}

// listedDirs have most of homeSecrets that are not in the home directory itself.
var listedDirs = [...]string{".config/", ".local/share/"}

func newHomeView(fd int) *homeView {
	v := &homeView{fd: fd, kinds: make(map[string]uint32, 16)}
	buf := make([]byte, 16<<10)
	v.home = listNames(fd, ".", buf)
	for i, dir := range listedDirs {
		if !v.missing(dir) {
			v.listed[i] = listNames(fd, strings.TrimSuffix(dir, "/"), buf)
		}
	}
	return v
}

// listNames lists a directory, in lower case, because the directory may ignore case. It returns nil if a link leads
// there, or if the directory is too large to be listed, or may ignore case and has names that are not ASCII: how it
// compares these is not known here.
func listNames(dir int, name string, buf []byte) map[string]bool {
	n, err := sys.Openat2(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil
	}
	fd := sys.FD(n)
	defer fd.Close()
	size, err := unix.ReadDirent(n, buf)
	if err != nil {
		return nil
	}
	set := make(map[string]bool, 64)
	// Not unix.ParseDirent, which omits entries without an inode number: some file systems have such entries.
	for b := buf[:size]; len(b) > 0; {
		const reclen, text = 16, 19 // in struct linux_dirent64
		if len(b) < text || int(binary.NativeEndian.Uint16(b[reclen:])) > len(b) {
			return nil
		}
		entry := b[text:binary.NativeEndian.Uint16(b[reclen:])]
		b = b[binary.NativeEndian.Uint16(b[reclen:]):]
		name, _, _ := bytes.Cut(entry, []byte{0})
		if bytes.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) && foldsCase(n) {
			return nil // Unicode has characters that do not count, and others that are s or k
		}
		set[strings.ToLower(string(name))] = true
	}
	if size, err = unix.ReadDirent(n, buf); err != nil || size > 0 {
		return nil
	}
	return set
}

// foldsCase reports whether a directory may ignore the case of names.
func foldsCase(fd int) bool {
	const casefold = 0x40000000 // FS_CASEFOLD_FL
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err != nil || flags&casefold != 0
}

// missing reports that the first element of a name, or the one after one of listedDirs, does not exist. False: it may
// exist.
func (v *homeView) missing(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	if v.home != nil && !v.home[strings.ToLower(first)] {
		return true
	}
	for i, dir := range listedDirs {
		if rest, ok := strings.CutPrefix(name, dir); ok && v.listed[i] != nil {
			first, _, _ = strings.Cut(rest, "/")
			return !v.listed[i][strings.ToLower(first)]
		}
	}
	return false
}

// kind is what a directory on the path to a name turned out to be.
func (v *homeView) kind(name string) uint32 {
	k, ok := v.kinds[name]
	if !ok {
		var st unix.Stat_t
		if !v.missing(name) && unix.Fstatat(v.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			k = st.Mode & unix.S_IFMT
			if d := dirOf(&st); k == unix.S_IFDIR && d.Own {
				v.modes = append(v.modes, mounts.Perm{Path: name, Perm: d.Perm})
			}
		}
		v.kinds[name] = k
	}
	return k
}

// exists reports whether something has a name.
func (v *homeView) exists(name string) bool {
	var st unix.Stat_t
	return !v.missing(name) && unix.Fstatat(v.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// absent returns, for a name that does not exist, its first missing part. Not ok: a link on the path leads elsewhere.
// It notes the modes of the directories on the path.
func (v *homeView) absent(name string) (n plan.Absent, ok bool) {
	for i := range len(name) {
		if name[i] == '/' {
			switch v.kind(name[:i]) {
			case unix.S_IFDIR:
			case 0:
				return plan.Absent{Name: name, From: i}, true
			default:
				return n, false
			}
		}
	}
	return plan.Absent{Name: name, From: len(name)}, true
}
