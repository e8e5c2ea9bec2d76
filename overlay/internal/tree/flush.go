//go:build linux

package tree

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

// A Flusher collects what has to be on disk before something else is done, and waits for
// all of it at once. Its zero value has nothing to wait for. It owns what it was given.
//
// Where little else is to be written, whole file systems are flushed: one commit of a
// journal and one flush of a disk's cache do, while each fsync(2) asks for a flush at
// least. Where others have written much that would be waited for as well, so then
// objects are flushed one by one, by several threads: requests to flush a cache that come
// together are one for the disk (block/blk-flush.c).
type Flusher struct{ Files, Dirs []*Handle }

const (
	// FsyncMost is up to how many objects are flushed one by one; for more, their
	// whole file system is, which then is faster.
	FsyncMost = 64

	// fsyncWorth is how much can be written in the time that one fsync takes, in bytes: a
	// low guess, for disks of all kinds.
	fsyncWorth = 128 << 10

	// fsyncFew is how many objects are always flushed one by one.
	fsyncFew = 4

	// flushThreads is how many threads wait. More did not make it faster.
	flushThreads = 4
)

// AddFile takes a regular file, and begins to write its data.
func (f *Flusher) AddFile(h *Handle) error {
	_ = unix.SyncFileRange(int(h.FD), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	f.Files = append(f.Files, h)
	return f.bound()
}

// AddDir takes the directory name below h, which it opens.
func (f *Flusher) AddDir(h *Handle, name string) error {
	d, err := h.OpenDir(name)
	if err != nil {
		return err
	}
	return f.addOpen(d)
}

// addOpen takes a directory that is open for reading.
func (f *Flusher) addOpen(d *Handle) error {
	f.Dirs = append(f.Dirs, d)
	return f.bound()
}

// bound waits where too many would be open else.
func (f *Flusher) bound() error {
	if len(f.Files)+len(f.Dirs) < FsyncMost {
		return nil
	}
	return f.Wait()
}

// Wait returns when all is on disk, or something cannot be. f has nothing more then.
func (f *Flusher) Wait() error {
	defer f.Close()
	// Where the sizes of files follow when their data is there, as with ext4, one commit
	// of the file system's journal then has them all.
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	for _, h := range f.Files {
		switch err := unix.SyncFileRange(int(h.FD), 0, 0, wait); err {
		case unix.EIO, unix.ENOSPC, unix.EDQUOT, unix.ESTALE, unix.ENOMEM:
			return err // which is told once: others may not tell it again
		}
	}
	list := slices.Concat(f.Files, f.Dirs)
	if len(list) > fsyncFew {
		if bytes, ok := Unwritten(); ok && bytes <= uint64(len(list))*fsyncWorth {
			return flushSystems(list)
		}
	}
	return flushEach(list)
}

// flushSystems flushes the file systems that objects are on.
func flushSystems(list []*Handle) error {
	done := map[uint64]bool{}
	for _, h := range list {
		st, err := h.Stat()
		if err == nil && !done[st.Dev] {
			done[st.Dev] = true
			err = sys.Retry(func() error { return unix.Syncfs(int(h.FD)) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushEach flushes objects one by one.
func flushEach(list []*Handle) error {
	threads := min(flushThreads, len(list))
	errs := make([]error, threads)
	var next atomic.Int32
	work := func(k int) {
		for errs[k] == nil {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				break
			}
			errs[k] = list[i].Fsync()
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

// Close forgets what was not waited for.
func (f *Flusher) Close() {
	for _, list := range [][]*Handle{f.Files, f.Dirs} {
		for _, h := range list {
			h.Close()
		}
	}
	f.Files, f.Dirs = nil, nil
}

// Unwritten is dirty; tests replace it.
var Unwritten = dirty

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

// ReplaceFile gives the file name new content, all or nothing, under a temporary name
// until it is complete: always the same, so that crashes leave one at most. The caller
// sees to it that nobody else does this. Where there is a flusher, all that it has, and
// the content, are on disk before the name stands for it; the directory then is to be
// flushed too.
func (h *Handle) ReplaceFile(name string, data []byte, before *Flusher) (err error) {
	tmp := "." + name + ".new"
	f, err := h.Create(tmp)
	if err == unix.EEXIST {
		if err = h.Unlink(tmp, 0); err == nil {
			f, err = h.Create(tmp)
		}
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = h.Unlink(tmp, 0)
		}
	}()
	err = WriteAll(f, data)
	if err != nil || before == nil {
		f.Close()
	} else {
		err = InTurn(func() error { return before.AddFile(f) }, before.Wait)
	}
	if err != nil {
		return err
	}
	return h.Rename(tmp, name, 0)
}
