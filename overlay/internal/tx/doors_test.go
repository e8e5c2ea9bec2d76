//go:build linux

package tx

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// That a directory was opened and closed again is our doing; what somebody else did
// meanwhile is not.
func TestFollow(t *testing.T) {
	dir := testenv.Dir(t)
	h, err := tree.OpenAbs(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var list CTimes
	at := store.Place{Root: 0, Path: "d"}
	step := func(mode uint32, meanwhile func()) (before, after int64) {
		t.Helper()
		st, err := h.Stat()
		if err != nil {
			t.Fatal(err)
		}
		meanwhile()
		if err := h.Chmod(mode); err != nil {
			t.Fatal(err)
		}
		list.Follow(at, st, h)
		now, err := h.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return st.Ctime, now.Ctime
	}
	// Before Linux 6.13 the kernel sets times to that of the last tick, so a change is visible only after the next
	// tick.
	write := func() {
		before, err := h.Stat()
		for now := before; err == nil && now.Ctime == before.Ctime; now, err = h.Stat() {
			if err = errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Remove(filepath.Join(dir, "f"))); err != nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	nothing := func() {}

	first, _ := step(0o700, nothing)
	if _, now := step(0o755, nothing); list.Before(at, now) != first {
		t.Error("a directory that was only opened and closed counts as changed")
	}
	if _, now := step(0o700, write); list.Before(at, now) != now {
		t.Error("a directory with a new file does not count as changed")
	}
	if _, now := step(0o755, nothing); list.Before(at, now) == first {
		t.Error("a directory that was closed after a change does not count as changed")
	}
	if list.Before(store.Place{Root: 1, Path: "d"}, first) != first {
		t.Error("another one")
	}
}
