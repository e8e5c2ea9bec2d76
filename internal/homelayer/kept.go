//go:build linux

package homelayer

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// While Keep copies a file, it has a temporary name in the home directory. A note in the layer, written before the file
// is made, says which, so that whoever locks the layer next finds it if Keep was killed: a letter that says what has
// the name, the home directory, a zero byte, and the path.
const (
	keptBegin    = ".nsrun-"
	noteName     = "keeping"
	replacedName = "replaced"

	isCopy   = "c" // Keep's own
	maybeOld = "o" // Keep's own, or what it was exchanged with, which is the user's
)

// remember notes the name of a file before it is made.
func (k *keeper) remember(name string) (err error) {
	if k.note == nil {
		if k.note, err = sys.OwnFile(k.layer.dir, noteName, unix.O_WRONLY|unix.O_CREAT); err != nil {
			return err
		}
	}
	if err = k.note.Truncate(0); err == nil {
		_, err = k.note.WriteAt([]byte(isCopy+k.home+"\x00"+name), 0)
	}
	return err
}

// mayBeOld notes that the user's own file may have the name.
func (k *keeper) mayBeOld() error {
	_, err := k.note.WriteAt([]byte(maybeOld), 0)
	return err
}

// forget removes the note when nothing has the name any more, or the caller was told what has it.
func (k *keeper) forget() {
	if k.note != nil {
		_ = k.note.Close()
		_ = unix.Unlinkat(int(k.layer.dir), noteName, 0)
	}
}

// tidyKept completes what a killed Keep left. The caller holds both locks of the layer.
func (l *Layer) tidyKept() error {
	text, err := readSmall(l.dir, noteName)
	if err != nil || text == "" {
		return err
	}
	home, name, ok := strings.Cut(text[1:], "\x00")
	base := path.Base(name)
	if !ok || !strings.HasPrefix(base, keptBegin) {
		return unix.Unlinkat(int(l.dir), noteName, 0)
	}
	dir, err := openBelow(home, path.Dir(name))
	if err == nil {
		defer dir.Close()
		switch {
		case text[:1] == isCopy:
			err = unix.Unlinkat(int(dir), base, 0)
		case exists(dir, base):
			l.setAside(dir, base, strings.TrimPrefix(base, keptBegin))
		}
	}
	if err != nil && !errors.Is(noLink(err), ErrLink) && err != unix.ENOENT { // else somebody moved it
		return err
	}
	return unix.Unlinkat(int(l.dir), noteName, 0)
}

// setAside moves a file into the layer's directory of replaced files, and returns its path; empty: it cannot be moved
// there.
func (l *Layer) setAside(from sys.FD, made, name string) string {
	if err := sys.Mkdir(int(l.dir), replacedName, 0o700); err != nil && err != unix.EEXIST {
		return ""
	}
	at := replacedName + "/" + sys.RandomText(8) + "-" + name
	if sys.RenameNew(int(from), made, int(l.dir), at) != nil {
		return ""
	}
	return filepath.Join(l.path, at)
}

// openBelow opens a directory below a home directory without following links.
func openBelow(home, dir string) (sys.FD, error) {
	n, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, err
	}
	defer unix.Close(n)
	return openAt(sys.FD(n), dir, unix.O_PATH|unix.O_DIRECTORY)
}
