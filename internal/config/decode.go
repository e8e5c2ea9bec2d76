package config

import (
	"bytes"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/nsrun/nsrun/internal/near"
)

const MaxSize = 64 << 10

// Facts are what a configuration depends on.
type Facts struct {
	Home    string   // absolute; empty: not known
	Project string   // absolute; empty: there is none
	Command []string // empty: any
}

type decoder struct {
	file    string
	layer   *Layer
	facts   *Facts
	p       unstable.Parser
	lines   []int // offsets of the beginnings of lines
	errs    []*Error
	tables  map[string]bool     // that have a header, stand inline, or come up in keys with dots
	dotted  map[string]bool     // the last of these, which other keys with dots can go on with
	profile map[string]*Profile // by name
	strays  map[string]bool     // unknown tables that were reported
	inside  *Profile            // in which the decoder is; nil: in none
	wrong   map[*Profile]bool   // that have a mistake
}

// Decode reads a file and returns all its mistakes, in order. With mistakes the layer must not be used.
func Decode(file string, source Source, data []byte, f *Facts) (*Layer, []*Error) {
	d := &decoder{file: file, layer: &Layer{Source: source}, facts: f, tables: map[string]bool{}, dotted: map[string]bool{}, profile: map[string]*Profile{}, strays: map[string]bool{}, wrong: map[*Profile]bool{}}
	if len(data) > MaxSize {
		return nil, []*Error{{Pos: Pos{file, 1, 1}, Text: "the file has more than 64 KiB"}}
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return nil, []*Error{{Pos: Pos{file, 1, 1}, Text: "the file begins with a byte order mark", Hint: "save it as UTF-8 without one"}}
	}
	d.lines = append(d.lines, 0)
	for i, c := range data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	d.p.Reset(data)
	var table []string
	known := true
	for d.p.NextExpression() {
		n := d.p.Expression()
		switch n.Kind {
		case unstable.Table:
			table, known = d.header(n)
		case unstable.ArrayTable:
			words, pos := d.key(n.Key())
			d.errorf(pos, "", "[[%s]] is an array of tables, which no key takes", strings.Join(words, "."))
			known = false
		case unstable.KeyValue:
			if known {
				d.setting(table, n)
			}
		}
	}
	if err := d.p.Error(); err != nil {
		d.syntax(err, len(data))
	}
	for _, p := range d.layer.Profiles {
		if len(p.Match) == 0 && !d.wrong[p] {
			d.errorf(p.Pos, "", "profile %s has no match: which commands is it for?", p.Name)
		}
	}
	sort.SliceStable(d.errs, func(i, j int) bool {
		a, b := d.errs[i].Pos, d.errs[j].Pos
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	return d.layer, d.errs
}

func (d *decoder) pos(offset int) Pos {
	line := sort.SearchInts(d.lines, offset+1)
	return Pos{d.file, line, offset - d.lines[line-1] + 1}
}

// at is the position of a node; a node without one has that of the node before it.
func (d *decoder) at(n *unstable.Node, otherwise Pos) Pos {
	if n.Raw.Length == 0 {
		return otherwise
	}
	return d.pos(int(n.Raw.Offset))
}

func (d *decoder) fail(pos Pos, hint, text string) {
	d.errs = append(d.errs, &Error{pos, text, hint})
	d.wrong[d.inside] = true
}

func (d *decoder) syntax(err error, size int) {
	offset, text := size, err.Error()
	if e, ok := errors.AsType[*unstable.ParserError](err); ok {
		text = e.Message
		func() {
			defer func() { _ = recover() }() // it is about no part of the text
			if e.Highlight != nil {
				offset = int(d.p.Range(e.Highlight).Offset)
			}
		}()
	}
	d.fail(d.pos(offset), syntaxHint(text), text)
}

// syntaxHint is what is most often meant.
func syntaxHint(text string) string {
	rest, ok := strings.CutPrefix(text, "unexpected character U+")
	if _, char, _ := strings.Cut(rest, "'"); ok && strings.HasSuffix(text, " at start of value") && char != "" && isLetter(char[0]) {
		return "strings are in quotes; other values are numbers, true and false"
	}
	return ""
}

func isLetter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("~/.$*!", c) >= 0
}

// mostWords is how many words of a key are read: none has more than three.
const mostWords = 8

// key returns the words of a dotted key, and its position.
func (d *decoder) key(it unstable.Iterator) (words []string, pos Pos) {
	for it.Next() {
		n := it.Node()
		if words == nil {
			pos = d.pos(int(n.Raw.Offset))
		}
		if len(words) == mostWords {
			return append(words, "…"), pos
		}
		words = append(words, string(n.Data))
	}
	return words, pos
}

// header begins a table; known is false if no table has that name.
func (d *decoder) header(n *unstable.Node) (words []string, known bool) {
	words, pos := d.key(n.Key())
	name := strings.Join(words, "\x00")
	if d.inside = nil; len(words) == 2 && words[0] == profileTable {
		d.inside = d.profile[words[1]]
	}
	if d.tables[name] {
		d.errorf(pos, "", "table [%s] is defined twice", strings.Join(words, "."))
		return words, false
	}
	d.tables[name] = true
	return words, d.open(words, pos)
}

// open checks the name of a table, and makes it.
func (d *decoder) open(words []string, pos Pos) bool {
	switch {
	case len(words) == 1 && slices.Contains(tables[:], words[0]):
		return true
	case len(words) == 1 && words[0] == profileTable:
		return true // with names below it
	case len(words) == 2 && words[0] == profileTable:
		return d.openProfile(words[1], pos)
	}
	name := strings.Join(words, ".")
	if !d.strays[name] {
		d.strays[name] = true
		hint := ""
		if len(words) == 1 {
			hint = mean(words[0], append(tables[:], profileTable))
		}
		d.errorf(pos, hint, "there is no table [%s]", name)
	}
	return false
}

const profileTable = "profile"

func (d *decoder) openProfile(name string, pos Pos) bool {
	if name == "" {
		d.errorf(pos, "", "a profile needs a name: [profile.NAME]")
		return false
	}
	if d.profile[name] == nil {
		p := &Profile{Name: name, Pos: pos}
		d.profile[name] = p
		d.layer.Profiles = append(d.layer.Profiles, p)
	}
	d.inside = d.profile[name]
	return true
}

// setting decodes a key and its value; dotted keys and inline tables contain tables.
func (d *decoder) setting(table []string, n *unstable.Node) {
	words, pos := d.key(n.Key())
	if len(table) == 0 {
		d.inside = nil
	}
	path := append(slices.Clip(table), words...)
	for i := len(table) + 1; i < len(path); i++ {
		name := strings.Join(path[:i], "\x00")
		if d.tables[name] && !d.dotted[name] {
			d.errorf(pos, "", "table [%s] is defined twice", strings.Join(path[:i], "."))
			return
		}
		d.tables[name], d.dotted[name] = true, true
	}
	d.assign(path, pos, n.Value())
}

func (d *decoder) assign(path []string, pos Pos, v *unstable.Node) {
	if v.Kind == unstable.InlineTable && (len(path) == 1 && path[0] != lockedKey || len(path) == 2 && path[0] == profileTable) {
		name := strings.Join(path, "\x00")
		if d.tables[name] {
			d.errorf(pos, "", "table [%s] is defined twice", strings.Join(path, "."))
			return
		}
		d.tables[name] = true
		if !d.open(path, pos) {
			return
		}
		for it := v.Children(); it.Next(); {
			d.setting(path, it.Node())
		}
		return
	}
	switch last := len(path) - 1; {
	case last == 0 && path[0] == lockedKey:
		d.locked(pos, v)
	case last == 0:
		d.loose(path[0], pos)
	case path[0] == profileTable && last == 2:
		if d.open(path[:2], pos) {
			d.inProfile(d.profile[path[1]], path[2], pos, v)
		}
	case path[0] == profileTable && last == 1:
		d.errorf(pos, "", "profile.%s must be a table", path[1])
	case last != 1 || !slices.Contains(tables[:], path[0]):
		if d.open(path[:last], pos) {
			d.unknown(strings.Join(path, "."), path[0], path[last], pos)
		}
	default:
		i := keyNumber(path[0], path[1])
		if i < 0 {
			d.unknown(path[1], path[0], path[1], pos)
			return
		}
		if Keys[i].General && d.layer.Source == Project {
			d.errorf(pos, "", "%s is valid only in the files of the user and the system", Keys[i].Full())
			return
		}
		d.value(&d.layer.Values, i, pos, v)
	}
}

func (d *decoder) loose(name string, pos Pos) {
	if i := keyNumber("", name); i >= 0 {
		d.errorf(pos, "it belongs below ["+Keys[i].Table+"]", "%s must be in a table", name)
		return
	}
	if slices.Contains(tables[:], name) || name == profileTable {
		d.errorf(pos, "", "%s must be a table", name)
		return
	}
	d.errorf(pos, mean(name, append(tables[:], profileTable, lockedKey)), "there is no key %s", name)
}

// unknown reports a key that its table does not have. An empty table stands for a profile.
func (d *decoder) unknown(shown, table, name string, pos Pos) {
	if i := keyNumber("", name); i >= 0 && table != "" {
		d.errorf(pos, "it belongs below ["+Keys[i].Table+"]", "there is no key %s in [%s]", shown, table)
		return
	}
	var names []string
	for _, k := range Keys {
		if k.Table == table || table == "" && !k.General {
			names = append(names, k.Name)
		}
	}
	where := "[" + table + "]"
	if table == "" {
		where, names = "a profile", append(names, "match")
	}
	d.errorf(pos, mean(name, names), "there is no key %s in %s", shown, where)
}

// otherWords are other programs' names of our keys.
var otherWords = [...][2]string{
	{"network", "isolate_network"}, {"net", "allow_net"}, {"allowed_hosts", "allow_net"}, {"allowed_domains", "allow_net"},
	{"allow_write", "rw_paths"}, {"allowed_paths", "rw_paths"}, {"writable", "rw_paths"}, {"allow_read", "ro_paths"}, {"readonly", "ro_paths"},
	{"deny_read", "blocked_paths"}, {"deny_paths", "blocked_paths"}, {"hidden_paths", "blocked_paths"}, {"block", "blocked_paths"},
	{"deny_write", "protected_paths"}, {"protect", "protected_paths"}, {"protected_files", "protected_paths"}, {"cache", "caches"}, {"cache_paths", "caches"},
	{"ports", "publish"}, {"sockets", "allow_unix"}, {"allow_unix_sockets", "allow_unix"}, {"environment", "env"}, {"time", "timeout"},
	{"commands", "match"},
}

// mean suggests a known word for an unknown one.
func mean(word string, names []string) string {
	for _, other := range otherWords {
		if other[0] == word && slices.Contains(names, other[1]) {
			return `did you mean "` + other[1] + `"?`
		}
	}
	if meant := near.Nearest(word, names); meant != "" {
		return `did you mean "` + meant + `"?`
	}
	return "nsrun config schema has all keys"
}

func (d *decoder) inProfile(p *Profile, name string, pos Pos, v *unstable.Node) {
	if name == "match" {
		if p.Match != nil {
			d.errorf(pos, "", "match is set twice")
			return
		}
		for _, item := range d.strings(pos, "match", v) {
			words := strings.Fields(item.Text)
			switch {
			case len(words) == 0:
				d.errorf(item.Pos, "", "match: a command is missing")
				continue
			case strings.ContainsRune(item.Text, 0):
				d.errorf(item.Pos, "", "match %s: no command contains the character NUL", strconv.Quote(item.Text))
				continue
			}
			p.Match = append(p.Match, words)
		}
		return
	}
	i := keyNumber("", name)
	if i < 0 {
		d.unknown(name, "", name, pos)
		return
	}
	if Keys[i].General {
		d.errorf(pos, "it belongs below ["+Keys[i].Table+"]", "%s cannot be in a profile", name)
		return
	}
	d.value(&p.Values, i, pos, v)
	if p.Values[i] != nil {
		for j := range p.Values[i].Items {
			p.Values[i].Items[j].Profile = p.Name
		}
	}
}

const lockedKey = "locked"

func (d *decoder) locked(pos Pos, v *unstable.Node) {
	if d.layer.Locked != nil {
		d.errorf(pos, "", "locked is set twice")
		return
	}
	d.layer.Locked = map[int]Pos{}
	if d.layer.Source != System {
		d.errorf(pos, "", "locked is valid only in the system's file")
		return
	}
	for _, item := range d.strings(pos, lockedKey, v) {
		table, name, _ := strings.Cut(item.Text, ".")
		i := keyNumber(table, name)
		if i < 0 {
			var names []string
			for _, k := range Keys {
				names = append(names, k.Full())
			}
			hint := mean(item.Text, names)
			if i := keyNumber("", item.Text); i >= 0 { // its table is missing
				hint = mean(Keys[i].Full(), names)
			}
			d.errorf(item.Pos, hint, "locked: there is no key %s", strconv.Quote(item.Text))
			continue
		}
		d.layer.Locked[target(i)] = item.Pos
	}
}

func (d *decoder) strings(pos Pos, name string, v *unstable.Node) (list []Item) {
	if v.Kind != unstable.Array {
		d.wrongType(d.at(v, pos), name, wants[Strings], v.Kind)
		return nil
	}
	for it := v.Children(); it.Next(); {
		n := it.Node()
		if n.Kind != unstable.String {
			d.wrongItem(d.at(n, pos), name, wants[Strings], n.Kind)
			continue
		}
		list = append(list, Item{Text: string(n.Data), Pos: d.at(n, pos), Source: d.layer.Source})
	}
	return list
}
