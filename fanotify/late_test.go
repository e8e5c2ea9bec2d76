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

// A churn changes a tree in all ways, and knows what has to be told.
type churn struct {
	t     *testing.T
	dir   string
	names map[string]bool // what was there at the beginning or is there at the end, and was changed
	brief map[string]bool // directories in which something came and went
}

func (c *churn) path(name string) string { return filepath.Join(c.dir, name) }

func (c *churn) must(err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatal(err)
	}
}

func (c *churn) create(name string) {
	fd, err := unix.Open(c.path(name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	c.must(err)
	c.must(unix.Close(fd))
}

// before makes what is there before anybody watches.
func (c *churn) before(dirs int) {
	for d := range dirs {
		old := fmt.Sprint("old", d)
		c.must(os.MkdirAll(c.path(old+"/deep/er"), 0o755))
		for f := range 20 {
			c.create(fmt.Sprint(old, "/", f))
		}
	}
}

// run changes it, by about 100 events for each directory.
func (c *churn) run(dirs int) {
	note := func(names ...string) {
		for _, name := range names {
			c.names[name] = true
		}
	}
	for d := range dirs {
		old, fresh := fmt.Sprint("old", d), fmt.Sprintf("new%d", d)
		for f := range 20 {
			name := fmt.Sprint(old, "/", f)
			switch f % 4 {
			case 0:
				c.must(unix.Unlink(c.path(name)))
				note(name)
			case 1:
				c.must(unix.Rename(c.path(name), c.path(name+"x")))
				note(name, name+"x")
			case 2:
				c.must(os.WriteFile(c.path(name), []byte("x"), 0o644))
				note(name)
			}
		}
		c.must(os.Mkdir(c.path(fresh), 0o755))
		note(fresh)
		for f := range 40 {
			for _, in := range []string{fresh, old} {
				name := fmt.Sprintf("%s/n%d", in, f)
				c.create(name)
				switch f % 4 {
				case 0:
					c.must(unix.Unlink(c.path(name)))
					c.brief[in] = true
				case 1:
					c.must(unix.Link(c.path(name), c.path(name+"l")))
					note(name, name+"l")
				default:
					note(name)
				}
			}
		}
		switch d % 4 {
		case 0: // a directory is removed and made again
			c.must(os.RemoveAll(c.path(old + "/deep")))
			c.must(os.Mkdir(c.path(old+"/deep"), 0o755))
			c.create(old + "/deep/again")
			note(old+"/deep", old+"/deep/again")
		case 1: // renamed, and something put into it then
			c.must(os.Rename(c.path(old+"/deep"), c.path(fresh+"/moved")))
			c.create(fresh + "/moved/er/file")
			note(old+"/deep", fresh+"/moved", fresh+"/moved/er/file")
		case 2: // replaced by a link to somewhere else
			c.must(os.RemoveAll(c.path(old + "/deep")))
			c.must(os.Symlink("..", c.path(old+"/deep")))
			note(old + "/deep")
		}
	}
}

// memory is a directory that is removed in the end, in memory where there is such a place that the
// engine can watch: so many files take long on a disk. Long tests have the disk.
func memory(t *testing.T, e Engine) string {
	if testenv.Long() {
		t.Setenv("TMPDIR", disk)
		return testenv.Dir(t)
	}
	return inMemory(t, e)
}

func inMemory(t *testing.T, e Engine) string {
	dir, err := os.MkdirTemp("/dev/shm", "nsrun-test-")
	if err != nil {
		return testenv.Dir(t)
	}
	w, err := New(Options{Roots: []string{dir}, Engine: e})
	if err != nil {
		_ = os.Remove(dir)
		return testenv.Dir(t)
	}
	w.Close()
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestLate: the reader begins only when everything has happened, and when much more has happened than a queue holds.
func TestLate(t *testing.T) {
	dirs, runs := 300, 1
	if testenv.Long() {
		dirs, runs = 1000, 20
	}
	engines(t, func(t *testing.T, e Engine) {
		limit := queueLimit(t, e)
		if limit > 1<<17 {
			testenv.Skip(t, "small-queue", "the kernel's queue holds very much here")
		}
		dirs := max(dirs, (limit+8192)/90) // inotify has what fsnotify holds besides
		for range runs {
			c := &churn{t, inMemory(t, e), map[string]bool{}, map[string]bool{}}
			c.before(dirs)
			m := &model{}
			for _, p := range everything(t, c.dir) {
				parent, name := m.at(p, true)
				parent.add(name).seen = true
			}
			w, err := New(Options{Roots: []string{c.dir}, Engine: e})
			if err != nil {
				t.Fatal(err)
			}
			c.run(dirs)
			w.Stop()
			told, written := map[string]bool{}, map[string]bool{}
			overflows := 0
			for ev, err := range w.Events() {
				if errors.Is(err, ErrOverflow) {
					overflows++
					continue
				} else if err != nil {
					t.Error(err)
					continue
				}
				told[ev.Path] = true
				if ev.From != "" {
					told[ev.From] = true
				}
				if ev.Dir && ev.Op == Written {
					written[ev.Path] = true
				} else {
					m.apply(ev) // a directory need not be listed to know what is in it
				}
			}
			w.Close()
			if overflows == 0 {
				t.Error("the queue did not overflow, so this tests nothing")
			}
			var missing []string
			for name := range c.names {
				if !told[name] && !(e == Fanotify && written[filepath.Dir(name)]) { // it keeps no names
					missing = append(missing, name)
				}
			}
			for dir := range c.brief {
				if !written[dir] {
					missing = append(missing, dir+" (that something came and went)")
				}
			}
			slices.Sort(missing)
			if len(missing) > 0 {
				t.Errorf("%d of %d were not reported, such as %q", len(missing), len(c.names), missing[:min(5, len(missing))])
			}
			if e == Inotify {
				m.compare(t, c.dir)
			}
		}
	})
}
