//go:build linux

package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"

	"github.com/nsrun/nsrun/internal/testenv"
)

// atOnceEnv makes the test binary a process of TestSessionsAtOnce: its directory, the number of its first
// worker, how many there are, how many steps each does, and the seed.
const atOnceEnv = "NSRUN_OVERLAY_TEST_AT_ONCE"

// atOnceHelper is such a process.
func atOnceHelper() int {
	var dir string
	var first, workers, steps int
	var seed uint64
	if _, err := fmt.Sscanf(os.Getenv(atOnceEnv), "%s %d %d %d %d", &dir, &first, &workers, &steps, &seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	unix.Umask(0o022)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w, err := loadWorker(dir, first+i, seed)
			if err == nil {
				err = w.run(steps)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			fmt.Fprintf(os.Stderr, "worker %d: %v\n", first+i, err)
			return 1
		}
	}
	return 0
}

// run does steps, and looks at everything in the end.
func (w *modelWorker) run(steps int) (err error) {
	defer func() {
		for _, s := range w.open {
			_ = s.Close()
		}
		if w.spare != nil {
			_ = w.spare.Remove()
		}
	}()
	for i := range steps {
		op, err := w.step()
		if err != nil {
			return fmt.Errorf("step %d, %s: %w\n%s", i, op, err, w.trace())
		}
		for id, s := range w.open {
			if err := w.check(id, s); err != nil {
				return fmt.Errorf("after step %d, %s: %w\n%s", i, op, err, w.trace())
			}
		}
	}
	for id := range w.Sessions {
		s, err := w.use(id)
		if err == nil {
			err = w.check(id, s)
		}
		if err != nil {
			return fmt.Errorf("in the end: %w", err)
		}
	}
	return nil
}

// any is one of the worker's sessions that f takes.
func (w *modelWorker) any(f func(id string, p *past) bool) string {
	var list []string
	for id, p := range w.Sessions {
		if f(id, p) {
			list = append(list, id)
		}
	}
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return list[w.rnd.IntN(len(list))]
}

func (w *modelWorker) some(list []string) []string {
	n := 1 + w.rnd.IntN(len(list))
	list = slices.Clone(list)
	w.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	slices.Sort(list[:n])
	return list[:n]
}

// use opens a session, unless it is open. Nobody else uses it, so it cannot be busy.
func (w *modelWorker) use(id string) (*Session, error) {
	if s := w.open[id]; s != nil {
		return s, nil
	}
	s, err := Open(w.state(), id)
	if err != nil {
		return nil, err
	}
	w.open[id] = s
	return s, w.mark(id, s)
}

// mark writes into the session's scratch directory, as a build does into its cache.
func (w *modelWorker) mark(id string, s *Session) error {
	m, err := s.Scratch(filepath.Join(w.dir, "cache"))
	if err != nil {
		if errors.Is(err, ErrEnded) {
			return nil
		}
		return err
	}
	w.marks[id] = filepath.Join(m.Upper, "mark")
	return os.WriteFile(w.marks[id], nil, 0o600)
}

func (w *modelWorker) close(id string) error {
	s := w.open[id]
	if s == nil {
		return nil
	}
	delete(w.open, id)
	mark := w.marks[id]
	delete(w.marks, id)
	if mark != "" && w.rnd.IntN(2) == 0 {
		if err := s.DropScratch(); err != nil {
			return err
		}
	}
	return s.Close()
}

func (w *modelWorker) step() (op string, err error) {
	isKept := func(_ string, p *past) bool { return p.State == Kept }
	changed := func(id string, p *past) bool { return p.State == Kept && len(w.changed(id)) > 0 }
	switch n := w.rnd.IntN(100); {
	case n < 10:
		return "create", w.create()
	case n < 40:
		if id := w.any(isKept); id != "" {
			return "write", w.write(id)
		}
	case n < 58:
		if id := w.any(changed); id != "" {
			s, err := w.use(id)
			if err != nil {
				return "open", err
			}
			all := w.changed(id)
			if w.rnd.IntN(3) == 0 {
				return "commit", w.commit(id, s, all, true)
			}
			return "commit some", w.commit(id, s, w.some(all), false)
		}
	case n < 62:
		if id := w.any(changed); id != "" {
			return "drop", w.drop(id)
		}
	case n < 64:
		if id := w.any(isKept); id != "" {
			return "discard", w.discard(id)
		}
	case n < 71:
		if id := w.any(func(_ string, p *past) bool { return len(p.Done) > 0 }); id != "" {
			s, err := w.use(id)
			if err != nil {
				return "open", err
			}
			return "undo", w.undo(id, s)
		}
	case n < 77:
		if len(w.open) > 0 {
			return "close", w.close(slices.Sorted(maps.Keys(w.open))[w.rnd.IntN(len(w.open))])
		}
	case n < 80:
		if id := w.any(isKept); id != "" {
			s, err := w.use(id)
			if err != nil {
				return "open", err
			}
			delete(w.marks, id) // what another command wrote there is not kept
			if err := s.Resume([]string{w.name()}); err != nil {
				return "resume", err
			}
			return "scratch", w.mark(id, s)
		}
	case n < 88:
		return "list", w.list()
	case n < 91:
		return "recover", w.recover()
	case n < 94:
		return "clean", w.clean(CleanOptions{})
	case n < 96:
		if id := w.any(func(_ string, p *past) bool { return true }); id != "" {
			return "remove", w.remove(id)
		}
	case n < 98:
		return "retire", w.retire()
	default:
		return "peek", w.peek()
	}
	return "nothing", nil
}

