// Package change has the kinds of changes that sessions (package overlay) and the registry of runs (package project)
// report. It imports only the standard library, and knows nothing of files.
package change

import (
	"fmt"
	"slices"
	"strconv"
)

// A Kind says how an object differs from the project's. The zero Kind is invalid.
type Kind uint8

// The kinds of change.
const (
	Added       Kind = iota + 1 // nothing is there in the project
	Modified                    // other content, mode, owner or attributes
	Deleted                     // the project has it, the session does not
	TypeChanged                 // a file became a directory, a link a file, and so on
)

var names = []string{"", Added: "added", Modified: "modified", Deleted: "deleted", TypeChanged: "type"}

// Valid reports whether k is one of the kinds above.
func (k Kind) Valid() bool { return k > 0 && int(k) < len(names) }

// String returns "added", "modified", "deleted" or "type", and "kind(N)" for an invalid kind.
func (k Kind) String() string {
	if !k.Valid() {
		return "kind(" + strconv.Itoa(int(k)) + ")"
	}
	return names[k]
}

// Letter returns 'A', 'M', 'D' or 'T', as git does, and '?' for an invalid kind.
func (k Kind) Letter() byte {
	if !k.Valid() {
		return '?'
	}
	return "?AMDT"[k]
}

// MarshalText returns what String does, so that JSON has the name. For the zero Kind it is empty.
func (k Kind) MarshalText() ([]byte, error) {
	if k == 0 {
		return nil, nil
	}
	return []byte(k.String()), nil
}

// UnmarshalText reads the name of a kind, or nothing, which is the zero Kind.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("no such kind of change: %q", text)
	}
	*k = Kind(i)
	return nil
}
