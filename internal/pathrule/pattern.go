// Package pathrule defines what rules about paths mean: which paths a pattern matches, and which of several rules
// decides about a path (the last one). Flags, configuration files and Config all use it. It asks no file system, reads
// no environment, and imports nothing of this module: its caller looks for files, and asks about their paths.
package pathrule

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Variables are the names that a pattern can have.
var Variables = [...]string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}

// A Pattern is a path, or what many paths match. The zero Pattern is invalid.
type Pattern struct {
	Except bool     // it takes paths out of the rules before it
	base   string   // what it begins with and has no wildcards
	parts  []string // what follows between slashes, in the syntax of path.Match, or "**"
}

const stars = "**"

// maxName is how long a name is at most: NAME_MAX.
const maxName = 255

var (
	// ErrNotAbsolute says that a pattern is relative to a directory that nobody has named.
	ErrNotAbsolute = errors.New("path is not absolute")

	errEmpty    = errors.New("empty path")
	errZero     = errors.New("a path cannot contain the character NUL")
	errUser     = errors.New("only ~/ stands for a home directory; write that of another user in full")
	errNoHome   = errors.New("the home directory is not known")
	errBracket  = errors.New("a pattern is wrong: a [ has no ]")
	errRange    = errors.New("a pattern is wrong: a range in [ ] is backwards: write [a-z], not [z-a]")
	errEnd      = errors.New(`a pattern is wrong: nothing follows the \ at its end`)
	errVariable = errors.New("a pattern is wrong: a $ without the name of a variable; the character itself is written \\$")
	errUp       = errors.New("a pattern is wrong: .. follows a wildcard")
	errLong     = errors.New("a pattern is wrong: it has more than 63 parts behind its first wildcard")
	errName     = errors.New("a name in a path has at most 255 bytes")
	errStars    = errors.New("a pattern is wrong: ** stands alone between slashes")
)

// Parse reads an absolute pattern. It can begin with "!", for an exception, and with "~/"; "$NAME" and "${NAME}" are
// Variables, whose values get returns, as HOME for "~". "*", "?" and "[…]" stand for what path.Match says, "**" between
// slashes for any number of directories, and "\" takes its meaning from what follows. It is an error if a value is
// no absolute path.
func Parse(text string, get func(name string) string) (p Pattern, err error) {
	text, p.Except = strings.CutPrefix(text, "!")
	switch {
	case text == "":
		return p, errEmpty
	case strings.IndexByte(text, 0) >= 0:
		return p, errZero
	case text == "~", strings.HasPrefix(text, "~/"):
		home := get("HOME")
		if !path.IsAbs(home) {
			return p, errNoHome
		}
		text = Quote(home) + text[1:]
	case text[0] == '~':
		return p, errUser
	}
	if text, err = expand(text, get); err != nil {
		return p, err
	}
	if !path.IsAbs(text) {
		return p, ErrNotAbsolute
	}
	p.base = "/"
	for part := range strings.SplitSeq(text, "/") {
		name, literal := literal(part)
		n := len(p.parts)
		switch {
		case part == "" || part == "." || part == stars && n > 0 && p.parts[n-1] == stars:
		case part == "..":
			if n > 0 {
				return p, errUp
			}
			p.base = path.Dir(p.base)
		case part != stars && strings.Contains(strings.ReplaceAll(part, `\*`, ""), stars):
			return p, errStars
		case literal && len(name) > maxName:
			return p, errName
		case literal && n == 0:
			p.base = path.Join(p.base, name)
		case n == maxParts:
			return p, errLong
		default:
			if _, err := path.Match(part, ""); err != nil {
				return p, errBracket
			}
			if backward(part) {
				return p, errRange
			}
			p.parts = append(p.parts, part)
		}
	}
	return p, nil
}

