package overlay

import (
	"fmt"
)

// State is the state of a session. The zero State is Kept.
type State uint8

// The states of a session.
const (
	Kept      State = iota // its changes are there
	Committed              // all of its changes are in the project
	Discarded              // its changes were thrown away
)

var stateNames = [...]string{Kept: "kept", Committed: "committed", Discarded: "discarded"}

// String returns "kept", "committed" or "discarded".
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// MarshalText returns what String does, so that JSON holds the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("no such state: %q", text)
}
