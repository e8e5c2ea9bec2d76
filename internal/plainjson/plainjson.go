// Package plainjson writes and reads strings that stand in JSON as they are, between quotes. Almost all paths do, and
// encoding/json takes many times as long for them, in types with methods of their own. It imports nothing, and leaves
// all other strings to encoding/json.
package plainjson

// Quote returns a string in JSON, as encoding/json writes it. ok is false if a character would be escaped.
func Quote(s string) (data []byte, ok bool) {
	if !plain(s) {
		return nil, false
	}
	data = make([]byte, 0, len(s)+2)
	data = append(data, '"')
	data = append(data, s...)
	return append(data, '"'), true
}

// Unquote returns the string that is data. ok is false if data is something else, or has a character that can be an
// escaped one.
func Unquote(data []byte) (s string, ok bool) {
	end := len(data) - 1
	if end < 1 || data[0] != '"' || data[end] != '"' || !plain(data[1:end]) {
		return "", false
	}
	return string(data[1:end]), true
}

// plain reports whether all of s are printable ASCII characters that encoding/json does not escape.
func plain[S string | []byte](s S) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
