package config

import (
	"slices"
	"strconv"
	"strings"
)

// A Source is the origin of a value. Later ones win.
type Source uint8

const (
	Default Source = iota // nobody
	System                // the file in /etc
	User                  // the user's file
	Project               // the project's file
	Flag                  // the command line
)

var sourceNames = [...]string{"default", "system", "user", "project", "flag"}

// String returns "default", "system", "user", "project" or "flag".
func (s Source) String() string { return sourceNames[s] }

// A Pos is a position in a file. The zero Pos is none.
type Pos struct {
	File         string // a path, or a flag as it is typed
	Line, Column int    // counted from 1; columns are bytes; zero: File is all there is to say
}

// String is "file:line:column", or a flag.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
}

// An Item is a normalized text of a value: an element of a list, or all of it.
type Item struct {
	Text    string
	Pos     Pos
	Source  Source
	Profile string // in which it stands; empty: in none
}

type Value struct {
	Items []Item
	Pos   Pos
	Adds  bool // to what lower layers say, whatever the key does otherwise
}

// A Profile has settings for matching commands.
type Profile struct {
	Name   string
	Pos    Pos
	Match  [][]string // words that a command begins with; one of them is enough
	Values [numKeys]*Value
}

type Layer struct {
	Source   Source
	Values   [numKeys]*Value
	Profiles []*Profile
	Locked   map[int]Pos // numbers of keys that other layers can only make stricter
	Strict   bool        // all it says can only make things stricter
	NoRules  bool        // whatever lower layers say, there is no network by rules
}

// Leave removes the values that stand at some places, file:line:column.
func (l *Layer) Leave(places map[string]bool) {
	if len(places) == 0 {
		return
	}
	leave(&l.Values, places)
	for _, profile := range l.Profiles {
		leave(&profile.Values, places)
	}
}

func leave(values *[numKeys]*Value, places map[string]bool) {
	for i, v := range values {
		if v == nil {
			continue
		}
		n := len(v.Items)
		v.Items = slices.DeleteFunc(v.Items, func(item Item) bool { return places[item.Pos.String()] })
		if places[v.Pos.String()] || n > 0 && len(v.Items) == 0 {
			values[i] = nil
		}
	}
}

// An Error is a mistake at one position.
type Error struct {
	Pos  Pos
	Text string
	Hint string // what to do about it; may be empty
}

func (e *Error) Error() string {
	text := e.Pos.String() + ": " + e.Text
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return strings.ReplaceAll(text, "\n", " ")
}
