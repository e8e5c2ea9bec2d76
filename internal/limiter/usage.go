//go:build linux

package limiter

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/sys"
)

// usageWatch measures at intervals how much memory a command uses and how many processes it has, if no cgroup limits
// that.
type usageWatch struct {
	bytes, pids int64 // the limits; 0: none
	counted     int64 // the limit of processes that the kernel enforces, and does not say when it is reached; 0: none
	first       int64 // the shared memory of all programs before the command
	pid         int
	root        *os.File      // the sandbox's root; nil: it could not be opened yet
	stop        chan struct{} // nil: it was not started
	done        sync.WaitGroup
	over        limits.Name // after end: the limit that was reached; empty: none
	lacks       error       // why a measurement is not complete
	most        usage
	systems     fileSystems
}

// usage says how much a command uses.
type usage struct{ bytes, pids int64 }

// often is the interval, if one measurement takes no more than a tenth of it.
const often = 10 * time.Millisecond

func newUsageWatch(held []limits.Held) *usageWatch {
	w := &usageWatch{first: sharedOfAll()}
	for _, h := range held {
		switch {
		case h.By == limits.ByRlimit && h.Name == limits.PIDs:
			w.counted = int64(h.Value)
		case h.By != limits.ByRunner:
		case h.Name == limits.Memory:
			w.bytes = int64(h.Value)
		case h.Name == limits.PIDs:
			w.pids = int64(h.Value)
		}
	}
	if !w.enforces() && w.counted == 0 {
		return nil
	}
	return w
}

// enforces reports whether a limit holds only as long as it is measured.
func (w *usageWatch) enforces() bool { return w.bytes > 0 || w.pids > 0 }

// begin calls kill when a limit is reached.
func (w *usageWatch) begin(pid int, kill func()) {
	w.pid, w.stop = pid, make(chan struct{})
	w.done.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-timer.C:
			}
			began := worked()
			if w.reached(w.look()) || w.lacks != nil {
				if w.enforces() { // without a measurement the limit would not hold
					kill()
				}
				return
			}
			timer.Reset(max(often, share*(worked()-began)))
		}
	})
}

// worked is how long this thread has had a processor. A command that keeps all processors busy makes measurements take
// longer, and must not have more time between them for that.
func worked() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

func (w *usageWatch) end() {
	if w == nil || w.stop == nil {
		return
	}
	close(w.stop)
	w.done.Wait()
	w.stop = nil
	if w.root != nil {
		_ = w.root.Close()
	}
}

// reached reports whether a limit is reached, and records which one.
func (w *usageWatch) reached(u usage) bool {
	w.most.bytes, w.most.pids = max(w.most.bytes, u.bytes), max(w.most.pids, u.pids)
	switch {
	case w.bytes > 0 && u.bytes > w.bytes:
		w.over = limits.Memory
	case w.pids > 0 && u.pids > w.pids:
		w.over = limits.PIDs
	}
	return w.over != ""
}

// state sets the outcome of one of the two limits.
func (w *usageWatch) state(o *limits.Outcome) {
	switch {
	case w != nil && o.By == limits.ByRlimit && o.Name == limits.PIDs:
		o.Peak, o.Hit = float64(w.most.pids), w.most.pids >= w.counted
		return
	case w == nil || o.By != limits.ByRunner:
		return
	}
	switch o.Name {
	case limits.Memory:
		o.Peak = float64(w.most.bytes)
	case limits.PIDs:
		o.Peak = float64(w.most.pids)
	default:
		return
	}
	if o.Hit = w.over == o.Name; w.over == "" {
		o.Lost = w.lacks
	}
	o.Killed = o.Hit || o.Lost != nil
}

// read reads a small file in /proc.
func (w *usageWatch) read(name string) []byte {
	b, err := os.ReadFile(name)
	w.lacks = cmp.Or(w.lacks, lack(err))
	return b
}

// look measures. It first takes an upper bound of the memory, because for the exact number the kernel has to walk
// through the processes' memory.
func (w *usageWatch) look() (u usage) {
	resident := int64(0)
	var procs []string
	u.pids = -1 // without PID 1
	over := func() bool { return w.pids > 0 && u.pids > w.pids }
	w.lacks = cmp.Or(w.lacks, tree(w.pid, func(proc string) (more bool) {
		procs = append(procs, proc)
		tasks, err := os.ReadDir(proc + "/task")
		w.lacks = cmp.Or(w.lacks, lack(err))
		u.pids += int64(len(tasks))
		resident += w.statm(proc)
		return !over()
	}))
	if w.bytes == 0 || over() {
		return u
	}
	files, grown := w.files(procs), max(0, sharedOfAll()-w.first)
	if u.bytes = resident + files; resident+max(files, grown) <= w.bytes {
		return u
	}
	own, shared := int64(0), int64(0)
	for _, proc := range procs {
		if own+max(shared, files) > w.bytes {
			break // it is known to be too much
		}
		a, s, ok := w.rollup(proc)
		if !ok {
			a, s = w.statm(proc), 0
		}
		own, shared = own+a, shared+s
	}
	shared = max(shared, files)
	if u.bytes = own + shared; u.bytes <= w.bytes && own+grown > w.bytes {
		u.bytes = own + max(shared, min(grown, w.hideable(procs)))
	}
	return u
}

