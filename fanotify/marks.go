//go:build linux

package fanotify

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// marks is the engine Fanotify: each root's file system is marked.
//
// The kernel names a directory by its handle. Those that came to be while we watch are known from the events that made
// and moved them; others are looked for when something happens in them. Events are in the kernel's order, so paths are
// those of the time of the event. Where a directory was not known its path is that of now.
type marks struct {
	fd    sys.FD
	wake  sys.FD // an eventfd: stop or abort was called
	halt  atomic.Uint32
	roots []root

	places
	dirs    map[string]*place   // by key
	tops    []*place            // of the roots
	outside map[string]struct{} // keys of directories that are not below a root
	loose   []*place            // are nowhere, unless the rest of the batch says where

	// doubt are paths that came and went in one event: what else was in the queue at that time does not tell
	// whether before or after. The value is whether it is there as far as was told.
	doubt map[string]*doubt

	// late are directories that were not known before this batch. Their paths are those of
	// now, and a rename that is queued still would move them a second time.
	late []*place

	// scanned: paths of now were told, and renames of before that may still be queued.
	scanned bool

	// old are the places of directories from before an overflow, until it is healed.
	old map[string]*place

	before struct{ from, path, child string } // the last rename

	buf     []byte // for read(2); nil until the first event
	tasks   []task
	start   int64 // when the watcher began, nanoseconds since 1970
	quiet   int64 // when the queue was last seen empty
	healed  int64 // since when what changed is looked for
	lost    bool  // the queue was full
	restful bool  // the queue was emptied: let some gather
	left    int   // how many events were queued when stop was noticed
	ending  bool  // stop was noticed
	sweep   bool
	swept   bool
}

type doubt struct {
	ev    Event
	there bool
}

const (
	haltStop = 1 + iota
	haltAbort
)

const (
	bufSize = 64 << 10
	// maxEvent is more than any event can take: two names and three handles.
	maxEvent   = 2048
	maxOutside = 1 << 14
)

// what is asked for. IN_CLOSE_WRITE is the only sign of writes through a mapping.
const markMask = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_RENAME | unix.FAN_MODIFY | unix.FAN_CLOSE_WRITE |
	unix.FAN_ATTRIB | unix.FAN_ONDIR

func newMarks(roots []root, o Options) (_ *marks, err error) {
	flags := uint(unix.FAN_CLASS_NOTIF | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK | unix.FAN_REPORT_DFID_NAME_TARGET)
	if o.Unlimited {
		flags |= unix.FAN_UNLIMITED_QUEUE
	}
	fd, err := unix.FanotifyInit(flags, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_LARGEFILE)
	if err == unix.EMFILE {
		err = &limitError{err, "too many watchers: raise /proc/sys/fs/fanotify/max_user_groups, or ulimit -n"}
	}
	if err != nil {
		return nil, &Error{Op: "fanotify_init", Err: err}
	}
	m := &marks{
		fd: sys.FD(fd), wake: sys.None,
		dirs: make(map[string]*place), outside: make(map[string]struct{}),
		start: earliest(), sweep: o.Sweep,
	}
	m.quiet = m.start
	defer func() {
		if err != nil {
			m.wake.Close()
			// It waits for marks of other groups that are being removed, too, which takes
			// some milliseconds (fsnotify_wait_marks_destroyed).
			go m.fd.Close()
		}
	}()
	if fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, &Error{Op: "eventfd", Err: err}
	}
	m.wake = sys.FD(fd)
	for i := range roots {
		r := &roots[i]
		if err = unix.FanotifyMark(int(m.fd), unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, markMask, int(r.fd), "."); err != nil {
			if err == unix.ENOSPC {
				err = &limitError{err, "too many marks: raise /proc/sys/fs/fanotify/max_user_marks"}
			}
			return nil, &Error{Op: "fanotify_mark", Path: r.name, Err: err}
		}
		var key []byte
		if key, err = m.rootKey(r); err != nil {
			return nil, &Error{Op: "fanotify_mark", Path: r.name, Err: err}
		}
		// Whether handles can be opened is to be known now, not with the first event.
		var back int
		if back, err = unix.OpenByHandleAt(int(r.fd), splitHandle(key[8:]), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC); err != nil {
			return nil, &Error{Op: "open_by_handle_at", Path: r.name, Err: err}
		}
		_ = unix.Close(back)
		top := &place{root: i, key: string(key)}
		m.tops = append(m.tops, top)
		m.dirs[top.key] = top
	}
	m.roots = roots
	return m, nil
}

func (m *marks) rootKey(r *root) ([]byte, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(r.fd), &st); err != nil {
		return nil, err
	}
	key := make([]byte, 0, 64)
	for _, v := range st.Fsid.Val {
		key = binary.NativeEndian.AppendUint32(key, uint32(v))
	}
	return appendHandle(key, int(r.fd), "")
}

