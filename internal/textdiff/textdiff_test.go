//go:build linux

package textdiff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.MainOnce(m) }

// unified is the whole diff as a text.
func unified(old, new string) string {
	var b strings.Builder
	for h := range Hunks([]byte(old), []byte(new)) {
		_ = h.write(&b)
	}
	return b.String()
}

// apply applies a diff, and is strict about it: every number and every line of the old
// text must be as it says.
func apply(old, diff string) (string, error) {
	lines := strings.SplitAfter(old, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var out []string
	at := 0
	rest := strings.SplitAfter(diff, "\n")
	if rest[len(rest)-1] != "" {
		return "", fmt.Errorf("the diff does not end with a newline")
	}
	rest = rest[:len(rest)-1]
	for len(rest) > 0 {
		var oldStart, oldLines, newStart, newLines int
		head := strings.Fields(rest[0])
		if len(head) != 4 || head[0] != "@@" || head[3] != "@@" {
			return "", fmt.Errorf("no header: %q", rest[0])
		}
		for i, to := range [...][2]*int{{&oldStart, &oldLines}, {&newStart, &newLines}} {
			if n, _ := fmt.Sscanf(head[i+1][1:], "%d,%d", to[0], to[1]); n == 1 {
				*to[1] = 1
			}
		}
		if oldLines == 0 {
			oldStart++
		}
		if newLines == 0 {
			newStart++
		}
		if oldStart-1 < at || oldStart-1 > len(lines) {
			return "", fmt.Errorf("%q: out of place", rest[0])
		}
		out = append(out, lines[at:oldStart-1]...)
		at = oldStart - 1
		if newStart-1 != len(out) {
			return "", fmt.Errorf("%q: new text is at line %d", rest[0], len(out)+1)
		}
		rest = rest[1:]
		for oldLines > 0 || newLines > 0 {
			if len(rest) == 0 {
				return "", fmt.Errorf("the hunk ends early")
			}
			kind, text := rest[0][0], rest[0][1:]
			rest = rest[1:]
			if len(rest) > 0 && rest[0] == NoNewline+"\n" {
				text = strings.TrimSuffix(text, "\n")
				rest = rest[1:]
			}
			if kind != '+' {
				if at >= len(lines) || lines[at] != text {
					return "", fmt.Errorf("line %d is not %q", at+1, text)
				}
				at++
				oldLines--
			}
			if kind != '-' {
				out = append(out, text)
				newLines--
			}
		}
	}
	return strings.Join(append(out, lines[at:]...), ""), nil
}

func TestUnified(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	tests := []struct{ name, old, new, want string }{
		{"equal", ten, ten, ""},
		{"both empty", "", "", ""},
		{"one line", "a\n", "b\n", "@@ -1 +1 @@\n-a\n+b\n"},
		{"from nothing", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"to nothing", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"no newline before", "a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"no newline after", "a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"},
		{"no newline in the context", "1\n2", "0\n1\n2", "@@ -1,2 +1,3 @@\n+0\n 1\n 2\n\\ No newline at end of file\n"},
		{"carriage return", "a\r\n", "a\n", "@@ -1 +1 @@\n-a\r\n+a\n"},
		{"middle", ten, strings.Replace(ten, "5\n", "five\n", 1), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		{"two hunks", "1\n" + ten, "0\n" + ten[:len(ten)-3], "@@ -1,4 +1,4 @@\n-1\n+0\n 1\n 2\n 3\n@@ -8,4 +8,3 @@\n 7\n 8\n 9\n-10\n"},
		{"slides down", "f {\n}\n", "f {\n}\ng {\n}\n", "@@ -1,2 +1,4 @@\n f {\n }\n+g {\n+}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := unified(tt.old, tt.new)
			if got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if back, err := apply(tt.old, got); err != nil || back != tt.new {
				t.Errorf("the diff does not apply: %v, %q", err, back)
			}
		})
	}
}

// TestQuality: scattered changes of a long text are found, each by itself, whether
// lines are alike or not.
func TestQuality(t *testing.T) {
	for _, alike := range []bool{false, true} {
		r := rand.New(rand.NewPCG(1, 2))
		var old, new []string
		changed := 0
		for i := range 20_000 {
			line := fmt.Sprintf("line %d\n", i)
			if alike {
				line = fmt.Sprintf("line %d\n", r.IntN(300))
			}
			old = append(old, line)
			if i%100 == 50 {
				line = fmt.Sprintf("other %d\n", i)
				changed++
			}
			new = append(new, line)
		}
		added, deleted := Count([]byte(strings.Join(old, "")), []byte(strings.Join(new, "")))
		if added > changed*3/2 || deleted > changed*3/2 {
			t.Errorf("alike %v: %d lines were changed, but Count says %d and %d", alike, changed, deleted, added)
		}
	}
}

// TestBounded: no text takes long.
func TestBounded(t *testing.T) {
	if testenv.RaceDetector {
		return // nothing in it runs beside anything
	}
	const n = 100_000
	text := func(line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
			b.WriteByte('\n')
		}
		return b.String()
	}
	r := rand.New(rand.NewPCG(3, 4))
	random := func(k int) func(int) string { return func(int) string { return fmt.Sprint(r.IntN(k)) } }
	tests := []struct{ name, old, new string }{
		{"nothing in common", text(func(i int) string { return fmt.Sprint("a", i) }), text(func(i int) string { return fmt.Sprint("b", i) })},
		{"backwards", text(func(i int) string { return fmt.Sprint(i) }), text(func(i int) string { return fmt.Sprint(n - i) })},
		{"two lines", text(random(2)), text(random(2))},
		{"ten lines", text(random(10)), text(random(10))},
		{"a thousand lines", text(random(1000)), text(random(1000))},
		{"shuffled", text(random(n)), text(random(n))},
		{"period", text(func(i int) string { return fmt.Sprint(i % 7) }), text(func(i int) string { return fmt.Sprint(i % 11) })},
		{"every other", text(func(i int) string { return fmt.Sprint(i) }), text(func(i int) string { return fmt.Sprint(i * (i % 2)) })},
		{"one long line", strings.Repeat("x", 10<<20), strings.Repeat("x", 10<<20-1)},
		{"newlines only", strings.Repeat("\n", n), strings.Repeat("\n\n", n)},
		{"too many lines", strings.Repeat("\n", MaxLines+1), strings.Repeat("\n", MaxLines+2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			diff := unified(tt.old, tt.new)
			if d := time.Since(begin); d > 20*time.Second {
				t.Errorf("it took %v", d)
			} else {
				t.Logf("%v for %d bytes", d.Round(time.Millisecond), len(diff))
			}
			if got, err := apply(tt.old, diff); err != nil || got != tt.new {
				t.Errorf("the diff does not apply: %v", err)
			}
		})
	}
}

func FuzzUnified(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "\n")
	f.Add("\n\n\n", "\r\n\n")
	f.Add(strings.Repeat("a\nb\n", 100), strings.Repeat("b\na\na\n", 90))
	f.Fuzz(func(t *testing.T, old, new string) {
		diff := unified(old, new)
		if old == new && diff != "" {
			t.Fatalf("equal texts differ:\n%s", diff)
		}
		if got, err := apply(old, diff); err != nil || got != new {
			t.Fatalf("%v: %q and %q:\n%s", err, old, new, diff)
		}
	})
}

