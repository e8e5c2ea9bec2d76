//go:build linux

package homelayer

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// bootName is a symbolic link in a layer to the id of the boot in which a command last used it. The overlays are
// volatile and nobody syncs the layer, so a restart by a power failure can cut off what was written before it.
const bootName = "boot"

// unwritten is how long before the kernel's start a write can have been that a power failure cut off: the kernel writes
// after 30 seconds (vm.dirty_expire_centisecs), and a server's firmware takes minutes to start the kernel.
const unwritten = 10 * time.Minute

// Restarted reports whether the machine was restarted while a command used the layer, or soon after it. It says so once
// for each restart, and not if the layer is empty. Nothing tells a power failure from another restart.
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
		l.restarted = l.justUsed() && l.holdsData()
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

// justUsed reports whether a command used the layer less than unwritten before the kernel's start, or its end is not
// noted, or not merged. If that is not known, one did.
func (l *Layer) justUsed() bool {
	var st unix.Stat_t
	var now, since unix.Timespec
	var state [1]byte
	n, err := unix.Pread(int(l.lock), state[:], 0)
	if err != nil || n == 1 && state[0] != free || unix.Fstat(int(l.lock), &st) != nil ||
		unix.ClockGettime(unix.CLOCK_REALTIME, &now) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return true
	}
	return st.Mtim.Nano() > now.Nano()-since.Nano()-int64(unwritten) || exists(l.dir, runsName)
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
