//go:build linux

package fanotify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// A stage is a watcher with the engine Inotify that reads the kernel's queue only when a test tells it to. So a test
// decides in which order events and reads happen.
type stage struct {
	t   *testing.T
	dir string
	w   *Watcher
	eng *watches
	m   model
}

func newStage(t *testing.T) *stage {
	dir := memory(t, Inotify)
	testenv.Tree(t, dir, "fill/")
	w := open(t, Inotify, dir)
	s := &stage{t: t, dir: dir, w: w, eng: w.eng.(*watches)}
	s.m.add("fill").seen = true
	return s
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// create makes files. They count as old when it returns.
func (s *stage) create(names ...string) {
	s.t.Helper()
	for _, name := range names {
		fd, err := unix.Open(s.path(name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err == nil {
			err = unix.Close(fd)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	age(s.t)
}

// fill makes n events.
func (s *stage) fill(n int) {
	s.t.Helper()
	for _, name := range []string{"fill/0", "fill/1"} {
		if err := os.WriteFile(s.path(name), nil, 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range n {
		if err := unix.Chmod(s.path(fmt.Sprint("fill/", i%2)), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

// full fills the queue, and what fsnotify has read.
func (s *stage) full() {
	limit := queueLimit(s.t, Inotify)
	if limit > 1<<17 {
		testenv.Skip(s.t, "small-queue", "the kernel's queue is too long for the test")
	}
	s.fill(limit + 8192)
}

// step does one step, of which there is one: it must not have to wait.
func (s *stage) step() {
	s.t.Helper()
	s.eng.step(&s.w.out)
	s.took()
}

func (s *stage) took() {
	s.t.Helper()
	for _, it := range s.w.out.items {
		if it.err != nil && !errors.Is(it.err, ErrOverflow) {
			s.t.Fatal(it.err)
		}
		if it.err == nil {
			s.m.apply(it.ev)
		}
	}
	s.w.out.items = s.w.out.items[:0]
}

// overflow takes events until one is an overflow.
func (s *stage) overflow() {
	s.t.Helper()
	events := s.eng.fs.Events
	if n := cap(events); n != 0 {
		s.t.Fatalf("%d events can be read ahead: an overflow overtakes them", n)
	}
	for {
		select {
		case ev, ok := <-events:
			s.eng.take(ev, ok, &s.w.out)
			s.took()
			continue
		default:
		}
		select {
		case ev, ok := <-events:
			s.eng.take(ev, ok, &s.w.out)
		case err, ok := <-s.eng.fs.Errors:
			s.eng.failed(err, ok, &s.w.out)
			s.took()
			return
		}
		s.took()
	}
}

// end tells all that is left, and compares it with what there is.
func (s *stage) end() {
	s.t.Helper()
	s.w.Stop()
	for ev, err := range s.w.Events() {
		if err != nil && !errors.Is(err, ErrOverflow) {
			s.t.Fatal(err)
		}
		if err == nil {
			s.m.apply(ev)
		}
	}
	s.m.compare(s.t, s.dir)
}

// TestOverflowOrder: the sign that all which was queued has come is queued right behind an overflow.
// What was lost there has not come.
func TestOverflowOrder(t *testing.T) {
	s := newStage(t)
	s.full()
	s.create("lost")
	// When so many are taken there is room again, and the overflow is the last in the queue.
	for range 5000 {
		ev, ok := <-s.eng.fs.Events
		s.eng.take(ev, ok, &s.w.out)
	}
	s.took()
	s.bar()
	s.fill(100)
	s.overflow()
	s.end()
}

// bar does what step does where nothing comes.
func (s *stage) bar() {
	b := &s.eng.bar
	b.serial++
	b.at = earliest()
	b.sent, b.fresh = true, false
	s.eng.send(&b.file, &s.w.out)
}

// TestOverflowTwice: an overflow's findings are undone by queued events, and the events that do them again are lost.
func TestOverflowTwice(t *testing.T) {
	s := newStage(t)
	s.full()
	s.overflow()
	if !s.eng.lost {
		t.Fatal("the overflow left nothing to repair")
	}
	// Behind the sign that the queue was emptied: told now as it is, and then as it was.
	s.create("x")
	if err := os.Rename(s.path("x"), s.path("y")); err != nil {
		t.Fatal(err)
	}
	s.full()
	s.create("x")
	for s.eng.lost || len(s.eng.tasks) > 0 {
		s.step()
	}
	told := map[string]bool{}
	if s.m.paths("", told); !told["x"] || !told["y"] {
		t.Fatalf("after the first overflow, only %v were reported", told)
	}
	s.overflow()
	s.end()
}

// TestOldSign: the event of a file that was changed before an overflow is not the one that is awaited
// since.
func TestOldSign(t *testing.T) {
	s := newStage(t)
	s.fill(10)
	s.bar()
	old := s.eng.bar.name
	s.eng.heal(&s.w.out)
	for len(s.eng.tasks) > 0 {
		s.step()
	}
	s.fill(10)
	s.bar()
	s.fill(10)
	want := s.eng.bar.name
	for s.eng.quiet = 0; s.eng.quiet == 0; {
		ev, ok := <-s.eng.fs.Events
		s.eng.take(ev, ok, &s.w.out)
		if s.eng.quiet != 0 && (ev.Name != want || ev.Name == old) {
			t.Errorf("%q was taken for %q", ev.Name, want)
		}
	}
	s.end()
}

// TestOverflowClock: the clock was set back, so no time shows what changed. Everything that came and went is reported
// all the same, and nothing else.
func TestOverflowClock(t *testing.T) {
	s := newStage(t)
	s.create("a", "b", "c", "d", "stays")
	if err := unix.Renameat2(unix.AT_FDCWD, s.path("c"), unix.AT_FDCWD, s.path("d"), unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	s.bar()
	for s.eng.bar.sent {
		s.step()
	}
	s.full()
	s.create("came")
	if err := errors.Join(os.Remove(s.path("a")), os.Rename(s.path("b"), s.path("bb"))); err != nil {
		t.Fatal(err)
	}
	s.eng.quiet = never - 1
	s.w.Stop()
	var got []string
	for ev, err := range s.w.Events() {
		if errors.Is(err, ErrOverflow) {
			got = nil // what comes now was looked for
		} else if err != nil {
			t.Fatal(err)
		} else {
			got = append(got, text(ev))
		}
	}
	slices.Sort(got)
	if want := []string{"created bb", "created came", "removed a", "removed b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
