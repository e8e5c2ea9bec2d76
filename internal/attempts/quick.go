//go:build linux

package attempts

import (
	"iter"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
)

// Commands make thousands of calls that nothing refuses, such as stat(2). The Go scheduler would take more time for
// each than the call itself, because its monitor wakes every 20 µs while threads enter and leave system calls. So quick
// answers these calls inside what the scheduler takes for one long system call. Functions there are nosplit, do not
// allocate, and take no lock.

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// mostFollowed is a power of two.
const mostFollowed = 16

// quick answers calls that nothing refuses.
type quick struct {
	listener notify.Listener
	stop     int
	root     int // of the sandbox; negative: unknown yet
	page     uint64
	deny     *unix.SockFilter
	rules    uintptr // of deny
	calls    [512]call
	lacking  bool // Observer.Root is not nil
	begun    bool // Observer.first is known
	roots    bool // Observer.roots
	hears    bool // Observer.Heard is not nil
	// followed are the processes of Observer.Follow, and following is their number. If that is more than
	// mostFollowed, any process may be one. Another goroutine may change both.
	followed  [mostFollowed]uint32
	following uint32

	seen   notify.Notification
	polled [2]unix.PollFd
	path   [2 * unix.PathMax]byte // absolute
	text   [unix.PathMax]byte     // as the caller wrote it
	proc   [64]byte
	how    unix.OpenHow
	stat   unix.Stat_t
	statx  unix.Statx_t
	statfs unix.Statfs_t
	failed known
}

// unusual are calls about which more than the path decides.
var unusual = slices.Concat([]int32{unix.SYS_BIND, unix.SYS_MKNODAT, unix.SYS_FCHOWNAT}, oldChowns)

func newQuick(o *Observer) *quick {
	q := &quick{stop: int(o.stop), root: -1, page: uint64(os.Getpagesize()), lacking: o.Root != nil, hears: o.Heard != nil}
	q.deny, q.rules = unsafe.SliceData(o.Deny), uintptr(len(o.Deny))
	for _, c := range slices.Concat(newCalls, oldCalls) {
		if c.nr >= len(q.calls) || len(calls(c.nr)) != 1 {
			continue
		}
		switch c.deed {
		case looks, asks, enters, opens, executes, removes:
			q.calls[c.nr] = c
		case makes, changes:
			if !slices.Contains(unusual, int32(c.nr)) {
				q.calls[c.nr] = c
			}
		}
	}
	return q
}

// next answers calls until there is one that it cannot answer, which it leaves in seen. False: the Observer ends.
//
//go:nosplit
//go:norace
func (q *quick) next() (more bool) {
	entersyscallblock()
	for {
		if more = q.listener.WaitRaw(q.stop, &q.polled); !more {
			break
		}
		if q.listener.ReceiveRaw(&q.seen) != 0 {
			continue
		}
		if !q.passes() || q.follows(q.seen.PID) {
			break
		}
		q.listener.ProceedRaw(q.seen.ID)
	}
	exitsyscall()
	return more
}

// passes reports whether nothing refuses the call in seen, and nobody wants to know of it.
//
//go:nosplit
//go:norace
func (q *quick) passes() bool {
	n := &q.seen
	if !q.begun || q.roots || q.root < 0 || decide(q.deny, q.rules, uint32(n.NR), n.Arch, &n.Args) != seccomp.Allow {
		return false
	}
	switch n.NR {
	case unix.SYS_EXIT_GROUP:
		return atomic.LoadUint32(&q.following) == 0 // a parent may be followed
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		return !q.hears
	}
	if uint32(n.NR) >= uint32(len(q.calls)) || q.calls[n.NR].nr == 0 {
		return false
	}
	c := &q.calls[n.NR]
	d, flags, mode := c.asks(n)
	size := q.name(c)
	if size == 0 {
		return false
	}
	if p := &q.path; p[1] == 'p' && p[2] == 'r' && p[3] == 'o' && p[4] == 'c' && p[5] == '/' {
		return true
	}
	fd, e := q.open(flags)
	switch {
	case e == 0:
		ok := q.allowed(fd, size, d, mode)
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		return ok
	case e == unix.ENOENT && (d == makes || d == opens && mode&creates != 0):
		return q.changesIn(size, makes)
	case reads(d, mode):
		h := answer(&q.path[0], d, mode, e)
		if q.failed.has(h) {
			return true
		}
		if e == unix.ENOENT && q.absent(size) {
			q.failed.add(h)
			return true
		}
	}
	return false
}

// follow sets the followed processes.
func (q *quick) follow(processes iter.Seq[int]) {
	atomic.StoreUint32(&q.following, mostFollowed+1)
	n := uint32(0)
	for p := range processes {
		if n++; n > mostFollowed {
			return
		}
		atomic.StoreUint32(&q.followed[n-1], uint32(p))
	}
	atomic.StoreUint32(&q.following, n)
}