func (m *marks) stop()  { m.tell(haltStop) }
func (m *marks) abort() { m.tell(haltAbort) }

func (m *marks) tell(what uint32) {
	m.halt.Store(max(what, m.halt.Load()))
	one := [8]byte{1}
	_, _ = unix.Write(int(m.wake), one[:])
}

func (m *marks) close() {
	closeRoots(m.roots)
	m.wake.Close()
	m.fd.Close()
}

func (m *marks) step(o *out) {
	if n := len(m.tasks); n > 0 {
		t := m.tasks[n-1]
		m.tasks = t.do(m.roots, m.tasks[:n-1], o, m.change)
		m.scanned = true
		return
	}
	m.old = nil
	if m.lost {
		m.heal(o)
		return
	}
	if m.ending && m.left <= 0 {
		m.end(o)
		return
	}
	if !m.ending {
		m.wait()
		switch m.halt.Load() {
		case haltAbort:
			o.ended = true
			return
		case haltStop:
			m.ending = true
			m.left = m.queued()
			return
		}
	}
	m.read(o)
}

// wait waits for events, or for somebody who wants it to end.
func (m *marks) wait() {
	if m.restful {
		m.restful = false
		fds := [...]unix.PollFd{{Fd: int32(m.wake), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds[:], int(gather/time.Millisecond))
		if fds[0].Revents != 0 {
			return
		}
	}
	fds := [...]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}, {Fd: int32(m.wake), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds[:], -1)
}

// queued is at least how many events are in the queue: what others do meanwhile must not keep us from ending.
func (m *marks) queued() int {
	n, err := unix.IoctlGetInt(int(m.fd), unix.TIOCINQ)
	if err != nil || n <= 0 {
		return 0
	}
	return n/metadataSize + 1
}

// end is called when all that was queued at the time of stop is taken in.
func (m *marks) end(o *out) {
	m.settle(o)
	if m.sweep && !m.swept {
		m.swept = true
		for i := range m.roots {
			if !m.roots[i].gone {
				m.tasks = append(m.tasks, task{root: i, path: ".", since: m.start, sweep: true})
			}
		}
		return
	}
	o.ended = true
}

func (m *marks) read(o *out) {
	if m.buf == nil {
		m.buf = make([]byte, bufSize)
	}
	now, quiet := time.Now(), earliest()
	n, err := m.fd.Read(m.buf)
	switch {
	case err == unix.EAGAIN:
		m.left = 0
		m.emptied(o, quiet)
		return
	case err != nil:
		o.error(&Error{Op: "read events", Err: err})
		o.ended = true
		return
	}
	// What follows a loss builds on names that were not told: heal leaves it out too.
	for b := m.buf[:n]; len(b) > 0 && !m.lost; {
		var r record
		if r, b, err = decode(b); err != nil {
			o.error(&Error{Op: "read events", Err: err})
			m.lost = true // as good as
			break
		}
		m.left--
		m.take(&r, o, now)
	}
	if n < bufSize-maxEvent {
		m.left = 0
		m.emptied(o, quiet)
	}
}

// emptied is called when there was nothing more in the queue; what changed later has times from quiet on.
func (m *marks) emptied(o *out, quiet int64) {
	m.restful = true
	m.scanned = false
	if !m.lost {
		m.quiet = quiet
	}
	m.settle(o)
}

// settle decides what could not be decided before the queue was empty.
func (m *marks) settle(o *out) {
	for _, d := range m.loose {
		if d.parent != nil || d.root != outside {
			continue
		}
		for _, d := range d.all() {
			if m.dirs[d.key] == d {
				delete(m.dirs, d.key)
			}
		}
	}
	m.loose = m.loose[:0]
	m.late = m.late[:0]
	for _, d := range m.doubt {
		_, err := m.lookAt(d.ev.Root, d.ev.Path)
		if there := err == nil; there != d.there {
			d.ev.Op = Created
			if !there {
				d.ev.Op = Removed
			}
			o.event(d.ev)
		}
	}
	clear(m.doubt)
}

func (m *marks) lookAt(root, path string) (found, error) {
	for i := range m.roots {
		if m.roots[i].name != root {
			continue
		}
		fd, err := openAt(int(m.roots[i].fd), path, unix.O_PATH)
		if err != nil {
			return found{}, err
		}
		defer fd.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil {
			return found{}, err
		}
		return found{dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano()}, nil
	}
	return found{}, unix.ENOENT
}

