//go:build linux

package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A model is a project and what is done to it: in a session, and on a copy.
type model struct {
	seed   uint64
	engine Engine
	roots  int
	weak   bool   // the command has no rights beyond its user's
	parts  int    // commits by which the changes come in; 1: all at once
	few    bool   // few files, and many links to them
	build  []op   // what makes the project
	runs   [][]op // what the commands do, with a commit after each
}

// String returns what is needed to find out what went wrong.
func (m model) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, engine %v, %d roots, weak %v, %d parts, few %v", m.seed, m.engine, m.roots, m.weak, m.parts, m.few)
	for i, ops := range append([][]op{m.build}, m.runs...) {
		fmt.Fprintf(&b, "\n  %s:", []string{"project", "run", "second run"}[i])
		for _, o := range ops {
			fmt.Fprintf(&b, "\n\t%v", o)
		}
	}
	return b.String()
}

func newModel(seed uint64) model {
	r := rand.New(rand.NewPCG(seed, 1))
	m := model{seed: seed, engine: EngineOverlay, roots: 1, parts: 1, weak: r.IntN(2) == 0}
	switch r.IntN(6) {
	case 0:
		m.engine = EngineTmpfs
	case 1:
		m.engine = EngineCopy
	}
	if m.engine == EngineTmpfs && !features.Has(features.TmpfsAttributes) || m.engine == EngineOverlay && !features.Has(features.Overlay) {
		m.engine = EngineCopy
	}
	if r.IntN(5) == 0 {
		m.roots = 2
	}
	runs := 1
	switch r.IntN(4) {
	case 0:
		m.parts = 2 + r.IntN(3)
	case 1:
		runs = 2
	}
	a := newAuthor(seed, m.roots, false)
	size := 10 + r.IntN(30)
	m.few = r.IntN(3) == 0
	a.few = m.few
	m.build = a.write(size)
	for range runs {
		n := 50
		if m.few {
			n = 4 + r.IntN(20)
		}
		m.runs = append(m.runs, a.write(n/runs))
	}
	return m
}

// A modelError says what is wrong, and at which stage.
type modelError struct {
	stage string
	lines []string
}

func (e *modelError) Error() string { return e.stage + ":\n" + strings.Join(e.lines, "\n") }

// wrong is the error of a stage at which something differs, nil if nothing does.
func wrong(stage string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return &modelError{stage, lines}
}

