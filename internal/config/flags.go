package config

import (
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/pathrule"
)

// Flags returns a layer for a command line.
func Flags() *Layer { return &Layer{Source: Flag} }

// Set sets a key to what a flag says, whatever files say.
func (l *Layer) Set(key, flag string, texts ...string) { l.put(key, flag, false, texts) }

// Add adds what a flag says to what files say.
func (l *Layer) Add(key, flag string, texts ...string) { l.put(key, flag, true, texts) }

// SetIf sets a key to what the flag of the same name says, if that was given.
func (l *Layer) SetIf(given bool, key, text string) {
	if given {
		l.Set(key, "--"+Keys[keyNumber("", key)].flag(), text)
	}
}

// AddTexts adds what a flag that may be given several times says.
func AddTexts[T any](l *Layer, key, flag string, values []T, text func(T) string) {
	for _, v := range values {
		l.Add(key, flag, text(v))
	}
}

// Paths adds --rw, --ro, --protect and --block.
func (l *Layer) Paths(rules []Rule) {
	keys := map[string]string{"rw": "rw_paths", "ro": "ro_paths", "protect": "protected_paths", "block": "blocked_paths"}
	for _, r := range rules {
		l.Add(keys[r.Kind], "--"+r.Kind, r.Pattern)
	}
}

// Protect adds the path of a project's file itself to what is protected: without it, the next commands would have fewer
// restrictions.
func (l *Layer) Protect(file, path string) {
	i := keyNumber("", "protected_paths")
	if l.Values[i] == nil {
		l.Values[i] = &Value{Pos: Pos{File: file}, Items: []Item{}, Adds: true}
	}
	l.Values[i].Items = append(l.Values[i].Items, Item{Text: pathrule.Quote(path), Pos: Pos{File: file}, Source: Project})
}

// Sandbox sets the mode to what a flag says.
func (l *Layer) Sandbox(flag, name string) {
	l.Set("mode", flag, name)
	l.Set("enabled", flag, strconv.FormatBool(name != "disabled"))
}

// Env sets variables, "NAME=VALUE", or passes them on.
func (l *Layer) Env(flag string, texts []string) {
	for _, text := range texts {
		key := "env_passthrough"
		if strings.Contains(text, "=") {
			key = "env"
		}
		l.Add(key, flag, text)
	}
}

func (l *Layer) put(key, flag string, adds bool, texts []string) {
	i := keyNumber("", key)
	if adds && len(texts) == 0 {
		return
	}
	if l.Values[i] == nil {
		l.Values[i] = &Value{Pos: Pos{File: flag}, Items: []Item{}, Adds: adds}
	}
	for _, text := range texts {
		l.Values[i].Items = append(l.Values[i].Items, Item{Text: text, Pos: Pos{File: flag}, Source: Flag})
	}
}
