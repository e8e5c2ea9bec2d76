//go:build linux

package overlay

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A flusher collects what has to be on disk before something else is done, and waits for
// all of it at once. Its zero value has nothing to wait for. It owns what it was given.
//
// Where little else is to be written, whole file systems are flushed: one commit of a
// journal and one flush of a disk's cache do, while each fsync(2) asks for a flush at
// least. Where others have written much that would be waited for as well, so then
// objects are flushed one by one, by several threads: requests to flush a cache that come
// together are one for the disk (block/blk-flush.c).
type flusher struct{ files, dirs []*handle }

const (
	// fsyncMost is up to how many objects are flushed one by one; for more, their
	// whole file system is, which then is faster.
	fsyncMost = 64

	// fsyncWorth is how much can be written in the time that one fsync takes, in bytes: a
	// low guess, for disks of all kinds.
	fsyncWorth = 128 << 10

	// fsyncFew is how many objects are always flushed one by one.
	fsyncFew = 4

	// flushThreads is how many threads wait. More did not make it faster.
	flushThreads = 4
)

// addFile takes a regular file, and begins to write its data.
func (f *flusher) addFile(h *handle) error {
	_ = unix.SyncFileRange(int(h.FD), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	f.files = append(f.files, h)
	return f.bound()
}

// addDir takes the directory name below h, which it opens.
func (f *flusher) addDir(h *handle, name string) error {
	d, err := h.openDir(name)
	if err != nil {
		return err
	}
	return f.addOpen(d)
}

// addOpen takes a directory that is open for reading.
func (f *flusher) addOpen(d *handle) error {
	f.dirs = append(f.dirs, d)
	return f.bound()
}

// bound waits where too many would be open else.
func (f *flusher) bound() error {
	if len(f.files)+len(f.dirs) < fsyncMost {
		return nil
	}
	return f.wait()
}

// wait returns when all is on disk, or something cannot be. f has nothing more then.
func (f *flusher) wait() error {
	defer f.close()
	// Where the sizes of files follow when their data is there, as with ext4, one commit
	// of the file system's journal then has them all.
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	for _, h := range f.files {
		switch err := unix.SyncFileRange(int(h.FD), 0, 0, wait); err {
		case unix.EIO, unix.ENOSPC, unix.EDQUOT, unix.ESTALE, unix.ENOMEM:
			return err // which is told once: others may not tell it again
		}
	}
	list := slices.Concat(f.files, f.dirs)
	if len(list) > fsyncFew {
		if bytes, ok := unwritten(); ok && bytes <= uint64(len(list))*fsyncWorth {
			return flushSystems(list)
		}
	}
	return flushEach(list)
}

// flushSystems flushes the file systems that objects are on.
func flushSystems(list []*handle) error {
	done := map[uint64]bool{}
	for _, h := range list {
		st, err := h.stat()
		if err == nil && !done[st.dev] {
			done[st.dev] = true
			err = sys.Retry(func() error { return unix.Syncfs(int(h.FD)) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushEach flushes objects one by one.
func flushEach(list []*handle) error {
	threads := min(flushThreads, len(list))
	errs := make([]error, threads)
	var next atomic.Int32
	work := func(k int) {
		for errs[k] == nil {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				break
			}
			errs[k] = list[i].fsync()
		}
	}
	var others sync.WaitGroup
	for k := 1; k < threads; k++ {
		others.Go(func() { work(k) })
	}
	if threads > 0 {
		work(0)
	}
	others.Wait()
	return errors.Join(errs...)
}

// close forgets what was not waited for.
func (f *flusher) close() {
	for _, list := range [][]*handle{f.files, f.dirs} {
		for _, h := range list {
			h.close()
		}
	}
	f.files, f.dirs = nil, nil
}

// unwritten is dirty; tests replace it.
var unwritten = dirty

// dirty tells how much all file systems have still to write, in bytes, and whether that
// is known.
func dirty() (uint64, bool) {
	fd, err := unix.Open("/proc/meminfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0, false
	}
	return parseDirty(string(buf[:n]))
}

// parseDirty adds up what proc_meminfo(5) says of it.
func parseDirty(meminfo string) (bytes uint64, ok bool) {
	found := 0
	for line := range strings.Lines(meminfo) {
		name, value, _ := strings.Cut(line, ":")
		if name != "Dirty" && name != "Writeback" {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 54)
		if err != nil {
			return 0, false
		}
		bytes += kib << 10
		found++
	}
	return bytes, found == 2
}