func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		old := randomText(r, r.IntN(400), 1+r.IntN(40))
		new := mutate(r, old)
		diff := unified(old, new)
		if got, err := apply(old, diff); err != nil || got != new {
			t.Fatalf("%v: %q and %q:\n%s", err, old, new, diff)
		}
		added, deleted := Count([]byte(old), []byte(new))
		if added-deleted != len(split([]byte(new)))-len(split([]byte(old))) {
			t.Fatalf("counted %d added, %d deleted", added, deleted)
		}
	}
}

func randomText(r *rand.Rand, lines, kinds int) string {
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%d\n", r.IntN(kinds))
	}
	s := b.String()
	if r.IntN(4) == 0 {
		s = strings.TrimSuffix(s, "\n")
	}
	return s
}

func mutate(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for range r.IntN(8) {
		i := r.IntN(len(lines))
		j := i + r.IntN(min(6, len(lines)-i+1))
		add := strings.SplitAfter(randomText(r, r.IntN(5), 40), "\n")
		lines = append(append(append([]string{}, lines[:i]...), add...), lines[min(j, len(lines)):]...)
	}
	return strings.Join(lines, "")
}

func TestIsText(t *testing.T) {
	for _, tt := range []struct {
		data string
		want bool
	}{
		{"", true}, {"a\n", true}, {"\xff\xfe\x1b", true}, {"\x00", false}, {"a\x00", false},
		{strings.Repeat("a", 7999) + "\x00", false}, {strings.Repeat("a", 8000) + "\x00", true},
	} {
		if got := IsText([]byte(tt.data)); got != tt.want {
			t.Errorf("%.10q… (%d bytes): %v", tt.data, len(tt.data), got)
		}
	}
}

