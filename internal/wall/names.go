//go:build linux

package wall

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// Two directories have everybody's: /dev/pts the terminals, and /dev/shm what programs share by shm_open(3) and sem_open(3).
// Landlock can allow all of what is in a directory, or none. So the Deputy is told of calls that open a file for reading and
// writing, as these do, and of those that give and remove names. If the name is in one of the two directories it answers:
//
//   - the other end of a terminal it opens for whom has the first end open, which anybody may make (/dev/ptmx);
//   - the names in /dev/shm are its own: there is memory behind them (memfd_create(2)), no file, and nobody else has it.
//
// Temporary files without a name that programs make in /tmp whatever TMPDIR says (tmpfile(3)) are made in the command's own
// directory for them. Those with a name are not: programs that cannot make one look elsewhere, and one that can expects to find it.
//
// Whatever else is named the kernel opens itself, by the command's own rules. So it does not matter that the name can be
// another one by then.

// An opener is a call that opens a file.
type opener struct {
	nr          uint32
	path, flags uint32 // which arguments
}

// A namer is a call that gives or removes a name.
type namer struct {
	nr   uint32
	here []uint32 // the arguments that are to be AT_FDCWD
	old  int      // the argument with the name that is there
	new  int      // the one with the name that is made; noArg: the old one is removed
}

// otherwise are the bits of flags with which a file is not opened for both reading and writing.
const otherwise = unix.O_ACCMODE | unix.O_TMPFILE | unix.O_PATH

const (
	terminals = "/dev/pts/"
	memories  = "/dev/shm/"
	// maxNames is how many names in /dev/shm there are at once.
	maxNames = 512
)

// names are what a command has in /dev/shm.
type names struct{ memory map[string]sys.FD }

func (s *names) close() {
	for _, fd := range s.memory {
		fd.Close()
	}
	s.memory = nil
}

// notifyNames adds the calls to a filter that are told of.
func (f *builder) notifyNames() {
	for _, c := range openers {
		f.call(c.nr, func() {
			f.Lower(c.flags)
			f.Add(seccomp.And, 0, 0, otherwise)
			f.Add(seccomp.Equal, 1, 0, unix.O_RDWR)
			f.Add(seccomp.Equal, 0, 1, unix.O_RDWR|unix.O_TMPFILE)
			f.Notify()
		})
	}
	for _, c := range namers {
		f.call(c.nr, func() {
			here := int32(unix.AT_FDCWD)
			for _, arg := range c.here {
				f.Lower(arg)
				f.Add(seccomp.Equal, 1, 0, uint32(here))
				f.Allow()
			}
			f.Notify()
		})
	}
}

// handle answers a call that opens a file, or names one, and reports whether it was one.
func (s *names) handle(d *Deputy, l notify.Listener, n *notify.Notification) bool {
	for _, c := range openers {
		if c.nr == uint32(n.NR) {
			s.open(d, l, n, c)
			return true
		}
	}
	for _, c := range namers {
		if c.nr == uint32(n.NR) {
			s.name(d, l, n, c)
			return true
		}
	}
	return false
}

func (s *names) open(d *Deputy, l notify.Listener, n *notify.Notification, c opener) {
	name, e := d.read(n.PID, uintptr(n.Args[c.path]))
	flags := int(int32(n.Args[c.flags]))
	if e != 0 {
		l.Proceed(n.ID) // the kernel says what is wrong
		return
	}
	file := sys.None
	if number, ok := terminal(name); ok {
		file, e = openTerminal(n.PID, number, flags)
	} else if base, ok := shared(name); ok {
		file, e = s.openMemory(base, flags)
	} else if flags&unix.O_TMPFILE == unix.O_TMPFILE && d.temporary(name) {
		file, e = d.makeTemporary(flags, uint32(n.Args[c.flags+1]))
	} else {
		l.Proceed(n.ID)
		return
	}
	defer file.Close()
	if e == 0 {
		e = l.Give(n.ID, int(file), flags&unix.O_CLOEXEC != 0)
	}
	if e != 0 {
		l.Answer(n.ID, e)
	}
}

// terminal is the number of the terminal that a name means.
func terminal(name string) (number string, ok bool) {
	number, ok = strings.CutPrefix(name, terminals)
	if v, err := strconv.ParseUint(number, 10, 31); !ok || err != nil || strconv.FormatUint(v, 10) != number {
		return "", false
	}
	return number, true
}

