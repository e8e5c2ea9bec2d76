package config

import (
	"slices"
	"strings"
	"time"
)

// What a file says that a command in a sandbox can have written must not let commands do more: each change of a
// setting is checked by the functions here, by the texts alone.

// narrows reports whether no command can do more after a change of a setting.
func narrows(i int, before, after []Item) bool {
	if check := Keys[i].stricter; check != nil {
		return same(before, after) || check(before, after)
	}
	return within(after, before)
}

// within reports whether all texts of a list are in another one.
func within(list, of []Item) bool {
	for _, item := range list {
		if !slices.ContainsFunc(of, func(other Item) bool { return other.Text == item.Text }) {
			return false
		}
	}
	return true
}

func same(before, after []Item) bool { return within(before, after) && within(after, before) }

// one is the text of a setting that is not a list.
func one(items []Item) string {
	if len(items) == 0 {
		return ""
	}
	return items[0].Text
}

var sandboxModes = []string{"required", "preferred", "disabled"} // in the order in which they let commands do more

var backends = []string{"native", "auto", "landlock"} // as sandboxModes: landlock holds less

func stricterBackend(before, after []Item) bool {
	return slices.Index(backends, one(after)) <= slices.Index(backends, one(before))
}

func stricterMode(before, after []Item) bool {
	return slices.Index(sandboxModes, one(after)) <= slices.Index(sandboxModes, one(before))
}

// hides: exceptions show what other rules hide.
func hides(before, after []Item) bool {
	return within(before, after) && !slices.ContainsFunc(after, func(item Item) bool {
		return strings.HasPrefix(item.Text, "!") && !within([]Item{item}, before)
	})
}

func onlyFalse(before, after []Item) bool { return one(after) != "true" || one(before) == "true" }

func onlyNone(_, after []Item) bool { return one(after) == "none" }

func onlyTrue(_, after []Item) bool { return one(after) == "true" }

// stricterPresets: strict and workspace-root show commands less, but the latter another root; with test it is thrown away what they write, which is not for a project
// to say. All others let commands do more.
func stricterPresets(before, after []Item) bool {
	for _, item := range after {
		if item.Text != "default" && item.Text != "strict" && !within([]Item{item}, before) {
			return false
		}
	}
	for _, item := range before {
		if (item.Text == "strict" || item.Text == "test" || item.Text == "workspace-root") && !within([]Item{item}, after) {
			return false
		}
	}
	return true
}

func shorter(before, after []Item) bool {
	if len(after) == 0 {
		return false
	}
	if len(before) == 0 {
		return true
	}
	a, err := time.ParseDuration(one(after))
	b, berr := time.ParseDuration(one(before))
	return err == nil && berr == nil && a <= b
}
