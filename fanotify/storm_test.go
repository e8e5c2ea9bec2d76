//go:build linux

package fanotify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/storm"
	"github.com/nsrun/nsrun/internal/testenv"
)

// startStorm starts a storm's processes; run lets them go, and waits for their end.
func startStorm(t testing.TB, dir string, dirs, files int) (run func()) {
	t.Helper()
	s, err := storm.Start(dir, dirs, files)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := s.Run(); err != nil {
			t.Error(err)
		}
	}
}

// A model is what a reader knows who has seen only events.
type model struct {
	kids map[string]*model // of a directory
	dir  bool
	seen bool

	// stale: it is a directory from which names have gone that were not told.
	stale bool
}

func (m *model) at(path string, make bool) (parent *model, name string) {
	parts := strings.Split(path, "/")
	for _, p := range parts[:len(parts)-1] {
		kid := m.kids[p]
		if kid == nil {
			if !make {
				return nil, ""
			}
			kid = m.add(p)
		}
		m = kid
	}
	return m, parts[len(parts)-1]
}

func (m *model) add(name string) *model {
	if m.kids == nil {
		m.kids = map[string]*model{}
	}
	kid := &model{}
	m.kids[name] = kid
	return kid
}

// apply does what an event says. The nil model does nothing.
func (m *model) apply(ev Event) {
	if m == nil {
		return
	}
	if ev.Path == "." {
		m.stale = m.stale || ev.Op == Written
		return
	}
	parent, name := m.at(ev.Path, ev.Op != Removed)
	switch ev.Op {
	case Created, Written, Attributes:
		kid := parent.kids[name]
		if kid == nil {
			kid = parent.add(name)
		}
		kid.seen = true
		kid.dir = kid.dir || ev.Dir
		kid.stale = kid.stale || ev.Dir && ev.Op == Written
	case Removed:
		if parent != nil {
			delete(parent.kids, name)
		}
	case Renamed:
		from, old := m.at(ev.From, false)
		var kid *model
		if from != nil {
			kid = from.kids[old]
			delete(from.kids, old)
		}
		if kid == nil {
			kid = &model{}
		}
		if parent.kids == nil {
			parent.kids = map[string]*model{}
		}
		kid.seen = true
		parent.kids[name] = kid
	}
}

// list takes away what is not in directories that are to be listed again, as who
// reads events would do.
func (m *model) list(dir string) {
	for name, kid := range m.kids {
		p := filepath.Join(dir, name)
		if _, err := os.Lstat(p); m.stale && err != nil {
			delete(m.kids, name)
			continue
		}
		kid.list(p)
	}
}

// paths lists what was seen.
func (m *model) paths(prefix string, list map[string]bool) {
	for name, kid := range m.kids {
		if kid.seen {
			list[prefix+name] = true
		}
		kid.paths(prefix+name+"/", list)
	}
}

// everything lists all that is in a directory.
func everything(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != dir {
			list = append(list, strings.TrimPrefix(p, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// compare fails the test if the events that were reported do not lead to the files that exist.
func (m *model) compare(t testing.TB, dir string) {
	t.Helper()
	m.list(dir)
	told := map[string]bool{}
	m.paths("", told)
	var missing []string
	all := everything(t, dir)
	for _, p := range all {
		if !told[p] {
			missing = append(missing, p)
		}
		delete(told, p)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		t.Errorf("%d of %d paths were never reported, such as %q", len(missing), len(all), missing[:min(5, len(missing))])
	}
	if len(told) > 0 {
		var list []string
		for p := range told {
			list = append(list, p)
		}
		slices.Sort(list)
		t.Errorf("%d reported paths do not exist, such as %q", len(list), list[:min(5, len(list))])
	}
}

// collect takes all events until the end. What it returns may be used then.
func collect(t testing.TB, w *Watcher, m *model) (done func() (events, overflows int)) {
	type result struct{ events, overflows int }
	ch := make(chan result)
	go func() {
		var r result
		defer func() { ch <- r }()
		for ev, err := range w.Events() {
			if errors.Is(err, ErrOverflow) {
				r.overflows++
				continue
			}
			if errors.Is(err, ErrClosed) {
				return
			}
			if err != nil {
				t.Error(err)
				continue
			}
			r.events++
			m.apply(ev)
		}
	}()
	return func() (int, int) {
		r := <-ch
		return r.events, r.overflows
	}
}

// engines runs a test with each available engine.
func engines(t *testing.T, f func(t *testing.T, e Engine)) {
	for _, e := range []Engine{Fanotify, Inotify} {
		t.Run(e.String(), func(t *testing.T) {
			if e == Fanotify {
				needMarks(t)
			}
			f(t, e)
		})
	}
}

func needMarks(t testing.TB) {
	t.Helper()
	testenv.NeedRoot(t)
	w, err := New(Options{Roots: []string{t.TempDir()}, Engine: Fanotify})
	if err != nil {
		testenv.Skip(t, "fanotify", err.Error())
	}
	w.Close()
}

func TestStorm(t *testing.T) {
	dirs, files, runs := 200, 10_000, 1
	if testenv.Long() {
		dirs, files, runs = 1000, 100_000, 20
	}
	engines(t, func(t *testing.T, e Engine) {
		for i := range runs {
			dir := filepath.Join(memory(t, e), "storm")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			run := startStorm(t, dir, dirs, files)
			w, err := New(Options{Roots: []string{dir}, Engine: e})
			if err != nil {
				t.Fatal(err)
			}
			m := &model{}
			done := collect(t, w, m)
			begin := time.Now()
			run()
			took := time.Since(begin)
			w.Stop()
			events, overflows := done()
			t.Logf("run %d: %v, %v more until the end; %d events, %d overflows", i, took, time.Since(begin)-took, events, overflows)
			w.Close()
			m.compare(t, dir)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	})
}