// follows reports whether a thread may belong to a followed process.
//
//go:nosplit
//go:norace
func (q *quick) follows(thread uint32) bool {
	n := atomic.LoadUint32(&q.following)
	if n > mostFollowed {
		return true
	}
	for i := range n {
		p := atomic.LoadUint32(&q.followed[i&(mostFollowed-1)])
		if _, _, e := syscall.RawSyscall(unix.SYS_TGKILL, uintptr(p), uintptr(thread), 0); e != syscall.ESRCH {
			return true
		}
	}
	return false
}

// name sets path to the absolute path of a call, like Observer.name, and returns its length. 0: unknown.
//
//go:nosplit
//go:norace
func (q *quick) name(c *call) uintptr {
	size := notify.ReadRaw(q.seen.PID, argument(&q.seen, c.path), &q.text, q.page)
	end := uintptr(0)
	for end < size && q.text[end&(unix.PathMax-1)] != 0 {
		end++
	}
	if end == 0 || end == size {
		return 0
	}
	at := uintptr(0)
	if q.text[0] != '/' {
		if at = q.base(c); at == 0 {
			return 0
		}
		q.path[at&(unix.PathMax-1)] = '/'
		at++
	}
	for i := range end + 1 {
		q.path[(at+i)&(2*unix.PathMax-1)] = q.text[i&(unix.PathMax-1)]
	}
	return at + end
}

// base sets path to the directory at which a relative name begins, and returns its length. 0: unknown.
//
//go:nosplit
//go:norace
func (q *quick) base(c *call) uintptr {
	dir := int32(unix.AT_FDCWD)
	if c.dir != none {
		dir = int32(argument(&q.seen, c.dir))
	}
	at := q.number(q.put(0, "/proc/"), q.seen.PID)
	switch {
	case dir == unix.AT_FDCWD:
		at = q.put(at, "/cwd")
	case dir >= 0:
		at = q.number(q.put(at, "/fd/"), uint32(dir))
	default:
		return 0
	}
	q.proc[at&63] = 0
	fdcwd := unix.AT_FDCWD
	n, _, e := syscall.RawSyscall6(unix.SYS_READLINKAT, uintptr(fdcwd), uintptr(unsafe.Pointer(&q.proc)), uintptr(unsafe.Pointer(&q.path)), unix.PathMax, 0, 0)
	if e != 0 || n >= unix.PathMax || q.path[0] != '/' {
		return 0
	}
	return n
}

// put puts a text into proc.
//
//go:nosplit
//go:norace
func (q *quick) put(at uintptr, text string) uintptr {
	for i := range uintptr(len(text)) {
		q.proc[(at+i)&63] = *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(text)), i))
	}
	return at + uintptr(len(text))
}

// number puts a number into proc.
//
//go:nosplit
//go:norace
func (q *quick) number(at uintptr, n uint32) uintptr {
	digits := uintptr(1)
	for m := n; m > 9; m /= 10 {
		digits++
	}
	for i := digits; i > 0; i-- {
		q.proc[(at+i-1)&63] = '0' + byte(n%10)
		n /= 10
	}
	return at + digits
}

// argument returns an argument of a call.
//
//go:nosplit
//go:norace
func argument(n *notify.Notification, i int8) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(&n.Args), uintptr(i&7)*8))
}

// known are hashes of calls that only read, and failed, but not because of the policy: compilers look for each file in
// many directories. If the hashes of two calls are equal, one refusal may go unreported.
type known struct {
	hashes [1 << 15]uint64
	number int
}

// reads reports whether a call changes nothing.
//
//go:nosplit
//go:norace
func reads(d deed, mode uint32) bool {
	return (d <= opens || d == executes) && mode&(unix.W_OK|creates) == 0
}

// answer returns the hash of a call: of its path, which ends with a zero byte, its deed and access, and the error.
//
//go:nosplit
//go:norace
func answer(name *byte, d deed, mode uint32, e syscall.Errno) uint64 {
	const prime = 1099511628211 // FNV-1a
	h := uint64(14695981039346656037)
	for p := unsafe.Pointer(name); *(*byte)(p) != 0; p = unsafe.Add(p, 1) {
		h = (h ^ uint64(*(*byte)(p))) * prime
	}
	h = (h ^ uint64(d)) * prime
	h = (h ^ uint64(mode)) * prime
	return (h^uint64(e))*prime | 1
}

//go:nosplit
//go:norace
func (k *known) has(h uint64) bool {
	for i := h >> 20; ; i++ {
		switch k.hashes[i%uint64(len(k.hashes))] {
		case h:
			return true
		case 0:
			return false
		}
	}
}

// add adds a hash. If there are too many, it forgets all others.
//
//go:nosplit
//go:norace
func (k *known) add(h uint64) {
	if k.has(h) {
		return
	}
	if k.number++; k.number > len(k.hashes)/2 {
		clear(k.hashes[:])
		k.number = 1
	}
	i := h >> 20
	for k.hashes[i%uint64(len(k.hashes))] != 0 {
		i++
	}
	k.hashes[i%uint64(len(k.hashes))] = h
}
