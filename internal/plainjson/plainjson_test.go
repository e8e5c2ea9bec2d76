//go:build linux

package plainjson

import (
	"encoding/json"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// FuzzPlain: what is written and read is what encoding/json writes and reads.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{
		"", "a/b", "with space", `"`, `\`, `"a\u0041"`, "a\nb", "\x7f", "\x00", "ä", "\xff", "<a>&b", "\u2028", "null", `"quoted"`, "~", "\x1f", `""`, `"a"b"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := Quote(s); ok && string(got) != string(want) {
			t.Errorf("%q is written as %s, want %s", s, got, want)
		}
		if got, ok := Unquote(want); ok && got != s {
			t.Errorf("%s is read as %q", want, got)
		}
		var plain string
		err = json.Unmarshal([]byte(s), &plain)
		if got, ok := Unquote([]byte(s)); ok && (err != nil || got != plain) {
			t.Errorf("%q is read as %q, want %q, %v", s, got, plain, err)
		}
	})
}

// TestPlain: the paths for which this package is there are plain.
func TestPlain(t *testing.T) {
	for _, s := range []string{"", "a", "src/main.go", "/home/user/a b/[c]-{d}+e=f@g;h,i'j!k#l$m%n^o(p)~"} {
		data, ok := Quote(s)
		if !ok {
			t.Errorf("%q is not plain", s)
		}
		if got, ok := Unquote(data); !ok || got != s {
			t.Errorf("%q is read as %q", s, got)
		}
	}
}
