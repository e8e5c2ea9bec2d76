//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// A sighted is what is at a path, told apart from all others.
type sighted struct {
	ino     uint64
	content string // of a file or a link
}

// sightings returns what is below dir, directories left out, by path.
func sightings(t testing.TB, dir string) map[string]sighted {
	t.Helper()
	all := map[string]sighted{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		var data []byte
		if d.Type().IsRegular() {
			data, err = os.ReadFile(p)
		} else if d.Type() == fs.ModeSymlink {
			var text string
			text, err = os.Readlink(p)
			data = []byte(text)
		}
		rel, _ := filepath.Rel(dir, p)
		all[rel] = sighted{st.Ino, string(data)}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// lossScript makes a shell script of random operations on a small tree. With old, it also moves objects that are as old
// as the project from ../old into the project, and others out of it.
func lossScript(r *rand.Rand, who string, n int, old bool) string {
	names := []string{"a", "b", "c"}
	path := func(depth int) string {
		p := names[r.IntN(len(names))]
		for range r.IntN(depth) {
			p += "/" + names[r.IntN(len(names))]
		}
		return p
	}
	var b strings.Builder
	for i := range n {
		p, q := path(3), path(3)
		kinds := 7
		if old {
			kinds = 11
		}
		switch k := r.IntN(kinds); k {
		case 0, 1:
			fmt.Fprintf(&b, "mkdir -p %s && echo %s%d >%s/%s\n", p, who, i, p, names[r.IntN(3)])
		case 2:
			fmt.Fprintf(&b, "[ -d %s ] || echo %s%d >%s\n", p, who, i, p)
		case 3:
			fmt.Fprintf(&b, "rm -r %s\n", p)
		case 4:
			fmt.Fprintf(&b, "rm -r %s && mkdir %s && echo %s%d >%s/a\n", p, p, who, i, p)
		case 5:
			fmt.Fprintf(&b, "mv -T %s %s\n", p, q)
		case 6:
			fmt.Fprintf(&b, "ln -s %s%d %s\n", who, i, p)
		case 7:
			fmt.Fprintf(&b, "mv ../old/%d %s\n", r.IntN(4), p)
		case 8, 9:
			fmt.Fprintf(&b, "[ -e %s ] && mv -T %s ../out%d && mv -T ../old/%d %s\n", p, p, i, r.IntN(4), p)
		case 10:
			fmt.Fprintf(&b, "mv -T %s ../out%d\n", p, i)
		}
	}
	return "set +e\n{\n" + b.String() + ":; } 2>/dev/null\n"
}

// TestNothingLost: whatever a session and the project's owner do, and however old what he moves about is, a commit
// without a conflict leaves all that was not at its place when the session began.
func TestNothingLost(t *testing.T) {
	testenv.Leaks(t)
	n := 12
	if testenv.Long() {
		n = 2000
	}
	seed := seedOf(t)
	conflicts := 0
	for i := range n {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		engine := engines[r.IntN(len(engines))]
		root := project(t, lossScript(r, "base", 12, false))
		outside(t, root, `mkdir ../old; for i in 0 1 2 3; do cp -a . ../old/$i; find ../old/$i -type f -exec sh -c 'for f; do echo old $f >$f; done' - {} +; done`)
		s := createWith(t, engine, root)
		inside := lossScript(r, "session", 8, false)
		sandbox(t, s, inside)
		preserve(t, s)
		untilNewer(t, s, filepath.Dir(root))
		first := sightings(t, root)
		owner := lossScript(r, "owner", 1+r.IntN(5), true)
		outside(t, root, owner)
		his := sightings(t, root)
		err := s.CommitWith(t.Context(), CommitOptions{AllowSpecial: true})
		now := sightings(t, root)
		if errors.As(err, new(*ConflictError)) {
			conflicts++
			if len(his) != len(now) {
				t.Fatalf("a refused commit changed the project")
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d, %s: %v\n%s%s", i, engine, err, inside, owner)
		}
		for p, o := range his {
			if o != first[p] && now[p].content != o.content {
				t.Errorf("NSRUN_SEED=%d, %d, %s: %s: the owner had %q, now there is %q\n%s%s", seed, i, engine, p, o.content, now[p].content, inside, owner)
			}
		}
	}
	t.Logf("%d conflicts in %d commits", conflicts, n)
	if n > 1000 && (conflicts == 0 || conflicts == n) {
		t.Error("nothing is tested")
	}
}
