//go:build linux

package limiter

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/sys"
)

// A Reading says how much a command has written so far.
type Reading struct {
	Bytes, Files         int64
	Partial              bool  // something could not be counted
	UsedBytes, UsedFiles int64 // what is used on that file system, by everybody
}

type Reader func(context.Context) (Reading, error)

// diskWatch measures at intervals what a command has written.
type diskWatch struct {
	read         Reader
	bytes, files int64 // the limits; 0: none
	first        Reading
	pid          int
	cancel       context.CancelFunc
	done         sync.WaitGroup
	over         limits.Name // after end: the limit that was reached; empty: none
	lacks        error       // why it could not measure
	most         Reading     // the largest values
	systems      fileSystems
}

// How often it measures, with at most a tenth of a processor: many files take long.
const (
	shortest = 20 * time.Millisecond
	longest  = time.Second
	share    = 10
)

// newDiskWatch measures once, so that existing files do not count.
func newDiskWatch(l *limits.Limits, read Reader) (*diskWatch, error) {
	first, err := read(context.Background())
	if err != nil {
		return nil, err
	}
	return &diskWatch{read: read, bytes: l.Disk, files: int64(l.Inodes), first: first}, nil
}

// begin calls kill when a limit is reached.
func (w *diskWatch) begin(pid int, kill func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w.pid, w.cancel = pid, cancel
	w.done.Go(func() {
		timer := time.NewTimer(shortest)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			began := time.Now()
			r, err := w.read(ctx)
			if ctx.Err() != nil {
				return
			}
			if w.lacks = err; err != nil || w.reached(r) { // without a measurement the limit would not hold
				kill()
				return
			}
			timer.Reset(max(w.pause(r), share*time.Since(began)))
		}
	})
}

// pause returns how long the limit cannot be reached: a disk takes at most some gigabytes and some hundred thousand
// files a second.
func (w *diskWatch) pause(r Reading) time.Duration {
	const bytesPerSecond, filesPerSecond = 4 << 30, 200_000
	d := longest
	if w.bytes > 0 {
		d = min(d, time.Duration(float64(w.bytes-r.Bytes)/bytesPerSecond*float64(time.Second)))
	}
	if w.files > 0 {
		d = min(d, time.Duration(float64(w.files-r.Files)/filesPerSecond*float64(time.Second)))
	}
	return max(d, shortest)
}

// reached reports whether a limit is reached, and records which one.
func (w *diskWatch) reached(r Reading) bool {
	grownBytes, grownFiles := r.UsedBytes-w.first.UsedBytes, r.UsedFiles-w.first.UsedFiles
	if w.bytes > 0 && r.Bytes <= w.bytes && grownBytes > w.bytes || w.files > 0 && r.Files <= w.files && grownFiles > w.files {
		// The file system has grown by more than the limit. Either others wrote that, or the command wrote it
		// where it cannot be found: to files without a name, or to directories that it closed. What it has
		// only mapped, or sent through a socket, nobody can measure.
		bytes, files, lacks := w.systems.unnamed(w.pid)
		r.Bytes, r.Files = r.Bytes+bytes, r.Files+files
		if r.Partial || lacks != nil || hidesFiles(w.pid) {
			r.Bytes, r.Files = max(r.Bytes, grownBytes), max(r.Files, grownFiles)
		}
	}
	w.most.Bytes, w.most.Files = max(w.most.Bytes, r.Bytes), max(w.most.Files, r.Files)
	switch {
	case w.bytes > 0 && r.Bytes > w.bytes:
		w.over = limits.Disk
	case w.files > 0 && r.Files > w.files:
		w.over = limits.Inodes
	}
	return w.over != ""
}

// end measures for the last time. No process of the command runs any more.
func (w *diskWatch) end() {
	if w == nil {
		return
	}
	if w.cancel != nil {
		w.cancel()
	}
	w.done.Wait()
	if r, err := w.read(context.Background()); err == nil {
		w.most.Bytes, w.most.Files = max(w.most.Bytes, r.Bytes), max(w.most.Files, r.Files)
	}
}

// state sets the outcome of one of the two limits.
func (w *diskWatch) state(o *limits.Outcome) {
	switch o.Name {
	case limits.Disk:
		o.Peak = float64(w.most.Bytes)
	case limits.Inodes:
		o.Peak = float64(w.most.Files)
	default:
		return
	}
	o.Lost = w.lacks
	o.Hit, o.Killed = w.over == o.Name || o.Peak > o.Value, w.over == o.Name || o.Lost != nil
}

// inode identifies a file.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Statx_t) inode { return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino} }

// unnamed measures the files on disks that have no name any more, and that pid or its descendants have open.
func (f *fileSystems) unnamed(pid int) (bytes, files int64, lacks error) {
	seen := map[inode]bool{}
	lost := tree(pid, func(proc string) bool {
		err := openFiles(proc, func(name string, st *unix.Statx_t) {
			if id := inodeOf(st); st.Nlink == 0 && !seen[id] {
				if memory, _ := f.inMemory(id.dev, name); memory {
					return
				}
				seen[id] = true
				bytes, files = bytes+int64(st.Blocks)*512, files+1
			}
		})
		lacks = cmp.Or(lacks, err)
		return true
	})
	return bytes, files, cmp.Or(lacks, lost)
}

// openFiles calls do for each regular file that a process has open. It does not ask servers of network file systems and
// FUSE, which may not answer, but uses what the kernel knows of their files. See lack for the error.
func openFiles(proc string, do func(name string, st *unix.Statx_t)) (lacks error) {
	for _, task := range tables(proc) {
		open, err := os.ReadDir(task + "/fd")
		lacks = cmp.Or(lacks, lack(err))
		for _, fd := range open {
			var st unix.Statx_t
			name := task + "/fd/" + fd.Name()
			if sys.Statx(unix.AT_FDCWD, name, unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				do(name, &st)
			}
		}
	}
	return lacks
}

// fileSystems knows of file systems whether they are in memory. It asks each of them once. The zero value knows none.
type fileSystems struct {
	memory map[uint64]bool // by device number
	hangs  bool            // one did not answer: no others are asked, each would hold a thread
}

// patience is how long a file system may take to say what it is. Those of the kernel answer at once.
const patience = 3 * time.Second

// inMemory reports whether a file is on a tmpfs: it is a memfd, or in the sandbox's /tmp. A file that
// is gone counts as one in memory. If sure is false, there was no answer.
func (f *fileSystems) inMemory(dev uint64, name string) (is, sure bool) {
	if is, sure = f.memory[dev]; sure || f.hangs {
		return is, sure
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENOENT, err == unix.ENOENT
	}
	var st unix.Statx_t
	err = sys.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st)
	if err != nil || inodeOf(&st).dev != dev { // the command has exchanged it
		unix.Close(fd)
		return err == nil, err == nil
	}
	answer := make(chan bool, 1)
	go func() {
		defer unix.Close(fd)
		var fs unix.Statfs_t
		err := sys.Retry(func() error { return unix.Fstatfs(fd, &fs) })
		answer <- err == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.HUGETLBFS_MAGIC)
	}()
	select {
	case is = <-answer:
	case <-time.After(patience):
		f.hangs = true
		return false, false
	}
	if f.memory == nil {
		f.memory = map[uint64]bool{}
	}
	f.memory[dev] = is
	return is, true
}
