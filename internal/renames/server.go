//go:build linux

package renames

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
)

// A Server renames directories for the processes of one sandbox. The zero Server is ready to be attached.
type Server struct {
	// Root is the outer id of the sandbox's user and group 0, if the processes have ids of their own. Calls are
	// made with that id. Zero: with this process's ids.
	Root int
	// Owners says that root's processes can have capabilities over files of all owners, and become other users. Each
	// call is then made with the ids and these capabilities of the process that made it.
	Owners bool

	server  notify.Server
	next    *sandbox.Observer // gets all other calls; nil: there are none
	running sync.WaitGroup
	moving  sync.Mutex // one directory at a time is carried over
	acting  sync.Mutex // one call at a time is answered on a thread of its own: a command can make thousands at once

	waiting chan struct{} // has room for the directories that wait to be carried over: each takes descriptors

	began      time.Time // files that are older can be of a lower layer
	copies     copies    // of linked files
	dirTimes   dirTimes
	restricted atomic.Bool // a process has restricted itself by Landlock: see doc.go
	overlays   overlays    // of the sandbox; nil: they are not known yet

	// For the thread that gets the calls.
	own  bool // it is this Server's
	seen caller

	using sync.Mutex // held while a call is answered

	// effects is held (RLock) while something is changed: looking at the names of a call can take as long as a file
	// system takes, and after Close nothing is changed.
	effects sync.RWMutex
	gone    bool
}

// maxWaiting is how many directories of a sandbox can wait to be carried over. Then all other calls wait, too.
const maxWaiting = 16

// Attach makes c a command whose directories can be renamed. It installs the filter deny, which must not be among the
// command's other filters. If the kernel provides no listener, only deny is installed, see Supervisor.Without.
// Supervisors and observers that are attached later serve this Server too. Close must be called.
func (s *Server) Attach(c *sandbox.Options, deny []unix.SockFilter) {
	if s.next = c.Observer; s.next != nil {
		deny = s.next.Filter
	}
	s.waiting = make(chan struct{}, maxWaiting)
	s.began, s.seen.changes = time.Now(), s.Owners
	s.server.Handle = s.handle
	s.server.On = func(serve func()) bool {
		return s.unprivileged(s.root(), func() {
			s.own = !s.Owners
			serve()
		})
	}
	f := filter(deny)
	c.Observer = &sandbox.Observer{Filter: f, Look: func(*notify.Notification) {}, Handle: s.handle, Answers: s.answers}
	c.Supervisor = &sandbox.Supervisor{Filter: f, Optional: true, Started: func(l *os.File, _ []*os.File) error { return s.server.Start(l) }}
}

// answers reports whether a call is one that handle answers.
func (s *Server) answers(nr int32) bool {
	return slices.Contains(calls, uint32(nr)) || s.next != nil && s.next.Answers(nr)
}

// Close must be called when the sandbox has ended. It waits for renames that have begun, but not for a file system that
// does not answer.
func (s *Server) Close() {
	s.server.Close()
	s.effects.Lock()
	s.gone = true
	s.effects.Unlock()
	notify.Ended(func() {
		s.using.Lock()
		s.seen.close()
		s.using.Unlock()
		s.running.Wait()
	}, s.dirTimes.close)
}

// effect calls f, which changes something, unless the sandbox has ended.
func (s *Server) effect(f func()) {
	s.effects.RLock()
	defer s.effects.RUnlock()
	if !s.gone {
		f()
	}
}

// ended reports whether Close was called. Another server's thread may still pass calls on.
func (s *Server) ended() bool {
	s.effects.RLock()
	defer s.effects.RUnlock()
	return s.gone
}

// root are the rights of root's processes. Nil: this process's.
func (s *Server) root() *rights {
	if s.Root == 0 {
		return nil
	}
	return &rights{user: s.Root, group: s.Root}
}

// unprivileged calls f on a thread with the ids of by, and without capabilities: commands in a sandbox have none
// outside of it. The thread must not end: for the kernel it may be the parent of sandboxes, which would end with it.
// False: the capabilities could not be dropped, and f was not called.
func (s *Server) unprivileged(by *rights, f func()) bool {
	runtime.LockOSThread()
	asBefore, ok := func() bool { return true }, true
	if by != nil {
		asBefore, ok = become(by)
	}
	raise, lowered := sys.Lower(sys.AllCapabilities)
	if ok = ok && lowered; ok {
		f()
	}
	if (!lowered || raise()) && asBefore() {
		runtime.UnlockOSThread()
	}
	return ok
}

