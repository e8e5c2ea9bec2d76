//go:build linux

package console

import (
	"testing"
)

func TestEscapeControls(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"plain\ttext", "plain\ttext"},
		{"ümläut ✓", "ümläut ✓"},
		{"\x1b[31mred\x1b]0;title\x07", `\x1b[31mred\x1b]0;title\a`},
		{"crlf\r", `crlf\r`},
		{"back\b\b\x7f", `back\b\b\x7f`},
		{"\x9b31m \xc2\x9b31m", `\x9b31m \u009b31m`}, // what begins a sequence to some terminals
		{"a\u202eb", `a\u202eb`},                     // which shows code in another order
		{"\t\x00", "\t" + `\x00`},
	} {
		if got := string(EscapeControls([]byte(tt.text))); got != tt.want {
			t.Errorf("%q is %q, want %q", tt.text, got, tt.want)
		}
	}
}
