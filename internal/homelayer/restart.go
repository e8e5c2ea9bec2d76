//go:build linux

package homelayer

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// bootName is a symbolic link in a layer to the id of the boot in which a command last used it. The overlays are
// volatile and nobody syncs the layer, so a restart by a power failure can cut off what was written before it.
const bootName = "boot"

// Restarted reports whether the machine was restarted after commands wrote to the layer. It says so once for each
// restart, and not if the layer is empty.
func (l *Layer) Restarted() bool { return l.restarted }

// noteBoot brings the link up to date. Without a readable boot id nothing is known, and there is no link.
func (l *Layer) noteBoot(boot string) error {
	if boot == "" {
		return nil
	}
	var buf [64]byte
	n := 0
	err := sys.Retry(func() (err error) { n, err = unix.Readlinkat(int(l.dir), bootName, buf[:]); return err })
	switch {
	case err == nil && string(buf[:n]) == boot:
		return nil
	case err == nil || err == unix.EINVAL: // no link of ours
		l.restarted = l.holdsData()
		err = removeTree(l.dir, bootName)
	case err == unix.ENOENT:
		err = nil
	}
	if err == nil {
		err = sys.Retry(func() error { return unix.Symlinkat(boot, int(l.dir), bootName) })
	}
	if err == unix.EEXIST { // of a command that started at the same time
		err = nil
	}
	return err
}

// holdsData reports whether commands wrote something to the layer that is still there. If that is not known, they did.
func (l *Layer) holdsData() bool {
	if exists(l.dir, runsName) {
		return true
	}
	upper, err := openUpper(l.dir, ".")
	if err != nil {
		return true
	}
	defer upper.Close()
	names, err := sys.Names(int(upper), make([]byte, 4<<10))
	return err != nil || len(names) > 0
}