func (w *modelWorker) create() error {
	if len(w.Sessions) >= 2*modelSessions || len(w.open) >= modelSessions {
		return nil
	}
	i := w.rnd.IntN(modelProjects)
	if err := w.begin(step{Op: "create", Value: fmt.Sprint(i)}); err != nil {
		return err
	}
	spare := w.spare
	w.spare = nil
	s, err := Create(Options{Roots: []string{w.project(i)}, Dir: w.state(), Command: []string{w.name()}, Engine: EngineOverlay, Spare: spare})
	if err != nil {
		return err
	}
	w.open[s.ID()] = s
	w.born(s.ID(), i)
	w.Trace[len(w.Trace)-1].Session = s.ID()
	return errors.Join(w.mark(s.ID(), s), w.end())
}

// write writes into a session as overlayfs would.
func (w *modelWorker) write(id string) error {
	s, err := w.use(id)
	if err != nil {
		return err
	}
	p, list := w.Sessions[id], w.paths()
	path := list[w.rnd.IntN(len(list))]
	w.Value++
	value := fmt.Sprintf("value %d of worker %d", w.Value, w.ID)
	if !hot(path) && w.rnd.IntN(4) == 0 && strings.HasPrefix(path, "shared/") && p.Base[path] == w.Files[p.Project][path] {
		value = ""
	}
	if err := w.begin(step{Op: "write", Session: id, Paths: []string{path}, Value: value}); err != nil {
		return err
	}
	seen := strings.HasPrefix(path, "shared/") || p.Base[path] != "" && !w.touchedSince(id, path, p.Born)
	upper, tmp := filepath.Join(s.Roots()[0].Upper, path), filepath.Join(w.dir, "log", w.name()+".tmp")
	if value != "" {
		err = errors.Join(makeUpper(s.Roots()[0].Upper, filepath.Dir(path), seen), os.WriteFile(tmp, []byte(value), 0o644), os.Rename(tmp, upper))
	} else {
		if err = os.Remove(upper); errors.Is(err, fs.ErrNotExist) {
			err = makeUpper(s.Roots()[0].Upper, filepath.Dir(path), seen)
		}
		if err == nil && p.Base[path] != "" {
			err = unix.Mknod(upper, unix.S_IFCHR, 0)
		}
	}
	if err != nil {
		return err
	}
	w.wrote(id, path, value)
	return w.end()
}

