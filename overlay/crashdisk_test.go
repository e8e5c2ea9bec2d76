//go:build linux

package overlay

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Whoever pulls the plug takes all that was not flushed. That cannot be tried here, but
// what a process flushes can be seen, and when.

// A memo is what a machine that loses its power now may forget: by path, the call that
// made or changed it. A directory stands for the names in it.
type memo map[string]strike.Call

func (m memo) see(c strike.Call) {
	name := func(p string) { m[filepath.Dir(p)] = c }
	f := func(i int) string { return c.Files[i] }
	if filepath.Base(f(0)) == turnsName {
		return // nobody needs it after a restart
	}
	switch c.Name {
	case "openat", "openat2":
		if c.Flags&unix.O_CREAT != 0 {
			name(f(0))
		}
	case "mkdirat":
		if _, err := os.Lstat(f(0)); err == nil {
			return // it fails
		}
		m[f(0)] = c
		name(f(0))
	case "symlinkat", "mknodat":
		name(f(0))
	case "linkat":
		name(f(1))
	case "renameat", "renameat2":
		m.exchange(f(0), f(1))
		name(f(0))
		name(f(1))
	case "unlinkat":
		for p := range m {
			if paths.Inside(p, f(0)) {
				delete(m, p)
			}
		}
		name(f(0))
	case "fsync", "fdatasync":
		delete(m, f(0))
	case "syncfs":
		disk := diskOf(f(0))
		maps.DeleteFunc(m, func(p string, _ strike.Call) bool { return diskOf(p) == disk })
	case "fcntl", "flock":
	case "utimensat": // nobody waits for a time
	default:
		m[f(0)] = c
	}
}

// diskOf is the device of a path, or of the nearest directory above it that is there.
func diskOf(p string) uint64 {
	var st unix.Stat_t
	for unix.Lstat(p, &st) != nil {
		p = filepath.Dir(p)
	}
	return st.Dev
}

func (m memo) exchange(a, b string) {
	moved := memo{}
	for p, c := range m {
		switch {
		case paths.Inside(p, a):
			moved[b+p[len(a):]] = c
			delete(m, p)
		case paths.Inside(p, b):
			moved[a+p[len(b):]] = c
			delete(m, p)
		}
	}
	maps.Copy(m, moved)
}

// below lists what may be forgotten at and below dirs.
func (m memo) below(dirs ...string) (list []string) {
	for p, c := range m {
		// What its owner may not open he cannot flush alone, when it is closed again.
		if strings.HasPrefix(c.Name, "fchmod") && slices.ContainsFunc(closedObjects, func(o closedObject) bool { return strings.HasSuffix(p, "/"+o.path) }) {
			continue
		}
		if slices.ContainsFunc(dirs, func(d string) bool { return paths.Inside(p, d) }) {
			list = append(list, p+" since "+c.String())
		}
	}
	slices.Sort(list)
	return list
}

