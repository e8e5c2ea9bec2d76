//go:build linux

package project

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(workerEnv); work != "" {
		os.Exit(worker(work))
	}
	if at := os.Getenv(restorerEnv); at != "" {
		os.Exit(restorer(at))
	}
	testenv.Main(m)
}

// place is a registry of its own with a project.
type place struct {
	*Registry
	t    testing.TB
	o    Options
	root string // of the project
}

func newPlace(t testing.TB) *place {
	t.Helper()
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	p := &place{t: t, root: filepath.Join(dir, "project"), o: Options{Dir: filepath.Join(dir, "state"), Cache: filepath.Join(dir, "cache")}}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	p.reopen()
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *place) reopen() {
	p.t.Helper()
	if p.Registry != nil {
		p.must(p.Close())
	}
	p.Registry = Open(p.o)
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) tree(lines ...string) { testenv.Tree(p.t, p.root, lines...) }
func (p *place) at(path string) string {
	return filepath.Join(p.root, path)
}

func (p *place) scan() {
	p.t.Helper()
	p.must(p.Scan(context.Background(), p.root))
}

// change is one of a regular file of the project.
func (p *place) change(k Kind, path string) Change {
	return Change{Kind: k, Root: p.root, Path: path, Mode: 0o644, OldMode: 0o644}
}

func (p *place) original(c Change) (*os.File, error) {
	return os.Open(c.Name())
}

func (p *place) record(e Execution, changes ...Change) Recorded {
	p.t.Helper()
	if e.Roots == nil {
		e.Roots = []string{p.root}
	}
	rec, err := p.Record(context.Background(), e, changes, p.original)
	p.must(err)
	for at := time.Now().UnixMilli(); time.Now().UnixMilli() == at; { // ids are in the order of time to the millisecond
	}
	return rec
}

func (p *place) file(path string) File {
	p.t.Helper()
	f, err := p.File(p.at(path))
	p.must(err)
	return f
}

func (p *place) read(path string) string {
	p.t.Helper()
	b, err := os.ReadFile(path)
	p.must(err)
	return string(b)
}

func (p *place) executions(f Filter) (list []Execution) {
	p.t.Helper()
	for e, err := range p.Executions(f) {
		p.must(err)
		list = append(list, e)
	}
	return list
}

// after makes it be so much later.
func (p *place) after(d time.Duration) {
	was := p.now
	p.now = func() time.Time { return was().Add(d) }
}

func (p *place) clean() Cleaned {
	p.t.Helper()
	c, err := p.Clean(context.Background())
	p.must(err)
	return c
}

const day = 24 * time.Hour
