package manual

import (
	"strings"

	"github.com/nsrun/nsrun/internal/bwrap"
)

// The kinds of words that completions know how to go on with. Choices are one more:
// "choice:" and the choices with commas between them.
const (
	kindNone    = "none" // nobody can guess it
	kindPath    = "path"
	kindDir     = "dir"
	kindCap     = "cap"
	kindNetns   = "netns"
	kindSession = "session"
	kindVar     = "var"
	kindVerb    = "verb"
	kindCommand = "command" // and what follows is the command's
)

// kindOf tells by its name what a word of an option, of a flag or of a verb can be;
// known is false if the name is new here. Alternatives have a | between them.
func kindOf(name string) (kind string, known bool) {
	name = strings.TrimSuffix(name, "…")
	if strings.HasPrefix(name, "VERB|") { // the verbs are completed, and other words typed
		name = "VERB"
	}
	if strings.Contains(name, "|") {
		return "choice:" + strings.ReplaceAll(name, "|", ","), true
	}
	switch name {
	case "SRC", "DEST", "TARGET", "FILE", "PATH", "WHAT", "path", "file":
		return kindPath, true
	case "DIR", "RWSRC", "WORKDIR", "directory":
		return kindDir, true
	case "CAP":
		return kindCap, true
	case "NETNS":
		return kindNetns, true
	case "SESSION":
		return kindSession, true
	case "VAR", "K=V":
		return kindVar, true
	case "VERB":
		return kindVerb, true
	case "COMMAND":
		return kindCommand, true
	case "FD", "UID", "GID", "N", "HOST=SECRET", "INSIDE:OUTSIDE:COUNT", "NAME", "VALUE", "OCTAL", "BYTES", "LABEL", "ARG", "SIZE", "RULE", "port", "string", "duration", "EXECUTION", "NUMBER", "YY-MM-DD":
		return kindNone, true
	}
	return kindNone, false
}

// kinds are the kinds of several words.
func kinds(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i], _ = kindOf(n)
	}
	return list
}

// Unknown lists the words of both tables that kindOf does not know.
func Unknown(verbs []Verb) (list []string) {
	check := func(word, of string) {
		if _, known := kindOf(word); !known {
			list = append(list, word+" of "+of)
		}
	}
	for _, o := range bwrap.Options(true) {
		for w := range strings.FieldsSeq(o.Args) {
			check(w, o.Name)
		}
	}
	for i := range verbs {
		v := &verbs[i]
		for _, w := range v.operands() {
			check(w, v.Name)
		}
		for j := range v.Flags {
			if f := &v.Flags[j]; f.Arg != "" {
				check(f.Arg, f.Typed())
			}
		}
	}
	return list
}
