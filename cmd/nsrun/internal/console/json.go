//go:build linux

package console

import (
	"encoding/json"
	"fmt"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func PrintJSON(v any) int {
	b, err := JSON(v)
	if err == nil {
		_, err = os.Stdout.Write(b)
	}
	if err != nil {
		return Fail(err)
	}
	return 0
}

// JSON returns v as indented JSON that is safe to show on a terminal, because names in it come from the sandbox.
func JSON(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(EscapeJSON(b), '\n'), nil
}

// EscapeJSON replaces characters that are not printable by \u escapes.
func EscapeJSON(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for _, r := range string(b) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
