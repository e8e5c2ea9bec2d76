package pathrule

import "testing"

// The text of a pattern means the same.
func FuzzString(f *testing.F) {
	for _, text := range []string{"/", "/a", "/a/**/*.lock", `/a\*/b\\c/[x-z]`, `/**/\$x`, "!/a/b*", `/a/*\!/~`} {
		f.Add(text, "/a/b.lock")
	}
	get := func(string) string { return "/home/me" }
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := Parse(text, get)
		if err != nil {
			return
		}
		again, err := Parse(p.String(), func(string) string { return "" })
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, p.String(), err)
		}
		if again.String() != p.String() || again.Except != p.Except || again.Match(name) != p.Match(name) {
			t.Errorf("%q becomes %q, and that %q", text, p.String(), again.String())
		}
	})
}
