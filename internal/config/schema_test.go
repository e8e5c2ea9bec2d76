package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A part is what a schema says of one value: as much of JSON Schema as Schema uses.
type part struct {
	Type             any
	Enum             []any
	Pattern          string
	Minimum, Maximum *float64
	Not              *part
	Items            *part
	Properties       map[string]*part
}

// allows reports whether a value, as encoding/json decodes it, is valid.
func (p *part) allows(v any) bool {
	kind := ""
	switch v := v.(type) {
	case string:
		kind = "string"
		if p.Pattern != "" && !regexp.MustCompile(p.Pattern).MatchString(v) {
			return false
		}
	case float64:
		if kind = "number"; v == float64(int64(v)) {
			kind = "integer"
		}
		if p.Minimum != nil && v < *p.Minimum || p.Maximum != nil && v > *p.Maximum {
			return false
		}
	case bool:
		kind = "boolean"
	case []any:
		kind = "array"
		if p.Items != nil && slices.ContainsFunc(v, func(item any) bool { return !p.Items.allows(item) }) {
			return false
		}
	}
	list, several := p.Type.([]any)
	if !several {
		list = []any{p.Type}
	}
	if !slices.Contains(list, any(kind)) && (kind != "integer" || !slices.Contains(list, any("number"))) {
		return false
	}
	return (p.Enum == nil || slices.Contains(p.Enum, v)) && (p.Not == nil || !p.Not.allows(v))
}

// TestSchemaAgrees: for each key the schema allows what the decoder takes, and no other values, except texts in lists,
// and sizes that are too small or large for the limit.
func TestSchemaAgrees(t *testing.T) {
	var top part
	if err := json.Unmarshal(Schema(), &top); err != nil {
		t.Fatal(err)
	}
	values := []string{"true", "false", "0", "1", "-1", "3", "4", "19", "20", "80", "65535", "65536", "1048575", "1048576", "4194302", "4194303", "0.5", "0.001", "70000.5", "1000.25", "[]", "[1]", "[0]", "[65536]", `["x"]`, "[true]"}
	texts := []string{"", "x", "max", "0", "00", "5", "5B", "0B", "2M", "2m", "2k", "2kB", "2KiB", "2Mi", "2MB", "2Q", "1.5G", ".5G", "5.G", ".G", "1.5", "1..5G", "0K", "0.0G", " 2M", "2M ", "2 M", "-2M", "+2M", "2Mx",
		"10s", "1h30m", "1.5h", ".5s", "5.s", ".s", "0s", "0h0m", "00.0s", "-1s", "+1s", "1", "1d", "2w", "0d", "1.5d", "-1d", "1d12h", "1 s", "10S", "3µs", "3us", "7ns", "s",
		"layer", "none", "auto", "required", "kernel", "broker", "landlock", "disabled"}
	for _, text := range texts {
		values = append(values, strconv.Quote(text))
	}
	n := 0
	for _, k := range Keys {
		s := top.Properties[k.Table].Properties[k.Name]
		if s == nil {
			t.Errorf("%s is not in the schema", k.Full())
			continue
		}
		for _, value := range values {
			var v any
			if err := json.Unmarshal([]byte(value), &v); err != nil {
				t.Fatal(value, err)
			}
			file := fmt.Sprintf("[%s]\n%s = %s\n", k.Table, k.Name, value)
			_, errs := Decode("user", User, []byte(file), &Facts{Home: "/home/me", Project: "/home/me/p"})
			takes, allows := len(errs) == 0, s.allows(v)
			inList := k.Kind == Strings && k.Words == nil
			if n++; takes != allows && !(allows && inList) && !(allows && k.Kind == Size && strings.Contains(errs[0].Error(), "with which no command can start")) {
				t.Errorf("%s = %s: decoder %v, schema %t", k.Full(), value, errs, allows)
			}
		}
	}
	t.Logf("%d values of %d keys", n, len(Keys))
}