func (m model) run(w *worker) (err error) {
	base, err := os.MkdirTemp("", "model-")
	if err != nil {
		return err
	}
	defer func() {
		if e := dropTemp(base); e != nil && err == nil {
			err = e
		}
	}()
	var roots, plain []string
	for i := range m.roots {
		p := filepath.Join(base, "r"+strconv.Itoa(i))
		if err := os.Mkdir(p, 0o755); err != nil {
			return err
		}
		roots, plain = append(roots, p), append(plain, filepath.Join(base, "p"+strconv.Itoa(i)))
	}
	r, err := w.do(job{Build: m.build, Copy: plain, Roots: roots})
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	before := r.Seen
	began := time.Now().Add(-time.Minute).UnixNano()

	s, err := Create(Options{Roots: roots, Dir: filepath.Join(base, "state"), Engine: m.engine})
	if err != nil {
		return err
	}
	defer s.Close()
	views := []view{before} // the project before each commit
	last := before
	var seen view // by the last run
	for n, ops := range m.runs {
		stage := func(name string) string { return fmt.Sprintf("run %d, %s", n+1, name) }
		if s.State() != Kept {
			break // all of the first run was committed
		}
		if n > 0 {
			if err := s.Resume(nil); err != nil {
				return fmt.Errorf("%s: %w", stage("resume"), err)
			}
		}
		r, err := w.work(s, job{Roots: roots, Plain: plain, Ops: ops, Weak: m.weak})
		if err != nil {
			return fmt.Errorf("%s: %w", stage("work"), err)
		}
		seen = r.Seen
		set, err := s.changeSet()
		if err != nil {
			return fmt.Errorf("%s: %w", stage("changes"), err)
		}
		err = wrong(stage("sandbox and plain copy"), compared{
			got: r.Seen, want: r.Plain,
			// An operation that fails may still change a directory's time on overlayfs.
			time:   func(_ string, got, want object) bool { return got.Mtime > began && (want.Mtime > began || got.isDir()) },
			linked: func(k string) bool { return set.changed[k] },
		}.differences())
		if err != nil {
			return err
		}
		now, err := w.do(job{Roots: roots})
		if err != nil {
			return err
		}
		if err := wrong(stage("the project before the commit"), compared{got: now.Seen, want: last}.differences()); err != nil {
			return err
		}
		if len(set.lines) == 0 {
			continue
		}
		err = m.commit(s, set, n, func() error {
			now, err := w.do(job{Roots: roots})
			last = now.Seen
			views = append(views, last)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", stage("commit"), err)
		}
		if err := wrong(stage("the project after the commit"), m.compare(set, last, r.Seen, before)); err != nil {
			return fmt.Errorf("%w\nchanges were %q", err, set.lines)
		}
		if n == len(m.runs)-1 && s.State() != Committed {
			var left []string
			for c := range s.Changes() {
				left = append(left, c.String())
			}
			return fmt.Errorf("%s: the session is %v; left: %q", stage("end"), s.State(), left)
		}
	}
	if err := undoAll(s, w, roots, views); err != nil {
		return err
	}
	return again(s, w, roots, before, seen)
}

// again commits everything at once after all was undone, and undoes that too.
func again(s *Session, w *worker, roots []string, before, seen view) error {
	set, err := s.changeSet()
	if err != nil || len(set.lines) == 0 {
		return err
	}
	if err := s.CommitWith(context.Background(), CommitOptions{AllowSpecial: true, AllowExec: true}); err != nil {
		return fmt.Errorf("commit again: %w", err)
	}
	now, err := w.do(job{Roots: roots})
	if err != nil {
		return err
	}
	if err := wrong("the project after it was committed again", set.committed(now.Seen, seen, before, true)); err != nil {
		return fmt.Errorf("%w\nchanges were %q", err, set.lines)
	}
	return undoAll(s, w, roots, []view{before, now.Seen})
}

// compare compares the project after all of a run was committed. Links are kept within
// one commit.
func (m model) compare(set changeSet, project, seen, before view) []string {
	all := m.parts == 1 && len(m.runs) == 1
	if !all {
		project, seen = project.unlinked(), seen.unlinked()
	}
	return set.committed(project, seen, before, all)
}

// undoAll takes commits back, the last one first. Views are what the project was
// before each of them, and after the last.
func undoAll(s *Session, w *worker, roots []string, views []view) error {
	u, ok := any(s).(interface {
		Undo(context.Context, UndoOptions) error
	})
	if !ok {
		return nil
	}
	for n := len(views) - 2; n >= 0; n-- {
		if err := u.Undo(context.Background(), UndoOptions{}); err != nil {
			return fmt.Errorf("undo %d: %w", n+1, err)
		}
		now, err := w.do(job{Roots: roots})
		if err != nil {
			return err
		}
		if err := wrong(fmt.Sprintf("the project after undo %d", n+1), compared{got: now.Seen, want: views[n]}.differences()); err != nil {
			return err
		}
	}
	if s.State() != Kept {
		return fmt.Errorf("undone: the session is %v", s.State())
	}
	return nil
}

// commit commits all changes, in parts if there are to be any. Between two runs the
// first part is left, so that the session is still there.
func (m model) commit(s *Session, set changeSet, n int, done func() error) error {
	ctx := context.Background()
	parts := m.parts
	keep := n < len(m.runs)-1
	if parts == 1 && !keep {
		if err := s.CommitWith(ctx, CommitOptions{AllowSpecial: true, AllowExec: true}); err != nil {
			return err
		}
		return done()
	}
	var paths []string
	for c, err := range s.Changes() {
		if err != nil {
			return err
		}
		paths = append(paths, filepath.Join(c.Root, c.Path))
	}
	r := rand.New(rand.NewPCG(m.seed, 2))
	redo := func(part []string) error { // undone and committed once more
		if !m.few || r.IntN(3) > 0 {
			return done()
		}
		if err := s.Undo(ctx, UndoOptions{}); err != nil {
			return fmt.Errorf("undo of a part: %w", err)
		}
		if err := s.CommitWith(ctx, CommitOptions{Paths: part, AllowSpecial: true, AllowExec: true}); err != nil {
			return fmt.Errorf("a part again: %w", err)
		}
		return done()
	}
	r.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for len(paths) > 0 && s.State() == Kept {
		k := 1 + r.IntN(1+2*len(paths)/parts)
		k = min(k, len(paths))
		err := s.CommitWith(ctx, CommitOptions{Paths: paths[:k], AllowSpecial: true, AllowExec: true})
		if errors.Is(err, ErrNoChange) && k == 1 { // it went with another one
			paths = paths[1:]
			continue
		}
		if errors.Is(err, ErrNoChange) {
			for _, p := range paths[:k] {
				if err := s.CommitWith(ctx, CommitOptions{Paths: []string{p}, AllowSpecial: true, AllowExec: true}); err != nil && !errors.Is(err, ErrNoChange) && !errors.Is(err, ErrEnded) {
					return err
				} else if err == nil {
					if err := redo([]string{p}); err != nil {
						return err
					}
				}
			}
			err = nil
		} else if err == nil {
			err = redo(paths[:k])
		}
		if err != nil {
			return err
		}
		paths = paths[k:]
	}
	return nil
}

// dropTemp removes a directory of tests, whatever its modes are.
func dropTemp(dir string) error {
	parent, err := tree.OpenAbs(path.Dir(dir), 0o10000000) // O_PATH
	if err != nil {
		return err
	}
	defer parent.Close()
	return tree.RemoveTree(parent, path.Base(dir))
}

// TestModel does random operations in a session and on a plain copy of the project. After a commit, the project is what
// the sandbox saw; after an undo it is as before. NSRUN_MODEL is the number of models, and NSRUN_MODEL_SEED the first
// seed.
func TestModel(t *testing.T) {
	testenv.Leaks(t)
	number := func(name string, n uint64) uint64 {
		if s := os.Getenv(name); s != "" {
			var err error
			if n, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	count := number("NSRUN_MODEL", uint64(testenv.Rounds(100, 2000)))
	if testing.Short() || testenv.RaceDetector {
		count = min(count, 20)
	}
	first := number("NSRUN_MODEL_SEED", rand.Uint64N(1_000_000_000))
	t.Logf("NSRUN_MODEL_SEED=%d NSRUN_MODEL=%d", first, count)
	if _, err := startWorker(t).do(job{Mounts: nil}); err != nil {
		t.Fatal(err)
	}
	var next, failures atomic.Uint64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		w := startWorker(t)
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= count || failures.Load() >= 3 {
					return
				}
				m := newModel(first + i)
				err := m.run(w)
				if err == nil {
					continue
				}
				if errors.Is(err, io.EOF) {
					t.Error("the worker is gone")
					return
				}
				failures.Add(1)
				m, err = m.shrink(w, err)
				t.Errorf("%v\n%v", m, err)
			}
		})
	}
	wg.Wait()
}

// stageOf is what must be the same for a smaller model to fail as a larger one did.
func stageOf(err error) string {
	if e, ok := errors.AsType[*modelError](err); ok {
		return e.stage
	}
	head, _, _ := strings.Cut(err.Error(), ":")
	return head
}

// shrink leaves operations out for as long as the model fails in the same way.
func (m model) shrink(w *worker, err error) (model, error) {
	end := time.Now().Add(time.Minute)
	again := true
	for again {
		again = false
		for k := range 1 + len(m.runs) {
			get := func(m *model) *[]op {
				if k == 0 {
					return &m.build
				}
				return &m.runs[k-1]
			}
			for size := max(1, len(*get(&m))/2); size > 0; size /= 2 {
				for i := 0; i < len(*get(&m)); {
					if time.Now().After(end) {
						return m, err
					}
					less := m
					less.runs = slices.Clone(m.runs)
					list := get(&less)
					*list = slices.Delete(slices.Clone(*list), i, min(i+size, len(*list)))
					if e := less.run(w); e != nil && stageOf(e) == stageOf(err) {
						m, err, again = less, e, true
					} else {
						i += size
					}
				}
			}
		}
	}
	return m, err
}
