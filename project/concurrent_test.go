//go:build linux

package project

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"go.etcd.io/bbolt"
)

const workerEnv = "NSRUN_TEST_PROJECT_WORKER"

// job is what a worker process does: it records executions, each with files of its own,
// and prints the id of each when Record has returned.
type job struct {
	Options Options
	Root    string
	Name    string
	Most    int
}

const perExecution = 5 // new files

func worker(work string) int {
	var j job
	if err := json.Unmarshal([]byte(work), &j); err != nil {
		return 2
	}
	r := Open(j.Options)
	for i := range j.Most {
		var changes []Change
		for k := range perExecution {
			changes = append(changes, Change{Kind: Added, Root: j.Root, Path: fmt.Sprintf("%s/%d/%d", j.Name, i, k), Mode: 0o644})
		}
		changes = append(changes, Change{Kind: Modified, Root: j.Root, Path: "shared", Mode: 0o644, OldMode: 0o644})
		rec, err := r.Record(ctx, Execution{Session: j.Name, Command: []string{j.Name}, Roots: []string{j.Root}}, changes, func(c Change) (*os.File, error) { return os.Open(c.Name()) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(rec.ID)
		if i%7 == 3 {
			if err := r.Flush(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	if err := r.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (p *place) worker(name string, most int) (*exec.Cmd, io.Reader) {
	p.t.Helper()
	work, err := json.Marshal(job{p.o, p.root, name, most})
	p.must(err)
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), workerEnv+"="+string(work))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	p.must(err)
	p.must(c.Start())
	return c, out
}

// TestSeveralProcesses: some processes record at once, and others are killed in the middle
// of it, again and again. What was acknowledged is there, each transaction was done or
// not, and the database is whole.
func TestSeveralProcesses(t *testing.T) {
	p := newPlace(t)
	p.tree("shared: one")
	p.scan()
	id := p.file("shared").ID
	backup := func() string { return fmt.Sprintf("%d-%s-shared", id, time.Now().Format("06-01-02")) }
	backups := []string{backup()}
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	note := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		acknowledged[line] = true
	}
	var wg sync.WaitGroup
	for i := range 3 {
		c, out := p.worker(fmt.Sprint("w", i), 60)
		wg.Go(func() {
			for s := bufio.NewScanner(out); s.Scan(); {
				note(s.Text())
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 25 {
		c, out := p.worker(fmt.Sprint("killed", i), 1<<20)
		s := bufio.NewScanner(out)
		for n := 0; n <= i%4 && s.Scan(); n++ {
			note(s.Text())
		}
		p.must(c.Process.Kill())
		for s.Scan() { // what it said before it was
			note(s.Text())
		}
		_ = c.Wait()
	}
	wg.Wait()

	found := map[string]bool{}
	for _, e := range p.executions(Filter{}) {
		found[e.ID] = true
		if len(e.Changes) != perExecution+1 {
			t.Errorf("%s has %d changes", e.ID, len(e.Changes))
		}
		for _, c := range e.Changes {
			if _, err := p.File(c.Name()); err != nil {
				t.Error(err)
			}
		}
	}
	if len(acknowledged) < 3*60+25 {
		t.Errorf("only %d were acknowledged", len(acknowledged))
	}
	for id := range acknowledged {
		if !found[id] {
			t.Errorf("%s was acknowledged, and is not there", id)
		}
	}
	groups := map[string]int{}
	ids := map[int64]string{}
	for f, err := range p.Files(p.root) {
		p.must(err)
		if other := ids[f.ID]; other != "" {
			t.Errorf("%s and %s have one id", other, f.Path)
		}
		ids[f.ID] = f.Path
		groups[filepath.Dir(f.Path)]++
	}
	for dir, n := range groups {
		if n != perExecution && dir != p.root {
			t.Errorf("%s: %d files: half of a transaction", dir, n)
		}
	}
	p.whole()
	p.after(2 * orphanAge)
	p.clean()
	names, err := os.ReadDir(filepath.Join(p.o.Cache, editedName))
	backups = append(backups, backup()) // the day may have ended
	strange := func(e os.DirEntry) bool { return !slices.Contains(backups, e.Name()) }
	if err != nil || len(names) == 0 || slices.ContainsFunc(names, strange) {
		t.Errorf("one file on one day has the backups %v, %v; expected were %q", names, err, backups)
	}
}

// whole lets bbolt itself look at all of the database.
func (p *place) whole() {
	p.t.Helper()
	p.must(p.view(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			p.t.Error(err)
		}
		return nil
	}))
	db, err := os.ReadFile(filepath.Join(p.o.Dir, dbName))
	p.must(err)
	p.must(verify(db))
}

// TestSeveralGoroutines: one Registry, many users.
func TestSeveralGoroutines(t *testing.T) {
	p := newPlace(t)
	p.tree("shared: one")
	p.scan()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 20 {
				_, err := p.Record(ctx, Execution{Roots: []string{p.root}}, []Change{p.change(Added, fmt.Sprintf("%d/%d", i, k)), p.change(Modified, "shared")}, p.original)
				if err != nil {
					t.Error(err)
				}
				if _, err := p.File(p.at("shared")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(p.executions(Filter{})); n != 160 {
		t.Errorf("%d executions", n)
	}
	p.whole()
}

// TestJournalIsMergedInTheBackground: it does not grow for ever, and nothing of it is lost.
func TestJournalIsMergedInTheBackground(t *testing.T) {
	p := newPlace(t)
	long := strings.Repeat("x", 64<<10)
	for range 40 {
		p.record(Execution{Command: []string{long}})
	}
	p.must(p.Close())
	if fi, err := os.Stat(filepath.Join(p.o.Dir, dbName)); err != nil || fi.Size() < 1<<20 {
		t.Errorf("nothing was merged: %v, %v", fi, err)
	}
	p.reopen()
	if n := len(p.executions(Filter{})); n != 40 {
		t.Errorf("%d executions", n)
	}
}

// TestBusy: another process has the database locked for longer than anybody wants to wait.
// What needs no transaction goes on.
func TestBusy(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	p.o.Wait = 1 // not even that long
	p.reopen()
	other := Open(Options{Dir: p.o.Dir, Cache: p.o.Cache})
	defer other.Close()
	p.must(other.update(func(*bbolt.Tx) error {
		err := p.Set(Permission{Action: Execute, Target: "x", Decision: Allow})
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), filepath.Join(p.o.Dir, dbName)) {
			t.Errorf("it says %v", err)
		}
		_, err = p.Record(ctx, Execution{}, nil, nil)
		return err
	}))
	p.must(p.Set(Permission{Action: Execute, Target: "x", Decision: Allow}))
	if n := len(p.executions(Filter{})); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestHalfAJournalLine: a process was killed while it wrote; the others' lines stay.
func TestHalfAJournalLine(t *testing.T) {
	p := newPlace(t)
	p.record(Execution{Command: []string{"one"}})
	f, err := os.OpenFile(filepath.Join(p.o.Dir, journalName), os.O_WRONLY|os.O_APPEND, 0)
	p.must(err)
	line := encodeLine(&op{Execution: (&Execution{ID: newExecution(p.now())}).record()})
	_, err = f.Write(line[:len(line)/2])
	p.must(errors.Join(err, f.Close()))
	p.record(Execution{Command: []string{"two"}})
	list := p.executions(Filter{})
	if len(list) != 2 || list[0].Command[0]+list[1].Command[0] == "" {
		t.Errorf("%+v", list)
	}
}

// TestMergedTwice: a process was killed between the transaction and the removal of what it had merged. Merging it again
// changes nothing, not even later changes.
func TestMergedTwice(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	c := p.change(Deleted, "a")
	p.record(Execution{Session: "s", State: StateKept}, c)
	journal, err := os.ReadFile(filepath.Join(p.o.Dir, journalName))
	p.must(err)
	p.must(p.Flush())
	p.must(os.Remove(p.at("a")))
	p.must(p.Committed(ctx, "s", true, []Change{c}))
	p.must(p.Flush())
	p.must(os.WriteFile(filepath.Join(p.o.Dir, mergingName), journal, 0o600))
	if list := p.executions(Filter{}); len(list) != 1 || list[0].State != StateCommitted {
		t.Errorf("%+v", list)
	}
	if f := p.file("a"); !f.Deleted || len(f.Backups) != 1 {
		t.Errorf("%+v", f)
	}
	if _, err := os.Lstat(filepath.Join(p.o.Dir, mergingName)); err == nil {
		t.Error("the merging journal is still there")
	}
}

// TestStateDirectoryRemoved: somebody cleans up while the registry is open.
func TestStateDirectoryRemoved(t *testing.T) {
	p := newPlace(t)
	p.record(Execution{})
	p.must(os.RemoveAll(p.o.Dir))
	if _, err := p.Record(ctx, Execution{}, nil, nil); err == nil {
		if len(p.executions(Filter{})) != 1 {
			t.Error("Record succeeds, but records nothing")
		}
	}
	p.reopen()
	p.record(Execution{})
	if len(p.executions(Filter{})) != 1 {
		t.Error("the registry does not recover")
	}
}

func TestOpenDoesNothing(t *testing.T) {
	p := newPlace(t)
	before := testenv.Listing(t, filepath.Dir(p.root))
	r := Open(p.o)
	p.must(r.Flush())
	if err := r.CleanDaily(ctx); err != nil {
		t.Error(err)
	}
	for range r.Files("") {
		t.Error("there is a file")
	}
	for range r.Executions(Filter{}) {
		t.Error("there is an execution")
	}
	if c, err := r.Clean(ctx); err != nil || c != (Cleaned{}) {
		t.Errorf("%+v, %v", c, err)
	}
	p.must(r.Close())
	p.must(r.Close())
	if d := testenv.Difference(t, filepath.Dir(p.root), before); d != "" {
		t.Errorf("looking made %s", d)
	}
	if _, err := r.Record(ctx, Execution{}, nil, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
