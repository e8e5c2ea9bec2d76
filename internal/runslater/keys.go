package runslater

import (
	"encoding/json"
	"slices"
	"strings"
)

// Some files of JSON have a few keys with commands among many that only say what a project is, and names of packages
// that are the same as those of the keys. So it is the place of a key that counts.

// mostDecoded limits how many bytes one Classifier decodes as JSON. A large repository has thousands of such files.
const mostDecoded = 64 << 20

// newKeys reports whether a file of JSON has one of some keys with a value that the old file does not have there. In a
// file that Go cannot decode, it is enough that the name is there: other programs accept deeper values.
func (c *Classifier) newKeys(p string, keys []string) bool {
	if c.decoded > mostDecoded {
		return true
	}
	now, ok := c.New.Read(p)
	c.decoded += len(now)
	if !ok {
		return true
	}
	if !mayHave(now, keys) {
		return false
	}
	has := members(now)
	if has == nil {
		return true
	}
	old, _ := c.Old.Read(p)
	had := members(old)
	return slices.ContainsFunc(keys, func(key string) bool {
		value := valueAt(has, key)
		return value != "" && value != valueAt(had, key)
	})
}

// mayHave reports whether a text may have one of the keys: names can also be written with escapes.
func mayHave(text string, keys []string) bool {
	return strings.Contains(text, `\u`) || slices.ContainsFunc(keys, func(key string) bool {
		key, _, _ = strings.Cut(key, "=")
		return strings.Contains(text, `"`+key[strings.LastIndexByte(key, '.')+1:]+`"`)
	})
}

// members returns what an object has. Of members with the same name it has the last one, like JavaScript.
func members(text string) (all map[string]json.RawMessage) {
	_ = json.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &all)
	return all
}

// valueAt returns the value at a key in one form. Empty: there is none.
func valueAt(all map[string]json.RawMessage, key string) string {
	key, part, _ := strings.Cut(key, "=")
	key, rest, below := strings.Cut(key, ".")
	value := all[key]
	if below {
		return valueAt(members(string(value)), rest)
	}
	var decoded any
	if json.Unmarshal(value, &decoded) != nil || decoded == nil {
		return ""
	}
	text, _ := json.Marshal(decoded)
	if !strings.Contains(string(text), part) {
		return ""
	}
	return string(text)
}
