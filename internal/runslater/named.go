package runslater

import (
	"path"
	"slices"
	"strings"
)

// Settings that programs obey by themselves often name a file of the project: a server or a hook of an agent, a script
// that .envrc loads. Their owner was asked about the settings at most, and not about that file. So it runs later, too.

const reasonByOther = "settings that run later name it"

// naming are settings files that can name files, relative to the top of a work tree.
var naming = []struct{ name, onlyWith string }{
	{".envrc", ""},
	{".mcp.json", ""}, {"mcp.json", ""}, {".vscode/mcp.json", ""}, {".cursor/mcp.json", ""}, {".roo/mcp.json", ""}, {".amazonq/mcp.json", ""},
	{".kiro/settings/mcp.json", ""}, {".junie/mcp/mcp.json", ""}, {".github/mcp.json", ""}, {"opencode.json", ""}, {"opencode.jsonc", ""}, {".opencode.json", ""},
	{"crush.json", ""}, {".crush.json", ""}, {".codex/config.toml", ""}, {".gemini/settings.json", ""}, {".qwen/settings.json", ""}, {".zed/settings.json", ""},
	{".claude/settings.json", ""}, {".claude/settings.local.json", ""}, {".cursor/hooks.json", ""}, {".codex/hooks.json", ""},
	{".vscode/tasks.json", "folderopen"},                                                                  // others are started by a person
	{".devcontainer.json", "initializecommand"}, {".devcontainer/devcontainer.json", "initializecommand"}, // the only one outside of the container
	{".pre-commit-config.yaml", ""}, {".pre-commit-config.yml", ""}, {"lefthook.yml", ""}, {"lefthook.yaml", ""}, {".lefthook.yml", ""}, {".lefthook.yaml", ""},
	{"mise.toml", ""}, {".mise.toml", ""}, {".config/mise.toml", ""},
}

// namingKeys are the last parts of keys whose values are commands or files that are executed, or directories in which
// that happens. Other values, such as patterns of files, name what is not executed.
var namingKeys = []string{"command", "args", "cmd", "cwd", "entry", "run", "notify", "source", "enter", "leave", "cd", "plugin", "plugins", "helper", "refresh"}

// mostNaming limits the bytes that are read of one settings file.
const mostNaming = 64 << 10

// exists returns a function that says, at little cost, what is in a directory.
func (c *Classifier) exists(dir string) func(string) bool {
	known := map[string]bool{}
	return func(name string) bool {
		is, ok := known[name]
		if !ok {
			is = c.Old.Kind(path.Join(dir, name)) != Missing
			known[name] = is
		}
		return is
	}
}

// leadSettings watches the files that the settings of a work tree name. has reports whether there is anything with a
// name at its top.
func (c *Classifier) leadSettings(top string, has func(string) bool) {
	for _, n := range naming {
		if first, _, _ := strings.Cut(n.name, "/"); !has(first) {
			continue
		}
		at := path.Join(top, n.name)
		kind := c.Old.Kind(at)
		if kind == Link {
			at = c.watch(at, watched{reason: reasonByOther})
			kind = c.Old.Kind(at)
		}
		if kind != File {
			continue
		}
		text, ok := c.Old.Read(at)
		if !ok || len(text) > mostNaming || !strings.Contains(strings.ToLower(text), n.onlyWith) {
			continue
		}
		if n.name == ".envrc" {
			c.leadWords(text, top, top, reasonByOther)
		} else {
			c.leadValues(text, top, path.Dir(at))
		}
	}
}