// TestCrashFlush: before the first change in the project, everything that completing the commit or taking it back needs
// is on the disk. The result is on the disk before the commit says that it has ended.
func TestCrashFlush(t *testing.T) {
	testenv.Leaks(t)
	dir := memory(t)
	for _, small := range []bool{true, false} {
		at := filepath.Join(dir, map[bool]string{true: "small", false: "large"}[small])
		sc := newScene(t, mustMkdir(at), small)
		for _, d := range deeds {
			if !whole(d.deed.Do) {
				continue
			}
			flushed := func(each bool) func(*testing.T) {
				return func(t *testing.T) {
					testenv.TakeTurns(t)
					d.deed.Each = each
					tr := &trial{name: d.name, scene: sc, base: dir, state: dir, prepare: d.prepare, deed: d.deed}
					st := tr.prepared(t)
					defer st.drop(t)
					m := memo{}
					calls, touched, decided := 0, false, false
					r, out := st.deed(tr.deed).strikeIt(t, strike.Plan{Trace: func(_ int, c strike.Call) {
						calls++
						if strings.HasPrefix(c.Name, "fchmod") && slices.ContainsFunc(st.projects[:], func(p string) bool { return paths.Inside(c.Files[0], p) }) {
							session := filepath.Join(st.state, st.id)
							if list := m.below(filepath.Join(session, store.BookName), st.state+"/"+store.PendingName); len(list) > 0 {
								t.Errorf("%v: not on disk yet:\n\t%s", c, strings.Join(list, "\n\t"))
							}
						}
						if strings.HasPrefix(c.Name, "rename") {
							to := c.Files[1]
							if !touched && slices.ContainsFunc(c.Files, func(f string) bool { return paths.Inside(f, st.projects[0]) || paths.Inside(f, st.projects[1]) }) {
								touched = true
								session := filepath.Join(st.state, st.id)
								list := m.below(st.state+"/"+store.PendingName, session+"/"+tx.Name, session+"/"+store.MetaName)
								if c, ok := m[st.state]; ok { // the name "pending"
									list = append(list, "the state directory since "+c.String())
								}
								if len(list) > 0 {
									t.Errorf("%v: not on disk yet:\n\t%s", c, strings.Join(list, "\n\t"))
								}
							}
							if filepath.Base(to) == store.MetaName {
								decided = true
								if list := m.below(c.Files[0]); len(list) > 0 {
									t.Errorf("%v: not on disk yet:\n\t%s", c, strings.Join(list, "\n\t"))
								}
							}
						}
						if c.Name == "unlinkat" && decided && filepath.Base(filepath.Dir(c.Files[0])) == store.PendingName {
							if list := m.below(append(st.projects[:], filepath.Join(st.state, st.id, store.MetaName))...); len(list) > 0 {
								t.Errorf("%v: not on disk yet:\n\t%s", c, strings.Join(list, "\n\t"))
							}
						}
						m.see(c)
					}})
					if r.ExitCode != exitDone || touched == (d.deed.Do == "discard") || !decided {
						t.Fatalf("%+v %s", r, out)
					}
					backup := filepath.Join(st.state, st.id, tx.Name, strconv.Itoa(1+len(d.prepare)), tx.ObjectsName)
					if list := m.below(st.projects[0], st.projects[1], filepath.Join(st.state, st.id, store.MetaName), backup); len(list) > 0 {
						t.Errorf("at the end: not on disk:\n\t%s", strings.Join(list, "\n\t"))
					}
				}
			}
			name := strings.ReplaceAll(d.name, " ", "-")
			t.Run(name+", each", flushed(true))
			t.Run(name+", file systems", flushed(false))
		}
	}
}

// TestCrashFlushApart: if the sessions are on another file system than the projects, what a commit puts into a project
// meanwhile has a name that is on disk before it is there, until it is on disk that it is gone.
func TestCrashFlushApart(t *testing.T) {
	testenv.Leaks(t)
	base, state := memory(t), tempDir(t)
	if diskOf(base) == diskOf(state) {
		testenv.Skip(t, "two file systems", "/dev/shm is no other one")
	}
	sc := newScene(t, mustMkdir(filepath.Join(base, "scene")), true)
	for _, d := range deeds {
		if d.name != "commit" && d.name != "undo" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			tr := &trial{name: d.name, scene: sc, base: base, state: state, prepare: d.prepare, deed: d.deed, apart: true}
			tr.deed.Each = true
			st := tr.prepared(t)
			defer st.drop(t)
			m := memo{}
			made, gone := 0, 0
			r, out := st.deed(tr.deed).strikeIt(t, strike.Plan{Trace: func(_ int, c strike.Call) {
				var list []string
				session := filepath.Join(st.state, st.id)
				switch {
				case c.Name == "mkdirat" && strings.HasPrefix(filepath.Base(c.Files[0]), tx.StageMark):
					made++
					list = m.below(st.state+"/"+store.PendingName, session+"/"+tx.Name)
					if c, ok := m[session]; ok { // the name "tx"
						list = append(list, "the session since "+c.String())
					}
				case c.Name == "unlinkat" && filepath.Base(c.Files[0]) == "stages":
					gone++
					list = m.below(st.projects[:]...)
				}
				if len(list) > 0 {
					t.Errorf("%v: not on disk yet:\n\t%s", c, strings.Join(list, "\n\t"))
				}
				m.see(c)
			}})
			if r.ExitCode != exitDone || made == 0 || gone == 0 {
				t.Fatalf("%d made, %d gone: %+v %s", made, gone, r, out)
			}
			if list := m.below(st.projects[:]...); len(list) > 0 {
				t.Errorf("at the end: not on disk:\n\t%s", strings.Join(list, "\n\t"))
			}
		})
	}
}