// seedOf is the seed of a test, or the one of an earlier run in NSRUN_SEED.
func seedOf(t testing.TB) uint64 {
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("NSRUN_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("NSRUN_SEED=%d", seed)
	return seed
}

// makeUpper makes a directory of an upper directory, and those above it. If the project has them (copied), they are
// marked as the kernel marks copies of directories.
func makeUpper(upper, dir string, copied bool) error {
	if dir == "." {
		return nil
	}
	if err := makeUpper(upper, filepath.Dir(dir), copied); err != nil {
		return err
	}
	dir = filepath.Join(upper, dir)
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && copied {
		err = unix.Setxattr(dir, tree.OverlayPrefix+"origin", nil, 0)
	}
	return err
}

func (w *modelWorker) drop(id string) error {
	s, err := w.use(id)
	if err != nil {
		return err
	}
	paths := w.some(w.changed(id))
	for _, path := range paths {
		if may, _ := w.refused(id, []string{path}); may {
			return nil // it may be no change any more
		}
	}
	if err := w.begin(step{Op: "drop", Session: id, Paths: paths}); err != nil {
		return err
	}
	// A new directory goes with the file in it: else it is left as a change.
	chosen := slices.Clone(paths)
	for i, path := range chosen {
		if top, _, _ := strings.Cut(path, "/"); top != "shared" {
			chosen[i] = top
		}
	}
	if err := meanwhile(s, func() error { return s.Drop(context.Background(), chosen...) }); err != nil {
		return err
	}
	w.dropped(id, paths)
	return w.end()
}

func (w *modelWorker) discard(id string) error {
	s, err := w.use(id)
	if err != nil {
		return err
	}
	if err := w.begin(step{Op: "discard", Session: id}); err != nil {
		return err
	}
	if err := meanwhile(s, s.Discard); err != nil {
		return err
	}
	w.discarded(id)
	return w.end()
}

// remove removes a session that no process has open.
func (w *modelWorker) remove(id string) error {
	if err := w.close(id); err != nil {
		return err
	}
	if err := w.begin(step{Op: "remove", Session: id}); err != nil {
		return err
	}
	if w.rnd.IntN(2) == 0 {
		s, err := Open(w.state(), id)
		if err == nil {
			err = s.Remove()
		}
		if err != nil {
			return err
		}
	} else if err := w.clean(CleanOptions{Sessions: []string{id}}); err != nil {
		return err
	}
	delete(w.Sessions, id)
	return w.end()
}

// retire begins and ends a session that nothing was written to, and keeps what is left of it.
func (w *modelWorker) retire() error {
	s, err := Create(Options{Roots: []string{w.project(0)}, Dir: w.state(), Command: []string{"short"}, Engine: EngineOverlay})
	if err != nil {
		return err
	}
	sp, err := s.Retire()
	if err != nil {
		return err
	}
	if w.spare != nil || !sp.Ready() {
		return sp.Remove()
	}
	w.spare = sp
	return nil
}

// list lists all sessions, and compares the worker's own with the model.
func (w *modelWorker) list() error {
	seen := map[string]bool{}
	for info, err := range List(w.state()) {
		if err != nil {
			return err
		}
		p := w.Sessions[info.ID]
		if p == nil {
			continue
		}
		seen[info.ID] = true
		if _, open := w.open[info.ID]; info.State != p.State || info.Busy != open || info.Interrupted {
			return fmt.Errorf("%w: %s is %s, busy %v, interrupted %v; not %s, busy %v", errModel, info.ID, info.State, info.Busy, info.Interrupted, p.State, open)
		}
	}
	for id := range w.Sessions {
		if !seen[id] {
			return fmt.Errorf("%w: %s is not listed", errModel, id)
		}
	}
	return nil
}

// recover looks after others' sessions. The worker's own need it only after a kill, and then were opened.
func (w *modelWorker) recover() error {
	for r, err := range Recover(w.state()) {
		if err != nil {
			return err
		}
		if w.Sessions[r.ID] != nil {
			return fmt.Errorf("%w: in %s %s", errModel, r.ID, r.What)
		}
	}
	return nil
}

func (w *modelWorker) clean(o CleanOptions) error {
	n := 0
	for c, err := range Clean(w.state(), o) {
		if err != nil {
			return err
		}
		if c.ID != "" {
			n++
		}
	}
	if n != len(o.Sessions) {
		return fmt.Errorf("%w: %d sessions were removed, not %d", errModel, n, len(o.Sessions))
	}
	return nil
}

// peek looks at any session, which may be anybody's and may go away meanwhile.
func (w *modelWorker) peek() error {
	for info, err := range List(w.state()) {
		if err != nil {
			return err
		}
		if w.rnd.IntN(8) > 0 {
			continue
		}
		s, err := OpenReadOnly(w.state(), info.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for range s.Changes() { // nothing can be said of them: it is in use
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// TestSessionsAtOnce has many processes with several goroutines each use sessions of one state directory on the same
// projects, kills some of them in the middle of it, and compares all that is there with a model.
func TestSessionsAtOnce(t *testing.T) {
	const processes, workers = 8, 2
	steps, kills := 20, 4
	if testenv.Long() {
		steps, kills = 3000, 400
	}
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "state/", "log/", "cache/", "p0/shared/hot0: hot", "p0/shared/hot1: hot", "p1/shared/hot0: hot", "p1/shared/hot1: hot")
	if err := os.Chmod(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	seed := seedOf(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var killing sync.Mutex // guards what follows
	left, rnd := kills, rand.New(rand.NewPCG(seed, 0))
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			for round := uint64(0); ; round++ {
				cmd := exec.Command(exe)
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d %d", atOnceEnv, dir, i*workers, workers, steps, seed+round))
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				killing.Lock()
				kill := left > 0
				left--
				after := time.Duration(20+rnd.IntN(400)) * time.Millisecond
				killing.Unlock()
				ended := time.NewTimer(time.Hour)
				if kill {
					ended = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
				}
				err := cmd.Wait()
				killed := !ended.Stop() && kill
				if ee, ok := errors.AsType[*exec.ExitError](err); ok && killed && ee.ExitCode() == -1 {
					continue
				}
				if err != nil {
					t.Errorf("process %d: %v\n%s", i, err, out.String())
				}
				return
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for r, err := range Recover(filepath.Join(dir, "state")) {
		t.Errorf("nothing was to be recovered: %+v, %v", r, err)
	}
	for info, err := range List(filepath.Join(dir, "state")) {
		if err != nil || info.Busy || info.Interrupted {
			t.Errorf("%+v, %v", info, err)
		}
	}
	for i := range modelProjects {
		// What a commit needed for a moment is gone.
		if err := filepath.WalkDir(filepath.Join(dir, fmt.Sprintf("p%d", i)), func(path string, d fs.DirEntry, err error) error {
			if strings.HasPrefix(d.Name(), ".") {
				t.Errorf("left in the project: %s", path)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
