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

// A Flusher collects files and directories that must be on disk before the next step, and
// waits for all of them at once. The zero Flusher is empty. It owns its handles.
//
// If others have written little, whole file systems are flushed: that needs one commit of the journal and one flush of
// the disk's cache, while each fsync(2) needs at least a flush. If others have written much, that would have to wait
// for their data, too. Then the objects are flushed one by one by several threads, because the kernel merges
// simultaneous requests to flush a cache (block/blk-flush.c).
type Flusher struct{ Files, Dirs []*Handle }

const (
	// FsyncMost is the number of objects up to which they are flushed one by one. For
	// more, it is faster to flush their file system.
	FsyncMost = 64

	// fsyncWorth is how many bytes can be written in the time of one fsync(2): a low guess, for disks of all kinds.
	fsyncWorth = 128 << 10

	// fsyncFew is how many objects are always flushed one by one.
	fsyncFew = 4

	// flushThreads is how many threads wait. More did not make it faster.
	flushThreads = 4
)

// AddFile adds a regular file, and begins to write its data to disk.
func (f *Flusher) AddFile(h *Handle) error {
	_ = unix.SyncFileRange(int(h.FD), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	f.Files = append(f.Files, h)
	return f.bound()
}

func (f *Flusher) AddDir(h *Handle, name string) error {
	d, err := h.OpenDir(name)
	if err != nil {
		return err
	}
	return f.addOpen(d)
}

// addOpen adds a directory that is open for reading.
func (f *Flusher) addOpen(d *Handle) error {
	f.Dirs = append(f.Dirs, d)
	return f.bound()
}

// bound calls Wait if there are many, so that not too many are open.
func (f *Flusher) bound() error {
	if len(f.Files)+len(f.Dirs) < FsyncMost {
		return nil
	}
	return f.Wait()
}

// Wait returns when everything is on disk, or with an error. f is empty afterwards.
func (f *Flusher) Wait() error {
	defer f.Close()
	// Some file systems, such as ext4, set the size of a file after its data was written.
	// With all data written first, one commit of the journal has all sizes.
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	for _, h := range f.Files {
		switch err := unix.SyncFileRange(int(h.FD), 0, 0, wait); err {
		case unix.EIO, unix.ENOSPC, unix.EDQUOT, unix.ESTALE, unix.ENOMEM:
			return err // the kernel reports it only once
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

func flushSystems(list []*Handle) error {
	done := map[uint64]bool{}
	for _, h := range list {
		st, err := h.Stat()
		if err == nil && !done[st.Dev] {
			done[st.Dev] = true
			err = sys.Syncfs(int(h.FD))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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

// Close drops what was not waited for.
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

// dirty returns how many bytes all file systems still have to write, and whether that is known.
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

// parseDirty adds up the numbers of proc_meminfo(5).
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

// ReplaceFile replaces the content of the file name, all or nothing. Until it is complete, the new file has a temporary
// name, which is always the same, so that crashes leave one file at most. The caller makes sure that nobody else does
// this. If before is not nil, everything in it and the content are on disk before the file gets its name; the caller
// then flushes the directory.
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
