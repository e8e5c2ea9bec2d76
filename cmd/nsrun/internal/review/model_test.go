//go:build linux

package review

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// reviewChanges makes changes from lines like "A dir/" and "D old".
func reviewChanges(lines ...string) []overlay.Change {
	var list []overlay.Change
	for _, l := range lines {
		c := overlay.Change{Root: "/p", Path: strings.TrimSuffix(l[2:], "/"), Mode: 0o644}
		c.Kind = overlay.Kind(strings.IndexByte("?AMDT", l[0]))
		if strings.HasSuffix(l, "/") {
			c.Mode = fs.ModeDir | 0o755
		}
		if c.Path == "" {
			c.Path = "."
		}
		list = append(list, c)
	}
	return list
}

func openReview(lines ...string) *model {
	m := newModel("id", reviewChanges(lines...), false)
	m.unfoldAll(true)
	return m
}

// press types: a character is a key, and so is a name in <>.
func press(m *model, keys string) (last action) {
	for keys != "" {
		k := keys[:1]
		if k == "<" {
			k = keys[1:strings.IndexByte(keys, '>')]
			keys = keys[len(k)+1:]
		}
		if k == " " {
			k = "space"
		}
		keys = keys[1:]
		last = m.key(screen.Key(k))
	}
	return last
}

// marks is the list as it is shown, a letter for each mark, upper case at the cursor.
func marks(m *model) string {
	var b strings.Builder
	for at, i := range m.shown {
		c := "kcd~"[m.markOf(i)]
		if at == m.cursor {
			c = "KCD#"[m.markOf(i)]
		}
		b.WriteByte(c)
	}
	return b.String()
}

var reviewTestList = []string{"A dir/", "A dir/one", "A dir/sub/", "A dir/sub/two", "D gone", "M mod", "A new"}

func TestReviewKeys(t *testing.T) {
	for _, c := range []struct{ keys, want string }{
		{"", "Kkkkkkk"}, {"j", "kKkkkkk"}, {"jjk", "kKkkkkk"}, {"k", "Kkkkkkk"},
		{"<down><down><up>", "kKkkkkk"}, {"G", "kkkkkkK"}, {"Gg", "Kkkkkkk"}, {"<end><home>", "Kkkkkkk"},
		{"<end>j", "kkkkkkK"}, {"<pgdn>", "kkkkkkK"}, {"<pgdn><pgup>", "Kkkkkkk"},
		{" ", "Cccckkk"}, {"  ", "Kkkkkkk"}, {"j ", "~Ckkkkk"}, {"jj ", "~kCckkk"}, {"jjj ", "~kcCkkk"},
		{"j g ", "Cccckkk"}, {"d", "Ddddkkk"}, {"jd", "~Dkkkkk"}, {"du", "Kkkkkkk"}, {" jd", "~Dcckkk"},
		{"a", "Ccccccc"}, {"aa", "Kkkkkkk"}, {"Gda", "ccccccD"}, {"Gdaa", "kkkkkkD"}, {"j a", "cCccccc"},
		{"Gd ", "kkkkkkC"}, {"G d", "kkkkkkD"}, {"G u", "kkkkkkK"},
		{"<tab>jjj", "Kkkkkkk"}, {"<tab> ", "Cccckkk"}, {"<tab><tab>j", "kKkkkkk"},
		{"/new", "kK"}, {"/new<enter>j ", "kC"}, {"/new<enter>ag ", "Cc"}, {"/new<enter>a<esc>", "kkkkkkC"}, {"/new<esc>", "Kkkkkkk"}, {"/NEW", "K"},
		{"/o<enter>", "Kkkk"}, {"/o<enter>n", "kKkk"}, {"/o<enter>N", "kkkK"}, {"/mod<enter>gn", "kK"}, {"/mod<enter>nn", "kK"},
		{"/x<backspace><enter>", "Kkkkkkk"}, {"/<backspace>j", "kKkkkkk"}, {"/sub<enter>a<esc>", "~kCckkk"}, {"jj/dir<enter>", "kkKkk"},
		{"jj/zz<esc>", "kkKkkkk"}, {"/new<enter>/mod", "kK"}, {"/new<enter>/mod<esc>", "kK"}, {"/zz<enter> d", "D"}, {"/zz<enter><esc>", "kkkkKkk"},
		{"n", "Kkkkkkk"}, {"?q", "Kkkkkkk"}, {"?jj<esc>j", "kKkkkkk"},
		{"acn", "Ccccccc"}, {"ac<esc>j", "cCccccc"}, {"c", "Kkkkkkk"},
	} {
		m := openReview(reviewTestList...)
		press(m, c.keys)
		if got := marks(m); got != c.want {
			t.Errorf("%q: %s, want %s", c.keys, got, c.want)
		}
	}
}

