//go:build linux

package fanotify

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// take makes events of a record.
func (m *marks) take(r *record, o *out, now time.Time) {
	if r.mask&unix.FAN_Q_OVERFLOW != 0 {
		m.lost = true
		return
	}
	dir := m.lookup(r.dir)
	if r.mask&unix.FAN_RENAME != 0 {
		m.rename(r, dir, o, now)
		return
	}
	isDir := r.mask&unix.FAN_ONDIR != 0
	if dir == nil {
		if isDir && r.mask&unix.FAN_CREATE != 0 && len(r.child) > 0 && len(r.dir) > 0 {
			m.addOutside(r.child)
		} else if isDir && r.mask&unix.FAN_DELETE != 0 {
			m.rootGone(r.child, o)
			delete(m.outside, string(r.child))
		}
		return
	}
	root, path := m.where(dir)
	if root == outside {
		return
	}
	self := len(r.name) == 0 || string(r.name) == "."
	ev := Event{Root: m.roots[root].name, Path: path, Dir: isDir, PID: r.pid, Time: now}
	if !self {
		ev.Path = join(path, string(r.name))
	}
	tell := func(op Op) {
		ev.Op = op
		m.event(o, ev)
	}
	switch created, deleted := r.mask&unix.FAN_CREATE != 0, r.mask&unix.FAN_DELETE != 0; {
	case created:
		if isDir && len(r.child) > 0 {
			d := m.dirs[string(r.child)]
			if d == nil {
				d = &place{key: string(r.child)}
				m.dirs[d.key] = d
				delete(m.outside, d.key)
			}
			m.putAt(d, dir, string(r.name))
		}
		tell(Created)
		if r.mask&unix.FAN_MODIFY != 0 {
			tell(Written)
		}
		if deleted {
			m.deleted(r, o)
			tell(Removed)
			if m.doubt == nil {
				m.doubt = make(map[string]*doubt)
			}
			m.doubt[ev.Root+"\x00"+ev.Path] = &doubt{ev: ev}
		}
	case deleted:
		m.deleted(r, o)
		tell(Removed)
	case r.mask&unix.FAN_MODIFY != 0:
		tell(Written)
	case r.mask&unix.FAN_CLOSE_WRITE != 0:
		// It may have been opened for writing only.
		if f, err := m.lookAt(ev.Root, ev.Path); err == nil && f.mtime >= m.start {
			tell(Written)
		}
	case r.mask&unix.FAN_ATTRIB != 0:
		tell(Attributes)
	}
}

// event tells ev, and keeps books about paths in doubt.
func (m *marks) event(o *out, ev Event) {
	if len(m.doubt) > 0 {
		if d := m.doubt[ev.Root+"\x00"+ev.Path]; d != nil {
			d.there = ev.Op != Removed
		}
		if ev.Op == Renamed {
			if d := m.doubt[ev.Root+"\x00"+ev.From]; d != nil {
				d.there = false
			}
		}
	}
	o.event(ev)
}

// deleted forgets a directory that was removed.
func (m *marks) deleted(r *record, o *out) {
	if r.mask&unix.FAN_ONDIR == 0 {
		return
	}
	m.rootGone(r.child, o)
	if d := m.dirs[string(r.child)]; d != nil && d.parent != nil {
		m.places.take(d)
		m.loose = append(m.loose, d)
	}
}

// rootGone looks whether a directory that was removed or renamed is a root.
func (m *marks) rootGone(key []byte, o *out) (is bool) {
	for i, top := range m.tops {
		if top.key == string(key) {
			gone(m.roots, i, o)
			return true
		}
	}
	return false
}

func (m *marks) rename(r *record, from *place, o *out, now time.Time) {
	to := m.lookup(r.dir2)
	isDir := r.mask&unix.FAN_ONDIR != 0
	if isDir && m.rootGone(r.child, o) {
		return
	}
	ev := Event{Dir: isDir, PID: r.pid, Time: now}
	fromRoot, toRoot := outside, outside
	var fromPath, toPath string
	if from != nil {
		if fromRoot, fromPath = m.where(from); fromRoot != outside {
			fromPath = join(fromPath, string(r.name))
		}
	}
	if to != nil {
		if toRoot, toPath = m.where(to); toRoot != outside {
			toPath = join(toPath, string(r.name2))
		}
	}
	late := false
	if isDir && len(r.child) > 0 {
		d := m.dirs[string(r.child)]
		late = d != nil && slices.Contains(m.late, d)
		switch {
		case toRoot != outside:
			if d == nil {
				d = &place{key: string(r.child)}
				m.dirs[d.key] = d
			}
			m.putAt(d, to, string(r.name2))
			if fromRoot == outside {
				clear(m.outside) // what is below it may have been thought to be outside
			}
		case d != nil && d.parent != nil:
			m.places.take(d)
			m.loose = append(m.loose, d)
		}
	}
	switch {
	case toRoot == outside && fromRoot == outside:
	case toRoot == fromRoot:
		ev.Op, ev.Root, ev.From, ev.Path = Renamed, m.roots[toRoot].name, fromPath, toPath
		exchanged := m.before.path == fromPath && m.before.from == toPath && m.before.child != string(r.child)
		m.before.from, m.before.path, m.before.child = fromPath, toPath, string(r.child)
		if exchanged {
			// RENAME_EXCHANGE comes as two renames. By them what was first at the
			// second's new name would be lost.
			ev.Op, ev.From = Created, ""
		}
		m.event(o, ev)
		if isDir && (exchanged || late || m.scanned) {
			t := task{root: toRoot, path: toPath, all: true}
			if m.scanned {
				t.since = always // it may have been passed over, and names have gone from it
			}
			m.addTask(t)
		}
	default:
		if fromRoot != outside {
			ev.Op, ev.Root, ev.Path = Removed, m.roots[fromRoot].name, fromPath
			m.event(o, ev)
		}
		if toRoot != outside {
			ev.Op, ev.Root, ev.Path = Created, m.roots[toRoot].name, toPath
			m.event(o, ev)
			if isDir {
				m.tasks = append(m.tasks, task{root: toRoot, path: toPath, all: true})
			}
		}
	}
}

// addTask adds a task, but not a second time.
func (m *marks) addTask(t task) {
	if !slices.Contains(m.tasks, t) {
		m.tasks = append(m.tasks, t)
	}
}