// backward reports whether a part, valid for path.Match, has a range such as [z-a], which no character is in.
func backward(part string) bool {
	next := func() (r rune) {
		part = strings.TrimPrefix(part, `\`)
		r, n := utf8.DecodeRuneInString(part)
		part = part[n:]
		return r
	}
	for part != "" {
		if part[0] != '[' {
			_ = next()
			continue
		}
		part = strings.TrimPrefix(part[1:], "^")
		for first := true; part != "" && (first || part[0] != ']'); first = false {
			low := next()
			if rest, ok := strings.CutPrefix(part, "-"); ok {
				if part = rest; next() < low {
					return true
				}
			}
		}
		part = strings.TrimPrefix(part, "]")
	}
	return false
}

// expand puts the values of variables in.
func expand(text string, get func(name string) string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i+1 == len(text) {
				return "", errEnd
			}
			if i++; text[i] != '/' {
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		case '$':
			name, rest := variable(text[i+1:])
			if name == "" {
				return "", errVariable
			}
			if !slices.Contains(Variables[:], name) {
				return "", fmt.Errorf("there is no variable %s for paths; there are %s", name, strings.Join(Variables[:], ", "))
			}
			value := get(name)
			if !path.IsAbs(value) {
				return "", fmt.Errorf("the variable %s is not set to an absolute path", name)
			}
			b.WriteString(quote(value, `\*?[]`))
			i = len(text) - len(rest) - 1
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String(), nil
}

// variable is the name at the beginning of a text, in braces or not, and what follows. Empty: there is none.
func variable(text string) (name, rest string) {
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		name, rest, ok = strings.Cut(inner, "}")
		if !ok {
			return "", ""
		}
		return name, rest
	}
	n := 0
	for n < len(text) && (text[n] == '_' || text[n] >= 'A' && text[n] <= 'Z' || text[n] >= 'a' && text[n] <= 'z' || n > 0 && text[n] >= '0' && text[n] <= '9') {
		n++
	}
	return text[:n], text[n:]
}

// literal is the one name that a part matches.
func literal(part string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '*', '?', '[':
			return "", false
		case '\\':
			i++
		}
		b.WriteByte(part[i])
	}
	return b.String(), true
}

// Quote is the pattern that matches one path.
func Quote(name string) string { return quote(name, `\*?[]$~!`) }

func quote(name, special string) string {
	if !strings.ContainsAny(name, special) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(special, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// Anchor puts a directory before a pattern that is relative.
func Anchor(dir, text string) string {
	rest, except := strings.CutPrefix(text, "!")
	if rest == "" || strings.IndexByte("/~$", rest[0]) >= 0 {
		return text
	}
	if rest = Quote(dir) + "/" + rest; except {
		return "!" + rest
	}
	return rest
}

// Base is the path that a pattern begins with, as far as it has no wildcards; literal says that this is all of it.
func (p *Pattern) Base() (dir string, literal bool) { return p.base, len(p.parts) == 0 }

// Rebase puts another path in the place of the Base: where that leads.
func (p *Pattern) Rebase(dir string) { p.base = dir }

// String is a text that Parse takes for the same pattern.
func (p *Pattern) String() string {
	text := Quote(p.base)
	if len(p.parts) > 0 {
		text = strings.TrimSuffix(text, "/")
		for _, part := range p.parts {
			// What follows a \ stays as it is; a $ of a variable's value begins no other one.
			text += "/" + strings.NewReplacer(`\\`, `\\`, `\$`, `\$`, "$", `\$`).Replace(part)
		}
	}
	if p.Except {
		return "!" + text
	}
	return text
}

// Deep reports whether p means paths at any depth.
func (p *Pattern) Deep() bool { return slices.Contains(p.parts, stars) }

// Depths are how many names the paths have that p means, at least and at most.
func (p *Pattern) Depths() (least, most int) {
	if p.base != "/" {
		least = strings.Count(p.base, "/")
	}
	for _, part := range p.parts {
		if part != stars {
			least++
		}
	}
	if most = least; p.Deep() {
		most = math.MaxInt
	}
	return least, most
}

// Match reports whether a path, absolute and clean, is one that p means.
func (p *Pattern) Match(name string) bool {
	s, ok := p.At(name)
	return ok && p.Matches(s)
}

// Covers reports whether p means a path, or a directory that it lies in.
func (p *Pattern) Covers(name string) bool {
	for {
		if p.Match(name) {
			return true
		}
		if name == "/" {
			return false
		}
		name = path.Dir(name)
	}
}

// Below reports whether p can mean something below a directory.
func (p *Pattern) Below(dir string) bool {
	if dir == "/" || strings.HasPrefix(p.base, dir+"/") {
		return true
	}
	s, ok := p.At(dir)
	return ok && p.More(s)
}

// At is the State at a path. Not ok: it is not at or below the Base.
func (p *Pattern) At(name string) (s State, ok bool) {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(p.base, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return 0, false
	}
	s = p.Start()
	for part := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		if part != "" && s != 0 {
			s = p.Step(s, part)
		}
	}
	return s, true
}

// A State says how far a pattern has matched on the way down a tree: bit i, that what follows has to match from part i
// on.
type State uint64

// maxParts are so many that there is a bit for the end, too.
const maxParts = 63

// Start is the State at the Base.
func (p *Pattern) Start() State { return p.rest(0) }

// rest is the State with part i ahead: what "**" stands for may be nothing.
func (p *Pattern) rest(i int) State {
	s := State(1) << i
	if i < len(p.parts) && p.parts[i] == stars {
		s |= 2 << i // the next part is another one
	}
	return s
}

func (p *Pattern) Step(s State, name string) (next State) {
	for i, part := range p.parts {
		switch {
		case s&(1<<i) == 0:
		case part == stars:
			next |= p.rest(i)
		case matches(part, name):
			next |= p.rest(i + 1)
		}
	}
	return next
}

func matches(part, name string) bool {
	ok, _ := path.Match(part, name)
	return ok
}

// Matches reports whether all of the pattern has matched.
func (p *Pattern) Matches(s State) bool { return s&(1<<len(p.parts)) != 0 }

// More reports whether something below can match.
func (p *Pattern) More(s State) bool { return s&^(1<<len(p.parts)) != 0 }
