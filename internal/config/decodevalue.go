package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/nsrun/nsrun/internal/near"
)

func (d *decoder) errorf(pos Pos, hint, format string, args ...any) {
	d.fail(pos, hint, fmt.Sprintf(format, args...))
}

func kindName(k unstable.Kind) string {
	switch k {
	case unstable.Array:
		return "an array"
	case unstable.InlineTable:
		return "a table"
	case unstable.String:
		return "a string"
	case unstable.Bool:
		return "a boolean"
	case unstable.Float:
		return "a float"
	case unstable.Integer:
		return "an integer"
	}
	return "a date or a time"
}

func (d *decoder) wrongType(pos Pos, name, want string, got unstable.Kind) {
	d.errorf(pos, "", "%s must be %s, not %s", name, want, kindName(got))
}

func (d *decoder) wrongItem(pos Pos, name, want string, got unstable.Kind) {
	d.errorf(pos, "", "%s must be %s, but contains %s", name, want, kindName(got))
}

func (d *decoder) value(values *[numKeys]*Value, i int, pos Pos, v *unstable.Node) {
	k := &Keys[i]
	if values[i] != nil {
		d.errorf(pos, "", "%s is set twice", k.Name)
		return
	}
	value := &Value{Pos: pos, Items: []Item{}}
	values[i] = value
	var given, valid []Item
	switch k.Kind {
	case Strings:
		given = d.strings(pos, k.Name, v)
	case Ports:
		given = d.integers(pos, k.Name, v)
	default:
		if !k.Kind.takes(v.Kind) {
			d.wrongType(d.at(v, pos), k.Name, wants[k.Kind], v.Kind)
			return
		}
		given = []Item{{Text: d.text(v), Pos: d.at(v, pos), Source: d.layer.Source}}
	}
	for _, item := range given {
		text, hint, err := canonical(i, item.Text, d.facts)
		if err != nil {
			shown := k.Name
			if k.Kind != Bool {
				shown += " " + strconv.Quote(item.Text)
			}
			d.errorf(item.Pos, hint, "%s: %s", shown, err)
			continue
		}
		item.Text = text
		valid = append(valid, item)
	}
	value.Items = added(i, value.Items, valid)
}

// takes reports whether a scalar value of a kind may have this type.
func (k Kind) takes(of unstable.Kind) bool {
	switch k {
	case Bool:
		return of == unstable.Bool
	case Size:
		return of == unstable.String || of == unstable.Integer
	case Count:
		return of == unstable.Integer
	case Number:
		return of == unstable.Integer || of == unstable.Float
	}
	return of == unstable.String
}

// text is a scalar value; an integer is decimal.
func (d *decoder) text(v *unstable.Node) string {
	text := string(v.Data)
	if v.Kind == unstable.Integer || v.Kind == unstable.Float {
		text = strings.ReplaceAll(text, "_", "")
	}
	if v.Kind == unstable.Integer {
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			text = strconv.FormatInt(n, 10)
		}
	}
	return text
}

// canonical checks a text and normalizes it, so that equal values have equal texts.
func canonical(key int, text string, f *Facts) (_, hint string, err error) {
	k := &Keys[key]
	if k.Words != nil && !slices.Contains(k.Words, text) {
		if meant := near.Nearest(text, k.Words); meant != "" {
			hint = `did you mean "` + meant + `"?`
		}
		return "", hint, fmt.Errorf("the values are %s", list(k.Words))
	}
	switch {
	case k.parse != nil:
		text, err = k.parse(text, f)
	case k.Kind == Size || k.Kind == Count || k.Kind == Number:
		text, err = parseLimit(key, text)
	}
	return text, "", err
}

func list(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func (d *decoder) integers(pos Pos, name string, v *unstable.Node) (list []Item) {
	if v.Kind != unstable.Array {
		d.wrongType(d.at(v, pos), name, wants[Ports], v.Kind)
		return nil
	}
	for it := v.Children(); it.Next(); {
		n := it.Node()
		if n.Kind != unstable.Integer {
			d.wrongItem(d.at(n, pos), name, wants[Ports], n.Kind)
			continue
		}
		list = append(list, Item{Text: d.text(n), Pos: d.at(n, pos), Source: d.layer.Source})
	}
	return list
}