// statm returns the resident memory of a process in bytes, including shared memory.
func (w *usageWatch) statm(proc string) int64 {
	b := w.read(proc + "/statm")
	if bytes.HasPrefix(b, []byte("0 ")) {
		b = w.read(memoryOf(proc) + "/statm")
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return n * int64(os.Getpagesize())
}

// rollup returns a process's own memory and its share of memory that several processes have: anonymous memory, also in
// swap (own), and files in memory that it has mapped (shared). Not ok: the kernel does not tell.
func (w *usageWatch) rollup(proc string) (own, shared int64, ok bool) {
	b := w.read(proc + "/smaps_rollup")
	if len(b) == 0 {
		b = w.read(memoryOf(proc) + "/smaps_rollup")
	}
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		switch string(fields[0]) {
		case "Pss_Anon:", "SwapPss:":
			own += kib << 10
		case "Pss_Shmem:":
			shared += kib << 10
		}
	}
	return own, shared, len(b) > 0
}

// perFile is about what the kernel keeps for a file on a tmpfs, whatever is in it: its inode, and its name.
const perFile = 1024

var errNoAnswer = errors.New("a file system does not answer")

// files returns the size of the command's files in memory: those on file systems of its own, and those without a name.
func (w *usageWatch) files(procs []string) (bytes int64) {
	root := w.enter(procs)
	if root == nil {
		return 0
	}
	seen := map[uint64]bool{}
	for _, dir := range [...]string{"tmp", "var/tmp", "run", "dev/shm", "dev"} {
		fd, err := sys.Openat2(int(root.Fd()), dir, unix.O_PATH, 0, unix.RESOLVE_IN_ROOT)
		if err != nil {
			w.lacks = cmp.Or(w.lacks, lack(err))
			continue
		}
		var st, host unix.Statx_t
		var fs unix.Statfs_t
		ask := func(at int, name string, st *unix.Statx_t) bool { // servers are not asked, see openFiles
			return sys.Statx(at, name, unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, st) == nil
		}
		if ask(fd, "", &st) && !(ask(unix.AT_FDCWD, "/"+dir, &host) && inodeOf(&host).dev == inodeOf(&st).dev) { // the host's own
			dev := inodeOf(&st).dev
			is, sure := w.systems.inMemory(dev, sys.ProcPath(fd))
			if !sure {
				w.lacks = cmp.Or(w.lacks, errNoAnswer)
			}
			if is && !seen[dev] && unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
				seen[dev] = true
				bytes += int64(fs.Blocks-fs.Bfree)*fs.Bsize + int64(fs.Files-fs.Ffree)*perFile
			}
		}
		unix.Close(fd)
	}
	return bytes + w.memfds(procs)
}

// enter opens the root of the sandbox: that of PID 1, which comes first. Without the capability to look into PID 1, as
// ordinary users are, it is that of another process, and then no process of the sandbox can change its root.
func (w *usageWatch) enter(procs []string) *os.File {
	for _, proc := range procs {
		if w.root != nil {
			break
		}
		w.root = w.rootOf(proc)
	}
	return w.root
}

// rootOf opens the root of a process of the sandbox. Another process may have got its number. So it opens the process's
// directory in /proc, where nothing can be opened once the process has ended, and checks that it is one of the sandbox.
func (w *usageWatch) rootOf(proc string) *os.File {
	held, err := os.Open(proc)
	if err != nil {
		w.lacks = cmp.Or(w.lacks, lack(err))
		return nil
	}
	defer held.Close()
	ours := false
	tree(w.pid, func(p string) (more bool) {
		ours = ours || p == proc
		return !ours
	})
	if !ours {
		return nil
	}
	fd, err := unix.Openat(int(held.Fd()), "root", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), proc+"/root")
}

// memfds returns the size of files in memory without a name that processes have open.
func (w *usageWatch) memfds(procs []string) (bytes int64) {
	seen := map[inode]bool{}
	for _, proc := range procs {
		w.lacks = cmp.Or(w.lacks, openFiles(proc, func(name string, st *unix.Statx_t) {
			if id := inodeOf(st); st.Nlink == 0 && !seen[id] {
				seen[id] = true
				if is, sure := w.systems.inMemory(id.dev, name); is || !sure {
					bytes += int64(st.Blocks) * 512
				}
			}
		}))
	}
	return bytes
}