func TestReviewActions(t *testing.T) {
	for _, c := range []struct {
		keys string
		want action
	}{
		{"q", actQuit}, {"<tab>q", actQuit}, {"<ctrl-c>", actInterrupt}, {"<ctrl-z>", actSuspend}, {"?<ctrl-z>", actSuspend},
		{"?<ctrl-c>", actInterrupt}, {"/<ctrl-c>", actInterrupt}, {"/q", actNone}, {"?q", actNone},
		{"c", actNone}, {"cy", actNone}, {"y", actNone}, {" c", actNone}, {" cy", actApply}, {" c<enter>", actNone},
		{" c<enter>y", actApply}, {" cny", actNone}, {"dcy", actApply}, {" c<space>y", actApply},
	} {
		m := openReview(reviewTestList...)
		if got := press(m, c.keys); got != c.want {
			t.Errorf("%q: action %d, want %d", c.keys, got, c.want)
		}
	}
}

// TestReviewFolds: a new directory is one line until it is opened, except for special files in it.
func TestReviewFolds(t *testing.T) {
	list := []string{"A dir/", "A dir/one", "A dir/sub/", "A dir/sub/two", "A dir/sub/x", "M mod", "T was/", "A was/in", "A z/"}
	for _, c := range []struct{ keys, want, marks string }{
		{"", "dir/ mod was/ z/", "Kkkk"},
		{"<enter>", "dir/ dir/one dir/sub/ mod was/ z/", "Kkkkkk"},
		{"<enter>jj<enter>", "dir/ dir/one dir/sub/ dir/sub/two dir/sub/x mod was/ z/", "kkKkkkkk"},
		{"<enter><enter>", "dir/ mod was/ z/", "Kkkk"},
		{"=", "dir/ dir/one dir/sub/ dir/sub/two dir/sub/x mod was/ was/in z/", "Kkkkkkkkk"},
		{"=jjj-", "dir/ mod was/ z/", "Kkkk"},
		{"=<end>kk-", "dir/ mod was/ z/", "kkKk"},
		{" ", "dir/ mod was/ z/", "Ckkk"},
		{" <enter>j ", "dir/ dir/one dir/sub/ mod was/ z/", "~Kckkk"},
		{" <enter>j -", "dir/ mod was/ z/", "#kkk"},
		{"<enter>jd<enter>", "dir/ dir/one dir/sub/ mod was/ z/", "~Dkkkk"},
		{"jjd", "dir/ mod was/ z/", "kkDk"},
		{"a", "dir/ mod was/ z/", "Cccc"},
		{"/two<enter>", "dir/sub/two", "K"},
		{"/two<enter> <esc>", "dir/ mod was/ z/", "#kkk"},
		{"/sub<enter><enter>", "dir/sub/ dir/sub/two dir/sub/x", "Kkk"},
		{"j<enter><tab>", "dir/ mod was/ z/", "kKkk"},
	} {
		m := newModel("id", reviewChanges(list...), false)
		press(m, c.keys)
		var names []string
		for _, i := range m.shown {
			names = append(names, m.rows[i].name)
		}
		if got := strings.Join(names, " "); got != c.want || marks(m) != c.marks {
			t.Errorf("%q: %s %s, want %s %s", c.keys, got, marks(m), c.want, c.marks)
		}
	}
	changes := reviewChanges(list...)
	changes[3].Special = "is setuid"
	m := newModel("id", changes, false)
	m.resize(60, 20)
	press(m, "a")
	if text := seen(m); !strings.Contains(text, "[+] A dir/ (and 4 below)\n[+] A dir/sub/two (is setuid)\n[+] M mod\n") {
		t.Errorf("the list:\n%s", text)
	}
	press(m, "c")
	if text := seen(m); !strings.Contains(text, "  A dir/ (and 2 below)\n  A dir/sub/two (is setuid)\n  A dir/sub/x\n") {
		t.Errorf("the question:\n%s", text)
	}
}

// TestReviewBusy: while something is done, no key does anything but stop it.
func TestReviewBusy(t *testing.T) {
	m := openReview(reviewTestList...)
	press(m, "acy")
	m.busy = "committing"
	for _, k := range []string{"q", "d", "y", "c", "/", "?", "t"} {
		if got := press(m, k); got != actNone || marks(m) != "Ccccccc" || m.page != nil || m.editing {
			t.Errorf("%s: action %d, marks %s", k, got, marks(m))
		}
	}
	m.paste("x")
	if got := press(m, "<ctrl-c>"); got != actCancel || m.filter != "" {
		t.Errorf("ctrl-c: action %d", got)
	}
	if !strings.Contains(seen(m), "committing") {
		t.Errorf("the window does not show that a commit runs:\n%s", seen(m))
	}
}

