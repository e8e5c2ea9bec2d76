//go:build linux

package wall

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
)

// A Deputy does for the processes of one command what they may not do themselves: it changes modes, owners, times and
// attributes of files, opens terminals, keeps named shared memory and semaphores, and makes TCP and unix sockets that
// only connect to each other.
type Deputy struct {
	// May reports whether the command may change the file at a path, which is absolute and without symbolic links.
	May func(path string) bool
	// Loopback gives the command TCP sockets on loopback addresses, and unix sockets. False: the command makes its
	// sockets itself, or has none.
	Loopback bool
	// Outside says which other servers the TCP sockets may be connected to. Nil: none.
	Outside *Outside
	// Temp is the command's own directory for temporary files. Empty: it has none.
	Temp string
	// Seen reports whether the command sees a path. Nil: it sees all paths.
	Seen func(path string) bool

	command *sandbox.Options // its Observer may be set until the command starts
	stop    *os.File         // readable when serve has to end; nil: not attached, or closed
	done    chan struct{}    // closed when serve has ended; nil: it was not started
	seen    notify.Notification
	aside   aside

	lifetime context.Context // of the command; other goroutines that work for the command end with it
	sockets  sockets
	names    names
	temp     sys.FD // of Temp
}

// Attach makes a command report its calls, and passes on those that an Observer answers. Close must be called.
func (d *Deputy) Attach(c *sandbox.Options) error {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	d.stop, d.temp = os.NewFile(uintptr(stop), "eventfd"), sys.None
	if d.Temp != "" {
		temp, err := unix.Open(d.Temp, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			_ = d.stop.Close()
			d.stop = nil
			return &os.PathError{Op: "open", Path: d.Temp, Err: err}
		}
		d.temp = sys.FD(temp)
	}
	d.command = c
	c.Supervisor = &sandbox.Supervisor{
		Filter: Notified(d.Loopback), Seal: Nothing(), Early: true,
		Started: func(l *os.File, _ []*os.File) error {
			d.done = make(chan struct{})
			go d.serve(l, stop)
			return nil
		},
	}
	return nil
}

// Close waits until the Deputy has stopped, but not for a file system that does not answer. If the command has not
// ended, its calls fail from now on. A nil Deputy does nothing.
func (d *Deputy) Close() {
	if d == nil || d.stop == nil {
		return
	}
	stop := d.stop
	d.stop = nil
	_, _ = stop.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	served := func() {
		if d.done != nil {
			<-d.done
		}
	}
	notify.Ended(served, func() {
		_ = stop.Close()
		d.temp.Close()
	})
}

// serve answers calls until the command has ended.
func (d *Deputy) serve(file *os.File, stop int) {
	defer close(d.done)
	defer file.Close()
	// The thread must not end: for the kernel it may be the parent of sandboxes, which would end with it.
	runtime.LockOSThread()
	raise, ok := sys.Lower(sys.AllCapabilities)
	if !ok {
		runtime.UnlockOSThread()
		return // the Deputy must not use privileges that the command does not have
	}
	defer func() {
		if raise() {
			runtime.UnlockOSThread()
		}
	}()
	lifetime, end := context.WithCancel(context.Background())
	d.lifetime = lifetime
	l := notify.Listener(file.Fd())
	l.WakeHere()
	other := d.command.Observer
	for l.Wait(stop) {
		if l.Receive(&d.seen) != 0 {
			continue
		}
		switch {
		case other != nil && other.Answers(d.seen.NR):
			other.Handle(l, &d.seen)
		case d.Loopback && d.handleSocket(l, &d.seen):
		case uint32(d.seen.NR) == unix.SYS_SOCKETPAIR:
			d.pair(l, &d.seen)
		case d.names.handle(d, l, &d.seen):
		default:
			d.aside.answer(l, d.seen, func(n *notify.Notification) { l.Answer(n.ID, d.handle(l, n)) })
		}
	}
	end()
	d.aside.working.Wait()
	d.sockets.close()
	d.names.close()
}

// handle makes the change that a call asks for, and returns the call's error.
func (d *Deputy) handle(l notify.Listener, n *notify.Notification) syscall.Errno {
	c := find(n.NR)
	if c == nil || n.PID == 0 {
		return syscall.ENOSYS
	}
	file, e := d.open(n, c)
	if e != 0 {
		return e
	}
	defer file.Close()
	v, e := d.value(n, c)
	if e != 0 {
		return e
	}
	// If the caller was killed, its number may be another process's by now.
	if !l.Valid(n.ID) {
		return syscall.EINTR
	}
	if !d.mayChange(file) {
		return syscall.EACCES
	}
	return v.change(file)
}

