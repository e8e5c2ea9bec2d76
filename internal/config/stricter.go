package config

import (
	"slices"
	"strings"
	"time"
)

// A file that a command can have written must not let commands do more. These functions check each change of a setting
// by its text.

// narrows reports whether a change of a setting lets commands do no more.
func narrows(i int, before, after []Item) bool {
	if check := Keys[i].stricter; check != nil {
		return same(before, after) || check(before, after)
	}
	return within(after, before)
}

func within(list, of []Item) bool {
	for _, item := range list {
		if !slices.ContainsFunc(of, func(other Item) bool { return other.Text == item.Text }) {
			return false
		}
	}
	return true
}

// same is for settings whose removal would let commands do more, too. A read-only path is not written to. A value in
// env takes the place of the caller's own. A credential hides the secret. Ids of their own keep root's commands from
// root's files. Where a machine has only the other backend, a user who prefers a sandbox has none.
// In lists with an order, another order is another value.
func same(before, after []Item) bool {
	return slices.EqualFunc(before, after, func(a, b Item) bool { return a.Text == b.Text })
}

func one(items []Item) string {
	if len(items) == 0 {
		return ""
	}
	return items[0].Text
}

var sandboxModes = []string{"required", "preferred", "disabled"} // in the order in which they let commands do more

var backends = []string{"native", "auto", "landlock"}

func stricterMode(before, after []Item) bool {
	return slices.Index(sandboxModes, one(after)) <= slices.Index(sandboxModes, one(before))
}

// hides: exceptions show what rules before them hide.
func hides(before, after []Item) bool {
	for i, item := range after {
		if !exception(item) {
			continue
		}
		at := slices.IndexFunc(before, func(other Item) bool { return other.Text == item.Text })
		if at < 0 || !within(slices.DeleteFunc(slices.Clone(after[:i]), exception), before[:at]) {
			return false
		}
	}
	return within(before, after)
}

func exception(item Item) bool { return strings.HasPrefix(item.Text, "!") }

func onlyFalse(before, after []Item) bool { return one(after) != "true" || one(before) == "true" }

func onlyNone(_, after []Item) bool { return one(after) == "none" }

func onlyTrue(_, after []Item) bool { return one(after) == "true" }

// stricterPresets: strict shows commands less. workspace-root would change the root, and test would discard changes,
// which a project must not decide; all others let commands do more.
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