// TestReviewChoice: marks as paths, which mean all in a directory.
func TestReviewChoice(t *testing.T) {
	for _, c := range []struct {
		list, marks           string // a letter for each row
		commit, exclude, drop string
		problem               bool
	}{
		{"A d/,A d/a,A d/b,A e", "cccc", "/p/d /p/e", "", "", false},
		{"A d/,A d/a,A d/b,A e", "kckk", "/p/d/a", "", "", false},
		{"A d/,A d/a,A d/b,A e", "kcdk", "/p/d/a", "", "/p/d/b", false},
		{"A d/,A d/a,A d/b,A e", "kddc", "/p/e", "", "/p/d", false},
		{"A d/,A d/a,A d/b,A e", "kkdk", "", "", "/p/d/b", false},
		{"A d/,A d/s/,A d/s/a,A d/s/b", "kkck", "/p/d/s/a", "", "", false},
		{"A d/,A d/s/,A d/s/a,A d/s/b", "kkcc", "/p/d", "", "", false},
		{"T d/,A d/a,A d/b", "kck", "/p/d/a", "", "", false},
		{"A d/", "c", "/p/d", "", "", false},
		{"D d/,M da", "ck", "/p/d", "", "", false},
		// A directory that was there has a mark of its own.
		{"M d/,A d/a,M d/b", "kck", "/p/d/a", "", "", false},
		{"M d/,A d/a,M d/b", "cck", "/p/d /p/d/a", "/p/d/b", "", false},
		{"M d/,A d/a,M d/b", "ckk", "/p/d", "/p/d/a /p/d/b", "", false},
		{"M d/,A d/s/,A d/s/x,A d/s/y", "ckck", "/p/d /p/d/s/x", "/p/d/s/y", "", false},
		{"M d/,A d/s/,A d/s/x,A d/s/y", "ckkk", "/p/d", "/p/d/s", "", false},
		{"M d/,A d/a,M d/b", "dkk", "", "", "", true},
		{"M d/,A d/a,M d/b", "ddd", "", "", "/p/d", false},
		{"M d/,M d/s/,M d/s/x", "ckc", "", "", "", true},
		{"M d/,M d/s*[{?\\", "ck", "/p/d", `/p/d/s\*\[\{\?\\`, "", false},
		{"M d/,M d/x\xff", "ck", "", "", "", true},
		{"M /,A a,A b", "cck", "/p /p/a", "/p/b", "", false},
	} {
		m := newModel("id", reviewChanges(strings.Split(c.list, ",")...), false)
		for i := range m.rows {
			if m.tally = nil; !m.rows[i].group {
				m.rows[i].mark = mark(strings.IndexByte("kcd", c.marks[i]))
			}
		}
		got, problem := m.choice()
		if (problem != "") != c.problem {
			t.Errorf("%s %s: problem %q", c.list, c.marks, problem)
		}
		if c.problem {
			continue
		}
		for _, x := range []struct {
			what string
			got  []string
			want string
		}{{"commit", got.commit, c.commit}, {"exclude", got.exclude, c.exclude}, {"drop", got.drop, c.drop}} {
			if g := strings.Join(x.got, " "); g != x.want {
				t.Errorf("%s %s: %s %q, want %q", c.list, c.marks, x.what, g, x.want)
			}
		}
	}
}

