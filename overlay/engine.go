package overlay

import (
	"fmt"
	"strconv"
)

// An Engine is a way to keep writes apart from the project. The zero Engine means that one is chosen.
type Engine uint8

// The engines, in the order of preference.
const (
	EngineOverlay Engine = iota + 1 // an overlay with its upper directory in the session's
	EngineTmpfs                     // an overlay with its upper directory on a tmpfs, stored when the command has ended
	EngineCopy                      // a copy of the project, compared when the command has ended
)

var engineNames = [...]string{EngineOverlay: "overlay", EngineTmpfs: "tmpfs", EngineCopy: "copy"}

// String returns "overlay", "tmpfs" or "copy".
func (e Engine) String() string {
	if e == 0 || int(e) >= len(engineNames) {
		return "engine(" + strconv.Itoa(int(e)) + ")"
	}
	return engineNames[e]
}

// MarshalText returns what String does, so that JSON holds the name; of zero it is empty.
func (e Engine) MarshalText() ([]byte, error) {
	if e == 0 {
		return nil, nil
	}
	return []byte(e.String()), nil
}

// UnmarshalText reads the name of an engine, or nothing.
func (e *Engine) UnmarshalText(text []byte) error {
	for i, name := range engineNames {
		if name == string(text) {
			*e = Engine(i)
			return nil
		}
	}
	return fmt.Errorf("no such engine: %q", text)
}
