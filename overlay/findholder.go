//go:build linux

package overlay

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// The kernel does not say who holds a lock of an open file description (F_OFD_GETLK), because several processes can
// have that open. But /proc/PID/fdinfo shows each lock with the descriptors that hold it (proc_pid_fdinfo(5)).

// A command in a sandbox can have as many descriptors as it likes, and the kernel can have much to say of one. So the
// search for a holder ends after holderSearch, and what is longer than the locks of a commit is not read to its end.
const (
	holderSearch = 5 * time.Second
	holderText   = 64 << 10
)

// holder finds a process that has locked a part of the file which this commit needs. Zero: it finds none in time.
func (t *turn) holder(ctx context.Context) (h Holder) {
	ctx, cancel := context.WithTimeout(ctx, holderSearch)
	defer cancel()
	room := make([]byte, holderText)
	st, err := t.f.Stat()
	if err != nil {
		return h
	}
	names, _ := os.ReadDir("/proc")
	for _, d := range names {
		if ctx.Err() != nil {
			return h
		}
		pid, err := strconv.Atoi(d.Name())
		if err == nil && t.heldBy(ctx, pid, st, room) {
			return holderOf(pid)
		}
	}
	return h
}

// heldBy reports whether a descriptor of the process holds a lock that this commit waits for. It looks until ctx ends.
func (t *turn) heldBy(ctx context.Context, pid int, st tree.Stat, room []byte) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	n, err := sys.Openat2(unix.AT_FDCWD, dir+"/fdinfo", unix.O_RDONLY|unix.O_DIRECTORY, 0, 0)
	if err != nil {
		return false
	}
	fdinfo := sys.FD(n)
	defer fdinfo.Close()
	for names := range sys.EachName(n, make([]byte, 8<<10)) {
		for _, name := range names {
			if ctx.Err() != nil {
				return false
			}
			if t.lockedBy(dir, name, st, room) {
				return true
			}
		}
	}
	return false
}

// lockedBy is heldBy for one descriptor of a process.
func (t *turn) lockedBy(process, name string, st tree.Stat, room []byte) bool {
	info, _ := sys.Head(process+"/fdinfo/"+name, room)
	for line := range bytes.Lines(info) {
		if !t.blocks(string(line), st.Ino) {
			continue
		}
		var other unix.Stat_t // files of other file systems can have the same number
		if unix.Stat(process+"/fd/"+name, &other) == nil && other.Dev == st.Dev && other.Ino == st.Ino {
			return true
		}
	}
	return false
}

// blocks reports whether a line of fdinfo is a lock of the file with this inode number that excludes one of the turn's:
// "lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:1234 0 15".
func (t *turn) blocks(line string, ino uint64) bool {
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "lock:" || f[2] != "OFDLCK" {
		return false
	}
	if at := strings.LastIndexByte(f[6], ':'); f[6][at+1:] != strconv.FormatUint(ino, 10) {
		return false
	}
	first, err := strconv.ParseInt(f[7], 10, 64)
	if err != nil {
		return false
	}
	last, err := strconv.ParseInt(f[8], 10, 64)
	if err != nil {
		last = 1 << 62 // "EOF"
	}
	overlaps := func(at int64) bool { return first < at+2*turnHalf && last >= at }
	return slices.ContainsFunc(t.own, overlaps) || f[4] == "WRITE" && slices.ContainsFunc(t.above, overlaps)
}

func holderOf(pid int) Holder {
	h, dir := Holder{PID: pid}, "/proc/"+strconv.Itoa(pid)
	name, _ := sys.ReadFile(dir+"/comm", make([]byte, 64))
	h.Program = strings.TrimSuffix(string(name), "\n")
	// The state follows the name, in which there can be anything.
	stat, _ := sys.ReadFile(dir+"/stat", make([]byte, 512))
	if at := bytes.LastIndexByte(stat, ')'); at >= 0 && at+2 < len(stat) {
		h.Stopped = stat[at+2] == 'T' || stat[at+2] == 't'
	}
	return h
}
