package runslater

import (
	"path"
	"slices"
	"strings"
)

// Most hooks execute a program of the project: "sh scripts/check". Whoever can change that needs no hook.

const reasonNamed = "a git hook names it"

// interpreters execute the file that the next word names, even if that has no slash.
var interpreters = []string{".", "source", "exec", "sh", "bash", "dash", "zsh", "node", "python", "python3", "ruby", "perl", "php", "lua", "deno", "bun", "tsx"}

// Limits of what is read of a hook.
const (
	mostScript = 64 << 10 // bytes
	mostWords  = 1000     // that may be files
)

// leadScript watches the files that exist and that a hook names. They are relative to the top of the work tree, or to
// the hook's directory, and may follow a variable: "$root/scripts/check".
func (c *Classifier) leadScript(at, top string) {
	text, ok := c.Old.Read(at)
	if !ok || len(text) > mostScript {
		return
	}
	left := mostWords
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		before := ""
		for _, word := range strings.FieldsFunc(line, endsWord) {
			if strings.Contains(word, "/") || slices.Contains(interpreters, path.Base(before)) {
				if left--; left < 0 {
					return
				}
				c.leadNamed(word, top, path.Dir(at))
			}
			before = word
		}
	}
}

func endsWord(r rune) bool { return strings.ContainsRune(" \t\r\n!;|&()'\"$`<>{}[],=", r) }

func (c *Classifier) leadNamed(word, top, dir string) {
	_, rest, _ := strings.Cut(word, "/")
	for _, name := range [...]string{word, rest} {
		for _, from := range [...]string{top, dir} {
			p := c.named(from, name)
			if p == "" || c.root(p) == "" {
				continue
			}
			if kind := c.Old.Kind(p); kind == File || kind == Link {
				c.watch(p, watched{reason: reasonNamed})
			}
		}
	}
}