// heal begins to look for what was lost. What is queued by now is left out: between these
// events there are more that were lost, and what they did is found.
func (m *marks) heal(o *out) {
	m.lost = false
	o.error(&Error{Op: "read events", Err: ErrOverflow})
	m.settle(o)
	for left := m.queued(); left > 0; {
		n, err := m.fd.Read(m.buf)
		if err != nil {
			break // the next one to read will say it
		}
		for b := m.buf[:n]; len(b) > 0 && err == nil; left-- {
			_, b, err = decode(b)
		}
	}
	since := m.quiet
	m.quiet = earliest()
	m.old = m.dirs
	if len(m.tasks) > 0 {
		// The last overflow is not healed yet: what has not been looked at since is as it
		// was told before that, if it was.
		since, m.old = min(since, m.healed), make(map[string]*place)
	}
	m.healed = since
	m.dirs = make(map[string]*place)
	clear(m.outside)
	m.loose, m.late = nil, nil
	for i, top := range m.tops {
		if m.roots[i].gone {
			continue
		}
		if m.roots[i].removed() {
			gone(m.roots, i, o)
			continue
		}
		// The old ones keep the old top, and so their paths.
		m.tops[i] = &place{root: i, key: top.key}
		m.dirs[top.key] = m.tops[i]
		m.tasks = append(m.tasks, task{root: i, path: ".", since: since})
	}
}

// change looks at a directory that is to be looked through after an overflow. If it may
// have got another name meanwhile, all in it has.
func (m *marks) change(dir int, f *found, sub *task) {
	if m.old == nil || sub.all || f.ctime < sub.since {
		return
	}
	key, err := appendHandle([]byte(m.tops[sub.root].key[:8]), dir, f.name)
	if err != nil {
		return // it has gone
	}
	if d := m.old[string(key)]; d != nil {
		if root, path := m.where(d); root == sub.root && path == sub.path {
			return
		}
	}
	sub.all = true
}

// lookup returns the place of a directory, nil where it is not below a root, or gone.
func (m *marks) lookup(key []byte) *place {
	if len(key) == 0 {
		return nil
	}
	if d := m.dirs[string(key)]; d != nil {
		return d
	}
	if _, ok := m.outside[string(key)]; ok {
		return nil
	}
	return m.resolve(key)
}

// resolve finds the place of a directory of which there was no event.
func (m *marks) resolve(key []byte) *place {
	for i := range m.roots {
		if m.roots[i].gone || string(key[:8]) != m.tops[i].key[:8] {
			continue
		}
		const tries = 5 // somebody may rename what is above it
		for n := range tries {
			d, err := m.resolveBelow(i, key)
			if d != nil {
				return d
			}
			if err == errOutside || err == unix.ESTALE {
				break // ESTALE: it is gone
			}
			if n == tries-1 {
				m.lost = true // what happened in it, and maybe below a root
				return nil
			}
		}
	}
	m.addOutside(key)
	return nil
}

var errOutside = errors.New("not below a root")

func (m *marks) addOutside(key []byte) {
	if len(m.outside) >= maxOutside {
		clear(m.outside)
	}
	m.outside[string(key)] = struct{}{}
}

func (m *marks) resolveBelow(root int, key []byte) (d *place, err error) {
	top := int(m.roots[root].fd)
	n, err := unix.OpenByHandleAt(top, splitHandle(key[8:]), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	fd := sys.FD(n)
	defer fd.Close()
	path, err := os.Readlink(sys.ProcPath(n))
	if err != nil {
		return nil, err
	}
	above, err := os.Readlink(sys.ProcPath(top))
	if err != nil {
		return nil, err
	}
	rel, ok := below(path, above)
	if !ok || rel == "." {
		return nil, errOutside
	}
	// The text only says where to look: each step is checked, and the last has to be it.
	var chain []*place
	var names []string
	held := sys.None
	defer func() { held.Close() }()
	at := top
	for name := range strings.SplitSeq(rel, "/") {
		next, err := openAt(at, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return nil, err
		}
		held.Close()
		held, at = next, int(next)
		k, err := appendHandle(append(make([]byte, 0, 64), key[:8]...), at, "")
		if err != nil {
			return nil, err
		}
		d := m.dirs[string(k)]
		if d == nil {
			d = &place{key: string(k)}
		}
		chain, names = append(chain, d), append(names, name)
	}
	if chain[len(chain)-1].key != string(key) {
		return nil, unix.EAGAIN
	}
	parent := m.tops[root]
	for i, d := range chain {
		if m.dirs[d.key] == nil {
			m.dirs[d.key] = d
			m.putAt(d, parent, names[i])
			m.late = append(m.late, d)
		}
		parent = d
	}
	return parent, nil
}

// putAt is places.put; what was there before waits until the queue is empty.
func (m *marks) putAt(d, parent *place, name string) {
	if old := m.put(d, parent, name); old != nil {
		m.loose = append(m.loose, old)
	}
}
