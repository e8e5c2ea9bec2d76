//go:build linux

package fanotify

import (
	"hash/maphash"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A task is a directory to be looked through, in one step: what is in it gets events, and
// directories in it become tasks.
type task struct {
	root  int
	path  string
	place *place // of the engine Inotify

	// What gets an event: everything, as Created; else what changed at that time
	// (nanoseconds since 1970) or later; with sweep, only if that was not told. Where
	// since is not zero names may have gone unseen, which the directory tells.
	all   bool
	since int64
	sweep bool
}

// slack is how much older than it happened a file's time can be: the clock that file systems go by ticks with the timer
// interrupt, which is 10 ms at most, or more if a virtual machine has to wait.
const slack = 20 * time.Millisecond

// earliest is the earliest time (nanoseconds since 1970) that a file can have that is changed from
// now on. File systems go by the clock that is asked here; the slack is for those that have their own.
func earliest() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return time.Now().Add(-slack).UnixNano()
	}
	return now.Nano() - int64(slack)
}

// found is what a directory holds under a name.
type found struct {
	name               string
	dir, regular       bool
	born, ctime, mtime int64 // nanoseconds since 1970; zero: unknown, or not asked for
	ino                uint64
}

func look(dir int, name string) (f found, err error) {
	var st unix.Statx_t
	err = sys.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC,
		unix.STATX_TYPE|unix.STATX_INO|unix.STATX_CTIME|unix.STATX_MTIME|unix.STATX_BTIME, &st)
	if err != nil {
		return f, err
	}
	f = found{name: name, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
		ctime: nano(st.Ctime), mtime: nano(st.Mtime), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		f.born = nano(st.Btime)
	}
	return f, nil
}

func nano(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// list calls each for everything in a directory that is open for reading. With times
// each one is looked at; what is gone by then is left out.
func list(fd int, times bool, each func(found)) error {
	return names(fd, func(name string, typ uint8) {
		if !times && typ != unix.DT_UNKNOWN {
			each(found{name: name, dir: typ == unix.DT_DIR, regular: typ == unix.DT_REG})
			return
		}
		if f, err := look(fd, name); err == nil {
			each(f)
		}
	})
}

// since says which operation explains the times of f, if it changed since then. The
// name of what only was renamed has changed without any other sign than the ctime.
func (f *found) since(then int64) (op Op, changed bool) {
	switch {
	case f.ctime < then:
		return 0, false
	case f.born >= then:
		return Created, true
	case f.mtime >= then:
		return Written, true
	}
	return Attributes, true
}

// event makes the event for something that a task found, if it is to have one.
func (t *task) event(o *out, roots []root, f *found, now time.Time) {
	ev := Event{Op: Created, Root: roots[t.root].name, Path: join(t.path, f.name), Dir: f.dir, Time: now}
	if !t.all {
		var changed bool
		if ev.Op, changed = f.since(t.since); !changed || t.sweep && o.told.knows(&ev, f) {
			return
		}
	}
	o.event(ev)
}

// told is when paths were last told, by their hashes: what a sweep finds has to be newer. The nil told keeps nothing.
type told map[uint64]int64

// seed costs nothing before it is needed.
var seed = sync.OnceValue(maphash.MakeSeed)

func (ev *Event) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed())
	_, _ = h.WriteString(ev.Root)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(ev.Path)
	return h.Sum64()
}

// note keeps that ev was told. The lowest bit of the time is whether as Written.
func (t told) note(ev *Event) {
	if t == nil {
		return
	}
	if ev.Op == Removed {
		delete(t, ev.hash())
		return
	}
	when := ev.Time.UnixNano() &^ 1
	if ev.Op == Written {
		when |= 1
	}
	t[ev.hash()] = when
}

// knows reports whether all that happened to what ev is about was told. It makes an event of
// what was told before a Written one.
func (t told) knows(ev *Event, f *found) bool {
	when, ok := t[ev.hash()]
	if !ok {
		return false
	}
	ev.Op = Written
	if when&1 != 0 || !f.regular {
		return f.ctime <= when
	}
	return f.ctime <= when-int64(slack)
}

// self makes the event for the directory itself: names may have gone from it.
func (t *task) self(fd int, o *out, roots []root, now time.Time) {
	if t.sweep || t.since == 0 {
		return
	}
	f, err := lookFD(fd)
	if err != nil || f.mtime < t.since && !t.all {
		return
	}
	o.event(Event{Op: Written, Root: roots[t.root].name, Path: t.path, Dir: true, Time: now})
}

// unseen reports whether names may have come to a directory, or gone from it, before it was
// watched: it was changed after it was made.
func unseen(fd int) bool {
	var st unix.Statx_t
	err := sys.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MTIME|unix.STATX_BTIME, &st)
	return err == nil && (st.Mask&unix.STATX_BTIME == 0 || st.Mtime != st.Btime)
}

func lookFD(fd int) (found, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return found{}, err
	}
	return found{dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano()}, nil
}

// do looks through one directory, by its path, and returns the tasks with those below it.
// Each of those is given to change first, if that is not nil, with the directory it is in.
func (t *task) do(roots []root, tasks []task, o *out, change func(dir int, f *found, sub *task)) []task {
	fd, err := openAt(int(roots[t.root].fd), t.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err == nil {
		defer fd.Close()
		now := time.Now()
		t.self(int(fd), o, roots, now)
		err = list(int(fd), !t.all, func(f found) {
			t.event(o, roots, &f, now)
			if f.dir {
				sub := *t
				sub.path = join(t.path, f.name)
				if change != nil {
					change(int(fd), &f, &sub)
				}
				tasks = append(tasks, sub)
			}
		})
	}
	if err != nil && !elsewhere(err) {
		o.error(&Error{Op: "list", Path: absolute(roots[t.root].name, t.path), Err: err})
	}
	return tasks
}

// elsewhere reports whether an error says that something else is there by now, or a mount.
func elsewhere(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.EXDEV || err == unix.ESTALE
}

// gone tells that a root is not where it was.
func gone(roots []root, root int, o *out) {
	r := &roots[root]
	if !r.gone {
		o.error(&Error{Op: "watch", Path: r.name, Err: ErrRootGone})
	}
	if !r.removed() {
		return
	}
	r.gone = true
	for i := range roots {
		if !roots[i].gone {
			return
		}
	}
	o.ended = true
}