// mayChange reports whether the command may change an open file, by the path that it has now.
func (d *Deputy) mayChange(file sys.FD) bool {
	at, err := os.Readlink(sys.ProcPath(int(file)))
	return err == nil && strings.HasPrefix(at, "/") && d.May(at)
}

// open opens the file that a call is about, with O_PATH, so that it cannot be read or written to.
func (d *Deputy) open(n *notify.Notification, c *call) (sys.FD, syscall.Errno) {
	flags := uint64(unix.O_PATH | unix.O_CLOEXEC)
	at := uint64(0)
	if c.flags != noArg {
		at = n.Args[c.flags]
		if at&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
			return sys.None, syscall.EINVAL
		}
	}
	if c.link || at&unix.AT_SYMLINK_NOFOLLOW != 0 {
		flags |= unix.O_NOFOLLOW
	}
	name := ""
	switch {
	case c.path == noArg, c.deed == times && n.Args[c.path] == 0: // futimens
		number := int(int32(n.Args[c.dir]))
		if flagsOf(n.PID, number)&unix.O_PATH != 0 {
			return sys.None, syscall.EBADF
		}
		return process(n.PID, "fd/"+strconv.Itoa(number), 0)
	default:
		var e syscall.Errno
		if name, e = d.read(n.PID, uintptr(n.Args[c.path])); e != 0 {
			return sys.None, e
		}
	}
	number := unix.AT_FDCWD
	if c.dir != noArg {
		number = int(int32(n.Args[c.dir]))
	}
	return look(n.PID, number, name, flags, at&unix.AT_EMPTY_PATH != 0)
}

// look opens the file that a name means for a thread. number is the thread's descriptor of the directory where a
// relative name begins. With empty, an empty name means the file of that descriptor.
func look(thread uint32, number int, name string, flags uint64, empty bool) (sys.FD, syscall.Errno) {
	if of, rest, ok := ownFile(name); ok {
		if rest == "" {
			return process(thread, "fd/"+strconv.Itoa(of), 0)
		}
		number, name = of, rest
	}
	base := "fd/" + strconv.Itoa(number)
	switch {
	case strings.HasPrefix(name, "/"):
		fd, err := sys.Openat2(unix.AT_FDCWD, name, flags, 0, unix.RESOLVE_NO_MAGICLINKS)
		return sys.FD(fd), errnoOf(err)
	case number == unix.AT_FDCWD:
		base = "cwd"
	}
	if name == "" {
		if !empty {
			return sys.None, syscall.ENOENT
		}
		return process(thread, base, 0)
	}
	dir, e := process(thread, base, unix.O_DIRECTORY)
	if e != 0 {
		return sys.None, e
	}
	defer dir.Close()
	fd, err := sys.Openat2(int(dir), name, flags, 0, unix.RESOLVE_NO_MAGICLINKS)
	return sys.FD(fd), errnoOf(err)
}

// ownFile reports whether a name leads through one of the caller's descriptors (tar(1) names files in this way), and
// which. These links are the caller's, not ours. rest is a name below that descriptor's directory; empty: it is the
// file itself.
func ownFile(name string) (number int, rest string, ok bool) {
	for _, own := range [...]string{"/proc/self/fd/", "/dev/fd/"} {
		after, ok := strings.CutPrefix(name, own)
		if !ok {
			continue
		}
		digits, rest, below := strings.Cut(after, "/")
		fd, err := strconv.ParseUint(digits, 10, 31)
		if err != nil {
			continue
		}
		if rest = strings.TrimLeft(rest, "/"); below && rest == "" {
			rest = "."
		}
		return int(fd), rest, true
	}
	return 0, "", false
}

// process opens the target of a link in the /proc directory of a thread.
func process(thread uint32, link string, flags int) (sys.FD, syscall.Errno) {
	fd, err := unix.Open(notify.Proc(thread, link), unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	switch err {
	case nil:
		return sys.FD(fd), 0
	case unix.ENOENT:
		return sys.None, syscall.EBADF
	}
	return sys.None, errnoOf(err)
}

func errnoOf(err error) syscall.Errno {
	switch e := err.(type) {
	case nil:
		return 0
	case syscall.Errno:
		return e
	}
	return syscall.EIO
}

func (d *Deputy) read(thread uint32, at uintptr) (string, syscall.Errno) {
	return notify.ReadString(thread, at, make([]byte, unix.PathMax))
}
