//go:build linux

package textdiff

import (
	"bytes"
	stdsha1 "crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// A tree is what git knows of a directory.
type tree map[string]object

type object struct {
	mode    uint32
	content string
}

// patchOf is the patch that makes one tree of the other.
func patchOf(t testing.TB, old, new tree) string {
	t.Helper()
	var b bytes.Buffer
	p := NewPatch(&b)
	add := func(f File) {
		if err := p.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if o := old[name]; new[name].mode == 0 {
			add(File{OldPath: name, OldMode: o.mode, Old: Bytes([]byte(o.content))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(new)) {
		n := new[name]
		f := File{NewPath: name, NewMode: n.mode, New: Bytes([]byte(n.content))}
		if o := old[name]; o.mode != 0 {
			f.OldPath, f.OldMode, f.Old = name, o.mode, Bytes([]byte(o.content))
		}
		add(f)
	}
	if p.Written() != int64(b.Len()) {
		t.Errorf("%d bytes were written, %d are counted", b.Len(), p.Written())
	}
	return b.String()
}

func (tr tree) write(t testing.TB, dir string) {
	t.Helper()
	for name, o := range tr {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if err == nil && o.mode == Symlink {
			err = os.Symlink(o.content, p)
		} else if err == nil {
			err = os.WriteFile(p, []byte(o.content), fs.FileMode(o.mode&0o777))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t testing.TB, dir string) tree {
	t.Helper()
	tr := tree{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		name, _ := filepath.Rel(dir, p)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			text, err := os.Readlink(p)
			tr[name] = object{Symlink, text}
			return err
		}
		data, err := os.ReadFile(p)
		o := object{Regular, string(data)}
		if fi.Mode()&0o111 != 0 {
			o.mode = Executable
		}
		tr[name] = o
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// git runs git in dir, without anybody's configuration.
func git(t testing.TB, dir, stdin string, args ...string) error {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", err.Error())
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// checkApply applies the patch with git, in every way there is.
func checkApply(t testing.TB, old, new tree) {
	t.Helper()
	patch := patchOf(t, old, new)
	dir := testenv.Dir(t)
	for _, way := range []string{"no repository", "repository", "index", "reverse"} {
		work := filepath.Join(dir, way)
		if err := os.Mkdir(work, 0o755); err != nil {
			t.Fatal(err)
		}
		from, to := old, new
		if way == "reverse" {
			from, to = new, old
		}
		from.write(t, work)
		run := func(stdin string, args ...string) {
			t.Helper()
			if err := git(t, work, stdin, args...); err != nil {
				t.Fatalf("%s: %v\n%.2000s", way, err, patch)
			}
		}
		args := []string{"apply"}
		switch way {
		case "repository":
			run("", "init", "-q", "--template=")
		case "index":
			run("", "init", "-q", "--template=")
			run("", "add", "-A", "-f")
			args = append(args, "--index")
		case "reverse":
			args = append(args, "-R")
		}
		if patch != "" { // git takes no empty one
			run(patch, args...)
		}
		if got := readTree(t, work); !maps.Equal(got, to) {
			for _, name := range slices.Sorted(maps.Keys(to)) {
				if got[name] != to[name] {
					t.Errorf("%s: %q is %o %.80q, want %o %.80q", way, name, got[name].mode, got[name].content, to[name].mode, to[name].content)
				}
			}
			for name := range got {
				if _, ok := to[name]; !ok {
					t.Errorf("%s: %q is still there", way, name)
				}
			}
			t.Fatalf("%.2000s", patch)
		}
		if way == "index" {
			run("", "diff", "--exit-code") // what is in the index is what is in the files
		}
	}
}

func TestPatch(t *testing.T) {
	file := func(content string) tree { return tree{"x": {Regular, content}} }
	tests := []struct {
		name     string
		old, new tree
	}{
		{"nothing", file("a\n"), file("a\n")},
		{"text", file("a\nb\n"), file("a\nc\n")},
		{"added", nil, tree{"a/b/c": {Regular, "1\n"}}},
		{"deleted", tree{"a/b/c": {Regular, "1\n"}, "y": {Regular, ""}}, tree{"y": {Regular, ""}}},
		{"empty added", nil, file("")},
		{"empty deleted", tree{"x": {Regular, ""}, "y": {Regular, ""}}, tree{"y": {Regular, ""}}},
		{"to empty", file("a\n"), file("")},
		{"from empty", file(""), file("a")},
		{"no newline", file("a\nb"), file("a\nb\n")},
		{"no newline any more", file("a\nb\n"), file("b")},
		{"carriage returns", file("a\r\nb\r\n"), file("a\r\nc\r\n\r")},
		{"mode", file("a\n"), tree{"x": {Executable, "a\n"}}},
		{"mode and text", file("a\n"), tree{"x": {Executable, "b\n"}}},
		{"binary", file("a\x00b"), file("a\x00c\n")},
		{"binary added", nil, tree{"x": {Executable, "\x00" + strings.Repeat("\xff\x00", 5000)}}},
		{"binary deleted", tree{"x": {Executable, "\x00"}, "y": {Regular, ""}}, tree{"y": {Regular, ""}}},
		{"binary to empty", file("\x00"), file("")},
		{"binary to text", file("\x00"), file("text\n")},
		{"binary and mode", file("\x00"), tree{"x": {Executable, "\x00\x01"}}},
		{"link added", nil, tree{"x": {Symlink, "a/../b"}}},
		{"link", tree{"x": {Symlink, "a"}}, tree{"x": {Symlink, "b\nc"}}},
		{"link with a newline", tree{"x": {Symlink, "a"}}, tree{"x": {Symlink, "a\n"}}},
		{"link to file", tree{"x": {Symlink, "a"}}, file("a")},
		{"file to link", file("a"), tree{"x": {Symlink, "a"}}},
		{"file to directory", file("a\n"), tree{"x/y/z": {Regular, "a\n"}}},
		{"directory to file", tree{"x/y/z": {Regular, "a\n"}, "x/a": {Regular, ""}}, file("a\n")},
		{"link to directory", tree{"x": {Symlink, "."}}, tree{"x/y": {Regular, "a\n"}}},
		{"directory to link", tree{"x/y": {Regular, "a\n"}}, tree{"x": {Symlink, "."}}},
		{"looks like a patch", file("-- a\n++ b\n@@ -1 +1 @@\n"), file("-- c\n++ b\ndiff --git a/x b/x\n")},
		{"trailing space", file("a \n\t\n"), file("a  \n\t\n ")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkApply(t, tt.old, tt.new) })
	}
}

// oddNames are what git must quote, or takes for something else.
var oddNames = []string{
	"a b", " a", "a ", "a  b", "a\tb", "a\nb", "a\rb", `a"b`, `a\b`, `"`, "\x01\x1b[31m", "\x7f", "ü", "\xff\xfe", "a\xc3",
	"d e/c d", "-x", "--", "dev/null", "b/x", "a/x b/x", "x b/x", "{a => b}", "a => b", "*", "$HOME", "'", "\b\v\f\a", "con", "a.", "a:b", ".gitx", "..x", "...",
	strings.Repeat("n", 255), "index", "diff --git a/x b/x", "/\x80"[1:], "\u202e",
}

func TestPatchNames(t *testing.T) {
	old, new, modes := tree{}, tree{}, tree{}
	for i, name := range oddNames {
		for k, suffix := range []string{"", "1", "2"} {
			n := name + suffix
			if len(n) > 255 {
				n = n[3:]
			}
			if k != 0 {
				old[n] = object{Regular, fmt.Sprint(i, "\n")}
			}
			if k != 1 {
				new[n] = object{Regular, fmt.Sprint(i, "\nx\n")}
			}
			modes[n] = object{Executable, fmt.Sprint(i, "\nx\n")}
		}
	}
	checkApply(t, old, new)
	checkApply(t, new, tree{})
	checkApply(t, tree{}, new)
	only := tree{}
	for n := range modes {
		only[n] = object{Regular, modes[n].content}
	}
	checkApply(t, only, modes) // no lines but those with both names
}

func TestGitRefuses(t *testing.T) {
	for _, name := range []string{
		".git", ".git/config", "a/.GIT/x", ".Git", "git~1", "git~1/x", ".git.", ".git ", ".git . ", ".git::$INDEX", "x/.git:a", `a\.git`, `.git\x`, "a/GIT~1 .",
		".gitx", "git", ".gi", "git~2", ".gitmodules", ".gitignore", ".github/x", `a\b`, "x.git", "x/.gitt", `.\git`, "a~1", "gitmod~1",
	} {
		for _, mode := range []uint32{Regular, Symlink} {
			old, new := tree{}, tree{name: {mode, "x"}}
			dir := testenv.Dir(t)
			err := git(t, dir, patchOf(t, old, new), "apply")
			if got := GitRefuses(name, mode); (got != "") != (err != nil) {
				t.Errorf("%q, %o: refused for %q, git says %v", name, mode, got, err)
			}
		}
	}
	for _, name := range []string{".gitmodules", "x/.GITMODULES", ".gitmodules .", "gitmod~4", "gi7eba~1", ".gitmodules:x"} {
		if GitRefuses(name, Symlink) == "" {
			t.Errorf("%q is not refused", name)
		}
	}
}

func TestPatchRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rounds := 4
	if testenv.Long() {
		rounds = 40
	}
	for range rounds {
		old := randomTree(r)
		new := maps.Clone(old)
		for range r.IntN(15) {
			switch name := randomName(r); r.IntN(4) {
			case 0:
				delete(new, name)
			case 1:
				if o, ok := new[name]; ok && o.mode != Symlink {
					new.set(name, object{o.mode ^ Regular ^ Executable, o.content})
				}
			case 2:
				if o, ok := new[name]; ok && o.mode != Symlink {
					new.set(name, object{o.mode, mutate(r, o.content)})
				}
			case 3:
				new.set(name, randomObject(r))
			}
		}
		checkApply(t, old, new)
	}
}

// set puts an object in the tree, and takes away what is in its way.
func (tr tree) set(name string, o object) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		delete(tr, dir)
	}
	for other := range tr {
		if strings.HasPrefix(other, name+"/") {
			delete(tr, other)
		}
	}
	tr[name] = o
}

func randomTree(r *rand.Rand) tree {
	tr := tree{}
	for range r.IntN(20) {
		tr.set(randomName(r), randomObject(r))
	}
	return tr
}

func randomName(r *rand.Rand) string {
	parts := []string{"a", "b", "c d", "é", "\xff", "q\"", "n\n", "z"}
	name := parts[r.IntN(len(parts))]
	for r.IntN(2) == 0 {
		name += "/" + parts[r.IntN(len(parts))]
	}
	return name
}

func randomObject(r *rand.Rand) object {
	modes := []uint32{Regular, Regular, Executable, Symlink}
	o := object{mode: modes[r.IntN(len(modes))]}
	switch r.IntN(4) {
	case 0:
		o.content = randomText(r, r.IntN(30), 10)
	case 1:
		b := make([]byte, r.IntN(300))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		o.content = string(b)
	case 2:
		o.content = strings.Repeat("line\r\n", r.IntN(4)) + "end"
	}
	if o.mode == Symlink {
		// No longer than a name can be: git stops below a link if it cannot follow the link for any reason
		// except that the target does not exist.
		text := strings.ReplaceAll(o.content, "\x00", "")
		o.content = "to " + text[:min(len(text), 200)]
	}
	return o
}

// TestPatchLarge: what is too large to be compared is written whole, without being read
// into memory.
func TestPatchLarge(t *testing.T) {
	if testenv.RaceDetector {
		return // nothing in it runs beside anything
	}
	const size = MaxBytes + 12345
	content := func(letter byte) Content {
		return Content{size, func() (io.ReadCloser, error) {
			return io.NopCloser(io.LimitReader(repeat(letter), size)), nil
		}}
	}
	var b bytes.Buffer
	err := NewPatch(&b).Add(File{OldPath: "x", NewPath: "x", OldMode: Regular, NewMode: Regular, Old: content('a'), New: content('b')})
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	tree{"x": {Regular, strings.Repeat("a", size)}}.write(t, dir)
	if err := git(t, dir, b.String(), "apply"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil || string(got) != strings.Repeat("b", size) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

type repeat byte

func (c repeat) Read(b []byte) (int, error) {
	for n := copy(b, []byte{byte(c)}); n > 0 && n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	return len(b), nil
}

// TestPatchChanged: a file that changes while the patch is written is an error, and git
// does not take such a patch.
func TestPatchChanged(t *testing.T) {
	if testenv.RaceDetector {
		return // nothing in it runs beside anything
	}
	text := func(said int64, data string) Content {
		return Content{said, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }}
	}
	reads := 0
	other := Content{MaxBytes + 1, func() (io.ReadCloser, error) {
		reads++
		return io.NopCloser(io.LimitReader(repeat('0'+reads), MaxBytes+1)), nil
	}}
	again := Content{MaxBytes + 1, func() (io.ReadCloser, error) {
		if reads++; reads > 3 {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(io.LimitReader(repeat('0'), MaxBytes+1)), nil
	}}
	for _, c := range []Content{text(3, "12"), text(1, "12"), text(MaxBytes+1, "12"), other, again} {
		var b bytes.Buffer
		p := NewPatch(&b)
		if err := p.Add(File{NewPath: "ok", NewMode: Regular, New: text(2, "1\n")}); err != nil {
			t.Fatal(err)
		}
		if err := p.Add(File{NewPath: "x", NewMode: Regular, New: c}); err != ErrChanged && err != fs.ErrNotExist {
			t.Errorf("%d bytes: %v", c.Size, err)
		}
		if err := p.Break(); err != nil {
			t.Fatal(err)
		}
		dir := testenv.Dir(t)
		if err := git(t, dir, b.String(), "apply"); err == nil || len(readTree(t, dir)) > 0 {
			t.Errorf("%d bytes: git apply: %v\n%.300s…%s", c.Size, err, b.String(), b.String()[max(0, b.Len()-300):])
		}
	}
}

func TestBlobHash(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for size := range 300 {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		got, err := blobHash(int64(size), func(w io.Writer) error {
			for rest := data; len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				if _, err := w.Write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			return nil
		})
		want := fmt.Sprintf("%x", stdsha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", size), data...)))
		if got != want || err != nil {
			t.Fatalf("%d bytes: %s, %v, want %s", size, got, err, want)
		}
	}
}

func BenchmarkBlobHash(b *testing.B) {
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		_, _ = blobHash(int64(len(data)), func(w io.Writer) error { _, err := w.Write(data); return err })
	}
}

func TestWriteStats(t *testing.T) {
	var b strings.Builder
	err := WriteStats(&b, []Stat{
		{Name: "gone", Deleted: 3},
		{Name: "ü", Added: 1, Deleted: 1},
		{Name: "big", Added: 1000, Deleted: 1},
		{Name: "bin", Note: BinaryNote(1, 20)},
		{Name: "mode"},
	}, 40, Colours{})
	want := ` gone |    3 -
 ü    |    2 +-
 big  | 1001 +++++++++++++++++++++++++-
 bin  | Bin 1 -> 20 bytes
 mode |    0
 5 files changed, 1001 insertions(+), 5 deletions(-)
`
	if got := b.String(); got != want || err != nil {
		t.Errorf("%v\ngot\n%swant\n%s", err, got, want)
	}
}

// TestLargeIsNotRead: a patch for people does not read a large file. The control is a patch for git apply, which
// contains the file.
func TestLargeIsNotRead(t *testing.T) {
	opened := 0
	f := File{NewPath: "large", NewMode: 0o100644, New: Content{Size: MaxBytes + 1, Open: func() (io.ReadCloser, error) {
		opened++
		return nil, errors.New("it is read")
	}}}
	var text strings.Builder
	p := NewPatch(&text)
	p.NoBinaries = true
	if err := p.Add(f); err != nil || opened != 0 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	const want = "diff --git a/large b/large\nnew file mode 100644\nBinary files /dev/null and b/large differ (none -> 67108865 bytes)\n"
	if text.String() != want {
		t.Errorf("got %q", text.String())
	}
	if err := NewPatch(io.Discard).Add(f); err == nil || opened == 0 {
		t.Errorf("the control: %v, opened %d times", err, opened)
	}
}
