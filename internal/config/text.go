package config

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/limits"
)

// TOML is the value of a setting as written in a file; empty: it is not set.
func (p *Policy) TOML(key int) string {
	k, items := &Keys[key], p.Settings[key].Items
	switch k.Kind {
	case Strings, Ports:
		texts := make([]string, len(items))
		for i, item := range items {
			if texts[i] = item.Text; k.Kind == Strings {
				texts[i] = quoted(item.Text)
			}
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case Bool, Count, Number:
		return one(items)
	}
	if len(items) == 0 {
		return ""
	}
	return quoted(one(items))
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r >= 0x7f && !strconv.IsPrint(r):
			hex := strconv.FormatInt(int64(r), 16)
			b.WriteString(`\U` + strings.Repeat("0", 8-len(hex)) + hex)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Template is a file with all settings as comments.
func Template() string {
	var b strings.Builder
	b.WriteString("# Settings of nsrun. Lines that begin with # have no effect: these show what holds by default, or an example.\n" +
		"# Flags win over the project's .nsrun.toml, that over ~/.config/nsrun/config.toml, and that over\n" +
		"# /etc/nsrun/config.toml. nsrun config show prints what holds; nsrun config check finds mistakes.\n")
	table := ""
	for _, k := range Keys {
		if k.Table != table {
			table = k.Table
			b.WriteString("\n[" + table + "]\n")
		}
		value := k.Example
		if value == "" {
			value = k.Default
		}
		b.WriteString("# " + strings.ToUpper(k.Doc[:1]) + k.Doc[1:] + ".\n# " + k.Name + " = " + value + "\n")
	}
	b.WriteString("\n# A profile applies to commands that begin with the words of an entry in match.\n" +
		"# [profile.build]\n# match = [\"make\", \"go build\"]\n# presets = [\"build\"]\n# timeout = \"30m\"\n")
	return b.String()
}

func Schema() []byte {
	byTable := map[string]map[string]any{}
	all := map[string]any{
		"match": map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": "string", "minLength": 1},
			"description": "The profile applies to commands that begin with the words of one of these entries."},
	}
	for _, k := range Keys {
		if byTable[k.Table] == nil {
			byTable[k.Table] = map[string]any{}
		}
		if byTable[k.Table][k.Name] = k.schema(); !k.General {
			all[k.Name] = k.schema()
		}
	}
	object := func(properties map[string]any, more map[string]any) map[string]any {
		m := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
		maps.Copy(m, more)
		return m
	}
	var names []string
	for _, k := range Keys {
		if k.To == "" {
			names = append(names, k.Full())
		}
	}
	top := map[string]any{
		lockedKey: map[string]any{"type": "array", "items": map[string]any{"enum": names},
			"description": "Of /etc/nsrun/config.toml: keys that other files and flags can only make stricter."},
		profileTable: map[string]any{"type": "object", "additionalProperties": object(all, map[string]any{"required": []string{"match"}})},
	}
	for table, properties := range byTable {
		top[table] = object(properties, nil)
	}
	text, err := json.MarshalIndent(object(top, map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "title": "nsrun"}), "", "  ")
	if err != nil {
		return nil // it is made of strings
	}
	return append(text, '\n')
}

func (k *Key) schema() map[string]any {
	m := map[string]any{"description": strings.ToUpper(k.Doc[:1]) + k.Doc[1:] + "."}
	item := map[string]any{"type": "string"}
	if k.Words != nil {
		item["enum"] = k.Words
	}
	switch k.Kind {
	case Bool:
		m["type"] = "boolean"
		if k.parse != nil {
			m["enum"] = []bool{true}
		}
	case Ports:
		m["type"], m["items"] = "array", map[string]any{"type": "integer", "minimum": 1, "maximum": 65535}
	case Strings:
		m["type"], m["items"] = "array", item
	case Size:
		m["type"], m["pattern"] = []string{"string", "integer"}, sizePattern
		k.bounds(m)
	case Count:
		m["type"] = "integer"
		k.bounds(m)
	case Number:
		m["type"] = "number"
		k.bounds(m)
	case Duration:
		m["type"], m["pattern"] = "string", durationPattern
		if k.General {
			m["pattern"] = daysPattern
		}
		k.bounds(m)
	default:
		maps.Copy(m, item)
	}
	return m
}

// Patterns of texts, for a JSON schema. What they cannot say, such as the largest size, only the decoder knows.
const (
	sizePattern     = "^([0-9]+B?|([0-9]+[.]?[0-9]*|[.][0-9]+)[KkMGTP](iB?)?)$"
	someDuration    = "[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+"
	durationPattern = "^" + someDuration + "$"
	daysPattern     = "^([0-9]+[dw]|" + someDuration + ")$"
	zeroPattern     = "^[^1-9]*$"
)

// bounds adds to a schema which numbers are allowed.
func (k *Key) bounds(m map[string]any) {
	least, most := limits.Bounds(limits.Name(k.flag()))
	if k.Kind != Duration {
		m["minimum"] = least
	}
	if most > 0 {
		m["maximum"] = most
	}
	switch {
	case k.Name == Keys[swap].Name:
		m["pattern"] = "^" + unlimited + "$|" + sizePattern
	case k.Kind == Size || k.Kind == Duration:
		m["not"] = map[string]any{"type": "string", "pattern": zeroPattern}
	}
}

// Value is the value of a setting for JSON; nil: it is not set.
func (p *Policy) Value(key int) any {
	texts := p.texts(key)
	switch k := &Keys[key]; {
	case k.Kind == Strings && texts == nil:
		return []string{}
	case k.Kind == Strings:
		return texts
	case k.Kind == Ports:
		return append([]uint16{}, p.Publish()...)
	case k.Kind == Bool:
		return texts[0] == "true"
	case len(texts) == 0:
		return nil
	case k.Kind == Count || k.Kind == Number:
		return json.Number(texts[0])
	}
	return texts[0]
}