// TestReviewFails: what prevented a commit, and how it goes on.
func TestReviewFails(t *testing.T) {
	conflict := &overlay.ConflictError{Conflicts: []overlay.Conflict{{Root: "/p", Path: "mod", Why: "was changed",
		Project: overlay.Version{Exists: true, Mode: 0o644, Size: 5}}}}
	two := &overlay.ConflictError{Conflicts: []overlay.Conflict{conflict.Conflicts[0], {Root: "/p", Path: "new", Why: "was made"}}}
	special := &overlay.SpecialError{Specials: []overlay.Special{{Root: "/p", Path: "new", Why: "is setuid"}}}
	for _, c := range []struct {
		err    error
		shows  []string
		keys   string
		want   action
		prefer string
		marks  string
	}{
		{conflict, []string{"1 conflict", "mod was changed", "ours", "theirs", "5 bytes", "nothing\n"}, "t", actApply, "mod theirs", "Ccccccc"},
		{conflict, nil, "o", actApply, "mod ours", "Ccccccc"},
		{conflict, nil, "m", actApply, "mod merge", "Ccccccc"},
		{conflict, nil, "q", actNone, "", "Ccccccc"},
		{conflict, nil, "xy", actNone, "", "Ccccccc"},
		{conflict, nil, "tc", actNone, "", "Ccccccc"},
		{two, []string{"2 conflicts", "[?] mod", "[?] new", "line 3"}, "t", actNone, "", "Ccccccc"},
		{two, nil, "tm", actApply, "mod theirs new merge", "Ccccccc"},
		{two, nil, "jokt", actApply, "mod theirs new ours", "Ccccccc"},
		{two, nil, "tkuto", actApply, "mod theirs new ours", "Ccccccc"},
		{two, nil, "tjjkO", actApply, "mod ours new ours", "Ccccccc"},
		{two, nil, "tq", actNone, "", "Ccccccc"},
		{special, []string{"new is setuid", "--allow-special"}, "u", actNone, "", "Cccccck"},
		{special, nil, "q", actNone, "", "Ccccccc"},
		{errors.New("disk full\x1b[2J"), []string{"nothing was done", `disk full\x1b[2J`}, "q", actNone, "", "Ccccccc"},
	} {
		m := openReview(reviewTestList...)
		press(m, "acy")
		m.details = []diff.ConflictDetail{{Lines: []string{"line 3 was x"}}}
		m.failed(c.err)
		text := seen(m)
		for _, want := range c.shows {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q is not in\n%s", c.err, want, text)
			}
		}
		got := press(m, c.keys)
		var chosen []string
		for _, k := range m.choices {
			chosen = append(chosen, filepath.Base(k.Path), preferNames[k.Prefer])
		}
		if text := strings.Join(chosen, " "); got != c.want || text != c.prefer || marks(m) != c.marks {
			t.Errorf("%v, %q: action %d, choices %q, marks %s", c.err, c.keys, got, text, marks(m))
		}
	}
}

func seen(m *model) string {
	var b strings.Builder
	for _, l := range m.view() {
		b.WriteString(strings.TrimRight(l.Plain(), " ") + "\n")
	}
	return b.String()
}

