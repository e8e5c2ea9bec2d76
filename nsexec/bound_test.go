//go:build linux

package nsexec

import (
	"context"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestBound: when a context ends at the moment at which it is no longer waited for, it does not end a later read.
func TestBound(t *testing.T) {
	for range 2000 {
		r, w, err := statusPipe()
		if err != nil {
			t.Fatal(err)
		}
		s := &clone{status: r}
		ctx, cancel := context.WithCancel(t.Context())
		release := s.bound(ctx)
		cancel()
		if !release() {
			t.Error("release does not know that the context has ended")
		}
		if err := r.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched() // to who would set an earlier one
		w.Close()
		if _, err := readRecord(r); err != errGone {
			t.Fatalf("the read ends with %v", err)
		}
		r.Close()
	}
}

// TestEndBeforePid: a command can end before the process that cloned it says its process id. How it ended is known.
func TestEndBeforePid(t *testing.T) {
	r, w, err := statusPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range []prog.Record{{Kind: prog.RecordStarted}, {Kind: prog.RecordTimeout}, {Kind: prog.RecordExit, Value: 3 << 8}, {Kind: prog.RecordPid, Value: 4711}} {
		if _, err := unix.Write(int(w), unsafe.Slice((*byte)(unsafe.Pointer(&record)), prog.RecordSize)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	s := &clone{status: r, sock: sys.None, ctx: t.Context()}
	if err := s.await(nil, Command("true")); err != nil {
		t.Fatal(err)
	}
	if status, ok := s.exit(); !ok || status.ExitStatus() != 3 || s.pid != 4711 || !s.timedOut {
		t.Errorf("process %d ended with %v, %t, timed out %t", s.pid, status, ok, s.timedOut)
	}
}
