package mcpargs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
)

// Input are the arguments of a call of the tool: what a model asks for.
type Input struct {
	Command    string
	WorkingDir string
	Network    bool
}

// DecodeInput reads the arguments of a call. Names are taken as they are, and there are no
// others: what is ignored was meant for something. null is the same as nothing.
func DecodeInput(raw []byte) (in Input, err error) {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return in, errors.New("the arguments are not an object")
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		var to any
		kind := "string"
		switch name {
		case "command":
			to = &in.Command
		case "working_dir":
			to = &in.WorkingDir
		case "network":
			to, kind = &in.Network, "boolean"
		default:
			return Input{}, fmt.Errorf("there is no parameter %s: only command, working_dir and network", escape.Quote(Cut(name)))
		}
		if json.Unmarshal(args[name], to) != nil {
			return Input{}, fmt.Errorf("parameter %s must be a %s", name, kind)
		}
	}
	for _, p := range [...]struct{ name, value string }{{"command", in.Command}, {"working_dir", in.WorkingDir}} {
		switch {
		case strings.ContainsRune(p.value, 0):
			return Input{}, fmt.Errorf("parameter %s has the character NUL in it, which no system call takes", p.name)
		case len(p.value) > MaxArg:
			return Input{}, fmt.Errorf("parameter %s has %d bytes, the kernel takes at most %d (write longer text to a file, in parts)", p.name, len(p.value), MaxArg)
		}
	}
	return in, nil
}

// MaxArg is how long an argument of a program can be (MAX_ARG_STRLEN), the NUL at its end not counted: execve(2).
const MaxArg = 128<<10 - 1

// Cut is the beginning of a text that could be of any length.
func Cut(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
