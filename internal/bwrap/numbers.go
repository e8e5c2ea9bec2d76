package bwrap

import (
	"math"
)

// The numbers on bubblewrap's command line are what C's strtol family takes:
// blanks and a sign may come first, and what is too large becomes the largest.

// strtoul reads the number s starts with. Digits are of the given base; base 0 means that a prefix decides (0x, 0b, 0).
// The value is the magnitude before the sign is applied. End is where the number ends in s: 0 if there is none.
func strtoul(s string, base uint64) (value uint64, negative, overflow bool, end int) {
	i := 0
	for i < len(s) && (s[i] == ' ' || '\t' <= s[i] && s[i] <= '\r') {
		i++
	}
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		negative = s[i] == '-'
		i++
	}
	if base == 0 {
		base = 10
		if i < len(s) && s[i] == '0' {
			base = 8
			if i+2 < len(s) {
				switch {
				case s[i+1]|0x20 == 'x' && digit(s[i+2]) < 16:
					base, i = 16, i+2
				case s[i+1]|0x20 == 'b' && digit(s[i+2]) < 2:
					base, i = 2, i+2
				}
			}
		}
	}
	for ; i < len(s) && digit(s[i]) < base; i++ {
		d := digit(s[i])
		overflow = overflow || value > (math.MaxUint64-d)/base
		value = value*base + d
		end = i + 1
	}
	if overflow {
		value = math.MaxUint64
	}
	return value, negative, overflow, end
}

// whole says whether a number that ends at end is all of s.
func whole(s string, end int) bool { return end > 0 && end == len(s) }

func digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c && c <= 'z':
		return uint64(c-'a') + 10
	case 'A' <= c && c <= 'Z':
		return uint64(c-'A') + 10
	}
	return math.MaxUint8
}

// strtoint reads a decimal number as bubblewrap reads ids and descriptors: as a
// 64-bit number of which the lower 32 bits are kept.
func strtoint(s string) (int32, bool) {
	value, negative, _, end := strtoul(s, 10)
	n := int64(math.MaxInt64)
	switch {
	case negative && value > math.MaxInt64:
		n = math.MinInt64
	case negative:
		n = -int64(value)
	case value <= math.MaxInt64:
		n = int64(value)
	}
	return int32(n), whole(s, end)
}

func (p *parser) parseFD(s string) (int, error) {
	n, ok := strtoint(s)
	if !ok || n < 0 {
		return -1, p.fail("Invalid fd: ", s)
	}
	return int(n), nil
}

// parseID reads a user or group id; what is the word for which.
func (p *parser) parseID(s, what string, extensions bool) (uint32, error) {
	if extensions {
		value, negative, _, end := strtoul(s, 10)
		if !whole(s, end) || negative && value != 0 || value >= math.MaxUint32 {
			return 0, p.fail("Invalid ", what, ": ", s)
		}
		return uint32(value), nil
	}
	n, ok := strtoint(s)
	if !ok || n < 0 {
		return 0, p.fail("Invalid ", what, ": ", s)
	}
	return uint32(n), nil
}

func (p *parser) parseOctal(s, option string) (uint32, error) {
	value, negative, overflow, end := strtoul(s, 8)
	if negative && !overflow {
		value = -value
	}
	if !whole(s, end) || value > 0o7777 {
		return 0, p.fail(option, " takes an octal argument <= 07777")
	}
	return uint32(value), nil
}

// maxTmpfs is the largest size of a tmpfs.
const (
	maxTmpfs     = uint64(math.MaxInt64)
	maxTmpfsText = "9223372036854775807"
)

func (p *parser) parseSize(s string) (uint64, error) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, p.fail("--size takes a non-zero number of bytes")
	}
	value, _, overflow, end := strtoul(s, 0)
	if !whole(s, end) || overflow || value == 0 {
		return 0, p.fail("--size takes a non-zero number of bytes")
	}
	if value > maxTmpfs {
		return 0, p.fail("--size (for tmpfs) is limited to ", maxTmpfsText)
	}
	return value, nil
}

// parseIDMap reads INSIDE:OUTSIDE:COUNT.
func (p *parser) parseIDMap(s, option string) (IDMap, error) {
	var n [3]uint64
	rest := s
	for i := range n {
		at := 0
		for at < len(rest) && '0' <= rest[at] && rest[at] <= '9' && at <= 10 {
			n[i] = n[i]*10 + uint64(rest[at]-'0')
			at++
		}
		if at == 0 || i < 2 && (at == len(rest) || rest[at] != ':') || i == 2 && at != len(rest) {
			return IDMap{}, p.fail(option, " takes INSIDE:OUTSIDE:COUNT, not ", s)
		}
		if i < 2 {
			rest = rest[at+1:]
		}
	}
	// The last id, 2^32-1, stands for "none" and cannot be mapped.
	if n[2] == 0 || n[0]+n[2] > math.MaxUint32 || n[1]+n[2] > math.MaxUint32 {
		return IDMap{}, p.fail(option, ": no such range of ids: ", s)
	}
	return IDMap{Inside: uint32(n[0]), Outside: uint32(n[1]), Count: uint32(n[2])}, nil
}
