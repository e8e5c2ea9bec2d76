//go:build linux

package renames

import (
	"encoding/binary"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// dirTimes keep the modification time of a directory in which the old name of a linked file is replaced: link(2)
// changes the time of the new name's directory only, and programs such as rsync(1) and tar(1) look at it. A watch tells
// whether others change the directory at the same time. Then, and if there can be no watch, the time stays as it is.
type dirTimes struct {
	mu    sync.Mutex
	watch sys.FD // of inotify(7); it is made once, because its end takes the kernel some milliseconds
	made  bool
}

func (d *dirTimes) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made {
		d.watch.Close()
	}
	d.watch, d.made = sys.None, true
}

// keep begins to watch a directory. The function that it returns must be called; if the names are of one file then, it
// sets the time that the directory had.
func (d *dirTimes) keep(m *move) (restore func()) {
	if same(m.from.dir, m.to.dir) {
		return func() {}
	}
	d.mu.Lock()
	w, ok := d.begin(m.from)
	if !ok {
		d.mu.Unlock()
		return func() {}
	}
	return func() {
		defer d.mu.Unlock()
		defer func() { _, _ = unix.InotifyRmWatch(int(d.watch), uint32(w.id)) }()
		from, err := m.from.stat()
		to, err2 := m.to.stat()
		if err == nil && err2 == nil && linked(&from, &to) {
			w.restore()
		}
	}
}

// begin starts to watch the directory of a name.
func (d *dirTimes) begin(p place) (w dirWatch, ok bool) {
	if !d.made {
		n, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if d.watch, d.made = sys.FD(n), true; err != nil {
			d.watch = sys.None
		}
	}
	if d.watch == sys.None {
		return w, false
	}
	const events = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_ONLYDIR
	id, err := unix.InotifyAddWatch(int(d.watch), sys.ProcPath(int(p.dir)), events)
	if err != nil {
		return w, false
	}
	w = dirWatch{events: d.watch, id: int32(id), p: p}
	if w.before, err = statOf(p.dir); err != nil {
		_, _ = unix.InotifyRmWatch(int(d.watch), uint32(id))
		return w, false
	}
	return w, true
}

// A dirWatch tells who changes the directory of a name.
type dirWatch struct {
	events sys.FD
	id     int32
	p      place
	before unix.Statx_t
}

// restore sets the time that the directory had. What others do meanwhile gives it a new one.
func (w *dirWatch) restore() {
	if names, itself := w.others(); names || itself {
		return
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: w.before.Mtime.Sec, Nsec: int64(w.before.Mtime.Nsec)}}
	if sys.SetTimes(int(w.p.dir), times) != nil {
		return
	}
	if names, _ := w.others(); names {
		times[1] = unix.Timespec{Nsec: unix.UTIME_NOW}
		_ = sys.SetTimes(int(w.p.dir), times)
	}
}

// others reads the events until now. It reports whether others have changed names in the directory, and whether the
// mode or the times of the directory itself were set.
func (w *dirWatch) others() (names, itself bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Read(int(w.events), buf)
		if err != nil || n < unix.SizeofInotifyEvent {
			return names, itself
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			id, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
			b = b[end:]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				names = true
			case id != w.id: // of a watch before
			case mask&unix.IN_ATTRIB != 0:
				itself = itself || name == ""
			case mask&unix.IN_IGNORED == 0 && name != w.p.name && !strings.HasPrefix(name, Prefix):
				names = true
			}
		}
	}
}
