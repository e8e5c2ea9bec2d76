//go:build linux

package nsexec

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
)

// TestForgedPid: a command can write a process id to the status pipe before the launcher does. What the kernel told of
// the clone counts, or signals would reach another process. (Control: before the clone has begun, the report counts.)
func TestForgedPid(t *testing.T) {
	const forged = 1 << 21
	for _, tt := range []struct {
		name  string
		begun bool
		forge prog.Record
		want  int
	}{
		{"another one", true, prog.Record{Kind: prog.RecordPid, Value: forged}, os.Getpid()},
		{"none", true, prog.Record{Kind: prog.RecordPid, Errno: uint32(unix.EAGAIN)}, os.Getpid()},
		{"the control", false, prog.Record{Kind: prog.RecordPid, Value: forged}, forged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs, err := sys.SeqPacket()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			defer theirs.Close()
			r, w, err := statusPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			if err := unix.SetsockoptInt(int(ours), unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
				t.Fatal(err)
			}
			if tt.begun { // this process is the clone
				if err := theirs.Send([]byte{0}); err != nil {
					t.Fatal(err)
				}
			}
			report := unsafe.Slice((*byte)(unsafe.Pointer(&tt.forge)), prog.RecordSize)
			if _, err := unix.Write(int(w), report); err != nil {
				t.Fatal(err)
			}
			s := &clone{ctx: t.Context(), status: r, sock: ours, first: &prog.Program{}}
			if err := s.awaitPid(); err != nil || s.pid != tt.want {
				t.Errorf("%d, want %d (%v)", s.pid, tt.want, err)
			}
		})
	}
}