// shared is the name in /dev/shm that a path means.
func shared(name string) (base string, ok bool) {
	base, ok = strings.CutPrefix(name, memories)
	return base, ok && base != "" && base != "." && base != ".." && len(base) <= unix.NAME_MAX && !strings.Contains(base, "/")
}

// temporary reports whether a path is a directory for everybody's temporary files that the command does not see.
func (d *Deputy) temporary(name string) bool {
	name = strings.TrimSuffix(name, "/")
	return (name == "/tmp" || name == "/var/tmp") && d.Temp != "" && d.Seen != nil && !d.Seen(name)
}

// makeTemporary makes a file without a name in the command's own directory for them.
func (d *Deputy) makeTemporary(flags int, mode uint32) (sys.FD, syscall.Errno) {
	how := flags&(unix.O_TMPFILE|unix.O_EXCL|unix.O_APPEND) | unix.O_RDWR | unix.O_CLOEXEC
	fd, err := unix.Openat(int(d.temp), ".", how, mode&0o700)
	return sys.FD(fd), errnoOf(err)
}

// openTerminal opens a terminal for a thread that has its first end open. That is looked at when the second one is held: once
// both are closed, others get the number, but not what is held.
func openTerminal(thread uint32, number string, flags int) (sys.FD, syscall.Errno) {
	held, err := unix.Open(terminals+number, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, errnoOf(err)
	}
	defer unix.Close(held)
	if !hasFirstEnd(thread, number) {
		return sys.None, syscall.EACCES
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(held), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|flags&unix.O_NONBLOCK, 0)
	return sys.FD(fd), errnoOf(err)
}

// hasFirstEnd reports whether a thread has the first end of a terminal open, for which the kernel says the terminal's number.
func hasFirstEnd(thread uint32, number string) bool {
	dir := notify.Proc(thread, "fd")
	list, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range list {
		if link, err := os.Readlink(dir + "/" + e.Name()); err != nil || link != "/dev/ptmx" && link != "/dev/pts/ptmx" {
			continue
		}
		info, err := os.ReadFile(dir + "info/" + e.Name())
		if err == nil && strings.Contains(string(info), "\ntty-index:\t"+number+"\n") {
			return true
		}
	}
	return false
}

// openMemory opens what has a name in /dev/shm.
func (s *names) openMemory(base string, flags int) (sys.FD, syscall.Errno) {
	fd, ok := s.memory[base]
	switch {
	case ok && flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return sys.None, syscall.EEXIST
	case !ok && flags&unix.O_CREAT == 0:
		return sys.None, syscall.ENOENT
	case !ok && len(s.memory) >= maxNames:
		return sys.None, syscall.ENOSPC
	case !ok:
		made, err := unix.MemfdCreate(base[:min(len(base), 100)], unix.MFD_CLOEXEC)
		if err != nil {
			return sys.None, errnoOf(err)
		}
		fd = sys.FD(made)
		s.keep(base, fd)
	}
	// Another one each time, with an offset of its own.
	own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(fd)), unix.O_RDWR|unix.O_CLOEXEC|flags&(unix.O_TRUNC|unix.O_APPEND), 0)
	return sys.FD(own), errnoOf(err)
}

func (s *names) keep(base string, fd sys.FD) {
	if s.memory == nil {
		s.memory = make(map[string]sys.FD)
	}
	s.memory[base] = fd
}

// name gives what has a name in /dev/shm another one there, or removes one.
func (s *names) name(d *Deputy, l notify.Listener, n *notify.Notification, c namer) {
	old, e := d.read(n.PID, uintptr(n.Args[c.old]))
	from, ok := shared(old)
	if e != 0 || !ok {
		l.Proceed(n.ID)
		return
	}
	if c.new == noArg {
		l.Answer(n.ID, s.remove(from))
		return
	}
	name, e := d.read(n.PID, uintptr(n.Args[c.new]))
	if to, ok := shared(name); e == 0 && ok {
		e = s.link(from, to)
	} else if e == 0 {
		e = syscall.EXDEV
	}
	l.Answer(n.ID, e)
}

func (s *names) remove(base string) syscall.Errno {
	fd, ok := s.memory[base]
	if !ok {
		return syscall.ENOENT
	}
	fd.Close()
	delete(s.memory, base)
	return 0
}

func (s *names) link(from, to string) syscall.Errno {
	fd, ok := s.memory[from]
	_, exists := s.memory[to]
	switch {
	case !ok:
		return syscall.ENOENT
	case exists:
		return syscall.EEXIST
	case len(s.memory) >= maxNames:
		return syscall.ENOSPC
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	s.keep(to, sys.FD(own))
	return 0
}
