//go:build linux

package overlay

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
)

// TestRenamesOfManyLines: the search for similar texts ends when it has compared as many lines as it may: a command can
// write hundreds of texts of ten thousands of short lines.
func TestRenamesOfManyLines(t *testing.T) {
	const texts, lines = 10, 100
	r := &renamer{lines: 3 * texts * lines}
	for i := range texts {
		content := map[uint64]int{}
		for n := range lines {
			content[uint64(lines*i+n)] = 2
		}
		text := func(dir string) *moved {
			return &moved{Change: Change{Path: fmt.Sprintf("%s%d/%s", dir, i, dir), Mode: 0o644, Size: 2 * lines}, lines: content, size: 2 * lines}
		}
		r.gone, r.come = append(r.gone, text("old")), append(r.come, text("new"))
	}
	if err := r.alike(); err != nil {
		t.Fatal(err)
	}
	if len(r.found) != 3 {
		t.Errorf("%d renames were found among as many lines as 3 texts are compared with", len(r.found))
	}
}

// TestCausedByMany: whether nsrun itself changed an object of the project is found as fast among many objects.
func TestCausedByMany(t *testing.T) {
	const many = 60_000
	s := &Session{meta: &store.Meta{}}
	var places []store.Place
	for i := range many {
		at := store.Place{Path: fmt.Sprintf("dir/file%06d", i)}
		places = append(places, at)
		s.meta.Settled = append(s.meta.Settled, store.Settled{Path: store.Text(at.Path), Lower: int64(i + 1)})
	}
	s.meta.Settled = append(s.meta.Settled, store.Settled{Path: store.Text(places[7].Path), Lower: 1}) // the first one counts
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration { // by this thread, however busy the machine is
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano())
	}
	b, before := &kept{}, used()
	for i, at := range places {
		if !b.caused(s, at, int64(i+1)) || b.caused(s, at, int64(i+2)) {
			t.Fatal(at)
		}
	}
	if b.caused(s, store.Place{Root: 1, Path: places[1].Path}, 2) || b.caused(s, store.Place{Path: "other"}, 0) {
		t.Error("nsrun changed what it did not")
	}
	if took := used() - before; took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}