// leadValues watches files that the commands in settings name: relative to the top, to the settings, or to a directory
// that one of these values names.
func (c *Classifier) leadValues(text, top, dir string) {
	words := values(text)
	words = words[:min(len(words), mostWords)]
	from := []string{top}
	if dir != top {
		from = append(from, dir)
	}
	for _, word := range words {
		if p := c.inside(top, word); p != "" && p != top && len(from) < 8 && c.Old.Kind(p) == Directory && !slices.Contains(from, p) {
			from = append(from, p)
		}
	}
	for i, word := range words {
		list := []string{word}
		if _, rest, ok := strings.Cut(word, "/"); ok {
			list = append(list, rest) // what is before may be a variable
		} else if i > 0 && words[i-1] == "-m" {
			module := strings.ReplaceAll(word, ".", "/") // of Python
			list = append(list, module+".py", module+"/__main__.py")
		}
		for _, name := range list {
			for _, dir := range from {
				if p := c.inside(dir, name); c.executable(p, strings.Contains(name, "/")) {
					c.watch(p, watched{reason: reasonByOther})
				}
			}
		}
	}
}

// inside returns the absolute form of a name, if it is in a root.
func (c *Classifier) inside(dir, name string) string {
	if p := c.named(dir, name); p != "" && c.root(p) != "" {
		return p
	}
	return ""
}

// executable reports whether a path that is named may be a file that is executed, or, if missing may be too, become
// one. Package managers write many files that others name.
func (c *Classifier) executable(p string, missing bool) bool {
	if p == "" {
		return false
	}
	switch c.Old.Kind(p) {
	case File, Link:
		return true
	case Missing:
		return missing && !slices.ContainsFunc(strings.Split(p, "/"), dependencies)
	}
	return false
}

// values returns the words of the values of namingKeys in JSON, TOML or YAML. It need not be exact.
func values(text string) (list []string) {
	wanted, begins := false, true // begins: a key may come next that is not in quotes
	for text != "" {
		switch text[0] {
		case '\n', '{', '[', '(', ',':
			begins, text = true, text[1:]
			continue
		case ' ', '\t', '\r', '}', ']', ')', ':', '=':
			text = text[1:]
			continue
		case '-':
			if begins && len(text) > 1 && text[1] == ' ' { // an item of a list
				text = text[2:]
				continue
			}
		}
		var token string
		var quoted bool
		token, quoted, text = nextToken(text)
		switch {
		case isKeyOf(text, quoted, begins):
			wanted = isNaming(token)
		case wanted:
			list = append(list, strings.FieldsFunc(escapes.Replace(token), endsWord)...)
		}
		begins = false
	}
	return list
}

// isKeyOf reports whether the text after a word makes that a key.
func isKeyOf(after string, quoted, begins bool) bool {
	sign := strings.TrimLeft(after, " \t")
	if sign == "" || !quoted && !begins {
		return false
	}
	spaced := len(sign) < len(after) || len(sign) == 1 || strings.ContainsRune(" \t\r\n", rune(sign[1]))
	return sign[0] == ':' && (quoted || spaced) || sign[0] == '=' && spaced // a shell sets a variable without spaces
}

var escapes = strings.NewReplacer(`\"`, `"`, `\/`, `/`, `\n`, " ", `\t`, " ", `\\`, `\`)

// nextToken returns what is in quotes, or a word.
func nextToken(text string) (token string, quoted bool, rest string) {
	if quote := text[0]; quote == '"' || quote == '\'' {
		for i := 1; i < min(len(text), maxPath) && text[i] != '\n'; i++ {
			switch {
			case text[i] == '\\' && quote == '"' && i+1 < len(text) && text[i+1] != '\n':
				i++
			case text[i] == quote:
				return text[1:i], true, text[i+1:]
			}
		}
		return "", false, text[1:] // as an apostrophe in a comment
	}
	i := strings.IndexAny(text[1:], " \t\r\n\"'{}[](),:=")
	if i < 0 {
		return text, false, ""
	}
	return text[:i+1], false, text[i+1:]
}

func isNaming(key string) bool {
	key = strings.ToLower(key[strings.LastIndexByte(key, '.')+1:])
	return slices.ContainsFunc(namingKeys, func(end string) bool { return key == end || len(end) > 3 && strings.HasSuffix(key, end) })
}
