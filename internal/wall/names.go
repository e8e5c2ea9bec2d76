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

// Two directories hold files of all users: /dev/pts holds terminals, and /dev/shm holds what programs share by
// shm_open(3) and sem_open(3). Landlock can allow everything in a directory, or nothing. So the Deputy receives calls
// that open a file for reading and writing, as these functions do, and of calls that make and remove names. It answers
// for names in these two directories:
//
//   - It opens the second end of a terminal for a process that has the first end open. Anybody may make a terminal
//     (/dev/ptmx).
//   - It keeps the names in /dev/shm itself. Behind them is memory (memfd_create(2)), not a file, and no other command
//     has it.
//
// Some programs make temporary files without a name in /tmp whatever TMPDIR says (tmpfile(3)). The Deputy makes these
// in the command's own directory for temporary files. It does not do so for files with a name: a program that cannot
// make one tries another directory, and a program that has made one expects to find it there.
//
// For all other names the kernel carries out the call, under the command's own rules. So it does not matter if the name
// in the command's memory changes in the meantime.

// An opener is a call that opens a file.
type opener struct {
	nr          uint32
	path, flags uint32 // the numbers of these arguments
}

// A namer is a call that makes or removes a name.
type namer struct {
	nr   uint32
	here []uint32 // the arguments that must be AT_FDCWD
	old  int      // the argument with the existing name
	new  int      // the argument with the new name; noArg: the call removes the old one
}

// otherwise are the flags that distinguish an open for reading and writing from others.
const otherwise = unix.O_ACCMODE | unix.O_TMPFILE | unix.O_PATH

const (
	terminals = "/dev/pts/"
	memories  = "/dev/shm/"
	// maxNames is how many names in /dev/shm a command can have at once.
	maxNames = 512
)

// names are a command's files in /dev/shm.
type names struct{ memory map[string]sys.FD }

func (s *names) close() {
	for _, fd := range s.memory {
		fd.Close()
	}
	s.memory = nil
}

// notifyNames makes a filter report these calls.
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

// handle answers a call if it is an opener or a namer, and reports whether it was one.
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
		l.Proceed(n.ID) // the kernel returns the error
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

func terminal(name string) (number string, ok bool) {
	number, ok = strings.CutPrefix(name, terminals)
	if v, err := strconv.ParseUint(number, 10, 31); !ok || err != nil || strconv.FormatUint(v, 10) != number {
		return "", false
	}
	return number, true
}

// shared returns the name in /dev/shm that a path has.
func shared(name string) (base string, ok bool) {
	base, ok = strings.CutPrefix(name, memories)
	return base, ok && base != "" && base != "." && base != ".." && len(base) <= unix.NAME_MAX && !strings.Contains(base, "/")
}

// temporary reports whether a path is one of the directories for temporary files of all users, and the command does not
// see it.
func (d *Deputy) temporary(name string) bool {
	name = strings.TrimSuffix(name, "/")
	return (name == "/tmp" || name == "/var/tmp") && d.Temp != "" && d.Seen != nil && !d.Seen(name)
}

// makeTemporary makes a file without a name in the command's own directory for temporary files.
func (d *Deputy) makeTemporary(flags int, mode uint32) (sys.FD, syscall.Errno) {
	how := flags&(unix.O_TMPFILE|unix.O_EXCL|unix.O_APPEND) | unix.O_RDWR | unix.O_CLOEXEC
	fd, err := unix.Openat(int(d.temp), ".", how, mode&0o700)
	return sys.FD(fd), errnoOf(err)
}

// openTerminal opens the second end of a terminal for a thread that has the first end open. It opens the second end
// before it checks that: when both ends are closed, another terminal can get the number, but not the open file.
func openTerminal(thread uint32, number string, flags int) (sys.FD, syscall.Errno) {
	held, err := unix.Open(terminals+number, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, errnoOf(err)
	}
	defer unix.Close(held)
	if !hasFirstEnd(thread, number) {
		return sys.None, syscall.EACCES
	}
	fd, err := unix.Open(sys.ProcPath(held), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|flags&unix.O_NONBLOCK, 0)
	return sys.FD(fd), errnoOf(err)
}

// hasFirstEnd reports whether a thread has the first end of a terminal open. The kernel shows the terminal's number
// with each such descriptor.
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

// openMemory opens a file in /dev/shm.
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
	// A new open file each time, with an offset of its own.
	own, err := unix.Open(sys.ProcPath(int(fd)), unix.O_RDWR|unix.O_CLOEXEC|flags&(unix.O_TRUNC|unix.O_APPEND), 0)
	return sys.FD(own), errnoOf(err)
}

func (s *names) keep(base string, fd sys.FD) {
	if s.memory == nil {
		s.memory = make(map[string]sys.FD)
	}
	s.memory[base] = fd
}

// name gives a file in /dev/shm another name there, or removes a name.
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