func TestMerge(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n"
	tests := []struct {
		name, base, ours, theirs, want string
		ok                             bool
	}{
		{"nothing", base, base, base, base, true},
		{"ours", base, "0\n" + base, base, "0\n" + base, true},
		{"theirs", base, base, "", "", true},
		{"apart", base, "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", "one\n2\n3\n4\nfive\n", true},
		{"one line between", base, "one\n2\n3\n4\n5\n", "1\n2\nthree\n4\n5\n", "one\n2\nthree\n4\n5\n", true},
		{"next to each other", base, "one\n2\n3\n4\n5\n", "1\ntwo\n3\n4\n5\n", "", false},
		{"the same line", base, "1\n2\nthree\n4\n5\n", "1\n2\ndrei\n4\n5\n", "", false},
		{"the same change", base, "1\n2\nthree\n4\n5\n", "1\n2\nthree\n4\n5\n6\n", "1\n2\nthree\n4\n5\n6\n", true},
		{"the same insertion", base, "1\nx\n2\n3\n4\n5\n", "1\nx\n2\n3\n4\n", "1\nx\n2\n3\n4\n", true},
		{"insertions at one place", base, "1\nx\n2\n3\n4\n5\n", "1\ny\n2\n3\n4\n5\n", "", false},
		{"deletion and insertion", base, "1\n2\n4\n5\n", "1\n2\nx\n3\n4\n5\n", "", false},
		{"deletions that overlap", base, "1\n4\n5\n", "1\n2\n5\n", "", false},
		{"deletions apart", base, "2\n3\n4\n5\n", "1\n2\n3\n4\n", "2\n3\n4\n", true},
		{"newline at the end", "1\n2\n3", "one\n2\n3", "1\n2\n3\n", "one\n2\n3\n", true},
		{"both made it", "", "x\n", "x\n", "x\n", true},
		{"both made another", "", "x\n", "y\n", "", false},
		{"binary on one side", "\x00", "\x00\x01", "\x00", "\x00\x01", true},
		{"binary", "\x00\n\n1\n", "\x00x\n\n1\n", "\x00\n\n2\n", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, turned := range []bool{false, true} {
				ours, theirs := tt.ours, tt.theirs
				if turned {
					ours, theirs = theirs, ours
				}
				got, ok := Merge([]byte(tt.base), []byte(ours), []byte(theirs))
				if ok != tt.ok || ok && string(got) != tt.want || !ok && got != nil {
					t.Errorf("turned %v: %q, %v", turned, got, ok)
				}
			}
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("1\n2\n3\n4\n", "0\n1\n2\n3\n4\n", "1\n2\n3\n4\n5")
	f.Add("a\nb", "a\n", "\nb")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) { checkMerge(t, base, ours, theirs) })
}