// handle answers a call, or starts a goroutine for a call that takes time or needs fewer rights.
func (s *Server) handle(l notify.Listener, n *notify.Notification) {
	if !slices.Contains(calls, uint32(n.NR)) {
		s.next.Handle(l, n)
		return
	}
	s.using.Lock()
	defer s.using.Unlock()
	switch {
	case s.ended():
		l.Proceed(n.ID)
		return
	case n.NR == unix.SYS_LANDLOCK_RESTRICT_SELF:
		s.restricted.Store(true)
		fallthrough
	case s.restricted.Load():
		l.Proceed(n.ID)
		return
	case isLink(n.NR):
		s.link(l, n)
		return
	}
	c := parse(n)
	switch {
	case !s.seen.concerns(&c):
		l.Proceed(n.ID)
	case s.own || os.Geteuid() != 0:
		if m := s.seen.begin(l, &c, s); m != nil {
			s.waiting <- struct{}{}
			s.running.Go(func() {
				defer func() { <-s.waiting }()
				s.carry(l, c.id, m)
			})
		}
	default:
		s.running.Go(func() { s.apart(l, &c) })
	}
}

// apart answers a call with fewer rights than the thread that got it has.
func (s *Server) apart(l notify.Listener, c *call) {
	s.waiting <- struct{}{}
	defer func() { <-s.waiting }()
	var m *move
	done := s.act(l, c, func(seen *caller) { m = seen.begin(l, c, s) })
	switch {
	case !done:
		l.Proceed(c.id)
	case m != nil:
		s.carry(l, c.id, m)
	}
}

// act calls f on a thread without capabilities, one call at a time. False: f was not called.
func (s *Server) act(l notify.Listener, c *call, f func(*caller)) bool {
	s.acting.Lock()
	defer s.acting.Unlock()
	seen := caller{by: s.root()}
	if s.Owners && os.Geteuid() == 0 {
		by, ok := rightsOf(c.pid)
		if s.overlays == nil {
			s.overlays = overlaysOf(c.pid)
		}
		if !l.Valid(c.id) { // this can have been another process
			s.overlays = nil
			ok = false
		}
		if !ok {
			return false
		}
		by.overlays = s.overlays
		seen.by = &by
	}
	return s.unprivileged(seen.by, func() {
		defer seen.close()
		f(&seen)
	})
}

// begin answers a call: it renames by the kernel, or lets the kernel carry out the call. If the directory has to be
// carried over, it answers nothing and returns the move.
func (s *caller) begin(l notify.Listener, c *call, of *Server) *move {
	s.close() // the caller may have another root by now, or be another process
	if !s.open(c.pid) {
		l.Proceed(c.id)
		return nil
	}
	m := s.resolve(c)
	if m == nil {
		l.Proceed(c.id)
		return nil
	}
	// The directories are the caller's only if it still waits: else another process may have its number.
	m.waits = func() bool { return l.Valid(c.id) }
	one, overlay := m.mounts()
	if one && !overlay { // the kernel needs no help, and a file system that does not answer would block this thread
		l.Proceed(c.id)
	} else if m.waits() {
		file, err := false, error(errLeave)
		rename := func() { file, err = m.rename(s, &of.copies) }
		if overlay {
			m.by = s.by
			of.effect(func() { m.asOwner(rename) })
		} else {
			rename() // from one mount to another, which changes nothing
		}
		switch {
		case err == nil:
			l.Answer(c.id, 0)
		case err == unix.EXDEV && !file && overlay:
			m.seen, m.copies = s.keep(), &of.copies
			return m
		case err == unix.EBUSY: // the kernel says EXDEV first, where what is in the way lies in another mount
			l.Answer(c.id, unix.EBUSY)
		default:
			l.Proceed(c.id)
		}
	}
	m.close()
	return nil
}

// carry carries a directory over, which takes time, and answers the call.
func (s *Server) carry(l notify.Listener, id uint64, m *move) {
	defer m.close()
	s.moving.Lock()
	defer s.moving.Unlock()
	err := error(errLeave)
	s.effect(func() {
		s.unprivileged(m.by, func() { m.asOwner(func() { err = m.carry() }) })
	})
	switch e, ok := err.(syscall.Errno); {
	case err == nil:
		l.Answer(id, 0)
	case err == errLeave:
		l.Proceed(id)
	case ok:
		l.Answer(id, e)
	default:
		l.Answer(id, syscall.EIO)
	}
}
