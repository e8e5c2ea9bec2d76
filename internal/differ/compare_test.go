//go:build linux && !race

package differ

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// job is something to do with both programs.
type job struct {
	name, what string
	only       string
	do         func(p *place, program, bin string) result
}

func linesToDo(lines []line) (jobs []job) {
	for i := range lines {
		l := &lines[i]
		what := l.args + " " + strings.Join(l.fds, " ")
		if l.ownName {
			what += " (as nsrun)"
		}
		jobs = append(jobs, job{name: l.short(), what: what, only: l.only,
			do: func(p *place, program, bin string) result { return p.run(program, bin, l) }})
	}
	return jobs
}

// again is which part of the jobs an ordinary user does after root, and often how often bubblewrap
// is asked twice: with NSRUN_LONG, and usually.
var again, often = 25, 16

func init() {
	if testenv.Long() {
		again, often = 5, 4
	}
}

// turn reports whether the i-th job is done by who: half of them by root, and the others by a user,
// where both are there; with NSRUN_LONG each by both.
func turn(i int, who *identity) bool {
	return testenv.Long() || os.Geteuid() != 0 || (i%2 == 0) == (who.uid == 0)
}

// compare does the jobs with both programs. Now and then bubblewrap does one once
// more: it must not differ from itself, or the comparison says nothing. It has
// races of its own, though (with --die-with-parent, PID 1 asks for the signal when
// the command may run already), so where something differs it is asked more often,
// and each of its ways is right.
func compare(t *testing.T, jobs []job) {
	dir := bin(t)
	var rep report
	for _, who := range identities() {
		t.Run(who.name, func(t *testing.T) {
			p := newPlace(t, who)
			for i, j := range jobs {
				if j.only != "" && j.only != who.name {
					continue
				}
				if j.only == "" && !turn(i, who) {
					continue
				}
				// Root has done them all as a user already.
				if os.Getenv("NSRUN_TEST_AS_USER") != "" && i%again != 0 {
					continue
				}
				t.Run(j.name, func(t *testing.T) {
					p.t = t
					bubblewrap := func() result { return j.do(p, filepath.Join(dir, "real/bwrap"), dir) }
					real := bubblewrap()
					ours := j.do(p, filepath.Join(dir, "ours/bwrap"), dir)
					ds := unmeant(j.what, real, ours)
					for try := 0; len(ds) > 0 && try < 4; try++ {
						again := bubblewrap()
						for _, d := range differing(real, again) {
							t.Logf("%s: bubblewrap differs from itself: %s", j.what, d)
						}
						if len(unmeant(j.what, again, ours)) == 0 {
							ds = nil
						}
					}
					if i%often == 0 {
						again := bubblewrap()
						if self := differing(real, again); len(self) > 0 {
							if third := bubblewrap(); len(differing(third, real)) > 0 && len(differing(third, again)) > 0 {
								t.Errorf("%s: bubblewrap differs from itself\n%s", j.what, list(self))
							}
						}
					}
					rep.add(who.name, j.what, ds)
					if len(ds) > 0 {
						t.Errorf("%s\n%s", j.what, list(ds))
					}
				})
			}
		})
	}
	rep.write(t)
}

// difference is one fact that is not the same. What is missing is "-".
type difference struct{ key, real, ours string }

func (d difference) String() string {
	return fmt.Sprintf("%s:\n\t\tbubblewrap %s\n\t\there       %s", d.key, d.real, d.ours)
}

const missing = "-"

// unmeant are the differences that the table does not name.
func unmeant(what string, real, ours result) []difference {
	return slices.DeleteFunc(differing(real, ours), func(d difference) bool { return isMeant(what, d) })
}

func differing(real, ours result) (ds []difference) {
	keys := make(map[string]bool)
	for k := range real {
		keys[k] = true
	}
	for k := range ours {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		a, b := missing, missing
		if v, ok := real[k]; ok {
			a = fmt.Sprintf("%q", v)
		}
		if v, ok := ours[k]; ok {
			b = fmt.Sprintf("%q", v)
		}
		if a != b {
			ds = append(ds, difference{k, a, b})
		}
	}
	// Where one of them did not come to run the command, what the other one's
	// command saw says nothing.
	if (real["stdout"] == "the probe's") != (ours["stdout"] == "the probe's") {
		ds = slices.DeleteFunc(ds, func(d difference) bool { return strings.HasPrefix(d.key, "in.") })
	}
	return ds
}

func list(ds []difference) string {
	var b strings.Builder
	for i, d := range ds {
		if i == 12 {
			fmt.Fprintf(&b, "\tand %d more\n", len(ds)-i)
			break
		}
		fmt.Fprintf(&b, "\t%s\n", d)
	}
	return b.String()
}

// report groups equal differences of several lines.
type report struct {
	groups map[difference]*group
	lines  int
	bad    int
}

type group struct {
	d     difference
	count int
	first []string
}

func (r *report) add(who, what string, ds []difference) {
	r.lines++
	if len(ds) > 0 {
		r.bad++
	}
	if r.groups == nil {
		r.groups = make(map[difference]*group)
	}
	seen := make(map[difference]bool)
	for _, d := range ds {
		if what, ok := strings.CutPrefix(d.key, "in.mount."); ok {
			if _, what, ok = strings.Cut(what, " "); ok {
				d.key = "in.mount.* " + what
			}
		}
		if seen[d] {
			continue
		}
		seen[d] = true
		g := r.groups[d]
		if g == nil {
			g = &group{d: d}
			r.groups[d] = g
		}
		g.count++
		if len(g.first) < 3 {
			g.first = append(g.first, who+": "+strings.ToValidUTF8(what, "?"))
		}
	}
}

// write appends the groups to the file that NSRUN_DIFFER_REPORT names.
func (r *report) write(t *testing.T) {
	t.Logf("%d runs compared, %d of them differ", r.lines, r.bad)
	name := os.Getenv("NSRUN_DIFFER_REPORT")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "## %s: %d runs compared, %d of them differ\n\n", t.Name(), r.lines, r.bad)
	for _, g := range slices.SortedFunc(maps.Values(r.groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.d.key, b.d.key), cmp.Compare(a.d.real, b.d.real), cmp.Compare(a.d.ours, b.d.ours))
	}) {
		fmt.Fprintf(f, "%d x %s\n", g.count, strings.ReplaceAll(g.d.String(), "\t\t", "    "))
		for _, l := range g.first {
			fmt.Fprintf(f, "    e.g. %s\n", l)
		}
	}
	fmt.Fprintln(f)
}
