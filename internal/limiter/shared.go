//go:build linux

package limiter

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// A command can have shared memory that is in none of its processes: it unmaps pages that stay in a file without a name
// (madvise(2)), or sends such a file through a socket and closes it. Nobody but the kernel can tell how much there is,
// and it tells only how much all programs of this machine have together. So that counts if the command has something
// in which memory can be hidden.

// sharedOfAll returns how much shared memory there is on this machine, with files on tmpfs file systems, in bytes.
func sharedOfAll() int64 {
	b, _ := os.ReadFile("/proc/meminfo")
	for line := range bytes.Lines(b) {
		if fields := bytes.Fields(line); len(fields) > 1 && string(fields[0]) == "Shmem:" {
			kib, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// hideable returns how much shared memory some processes can have at most that they do not map.
func (w *usageWatch) hideable(procs []string) (most int64) {
	seen := map[string]int64{} // the length of a part of a file, by device, inode and offset
	for _, proc := range procs {
		if w.inFlight(proc) {
			return math.MaxInt64
		}
		for line := range bytes.Lines(w.read(memoryOf(proc) + "/maps")) {
			fields := strings.Fields(string(line))
			if len(fields) < 6 || !unnamedMemory(fields[5]) {
				continue
			}
			begin, end, _ := strings.Cut(fields[0], "-")
			from, _ := strconv.ParseUint(begin, 16, 64)
			to, _ := strconv.ParseUint(end, 16, 64)
			id := fields[2] + " " + fields[3] + " " + fields[4]
			seen[id] = max(seen[id], int64(to-from))
		}
	}
	for _, size := range seen {
		most += size
	}
	return most
}

// unnamedMemory reports whether a mapping's name is one of those that the kernel gives to shared memory without a name.
func unnamedMemory(name string) bool {
	return name == "/dev/zero" || strings.HasPrefix(name, "/memfd:") || strings.HasPrefix(name, "/SYSV")
}

// inFlight reports whether there are descriptors in a process's unix sockets that nobody has received yet.
func (w *usageWatch) inFlight(proc string) (some bool) {
	for _, task := range tables(proc) {
		open, err := os.ReadDir(task + "/fdinfo")
		w.lacks = cmp.Or(w.lacks, lack(err))
		for _, fd := range open {
			for line := range bytes.Lines(w.read(task + "/fdinfo/" + fd.Name())) {
				n, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("scm_fds:"))
				some = some || ok && string(bytes.TrimSpace(n)) != "0"
			}
		}
	}
	return some
}

// hidesFiles reports whether a process, or one of its descendants, may hold files without a name that none of them has
// open: it has mapped one, or nobody has received it yet.
func hidesFiles(pid int) (some bool) {
	var w usageWatch
	lacks := tree(pid, func(proc string) (more bool) {
		for line := range bytes.Lines(w.read(memoryOf(proc) + "/maps")) {
			fields := strings.Fields(string(line))
			some = some || len(fields) > 6 && fields[len(fields)-1] == "(deleted)" && !unnamedMemory(fields[5])
		}
		some = some || w.inFlight(proc)
		return !some
	})
	return some || lacks != nil || w.lacks != nil
}

// memoryOf returns the directory in /proc in which a process's memory is seen. It is a thread's if the first thread has
// ended.
func memoryOf(proc string) string {
	has := func(dir string) bool {
		b, err := os.ReadFile(dir + "/statm")
		return err != nil || !bytes.HasPrefix(b, []byte("0 "))
	}
	if has(proc) {
		return proc
	}
	tasks, _ := os.ReadDir(proc + "/task")
	for _, task := range tasks {
		if dir := proc + "/task/" + task.Name(); has(dir) {
			return dir
		}
	}
	return proc
}

// tables returns a directory in /proc for each table of descriptors that the threads of a process have. Nearly always
// they have one together.
func tables(proc string) (dirs []string) {
	const kcmpFiles = 2 // KCMP_FILES
	tasks, err := os.ReadDir(proc + "/task")
	if err != nil || len(tasks) <= 1 {
		return []string{proc}
	}
	var first []int
	compare := features.Has(features.Kcmp) // a filter may end this process at the call
task:
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		for _, other := range first {
			if !compare {
				break
			}
			same, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(other), uintptr(id), kcmpFiles, 0, 0, 0)
			if errno == 0 && same == 0 {
				continue task
			}
		}
		first, dirs = append(first, id), append(dirs, proc+"/task/"+task.Name())
	}
	return dirs
}

// segments is how many segments of System V shared memory a sandbox can have (SHMMNI).
const segments = 4096

// Filter returns a filter of system calls for a command whose memory nsrun measures. It refuses memory that nobody can
// measure: that of memfd_secret(2), and large segments of System V shared memory, which need no process. Nil: it is not
// needed.
func (x *Hold) Filter() []unix.SockFilter {
	if x.usage == nil || x.usage.bytes == 0 {
		return nil
	}
	page := int64(os.Getpagesize())
	most := max(x.usage.bytes/4/segments&^(page-1), page) // all together have a quarter of the limit
	var f seccomp.Filter
	f.Nr()
	f.When(seccomp.Equal, unix.SYS_MEMFD_SECRET, func() { f.Refuse(unix.ENOSYS) })
	f.When(seccomp.Equal, unix.SYS_SHMGET, func() {
		f.Upper(1)
		f.Add(seccomp.Equal, 1, 0, 0)
		f.Refuse(unix.ENOMEM)
		f.Lower(1)
		f.Add(seccomp.AtLeast, 0, 1, uint32(min(most+1, math.MaxUint32)))
		f.Refuse(unix.ENOMEM)
		f.Allow()
	})
	f.Allow()
	return f
}
