package runslater

import (
	"errors"
	"strings"
)

// An entry is one key of a git configuration, as git lists it: section and name in lower case, the subsection as
// written.
type entry struct {
	key, value string
	bare       bool // there is no "=": the value is true
}

func (e *entry) parts() (section, sub, name string) {
	section, rest, _ := strings.Cut(e.key, ".")
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}

var errConfig = errors.New("git cannot read it")

// parseConfig parses a configuration as git does (config.c). At an error it stops like git; the entries before count
// for some programs.
func parseConfig(text string) ([]entry, error) {
	p := &configParser{rest: strings.TrimPrefix(text, "\xef\xbb\xbf")}
	err := p.parse()
	return p.list, err
}

type configParser struct {
	rest string
	eof  bool
	list []entry
}

func (p *configParser) next() byte {
	if p.rest == "" {
		p.eof = true
		return '\n'
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\r' && strings.HasPrefix(p.rest, "\n") {
		c, p.rest = '\n', p.rest[1:]
	}
	return c
}

func (p *configParser) parse() error {
	section, comment := "", false
	for {
		c := p.next()
		switch {
		case c == '\n':
			if p.eof {
				return nil
			}
			comment = false
		case comment || isSpace(c):
		case c == '#' || c == ';':
			comment = true
		case c == '[':
			var ok bool
			if section, ok = p.section(); !ok {
				return errConfig
			}
		case !isAlpha(c):
			return errConfig
		default:
			if !p.entry(section, c) {
				return errConfig
			}
		}
	}
}

func (p *configParser) section() (string, bool) {
	var b strings.Builder
	for {
		c := p.next()
		switch {
		case p.eof:
			return "", false
		case c == ']':
			return b.String() + ".", b.Len() > 0
		case isSpace(c):
			return p.subsection(&b, c)
		case !isKey(c) && c != '.':
			return "", false
		}
		b.WriteByte(lower(c))
	}
}

// subsection parses the quoted part of a section's name; c came before.
func (p *configParser) subsection(b *strings.Builder, c byte) (string, bool) {
	for isSpace(c) {
		if c == '\n' {
			return "", false
		}
		c = p.next()
	}
	if c != '"' {
		return "", false
	}
	b.WriteByte('.')
	for {
		c := p.next()
		if c == '"' {
			break
		}
		if c == '\\' {
			c = p.next()
		}
		if c == '\n' {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String() + ".", p.next() == ']'
}

func (p *configParser) entry(section string, c byte) bool {
	name := []byte{lower(c)}
	for c = p.next(); !p.eof && isKey(c); c = p.next() {
		name = append(name, lower(c))
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	e := entry{key: section + string(name), bare: c == '\n'}
	if !e.bare {
		var ok bool
		if c != '=' {
			return false
		}
		if e.value, ok = p.value(); !ok {
			return false
		}
	}
	p.list = append(p.list, e)
	return true
}

func (p *configParser) value() (string, bool) {
	var b []byte
	quote, comment, spaces := false, false, 0
	for {
		c := p.next()
		switch {
		case c == '\n':
			return string(b), !quote
		case comment:
			continue
		case isSpace(c) && !quote:
			if len(b) > 0 {
				spaces++
			}
			continue
		case !quote && (c == ';' || c == '#'):
			comment = true
			continue
		}
		for ; spaces > 0; spaces-- {
			b = append(b, ' ')
		}
		switch c {
		case '"':
			quote = !quote
			continue
		case '\\':
			switch c = p.next(); c {
			case '\n':
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", false
			}
		}
		b = append(b, c)
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isAlpha(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }
func isKey(c byte) bool   { return isAlpha(c) || c >= '0' && c <= '9' || c == '-' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
