package config

import (
	"strconv"
	"strings"
)

// Flags begin a layer for what a command line says.
func Flags() *Layer { return &Layer{Source: Flag} }

// PathKey is the key of the flags --rw, --ro, --protect and --block, without their dashes.
func PathKey(flag string) string {
	return map[string]string{"rw": "rw_paths", "ro": "ro_paths", "protect": "protected_paths", "block": "blocked_paths"}[flag]
}

// Set is a flag that sets a key, whatever files say.
func (l *Layer) Set(key, flag string, texts ...string) { l.put(key, flag, false, texts) }

// Add is a flag that adds to what files say.
func (l *Layer) Add(key, flag string, texts ...string) { l.put(key, flag, true, texts) }

// Sandbox is a flag that sets the mode, whatever files say.
func (l *Layer) Sandbox(flag, name string) {
	l.Set("mode", flag, name)
	l.Set("enabled", flag, strconv.FormatBool(name != "disabled"))
}

// Env is a flag that sets a variable, "NAME=VALUE", or passes one on.
func (l *Layer) Env(flag, text string) {
	key := "env_passthrough"
	if strings.Contains(text, "=") {
		key = "env"
	}
	l.Add(key, flag, text)
}

func (l *Layer) put(key, flag string, adds bool, texts []string) {
	i := keyNumber("", key)
	if l.Values[i] == nil {
		l.Values[i] = &Value{Pos: Pos{File: flag}, Items: []Item{}, Adds: adds}
	}
	for _, text := range texts {
		l.Values[i].Items = append(l.Values[i].Items, Item{Text: text, Pos: Pos{File: flag}, Source: Flag})
	}
}
