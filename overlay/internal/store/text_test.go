//go:build linux

package store

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzText: a Text is written as package json writes the string, and all that package json writes is read.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"", "a/b", "with space", `"`, `\`, `a\u0041`, "a\nb", "\x7f", "\x00", "ä", "\xff\xfe", "<a>&b", "\u2028", "null", "{", `"quoted"`, "~", "\x1f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := json.Marshal(Text(s))
		if err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(s) {
			want, _ := json.Marshal(s)
			if string(got) != string(want) {
				t.Errorf("%q is written as %s, want %s", s, got, want)
			}
		}
		var back Text
		if err := json.Unmarshal(got, &back); err != nil || string(back) != s {
			t.Errorf("%s is read as %q: %v", got, back, err)
		}
		// What somebody else wrote: read as package json reads it, or refused as it refuses it.
		var text Text
		var plain string
		err1, err2 := json.Unmarshal([]byte(s), &text), json.Unmarshal([]byte(s), &plain)
		if len(s) == 0 || s[0] == '"' {
			if (err1 == nil) != (err2 == nil) || string(text) != plain {
				t.Errorf("%q is read as %q, %v; want %q, %v", s, text, err1, plain, err2)
			}
		}
	})
}
