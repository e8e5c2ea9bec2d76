//go:build linux

package nsexec

import (
	"context"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
)

// CloseRefused gives up a sandbox before anybody has read that no process could be cloned for it. value is where the
// process id would be.
func CloseRefused(value uint32) error {
	r, w, err := statusPipe()
	if err != nil {
		return err
	}
	told := prog.Record{Kind: prog.RecordPid, Value: value, Errno: uint32(unix.EPERM)}
	if _, err = unix.Write(int(w), unsafe.Slice((*byte)(unsafe.Pointer(&told)), prog.RecordSize)); err != nil {
		return err
	}
	w.Close()
	s := &clone{ctx: context.Background(), status: r, sock: sys.None}
	s.close()
	return nil
}

// HeldMounts names the mount namespace that Wait will leave, as readlink(1) does; empty: none.
func HeldMounts(c *Cmd) string {
	if c.left == nil {
		return ""
	}
	name, err := os.Readlink("/proc/self/fd/" + itoa(int64(c.left.Fd())))
	if err != nil {
		return err.Error()
	}
	return name
}

// ReadyLate makes a sandbox in advance, and has its time end meanwhile.
func ReadyLate() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := Command("true").beginning()
	p.created = func(int) error {
		cancel()
		return nil
	}
	s, err := spawnReady(ctx, p)
	if err == nil {
		s.close()
	}
	return err
}

// StopLauncher ends the launcher, and returns how it ended.
func StopLauncher() string {
	theLauncher.mu.Lock()
	defer theLauncher.mu.Unlock()
	return theLauncher.stop()
}

// ReadyMounts are the process ids of the sandboxes that wait with a mount namespace of their own.
func ReadyMounts() (pids []int) {
	ready.mu.Lock()
	defer ready.mu.Unlock()
	for _, s := range ready.waiting {
		if s.table != nil {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

// Waiting is how many sandboxes wait for a command.
func Waiting() int {
	ready.mu.Lock()
	defer ready.mu.Unlock()
	return len(ready.waiting)
}

// StartUncloned starts a command for which no process can be cloned: the system call fails, or the launcher reports
// that. A sandbox that does not end is waited for for an hour.
func StartUncloned(launched bool) error {
	defer func(before time.Duration) { patience = before }(patience)
	patience = time.Hour
	p := Command("true").beginning()
	p.created = func(int) error { return nil } // who waits for the process
	s, err := spawnOnce(context.Background(), p, func(_ context.Context, _ *prog.Program, fds []int) (int, error) {
		if !launched {
			return 0, unix.EPERM
		}
		told := prog.Record{Kind: prog.RecordPid, Errno: uint32(unix.EPERM)}
		_, err := unix.Write(fds[len(fds)-1], unsafe.Slice((*byte)(unsafe.Pointer(&told)), prog.RecordSize))
		return 0, err
	})
	if err == nil {
		s.close()
	}
	return err
}