func TestReviewView(t *testing.T) {
	m := newModel("20260102T030405Z-abcdefgh", reviewChanges(reviewTestList...), false)
	m.unfoldAll(true)
	m.resize(40, 12)
	d := &diffText{}
	d.add([]byte("diff --git a/dir b/dir\n--- a/dir\n+++ b/dir\n@@ -1 +1 @@\n-old\n+new\ttab\n"))
	m.setDiff(0, d)
	want := `20260102T030405Z-abcdefgh: commit 0, dro
[ ] A dir/
[ ] A dir/one
[ ] A dir/sub/
[ ] A dir/sub/two
── dir/ 1/6
diff --git a/dir b/dir
--- a/dir
+++ b/dir
@@ -1 +1 @@
-old
space commit  d drop  u keep  a all  c d
`
	if got := seen(m); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	m.resize(100, 6)
	press(m, "j")
	m.setDiff(1, d)
	press(m, "JJ")
	want = `20260102T030405Z-abcdefgh: commit 0, drop 0, keep 7
[ ] A dir/                               ── dir/one 3/6
[ ] A dir/one                            +++ b/dir
[ ] A dir/sub/                           @@ -1 +1 @@
[ ] A dir/sub/two                        -old
space commit  d drop  u keep  a all  c do it  / filter  tab diff  ? help  q quit
`
	if got := seen(m); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestReviewSizes: in a window of any size there is no panic, no line is too long, and the
// cursor is in the window.
func TestReviewSizes(t *testing.T) {
	names := reviewTestList
	for i := range 50 {
		names = append(slices.Clip(names), fmt.Sprintf("A n%d%s\x1b漢", i, strings.Repeat("x", i*3)))
	}
	d := &diffText{}
	d.add(bytes.Repeat([]byte("+\x1b[2J漢\xff\t"+strings.Repeat("z", 300)+"\n"), 500))
	for _, w := range []int{0, 1, 2, 6, 7, 20, 80, 99, 100, 180} {
		for _, h := range []int{0, 1, 2, 3, 4, 5, 8, 9, 10, 24, 70} {
			m := newModel("id", reviewChanges(names...), w%2 == 0)
			m.resize(w, h)
			m.setDiff(0, d)
			for _, keys := range []string{"", "G", " dua", "<tab>Glll", "<tab>g/n1", "<enter>nN", "<esc>", "?G", "q", "jjjd c", "Gn", "/zzz<enter>dc"} {
				press(m, keys)
				m.setDiff(m.current(), d)
				lines := m.view()
				if len(lines) != max(h, 1) {
					t.Fatalf("%dx%d %q: %d lines", w, h, keys, len(lines))
				}
				for _, l := range lines {
					if n := screen.Width(l.Plain()); n > max(w, 1) {
						t.Fatalf("%dx%d %q: %d columns: %q", w, h, keys, n, l.Plain())
					}
				}
				if lay := m.layout(); m.page == nil && lay.list.height > 0 && len(m.shown) > 0 &&
					(m.cursor < m.top || m.cursor >= m.top+lay.list.height) {
					t.Fatalf("%dx%d %q: the cursor %d is not in the window, which begins at %d", w, h, keys, m.cursor, m.top)
				}
			}
		}
	}
}

// TestReviewDiffStyles: lines of a file are not taken for headers.
func TestReviewDiffStyles(t *testing.T) {
	d := &diffText{}
	d.add([]byte("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n context\n--- a\n+++ b\n\\ No newline at end of file\ndiff --git a/y b/y\nnew file mode 100644\n\nlast"))
	want := []screen.Style{screen.Bold, screen.Bold, screen.Bold, screen.Cyan, 0, screen.Red, screen.Green, 0, screen.Bold, screen.Bold, screen.Bold, screen.Bold}
	if !slices.Equal(d.styles, want) {
		t.Errorf("got %v, want %v", d.styles, want)
	}
	if text, _ := d.line(11); text != "last" || d.count() != 12 {
		t.Errorf("%d lines, the last is %q", d.count(), text)
	}
}

// TestReviewDiffBounds: a program that writes more than anybody reads is stopped.
func TestReviewDiffBounds(t *testing.T) {
	for _, line := range []string{"x\n", strings.Repeat("x", 1<<20)} {
		var stop atomic.Bool
		w := &diffBuffer{stop: &stop}
		var err error
		for i := 0; err == nil; i++ {
			if i > diffMost {
				t.Fatal("the diff is not cut off")
			}
			_, err = w.Write([]byte(line))
		}
		if !w.full || !errors.Is(err, errDiffEnd) || len(w.data) > diffMost || w.lines > diffMostLines {
			t.Errorf("%d bytes, %d lines: %v", len(w.data), w.lines, err)
		}
	}
	var stop atomic.Bool
	stop.Store(true)
	if _, err := (&diffBuffer{stop: &stop}).Write([]byte("x")); !errors.Is(err, errDiffEnd) {
		t.Error("a stopped diff is still written")
	}
}

func BenchmarkReviewScroll(b *testing.B) {
	changes := make([]overlay.Change, 10_000)
	for i := range changes {
		changes[i] = overlay.Change{Kind: overlay.Added, Root: "/p", Path: fmt.Sprintf("d/%05d", i), Mode: 0o644}
	}
	changes[0] = overlay.Change{Kind: overlay.Added, Root: "/p", Path: "d", Mode: fs.ModeDir | 0o755}
	m := newModel("id", changes, false)
	m.unfoldAll(true)
	m.resize(200, 60)
	d := &diffText{}
	d.add(bytes.Repeat([]byte("+a line of a file as there are many\n"), 100_000))
	m.setDiff(0, d)
	for b.Loop() {
		m.key("J")
		m.key("j")
		m.diffOf = m.current()
		if m.cursor == len(m.shown)-1 {
			m.key("g")
		}
		m.view()
	}
}

// TestReviewRunsFirst: what runs later by itself comes before the rest, whether its directory is open or not.
func TestReviewRunsFirst(t *testing.T) {
	list := reviewChanges("A a", "A new/", "A new/.envrc", "A new/plain", "M z", "A .mcp.json")
	list[2].Runs, list[5].Runs = "direnv runs it", "agents start what it names"
	m := newModel("id", list, false)
	names := func() (names []string) {
		for _, i := range m.shown {
			names = append(names, m.rows[i].name)
		}
		return names
	}
	if want := []string{"new/.envrc", ".mcp.json", "a", "new/", "z"}; !slices.Equal(names(), want) || m.cursor != 0 {
		t.Errorf("closed: %q, the cursor at %d; want %q", names(), m.cursor, want)
	}
	press(m, "G")
	m.unfoldAll(true)
	if want := []string{"new/.envrc", ".mcp.json", "a", "new/", "new/plain", "z"}; !slices.Equal(names(), want) || m.cursor != 5 {
		t.Errorf("open: %q, the cursor at %d; want %q, and 5", names(), m.cursor, want)
	}
}
