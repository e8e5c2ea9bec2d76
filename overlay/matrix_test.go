//go:build linux

package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// The matrix: what the project has at x, and what the command makes of it. X stands
// for x, D for the directory it is in, which has a file "other" and a directory
// "place" with a file "in". The type is that of find -type.
type matrixCell struct {
	name, typ string
	ops       []op
}

var (
	matrixLower = []matrixCell{
		{"nothing", "", nil},
		{"file", "f", []op{{Do: "create", A: "X", Text: "old"}, {Do: "chmod", A: "X", N: 0o640}, {Do: "setxattr", A: "X", B: "user.x", Text: "old"}}},
		{"linked", "f", []op{{Do: "create", A: "X", Text: "old"}, {Do: "link", A: "X", B: "D/x2"}, {Do: "link", A: "X", B: "D/place/x3"}}},
		{"empty", "d", []op{{Do: "mkdir", A: "X", N: 0o750}}},
		{"full", "d", []op{{Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/a", Text: "a"}, {Do: "mkdir", A: "X/sub", N: 0o700}, {Do: "create", A: "X/sub/b", Text: "b"},
			{Do: "mkdir", A: "X/sub/deep", N: 0o755}, {Do: "link", A: "X/a", B: "X/sub/a2"}, {Do: "symlink", A: "X/l", Text: "a"}, {Do: "fifo", A: "X/p"},
			{Do: "setxattr", A: "X/sub", B: "user.x", Text: "old"}, {Do: "setxattr", A: "X", B: "system.posix_acl_default", Text: acl(7, 6, 5, 7, 5)}}},
		{"shut", "d", []op{{Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/a", Text: "a"}, {Do: "mkdir", A: "X/sub", N: 0o755}, {Do: "create", A: "X/sub/b", Text: "b"},
			{Do: "chmod", A: "X/a"}, {Do: "setxattr", A: "X/sub", B: "user.x", Text: "old"}, {Do: "chmod", A: "X/sub", N: 0o300}, {Do: "chmod", A: "X"}}},
		{"tofile", "l", []op{{Do: "symlink", A: "X", Text: "other"}}},
		{"todir", "l", []op{{Do: "symlink", A: "X", Text: "place"}}},
		{"dangling", "l", []op{{Do: "symlink", A: "X", Text: "nowhere"}}},
		{"fifo", "p", []op{{Do: "fifo", A: "X"}}},
	}
	matrixUpper = []matrixCell{
		{"file", "f", []op{remove, {Do: "create", A: "X", Text: "new"}}},
		{"fileattrs", "f", []op{remove, {Do: "create", A: "X", Text: "new"}, {Do: "setxattr", A: "X", B: "user.x", Text: "new"}, {Do: "setxattr", A: "X", B: "system.posix_acl_access", Text: acl(7, 6, 5, 7, 0)},
			{Do: "chmod", A: "X", N: 0o751}, longAgo}},
		{"append", "", []op{{Do: "append", A: "X", Text: "more"}, longAgo}},
		{"moved", "f", []op{remove, {Do: "rename", A: "D/other", B: "X"}}},
		{"dir", "d", []op{remove, {Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/a", Text: "c"}, {Do: "mkdir", A: "X/more", N: 0o755}, {Do: "create", A: "X/more/n", Text: "n"}, {Do: "fifo", A: "X/more/p"},
			{Do: "chmod", A: "X/more", N: 0o500}, longAgo}},
		{"merged", "d", []op{{Do: "unlink", A: "X"}, {Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/a", Text: "c"}, {Do: "create", A: "X/new", Text: "n"}, {Do: "unlink", A: "X/sub/b"}}},
		{"opaque", "d", []op{remove, {Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/new", Text: "n"}, {Do: "mkdir", A: "X/sub", N: 0o755}, {Do: "create", A: "X/sub/B", Text: "B"}}},
		{"samenames", "d", []op{remove, {Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/a", Text: "a"}, {Do: "mkdir", A: "X/sub", N: 0o700}, {Do: "create", A: "X/sub/b", Text: "b"}}},
		{"symlink", "l", []op{remove, {Do: "symlink", A: "X", Text: "elsewhere"}, longAgo}},
		{"linktoother", "l", []op{remove, {Do: "symlink", A: "X", Text: "../../../other"}}},
		{"fifo", "p", []op{remove, {Do: "fifo", A: "X"}, {Do: "chmod", A: "X", N: 0o600}, longAgo}},
		{"socket", "s", []op{remove, {Do: "socket", A: "X"}, longAgo}},
		{"whiteout", "", []op{remove}},
		{"hardlink", "f", []op{remove, {Do: "link", A: "D/other", B: "X"}}},
		{"newlinks", "f", []op{remove, {Do: "create", A: "D/y", Text: "12"}, {Do: "link", A: "D/y", B: "X"}, {Do: "mkdir", A: "D/z", N: 0o755}, {Do: "link", A: "D/y", B: "D/z/y"}, {Do: "append", A: "X", Text: "3"}}},
		{"emptydir", "d", []op{remove, {Do: "mkdir", A: "X", N: 0o755}}},
		{"mode", "", []op{{Do: "chmod", A: "X", N: 0o711}}},
		{"attrs", "", []op{{Do: "setxattr", A: "X", B: "user.y", Text: "new"}, {Do: "setxattr", A: "X", B: "system.posix_acl_access", Text: acl(7, 6, 5, 7, 0)}, longAgo}},
		{"closed", "d", []op{remove, {Do: "mkdir", A: "X", N: 0o755}, {Do: "create", A: "X/n", Text: "n"}, {Do: "setxattr", A: "X/n", B: "user.x", Text: "1"}, {Do: "chmod", A: "X/n"}, {Do: "chmod", A: "X"}}},
	}
	remove  = op{Do: "rmtree", A: "X"}
	longAgo = op{Do: "utimes", A: "X", N: 981173106789012345}
)

// at puts the cell's operations into a directory.
func (c matrixCell) at(dir string) []op {
	var list []op
	for _, o := range c.ops {
		for _, p := range []*string{&o.A, &o.B} {
			switch first, rest, _ := strings.Cut(*p, "/"); first {
			case "X":
				*p = filepath.Join(dir, "x", rest)
			case "D":
				*p = filepath.Join(dir, rest)
			}
		}
		list = append(list, o)
	}
	return list
}

// matrix is all combinations, one after the other in two roots.
func matrix() (build, run []op, dirs []string) {
	for _, l := range matrixLower {
		for _, u := range matrixUpper {
			dir := fmt.Sprintf("%d/%s-%s", len(dirs)%2, l.name, u.name)
			build = append(build, op{Do: "mkdir", A: dir, N: 0o755}, op{Do: "create", A: dir + "/other", Text: "other"},
				op{Do: "mkdir", A: dir + "/place", N: 0o755}, op{Do: "create", A: dir + "/place/in", Text: "in"})
			build = append(build, l.at(dir)...)
			run = append(run, u.at(dir)...)
			dirs = append(dirs, dir)
		}
	}
	return build, run, dirs
}

// wantMatrix checks what Changes says of x against what was there and what is.
func wantMatrix(set changeSet, before, after view) (list []string) {
	kinds := map[string]byte{}
	for i, k := range set.keys {
		kinds[k] = set.lines[i][0]
	}
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		b, was := before[k]
		a, is := after[k]
		var want byte
		switch {
		case !is:
			want = 'D'
			if up, ok := after[filepath.Dir(k)]; !ok || !up.isDir() {
				want = 0 // it went with its directory
			}
		case !was:
			want = 'A'
		case a.Mode>>12 != b.Mode>>12:
			want = 'T'
		case a.what() != b.what():
			want = 'M'
		}
		if got := kinds[k]; got != want {
			list = append(list, fmt.Sprintf("%q is said to be %q, want %q", k, got, want))
		}
	}
	return list
}

// matrixPart is the most that a partial commit of the matrix takes. With NSRUN_LONG it is
// one path.
var matrixPart = 100

func TestMatrix(t *testing.T) {
	testenv.Leaks(t)
	if testenv.Long() {
		matrixPart = 1
	}
	w := startWorker(t)
	for _, engine := range engines {
		for _, way := range []string{"at once", "directories", "paths"} {
			if engine != EngineOverlay && way != "at once" && !testenv.Long() {
				continue // what is stored is committed in the same way
			}
			t.Run(engine.String()+"/"+way, func(t *testing.T) {
				testenv.TakeTurns(t)
				base := tempDir(t)
				roots := []string{filepath.Join(base, "r0"), filepath.Join(base, "r1")}
				for _, r := range roots {
					if err := os.Mkdir(r, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				build, run, dirs := matrix()
				before := w.must(t, job{Build: build, Roots: roots}).Seen
				s, err := Create(Options{Roots: roots, Dir: filepath.Join(base, "state"), Engine: engine})
				skipMissing(t, err)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				saw, err := w.work(s, job{Roots: roots, Ops: run})
				if errors.Is(err, errNoMount) {
					testenv.Skip(t, engine.String(), err.Error())
				}
				if err != nil {
					t.Fatal(err)
				}
				seen := saw.Seen
				set, err := s.changeSet()
				if err != nil {
					t.Fatal(err)
				}
				complain := func(what string, list []string) {
					t.Helper()
					for _, l := range list {
						t.Errorf("%s: %s", what, l)
					}
				}
				complain("changes", wantMatrix(set, before, seen))
				complain("before the commit", compared{got: w.see(t, roots...), want: before}.differences())

				views := []view{before}
				r := rand.New(rand.NewPCG(1, uint64(len(way))))
				parts := set.keys
				if way == "directories" {
					parts = dirs
				}
				r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				for len(parts) > 0 && s.State() == Kept {
					n := len(parts)
					if way != "at once" {
						n = min(n, 1+r.IntN(matrixPart))
					}
					left, err := s.changeSet()
					if err != nil {
						t.Fatal(err)
					}
					var paths []string
					for _, k := range parts[:n] {
						if left.below(k) {
							paths = append(paths, filepath.Join(roots[k[0]-'0'], k[2:]))
						}
					}
					parts = parts[n:]
					if way == "at once" {
						paths = nil
					} else if len(paths) == 0 {
						continue
					}
					if err := s.CommitWith(context.Background(), CommitOptions{Paths: paths, AllowSpecial: true}); err != nil {
						t.Errorf("commit %q: %v", paths, err)
						for _, p := range paths {
							_ = s.CommitWith(context.Background(), CommitOptions{Paths: []string{p}, AllowSpecial: true}) // all but that
						}
					}
					views = append(views, w.see(t, roots...))
				}
				if s.State() != Committed {
					left, _ := s.changeSet()
					t.Errorf("state %v, left: %q", s.State(), left.lines)
				}
				project := views[len(views)-1]
				if way == "paths" { // links are kept within one commit
					project, seen = project.unlinked(), seen.unlinked()
				}
				complain("after the commit", set.committed(project, seen, before, way == "at once"))
				if err := undoAll(s, w, roots, views); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
