//go:build linux

package runslater

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNamed: files that settings name run later if the programs of these settings execute them. Those that the settings
// name for another purpose do not.
func TestNamed(t *testing.T) {
	for name, c := range map[string]struct {
		setup      []string
		named, not string
	}{
		"servers":         {[]string{`.mcp.json: {"mcpServers": {"a": {"command": "node", "args": ["--x", "tools/a.js"]}, "b": {"command": "${CLAUDE_PROJECT_DIR}/tools/b"}}}`}, "tools/a.js tools/b", "tools/c tools/x/a.js"},
		"modules":         {[]string{`.mcp.json: {"mcpServers":{"a":{"command":"python","args":["-m","x.server"]}}}`, "x/server.py: x"}, "x/server.py", "x/other.py"},
		"directories":     {[]string{`.cursor/mcp.json: {"mcpServers": {"a": {"command": "uv", "args": ["--directory", "srv", "run", "main.py"], "cwd": "more"}}}`, "srv/main.py: x", "more/main.py: x"}, "srv/main.py more/main.py", "srv/other.py main.pyc"},
		"hooks":           {[]string{`.claude/settings.json: {"permissions": {"allow": ["Read(./src/a.c)"]}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "sh -c \"./tools/stop\""}]}]}, "apiKeyHelper": "tools/key"}`, "src/a.c: x"}, "tools/stop tools/key", "src/a.c"},
		"TOML":            {[]string{".codex/config.toml: # don't\nnotify = [\n  'python3', \"tools/n.py\"]\n[mcp_servers.x]\ncommand=\"./tools/s\" # [x]\nenv = { A = \"tools/e\" }\nargs = ['tools/arg']"}, "tools/n.py tools/arg", "tools/e"},
		"YAML":            {[]string{".pre-commit-config.yaml: repos:\n- repo: local\n  hooks:\n  - id: x\n    entry: ./tools/e --a=b\n    files: ^tools/f$\n    args: [-x, tools/y]\n    exclude: tools/z", "lefthook.yml: pre-commit:\n  commands:\n    a:\n      run: |\n        A=1 ./tools/r\n        tools/q\n      glob: tools/g\n"}, "tools/e tools/y tools/r tools/q", "tools/f tools/z tools/g"},
		"folder is open":  {[]string{`.vscode/tasks.json: {"tasks": [{"command": "${workspaceFolder}/tools/x", "runOptions": {"runOn": "folderOpen"}}]}`}, "tools/x", "tools/y"},
		"a person's task": {[]string{`.vscode/tasks.json: {"tasks": [{"command": "./tools/x"}]}`, `.devcontainer/devcontainer.json: {"postCreateCommand": "tools/y"}`}, "", "tools/x tools/y"},
		".envrc":          {[]string{".envrc: source_env more\nexport A=tools/v\n. ./env.sh\nuse nix\n", "env.sh: x", "use: x", "nix: x", "more: x"}, "env.sh more", "use nix"},
		"packages":        {[]string{`.mcp.json: {"mcpServers": {"a": {"command": "node_modules/.bin/a"}}}`}, "", "node_modules/.bin/a"},
		"nested":          {[]string{"sub/.git/HEAD: x", `sub/.mcp.json: {"mcpServers": {"a": {"command": "./run"}}}`}, "sub/run", "run"},
	} {
		t.Run(name, func(t *testing.T) {
			old := at(repository, c.setup...)
			now := maps.Clone(old)
			for p := range strings.FieldsSeq(c.named + " " + c.not) {
				now["/p/"+p] = "new"
			}
			got := slices.Sorted(maps.Keys(reasons(old, now)))
			want := strings.Fields(c.named)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestKeysOfJSON: the place of a key counts, however it is written, and whether its value is another one.
func TestKeysOfJSON(t *testing.T) {
	const had = `{"name": "x", "husky": {"hooks": {"pre-commit": "a"}}, "config": {"ghooks": {"a": "b"}}, "devDependencies": {"husky": "1"}}`
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for text, want := range map[string]bool{
		`{"name": "y", "husky": {"hooks":{"pre-commit":"a"}}, "devDependencies": {"husky": "2", "lint-staged": "3"}}`: false,
		`{"husky": {"hooks": {"pre-commit": "b"}}}`:                         true,
		`{"h\u0075sky": {"hooks": {"pre-commit": "b"}}}`:                    true,
		`{"husky": {"hooks": {"pre-commit": "a"}}, "husky": {"hooks": 1}}`:  true,
		`{"husky": {"hooks": 1}, "husky": {"hooks": {"pre-commit": "a"}}}`:  false,
		"\ufeff" + `{"lint-staged": {"*": "x"}}`:                            true,
		`{"config": {"ghooks": {"a": "c"}}}`:                                true,
		`{"config": {"ghooks": {"a": "b"}, "other": 1}}`:                    false,
		`{"scripts": {"precommit": "x", "pre-commit": "y"}, "husky": null}`: false,
		`{"packageManager": "pnpm@10.0.0"}`:                                 false,
		`{"packageManager": "yarn@https:\/\/x\/y.js"}`:                      true,
		`{"husky": 1`: true,
		`{"a": ` + deep + `, "husky": {"hooks": {"pre-commit": "b"}}}`: true,
		`{"a": ` + deep + `}`: false,
	} {
		c := Classifier{Roots: []string{"/p"}, Old: tree{"/p/package.json": had}, New: tree{"/p/package.json": text}}
		if got := c.Reason(Change{Path: "/p/package.json", Kind: File, Content: true}); (got != "") != want {
			t.Errorf("%.80s: %q", text, got)
		}
	}
}

// TestHostileNaming: settings cost no more than a few times their size, whatever is in them.
func TestHostileNaming(t *testing.T) {
	for name, piece := range map[string]string{"quotes": `"\"`, "apostrophes": "'x\\", "escapes": `\`, "words": "a/b ", "spaces": "    ", "keys": `"args":`} {
		t.Run(name, func(t *testing.T) {
			text := `"args": ` + strings.Repeat(piece, mostNaming/len(piece)-10)
			begin := processorTime(t)
			c := Classifier{Roots: []string{"/p"}, Old: tree{"/p/.mcp.json": text}, New: tree{"/p/x": "x"}}
			c.Reason(Change{Path: "/p/x", Kind: File, Content: true})
			if used, most := processorTime(t)-begin, 10*time.Second; used > most {
				t.Errorf("it takes %v of processor time, not %v", used, most)
			}
		})
	}
}
