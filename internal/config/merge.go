package config

import (
	"maps"
	"slices"
	"strings"
)

type Setting struct {
	Items []Item // of a value that is not a list there is one, or none where nobody set it and there is no default
	Empty Item   // what set a list to none, if there are no Items; its Source is Default if nothing did
}

// A Policy has the resulting settings, by index in Keys; those of keys that add to others are empty.
type Policy struct {
	Settings [numKeys]Setting
	Profiles []string // that match the command, in order
	Left     []*Error // what was left out because its file is not trusted
	locked   map[int]Pos
}

// Merge merges layers for a command, lower ones first. Matching profiles come after all other values of files, in the
// same order; then what can only make the policy stricter; then flags, which may be nil.
func Merge(layers []*Layer, flags *Layer, f *Facts) (*Policy, error) {
	p := &Policy{}
	for i := range Keys {
		if k := &Keys[i]; k.To == "" && (k.Kind == Bool || k.Kind == Word || k.Kind == Duration || k.Kind == Size) && k.Default != "" {
			p.Settings[i].Items = []Item{{Text: strings.Trim(k.Default, `"`)}}
		}
	}
	p.locked = map[int]Pos{}
	for _, l := range layers {
		maps.Copy(p.locked, l.Locked)
	}
	for _, strict := range [...]bool{false, true} {
		for _, l := range layers {
			if l.Strict == strict {
				if err := p.apply(l, &l.Values, ""); err != nil {
					return nil, err
				}
			}
		}
		for _, l := range layers {
			for _, profile := range l.Profiles {
				if l.Strict != strict || !profile.matches(f.Command) {
					continue
				}
				if !slices.Contains(p.Profiles, profile.Name) {
					p.Profiles = append(p.Profiles, profile.Name)
				}
				if err := p.apply(l, &profile.Values, profile.Name); err != nil {
					return nil, err
				}
			}
		}
	}
	if flags != nil {
		if flags.NoRules {
			p.dropRules()
		}
		if err := p.apply(flags, &flags.Values, ""); err != nil {
			return nil, err
		}
	}
	return p, p.check()
}

func (p *Policy) apply(l *Layer, values *[numKeys]*Value, profile string) error {
	for i, v := range values {
		if v == nil {
			continue
		}
		to := target(i)
		before := p.Settings[to].Items
		after := v.Items
		if Keys[i].Adds || v.Adds {
			after = added(to, before, v.Items)
		}
		lock, isLocked := p.locked[to]
		switch {
		case l.Strict && !narrows(to, before, after):
			p.Left = append(p.Left, &Error{Pos: v.Pos, Text: Keys[i].Name + " would let commands do more, and is left out"})
			continue
		case isLocked && l.Source != System && !narrows(to, before, after):
			return lockedError(v.Pos, i, lock)
		}
		for _, other := range opens(to, before, after) {
			if lock, ok := p.locked[other]; ok && l.Source != System {
				return lockedError(v.Pos, other, lock)
			}
		}
		p.Settings[to] = Setting{Items: after}
		if len(after) == 0 {
			p.Settings[to].Empty = Item{Pos: v.Pos, Source: l.Source, Profile: profile}
		}
	}
	return nil
}

// added is a list with more items, each of which it has once. Of blocked_paths the last one that means a path decides,
// so an item that files repeat moves to the end. Flags have an order of their own, after all files.
func added(key int, before, more []Item) []Item {
	after := slices.Clone(before)
	known := make(map[string]bool, len(before)+len(more))
	for _, item := range before {
		known[item.Text] = true
	}
	for _, item := range more {
		if known[item.Text] {
			if key != blockedPaths || item.Source == Flag {
				continue
			}
			after = slices.DeleteFunc(after, func(other Item) bool { return other.Text == item.Text })
		}
		known[item.Text] = true
		after = append(after, item)
	}
	return after
}

func lockedError(pos Pos, key int, lock Pos) error {
	return &Error{Pos: pos, Text: Keys[key].Name + " is locked by " + lock.String() + ", and can only be made stricter"}
}

// opens are the keys whose locks would be of no use if a change of another key were allowed, because it lets commands
// do the same.
func opens(key int, before, after []Item) (keys []int) {
	switch {
	case key == presets:
		for _, item := range after {
			if !within([]Item{item}, before) {
				keys = append(keys, opensPreset(item)...)
			}
		}
	case key == credentials && !within(after, before): // requests to a host
		return []int{allowNet}
	case narrows(key, before, after):
	case key == isolateNetwork:
		return []int{allowNet}
	case key == caches: // the preset build makes them writable
		return []int{rwPaths}
	case key == enabled:
		return []int{mode}
	case key == mode && one(after) == "disabled":
		return []int{enabled}
	case key == blockExisting:
		return []int{blockedPaths}
	}
	return keys
}

func opensPreset(preset Item) []int {
	switch {
	case isNetwork(preset):
		return []int{allowNet}
	case preset.Text == "browser":
		return []int{allowUserns}
	case preset.Text == "build", preset.Text == "git":
		return []int{rwPaths}
	}
	return nil
}

func (p *Profile) matches(command []string) bool {
	return slices.ContainsFunc(p.Match, func(words []string) bool {
		return len(words) <= len(command) && slices.Equal(words, command[:len(words)])
	})
}

func (p *Policy) networks() (list []Item) {
	for _, item := range p.Settings[presets].Items {
		if isNetwork(item) {
			list = append(list, item)
		}
	}
	return list
}

func isNetwork(preset Item) bool {
	return slices.Contains(Keys[presets].Words[notNetworks:], preset.Text)
}

func (p *Policy) dropRules() {
	p.Settings[allowNet].Items, p.Settings[publish].Items = nil, nil
	networks := p.networks()
	p.Settings[presets].Items = slices.DeleteFunc(slices.Clone(p.Settings[presets].Items), func(item Item) bool { return within([]Item{item}, networks) })
}

// check refuses contradictions.
func (p *Policy) check() error {
	if on, m := p.Settings[enabled].Items[0], p.Settings[mode].Items[0]; on.Text == "true" && on.Source != Default && m.Text == "disabled" {
		return &Error{Pos: m.Pos, Text: `mode = "disabled" and enabled = true contradict each other: ` + on.Pos.String()}
	}
	net := p.Settings[isolateNetwork].Items[0]
	if net.Text == "true" {
		return nil
	}
	for _, items := range [...][]Item{p.Settings[allowNet].Items, p.Settings[publish].Items, p.networks()} {
		if len(items) > 0 {
			return &Error{Pos: net.Pos, Text: "isolate_network = false drops all network rules, but there are some: " + items[0].Pos.String()}
		}
	}
	return nil
}
