package runslater

import (
	"path"
	"slices"
	"strings"
)

// Most hooks execute a program of the project: "sh scripts/check". Whoever can change that needs no hook.

const reasonNamed = "a git hook names it"

// interpreters execute the file that the next word names, even if that has no slash.
var interpreters = []string{".", "source", "exec", "sh", "bash", "dash", "zsh", "node", "python", "python3", "ruby", "perl", "php", "lua", "deno", "bun", "tsx", "source_env", "source_env_if_exists", "dotenv", "dotenv_if_exists"}

// Limits of what is read of a hook.
const (
	mostScript = 64 << 10 // bytes
	mostWords  = 1000     // that may be files
)

// leadScript watches the files that a hook names. They are relative to the top of the work tree, or to the hook's
// directory, and may follow a variable: "$root/scripts/check". They need not exist: hooks often say
// "[ ! -x scripts/check ] || scripts/check".
func (c *Classifier) leadScript(at, top string) {
	if text, ok := c.Old.Read(at); ok && len(text) <= mostScript {
		c.leadWords(text, top, path.Dir(at), reasonNamed)
	}
}

func (c *Classifier) leadWords(text, top, dir, reason string) {
	left := mostWords
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		before := ""
		for _, word := range strings.FieldsFunc(line, endsWord) {
			if strings.Contains(word, "/") || before != "" && slices.Contains(interpreters, path.Base(before)) {
				if left--; left < 0 {
					return
				}
				c.leadNamed(word, top, dir, reason)
			}
			before = word
		}
	}
}

func endsWord(r rune) bool { return strings.ContainsRune(" \t\r\n!;|&()'\"$`<>{}[],=", r) }

func (c *Classifier) leadNamed(word, top, dir, reason string) {
	_, rest, _ := strings.Cut(word, "/")
	for _, name := range [...]string{word, rest} {
		for _, from := range [...]string{top, dir} {
			if p := c.inside(from, name); c.executable(p, true) {
				c.watch(p, watched{reason: reason})
			}
		}
	}
}
