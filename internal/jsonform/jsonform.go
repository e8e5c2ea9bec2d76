// Package jsonform has the types of the JSON output that nsrun and nsrun-mcp share. docs/json.md describes the form. It
// imports package overlay, whose changes it converts, and prints nothing itself.
package jsonform

import (
	"cmp"
	"os"
	"strconv"

	"github.com/nsrun/nsrun/overlay"
)

// Change is one change. Keys without a value are left out from aspects on.
type Change struct {
	Kind    overlay.Kind `json:"kind"`
	Root    string       `json:"root"`
	Path    string       `json:"path"`
	Mode    string       `json:"mode"` // octal, as stat(1) has it
	Size    int64        `json:"size"`
	Aspects []string     `json:"aspects,omitempty"` // of what was modified: content, mode, owner, attributes
	Below   int          `json:"below,omitempty"`   // how many objects were deleted with this directory
	Special string       `json:"special,omitempty"` // why it is not committed with the others
	Runs    string       `json:"runs,omitempty"`    // why it would run later
}

// Changes are changes; nil makes an empty list.
func Changes(changes []overlay.Change) []Change {
	list := make([]Change, len(changes))
	for i, c := range changes {
		list[i] = Change{c.Kind, c.Root, c.Path, Octal(c.Mode), c.Size, Aspects(c), c.Below, c.Special, c.Runs}
	}
	return list
}

// Held is a change that was not committed with the others, because it would run later or is special.
type Held struct {
	Root   string `json:"root"`
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// HeldBack are such changes; nil makes an empty list.
func HeldBack(changes []overlay.Change) []Held {
	list := make([]Held, len(changes))
	for i, c := range changes {
		list[i] = Held{c.Root, c.Path, cmp.Or(c.Runs, c.Special)}
	}
	return list
}

// Octal is a mode as chmod(1) takes it.
func Octal(m os.FileMode) string {
	bits := uint64(m.Perm())
	for _, b := range [...]struct {
		mode os.FileMode
		bit  uint64
	}{{os.ModeSetuid, 0o4000}, {os.ModeSetgid, 0o2000}, {os.ModeSticky, 0o1000}} {
		if m&b.mode != 0 {
			bits |= b.bit
		}
	}
	return "0" + strconv.FormatUint(bits, 8)
}

// Aspects are the names of what was modified.
func Aspects(c overlay.Change) (list []string) {
	for _, a := range [...]struct {
		is   overlay.Aspect
		name string
	}{{overlay.Content, "content"}, {overlay.Mode, "mode"}, {overlay.Owner, "owner"}, {overlay.Attributes, "attributes"}} {
		if c.Aspects&a.is != 0 {
			list = append(list, a.name)
		}
	}
	return list
}