func checkMerge(t *testing.T, base, ours, theirs string) {
	t.Helper()
	b, o, h := []byte(base), []byte(ours), []byte(theirs)
	if got, ok := Merge(b, o, b); !ok || !bytes.Equal(got, o) {
		t.Fatalf("merge(%q, %q, base) is %q, %v", base, ours, got, ok)
	}
	if got, ok := Merge(b, b, o); !ok || !bytes.Equal(got, o) {
		t.Fatalf("merge(%q, base, %q) is %q, %v", base, ours, got, ok)
	}
	got, ok := Merge(b, o, h)
	back, ok2 := Merge(b, h, o)
	if ok != ok2 || !bytes.Equal(got, back) {
		t.Fatalf("merge(%q, %q, %q) is %q, %v; turned around %q, %v", base, ours, theirs, got, ok, back, ok2)
	}
	if !ok {
		return
	}
	// No line is lost or made up: every line of both sides that base does not have is
	// there, and every line of base that both sides have.
	count := func(text string) map[string]int {
		m := map[string]int{}
		for _, l := range split([]byte(text)) {
			m[string(l)]++
		}
		return m
	}
	in, left, right, out := count(base), count(ours), count(theirs), count(string(got))
	for _, m := range []map[string]int{in, left, right, out} {
		for l := range m {
			// What both sides did in the same way counts once, else it adds up.
			dl, dr, d := left[l]-in[l], right[l]-in[l], out[l]-in[l]
			if d < min(dl, dr, dl+dr) || d > max(dl, dr, dl+dr) {
				t.Fatalf("merge(%q, %q, %q) is %q: %q is there %d times", base, ours, theirs, got, l, out[l])
			}
		}
	}
}

func TestMergeRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	merged := 0
	for range 3000 {
		base := randomText(r, r.IntN(100), 1+r.IntN(100))
		ours, theirs := mutate(r, base), mutate(r, base)
		checkMerge(t, base, ours, theirs)
		if _, ok := Merge([]byte(base), []byte(ours), []byte(theirs)); ok {
			merged++
		}
	}
	if merged < 300 {
		t.Errorf("only %d of 3000 could be merged", merged)
	}
}

func TestClashes(t *testing.T) {
	for _, c := range []struct{ base, ours, theirs, want string }{
		{"1 2 3 4 5", "x 2 3 4 5", "1 2 3 4 y", ""},
		{"1 2 3 4 5", "x 2 3 4 5", "y 2 3 4 5", "1:1|x|y"},
		{"1 2 3 4 5", "n 1 2 3 x 5", "y 1 2 3 4 5", "1:|n|y"},
		{"1 2 3 4 5", "a 2 3 4 b c", "d 2 3 4 e", "1:1|a|d 5:5|b c|e"},
		{"1 2 3 4 5", "0 1 2 4 5", "1 2 x 4 5", "4:3||x"},
		{"1 2 3", "", "1 x 3", "1:1 2 3||1 x 3"},
	} {
		text := func(s string) []byte { return []byte(strings.ReplaceAll(s, " ", "\n") + "\n") }
		list, err := Clashes(text(c.base), text(c.ours), text(c.theirs))
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, k := range list {
			join := func(lines [][]byte) string {
				return strings.Join(strings.Fields(string(bytes.Join(lines, nil))), " ")
			}
			got = append(got, fmt.Sprintf("%d:%s|%s|%s", k.Line, join(k.Base), join(k.Ours), join(k.Theirs)))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%+v: %s", c, s)
		}
		if _, ok := Merge(text(c.base), text(c.ours), text(c.theirs)); ok != (c.want == "") {
			t.Errorf("%+v: merged %v", c, ok)
		}
	}
	if _, err := Clashes([]byte("a"), []byte("\x00"), []byte("b")); err != ErrNotText {
		t.Errorf("no text: %v", err)
	}
	for part, want := range map[string]bool{"": true, "1\n": true, "1\n3\n": true, "3\n1\n": false, "1\n4\n": false, "1\n2\n3\n": true} {
		if Contains([]byte("1\n2\n3\n"), []byte(part)) != want {
			t.Errorf("%q: %v", part, !want)
		}
	}
}
