package netpolicy

import (
	"errors"
	"strings"
)

var (
	errUser   = errors.New("there is an @; write the host only, without a user")
	errNumber = errors.New("this is neither a name nor an address as it is usually written; an IPv4 address is four decimal numbers without leading zeros")
	errLabel  = errors.New("the parts between the dots have 1 to 63 characters")
)

// CanonicalName returns a name in the form that rules and the resolver compare: lower case, ASCII (xn-- for other
// letters), without the final dot. It refuses what is not the name of a host, and numbers that some programs take for
// addresses, such as 127.1, 0x7f.1 and 2130706433.
func CanonicalName(name string) (string, error) {
	s := strings.TrimSuffix(name, ".")
	if s == "" {
		return "", errors.New("the name is empty")
	}
	for i := range len(s) {
		if s[i] >= 0x80 {
			var err error
			if s, err = toASCII(s); err != nil {
				return "", err
			}
			break
		}
	}
	b := []byte(s)
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		case c == '@':
			return "", errUser
		default:
			return "", errors.New("a name cannot have " + printable(c) + " in it")
		}
	}
	s = string(b)
	if len(s) > 253 {
		return "", errors.New("the name is longer than 253 characters")
	}
	last := s
	for label := range strings.SplitSeq(s, ".") {
		if len(label) == 0 || len(label) > 63 {
			return "", errLabel
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "", errors.New("no part of a name begins or ends with a hyphen")
		}
		last = label
	}
	if isNumber(last) {
		return "", errNumber
	}
	return s, nil
}

// isNumber reports whether inet_aton(3) would take a label for a number.
func isNumber(label string) bool {
	digits := "0123456789"
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

func printable(c byte) string {
	if c <= ' ' || c >= 0x7f {
		const hex = "0123456789abcdef"
		if c == ' ' {
			return "a space"
		}
		return "the byte 0x" + string([]byte{hex[c>>4], hex[c&15]})
	}
	return string(rune(c))
}
