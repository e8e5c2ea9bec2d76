//go:build linux

package runslater

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/gitindex"
)

// A tree is a View made of texts: a directory is what something lies in, and "=>" begins
// a link.
type tree map[string]string

func (t tree) Kind(p string) Kind {
	text, ok := t[p]
	switch {
	case ok && strings.HasPrefix(text, "=>"):
		return Link
	case ok:
		return File
	}
	for name := range t {
		if strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/") {
			return Directory
		}
	}
	return Missing
}

func (t tree) Read(p string) (string, bool) {
	text, ok := t[p]
	return text, ok && t.Kind(p) == File
}

func (t tree) Target(p string) string {
	to, _ := strings.CutPrefix(t[p], "=>")
	return to
}

func (t tree) Names(p string) (list []string) {
	for name := range t {
		if rest, ok := strings.CutPrefix(name, p+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			list = append(list, first)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (t tree) Survey(p, name string, want func(string) bool) (names, holding []string) {
	for _, dir := range t.Names(p) {
		if want(dir) {
			names = append(names, dir)
		}
		if t.Kind(path.Join(p, dir, name)) != Missing {
			holding = append(holding, dir)
		}
	}
	return names, holding
}

// reasons classifies what differs between two trees at /p.
func reasons(old, now tree) map[string]string {
	c := Classifier{Roots: []string{"/p"}, Old: old, New: now, Own: ownQ}
	got := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(now)) {
		if text, ok := old[p]; ok && text == now[p] {
			continue
		}
		if reason := c.Reason(Change{Path: p, Kind: now.Kind(p), Content: true}); reason != "" {
			got[strings.TrimPrefix(p, "/p/")] = reason
		}
	}
	return got
}

// at puts a tree to /p; base is added to it.
func at(base tree, lines ...string) tree {
	t := maps.Clone(base)
	if t == nil {
		t = tree{}
	}
	for _, line := range lines {
		name, text, _ := strings.Cut(line, ": ")
		t[path.Join("/p", name)] = text
	}
	return t
}

const plainConfig = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"

var repository = at(nil, ".git/HEAD: ref: refs/heads/main", ".git/config: "+plainConfig, ".git/objects/x: ", ".git/refs/x: ", "a.c: ")

func TestReasons(t *testing.T) {
	linked := at(repository, ".git/hooks/pre-commit: =>../../scripts/check", "scripts/check: x", "scripts/other: x",
		".vscode: =>tools/vscode", "tools/vscode/tasks.json: x", ".envrc: =>env.sh", "env.sh: x", ".github/workflows/ci.yml: =>../../ci/all.yml", "ci/all.yml: x")
	configured := at(repository, ".git/config: [core]\nhooksPath = .hooks\nfsmonitor = ./tools/watch --all\n[include]\npath = ../.shared\n[filter \"x\"]\nclean = \"sh bin/clean %f\"\n",
		".hooks/pre-commit: x", "tools/watch: x", ".shared: [user]\nname = x", "bin/clean: x")
	for _, c := range []struct {
		name string
		old  tree
		new  []string // what is added
		want []string // what runs later
	}{
		{"sources", repository, []string{"b.c: x", "Makefile: x", "package.json: {}", "src/hooks/useFoo.ts: x", "src/objects/a.ts: x", "config: a: b\nc", "x/config: [a]\nb=c", "x/objects/y: x", "s/hooks/pre-commit: x", "HEAD: x", ".gitignore: x",
			".gitattributes: * filter=x", ".editorconfig: x", ".nvmrc: 20", ".tool-versions: node 20", "setup.py: x", ".github/dependabot.yml: x", ".github/ISSUE_TEMPLATE/x.md: x"}, nil},
		{"data of git", repository, []string{".git/index: x", ".git/refs/heads/hooks/x: 1", ".git/refs/heads/config: 1", ".git/logs/HEAD: x", ".git/objects/ab/cd: x", ".git/HEAD: ref: refs/heads/x", ".git/COMMIT_EDITMSG: x", ".git/packed-refs: x"}, nil},
		{"hooks", repository, []string{".git/hooks/pre-commit: x", ".git/hooks/pre-push.sample: x", ".git/hooks/lib/x.sh: x", ".git/modules/a/b/hooks/update: x", "sub/.git/hooks/post-checkout: x", "X/.GIT/hooks/pre-push: x"},
			[]string{".git/hooks/lib/x.sh", ".git/hooks/pre-commit", ".git/modules/a/b/hooks/update", "X/.GIT/hooks/pre-push", "sub/.git/hooks/post-checkout"}},
		{"names that file systems take for others", repository, []string{".GIT\u200c/hooks/update: x", ".git./hooks/update: x", "GIT~1/config: [core]\npager=x", "a/.git/hoo\u212as/update: x",
			"a/.git/hoo\u200dkſ/update: x", ".vſcode/tasks.json: x", ".envrc. : x", ".b\ufeffashrc: x", "b/.git. /hooks./update: x", "K/x: x", "…: x", "... : x"},
			[]string{".GIT\u200c/hooks/update", ".b\ufeffashrc", ".envrc. ", ".git./hooks/update", ".vſcode/tasks.json", "GIT~1/config", "a/.git/hoo\u200dkſ/update", "a/.git/hoo\u212as/update", "b/.git. /hooks./update"}},
		// With casefold, ext4 and f2fs compare names by full case folding, and without all default ignorable characters.
		{"names that file systems fold", repository, []string{".env\u00adrc: x", ".env\u200brc: x", ".g\u034fit/hooks/update: x", ".vscode\ufe0f/tasks.json: x", ".cla\U000e0041ude/settings.json: x",
			"a/.git/con\ufb01g: [core]\npager=x", "\ufb02ake.nix: x", ".x\u00dfion: x", ".bash_pro\ufb01le: x", ".xse\u00dfion: x", ".xse\u1e9eion: x", ".te\ufb06/x: x", "stra\u00dfe: x", "\ufb01le: x"},
			[]string{".bash_pro\ufb01le", ".cla\U000e0041ude/settings.json", ".env\u00adrc", ".env\u200brc", ".g\u034fit/hooks/update", ".vscode\ufe0f/tasks.json", ".xse\u00dfion", ".xse\u1e9eion", "a/.git/con\ufb01g", "\ufb02ake.nix"}},
		{"settings of other programs of git", repository, []string{".git/lazygit.yml: x", ".lazygit.yml: x", ".repo/repo/main.py: x", ".repository/x: x"},
			[]string{".git/lazygit.yml", ".lazygit.yml", ".repo/repo/main.py"}},
		{"links in git", repository, []string{".git/hooks: =>../evil", "sub/.git: =>../evil", ".git/logs/HEAD: =>/home/me/.bashrc", ".git/refs/heads/x: =>../../../y"},
			[]string{".git/hooks", ".git/logs/HEAD", ".git/refs/heads/x", "sub/.git"}},
		{"keys", repository, []string{".git/config: " + plainConfig + "[user]\nname=x\n[remote \"o\"]\nurl=https://x.org\nfetch=+refs/heads/*:refs/remotes/o/*\n[branch \"x\"]\nremote=o\nmerge=refs/heads/x\n"}, nil},
		{"executing keys", repository, []string{".git/config: " + plainConfig + "[Core]FSMonitor=./x", "s/.git/config.worktree: [alias]\nx=!y", ".gitconfig: [credential]\nhelper=!x"}, []string{".git/config", ".gitconfig", "s/.git/config.worktree"}},
		{"the same keys", configured, []string{".git/config: " + configured["/p/.git/config"] + "[user]\nname = y"}, nil},
		{"led by configuration", configured, []string{".hooks/pre-push: x", ".hooks/pre-commit: y", "tools/watch: y", "tools/other: y", "bin/clean: y", ".shared: [core]\npager = x"}, []string{".hooks/pre-commit", ".hooks/pre-push", ".shared", "bin/clean", "tools/watch"}},
		{"included, harmless", configured, []string{".shared: [user]\nname = y"}, nil},
		{"led by links", linked, []string{"scripts/check: y", "scripts/other: y", "tools/vscode/tasks.json: y", "tools/vscode/new.json: y", "env.sh: y", "ci/all.yml: y"},
			[]string{"ci/all.yml", "env.sh", "scripts/check", "tools/vscode/new.json", "tools/vscode/tasks.json"}},
		{"a directory on the way becomes a link", linked, []string{"scripts: =>evil"}, []string{"scripts"}},
		{"bare", nil, []string{"b/HEAD: x", "b/objects/x: ", "b/refs/x: ", "b/config: [core]\nsshCommand=x", "b/hooks/update: x", "b/hooks/x.sample: x", "b/description: x"}, []string{"b/config", "b/hooks/update"}},
		{"becomes a repository", at(nil, "b/config: [core]\nfsmonitor=x", "b/HEAD: x", "b/refs/x: "), []string{"b/objects/x: "}, []string{"b/objects/x"}},
		{"becomes a repository with hooks", at(nil, "b/hooks/update: x"), []string{"b/HEAD: x", "b/commondir: ../c"}, []string{"b/HEAD", "b/commondir"}},
		{"parts of repositories", at(nil, "o/hooks/update: x", "r/refs/x: x", "g/commondir: ../r", "k/config: [core]\npager=x", "k/HEAD: x", "k/refs/x: ", "k/objects/x: "),
			[]string{"a/config: [core]\npager=x", "o/refs/x: ", "r/hooks/update: x", "r/hooks/useX.ts: x", "g/HEAD: ref: refs/heads/x", "k/HEAD: ref: refs/heads/x", "v/hooks: =>w", "v/HEAD: x", "w/config: =>x"},
			[]string{"a/config", "g/HEAD", "k/HEAD", "o/refs/x", "r/hooks/update", "v/hooks"}},
		{"work tree and submodule", at(repository, ".git/worktrees/w/HEAD: x", ".git/worktrees/w/commondir: ../.."),
			[]string{"w/.git: gitdir: /p/.git/worktrees/w", ".git/worktrees/v/commondir: ../..\n", ".git/worktrees/v/gitdir: /p/v/.git", "v/.git: gitdir: ../.git/worktrees/v\n",
				".git/modules/s/config: [core]\nworktree = ../../../s\n", "s/.git: gitdir: ../.git/modules/s",
				".git/worktrees/w/modules/s/config: [core]\nworktree = ../../../../../w/s\n", "w/s/.git: gitdir: ../../.git/worktrees/w/modules/s"}, nil},
		{".git elsewhere", repository, []string{"w/.git: gitdir: /tmp/x", "v/.git: gitdir: ../evil.git", "evil.git/HEAD: x", "evil.git/objects/x: ", "evil.git/refs/x: ", "evil.git/config: [core]\npager=x", ".git/worktrees/v/commondir: ../../../evil", ".git/commondir: evil"},
			[]string{".git/commondir", ".git/worktrees/v/commondir", "evil.git/config", "v/.git", "w/.git"}},
		{"core.worktree", repository, []string{".git/config: [core]\nworktree = /home/me", ".git/modules/s/config: [core]\nworktree = ../../hooks", ".git/modules/t/config: [core]\nworktree = ../../../../..",
			".git/worktrees/w/modules/s/config: [core]\nworktree = ../../hooks", ".git/worktrees/w/modules/t/config: [core]\nworktree = /home/me", ".git/worktrees/w/config.worktree: [core]\nworktree = ../../../modules"},
			[]string{".git/config", ".git/modules/s/config", ".git/modules/t/config", ".git/worktrees/w/config.worktree", ".git/worktrees/w/modules/s/config", ".git/worktrees/w/modules/t/config"}},
		{"rebase", repository, []string{".git/rebase-merge/git-rebase-todo: pick 1\nexec evil\n", ".git/rebase-merge/done: pick 1"}, []string{".git/rebase-merge/git-rebase-todo"}},
		{"git directory with another name", at(nil, ".git: gitdir: gd\n", "gd/HEAD: ref: refs/heads/main", "gd/config: "+plainConfig, "gd/objects/x: ", "gd/refs/x: ", "gd/tree/.git: gitdir: ../worktrees/tree\n",
			"gd/worktrees/tree/HEAD: ref: refs/heads/x", "gd/worktrees/tree/commondir: ../..\n"),
			[]string{"gd/rebase-merge/git-rebase-todo: exec x", "gd/worktrees/tree/rebase-merge/strategy: x/y", "gd/sequencer/opts: [options]\nstrategy = x/y", "gd/rebase-apply/apply-opt: '--build-fake-ancestor=x'\n", "gd/rebase-merge/opts: x",
				"gd/logs/HEAD: =>../../x", "gd/index: =>../x", "gd/worktrees/tree/FETCH_HEAD: =>x", "gd/HEAD: =>refs/heads/y", "gd/tree/x: =>y", "gd/tree/rebase-apply/apply-opt: x", "l: =>x"},
			[]string{"gd/index", "gd/logs/HEAD", "gd/rebase-apply/apply-opt", "gd/rebase-merge/git-rebase-todo", "gd/sequencer/opts", "gd/worktrees/tree/FETCH_HEAD", "gd/worktrees/tree/rebase-merge/strategy"}},
		{"options of git am", repository, []string{".git/rebase-apply/apply-opt:  '-p2' '--directory=x'\n", ".git/worktrees/w/rebase-apply/apply-opt: ", ".git/worktrees/v/rebase-apply/apply-opt:  '-p2' '--build-f=../x'\n", "rebase-apply/apply-opt: x"},
			[]string{".git/worktrees/v/rebase-apply/apply-opt"}},
		{"dependencies", repository, []string{"node_modules/x/.vscode/tasks.json: x", "node_modules/x/.travis.yml: x", "node_modules/x/CLAUDE.md: x", "node_modules/x/.npmrc: git=x", "vendor/x/.idea/workspace.xml: x",
			"node_modules/x/.envrc: x", "node_modules/x/.git/config: [core]\npager=x", "node_modules/config/index.js: x", "node_modules/hooks/x.js: x"}, []string{"node_modules/x/.envrc", "node_modules/x/.git/config"}},
		{"beside .envrc", at(repository, "e/.envrc: use flake"), []string{"flake.lock: x", "a/default.nix: x", "e/flake.lock: x", "e/default.nix: x", "e/sub/default.nix: x", "n/.envrc: use nix", "n/default.nix: x"},
			[]string{"e/default.nix", "e/flake.lock", "n/.envrc", "n/default.nix"}},
		{"named by hooks", at(repository, ".git/hooks/pre-commit: # see docs/x.md\nroot=$(git rev-parse --show-toplevel)\nsh check.sh && \"$root/tools/a\" README.md\n. \"$(dirname \"$0\")/../../tools/b\"",
			".husky/pre-push: exec ./tools/c --all", ".git/hooks/post-merge.sample: sh d.sh", ".git/hooks/commit-msg: =>../../tools/msg", "tools/msg: node tools/e.js", "tools/e.js: x", "check.sh: x", "tools/a: x", "tools/b: x",
			"tools/c: x", "d.sh: x", "README.md: x", "docs/x.md: x"),
			[]string{"check.sh: y", "tools/a: y", "tools/b: y", "tools/c: y", "tools/e.js: y", "d.sh: y", "README.md: y", "docs/x.md: y", "tools/new: y"},
			[]string{"check.sh", "tools/a", "tools/b", "tools/c", "tools/e.js"}},
		{"CI that comes to the top", at(repository, "a/.github/workflows/x.yml: x", "b/Jenkinsfile.x: x", "c/.github/dependabot.yml: x", "d/.travis.yml: x", "d/.git/HEAD: ref: refs/heads/x", "d/.git/objects/x: ", "d/.git/refs/x: ", "e/.travis.yml: x", "e/.git/config: "+plainConfig, "e/.git/HEAD: x", ".travis.yml: x"), []string{
			"a/.git/HEAD: ref: refs/heads/x", "a/.git/objects/x: ", "a/.git/refs/x: ", "a/.git/config: " + plainConfig, "b/.git: gitdir: ../.git/worktrees/b", "c/.git/HEAD: x", "d/.git/HEAD: ref: refs/heads/y", "e/.git/HEAD: ref: refs/heads/x"},
			[]string{"a/.git/HEAD", "a/.git/objects/x", "a/.git/refs/x", "b/.git", "e/.git/HEAD"}},
		{"a repository around CI", at(nil, ".travis.yml: x"), []string{".git/HEAD: ref: refs/heads/x", ".git/objects/x: ", ".git/refs/x: "}, nil},
		{"CI at the top only", at(repository, "nested/.git/HEAD: x"), []string{".travis.yml: x", "sub/.travis.yml: x", "sub/.github/workflows/x.yml: x", "nested/.github/workflows/x.yml: x"}, []string{".travis.yml", "nested/.github/workflows/x.yml"}},
		{"links with names", repository, []string{".vscode: =>sub", ".envrc: =>x", ".husky: =>x", ".claude: =>x", ".config: =>x", "sub/.idea: =>x"}, []string{".claude", ".config", ".envrc", ".husky", ".vscode", "sub/.idea"}},
		{"lines", at(repository, ".npmrc: script-shell=old\nregistry=x"), []string{".npmrc: script-shell=old\nregistry=y", "a/.npmrc: save-exact=true\nregistry=https://git.example.org/", "b/.npmrc: Script_Shell = x",
			"c/.npmrc: \"script-sh\\u0065ll\"=x", "d/.npmrc: //x/:tokenHelper=/x", "e/.npmrc: ${E}script-shell=x", ".tool-versions: node path:./x", "rust-toolchain.toml: [toolchain]\nchannel=\"1.80\"", "f/rust-toolchain.toml: [toolchain]\npath=\"x\"",
			".yarnrc.yml: nodeLinker: node-modules", "g/.yarnrc.yml: yarnPath: .yarn/x.cjs", "gradle.properties: version=2", "h/gradle.properties: org.gradle.jvmargs=-javaagent:x",
			"pnpm-workspace.yaml: packages:\n  - a\nonlyBuiltDependencies:\n  - esbuild", "i/pnpm-workspace.yaml: packages: []\n\"pnpmfile\": x.cjs", "j/pnpm-workspace.yaml: {scriptShell: ./x}", "k/pnpm-workspace.yaml: \"script\\u0053hell\": ./x"},
			[]string{".tool-versions", "b/.npmrc", "c/.npmrc", "d/.npmrc", "e/.npmrc", "f/rust-toolchain.toml", "g/.yarnrc.yml", "h/gradle.properties", "i/pnpm-workspace.yaml", "j/pnpm-workspace.yaml", "k/pnpm-workspace.yaml"}},
		{"names of settings in other forms", repository, []string{"a/.npmrc: registry=https://x/\rscript-shell=./x", "b/.npmrc: \ufeffscript-shell=./x", "c/.npmrc: script-shell\u00a0=./x", "d/.yarnrc.yml: # x\ryarnPath: ./x.cjs",
			"e/gradle.properties: org.gradle.jvmargs:-javaagent:x", "f/gradle.properties: org.gradle.jvmargs\f-javaagent:x", "g/.pylintrc: [MAIN]\ninit-hook:x()", "h/.pylintrc.toml: [tool.pylint]\nmain = {init-hook = \"x\"}",
			"i/.pylintrc.toml: [tool.pylint]\nmain = {\"init\\u002dhook\" = \"x\"}", "j/.golangci.json: {\"linters\":{\"settings\":{\"custom\":{\"x\":{\"path\":\"./x\"}}}}}", "k/.golangci.yml: linters-settings: {custom: {x: {path: ./x}}}",
			"l/.golangci.yml: {a: \"\n# \", custom: {x: {path: ./x}}}", "m/.golangci.yml: {a: b\n;x: y, custom: {x: {path: ./x}}}", "n/.golangci.yml: a: &c custom\nlinters-settings: {*c : {x: {path: ./x}}}",
			"o/.golangci.yml: \xff\xfec\x00u\x00s\x00t\x00o\x00m\x00:\x00", "p/.golangci.toml: linters-settings.custom.x.path = './x'", "q/mypy.ini: [mypy]\nplugins:x.py", "r/.ansible-lint: {rulesdir: [./x]}", "s/.sqlfluff: [sqlfluff]\nlibrary_path:x",
			"t/.gitlint: [general]\nextra-path:x", "u/.project: <name>org.eclipse.ui.externaltools.ExternalTool&#66;uilder</name>", "v/.project: <comment>\n#</comment><name>x.ExternalToolBuilder</name>", "w/.flake8: [flake8]\npaths:.",
			"x/.npmrc: package[]=./x", "y/.python-version: # ../../x", "z/.golangci.yml: linters: {enable: [govet]}\n# custom: x\nissues:\n  msg: use custom errors", "0/gradle.properties: # org.gradle.jvmargs=x\nversion=1",
			"1/.npmrc: ; script-shell\nsign-git-tag=true\nproxy=https://git.example.org:80/", "2/.pylintrc: [MAIN]\ngood-names-rgx=^\\w$\ndisable=\n    fixme,\n    x"},
			strings.Fields("a/.npmrc b/.npmrc c/.npmrc d/.yarnrc.yml e/gradle.properties f/gradle.properties g/.pylintrc h/.pylintrc.toml i/.pylintrc.toml j/.golangci.json k/.golangci.yml l/.golangci.yml m/.golangci.yml " +
				"n/.golangci.yml o/.golangci.yml p/.golangci.toml q/mypy.ini r/.ansible-lint s/.sqlfluff t/.gitlint u/.project v/.project w/.flake8 x/.npmrc y/.python-version")},
		{"values that go on below the name", at(repository, "a/.pylintrc: [MAIN]\ninit-hook=\n    x()\nindent=1", "b/.yarnrc.yml: plugins:\n- ./x.cjs\na: b", "c/.pylintrc.toml: init-hook = '''\nx()\n'''", "d/.flake8: [flake8:local-plugins]\nextension = X=x:P\n[flake8]",
			"e/.golangci.json: {\"custom\":\n{\"x\":\n{\"path\":\n\"./x\"}}}", "f/mypy.ini: [mypy]\nplugins=%(p)s\np=x", "g/.golangci.yml: custom: *x\nx: &x {path: ./x}", "h/.pylintrc: [MAIN]\ninit-hook=\n    x()\nindent=1", "i/.yarnrc.yml: plugins:\n- ./x.cjs\na: b"),
			[]string{"a/.pylintrc: [MAIN]\ninit-hook=\n    y()\nindent=1", "b/.yarnrc.yml: plugins:\n- ./x.cjs\n- ./y.cjs\na: b", "c/.pylintrc.toml: init-hook = '''\ny()\n'''", "d/.flake8: [flake8:local-plugins]\nextension = X=y:P\n[flake8]",
				"e/.golangci.json: {\"custom\":\n{\"x\":\n{\"path\":\n\"./y\"}}}", "f/mypy.ini: [mypy]\nplugins=%(p)s\np=y", "g/.golangci.yml: custom: *x\nx: &x {path: ./y}", "h/.pylintrc: [MAIN]\ninit-hook=\n    x()\nindent=2", "i/.yarnrc.yml: a: c\nplugins:\n- ./x.cjs\nb: d"},
			strings.Fields("a/.pylintrc b/.yarnrc.yml c/.pylintrc.toml d/.flake8 e/.golangci.json f/mypy.ini g/.golangci.yml")},
		{"harmless lines", at(repository, "o/.hg/hgrc: [extensions]\nx = x.py"), []string{"a/.hg/hgrc: # example\n[paths]\ndefault = /p/o\ndefault-push = ssh://x/y\n", "b/.hg/hgrc: [paths]\ndefault = x\n[extensions]\ndefault = x.py",
			"c/.hg/hgrc: %include x\n[paths]\ndefault = x", "d/.hg/hgrc: [paths]\ndefault = x\r[hooks]\rdefault = x", "e/.hg/hgrc: [paths]\ndefault = x\n [ui]", "f/.hg/hgrc: =>../x", "o/.hg/hgrc: [extensions]\ndefault = x.py"},
			[]string{"b/.hg/hgrc", "c/.hg/hgrc", "d/.hg/hgrc", "e/.hg/hgrc", "f/.hg/hgrc", "o/.hg/hgrc"}},
		{"options", at(repository, "-a=b/old: x"), []string{"--to-command=x: x", "s/-e sh x.sh: x", "s/+!x: =>y", "-o=x/y/z: x", "-x: x", "- a = b: x", "x=y: x", "+page.js: x", "-: x", "--: x", "--=x: x", "-a=b/old: y", "a -b=c: x"},
			[]string{"--to-command=x", "-a=b/old", "-o=x/y/z", "s/+!x", "s/-e sh x.sh"}},
		{"work trees of Claude", repository, []string{".claude/settings.json: x", ".claude/worktrees/a/main.c: x", ".claude/worktrees/a/.envrc: x", ".claude/hooks/x.sh: x"}, []string{".claude/hooks/x.sh", ".claude/settings.json", ".claude/worktrees/a/.envrc"}},
	} {
		got := reasons(c.old, at(c.old, c.new...))
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) {
			t.Errorf("%s: got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestIndexes: an index of git runs later if one of its paths is not of a file in the work tree, wherever git finds it,
// and also if a directory becomes git's around it, or another key of the configuration has git read it in another way.
func TestIndexes(t *testing.T) {
	index := func(path string) string {
		x := gitindex.Index{Entries: []gitindex.Entry{{Path: path, ID: strings.Repeat("1", 20), Mode: 0o100644}}}
		return string(x.Encode())
	}
	bad := index(".git/hooks/update")
	wide := "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n"
	indexed := at(repository, ".git/index: "+index("a.c"))
	for _, c := range []struct {
		name string
		old  tree
		new  []string
		want []string
	}{
		{"good", indexed, []string{".git/index: " + index("b.c"), ".git/sharedindex.1: " + index("b.c"), "s/.git/index: x", ".git/refs/heads/index: 1", ".git/MERGE_RR: "}, nil},
		{"bad", indexed, []string{".git/index: " + bad, ".git/sharedindex.1: " + bad, ".git/modules/s/index: " + index("../x"), ".git/worktrees/w/index: " + index("/x"), "INDEX: " + bad, "s/.GIT/INDEX: " + bad},
			[]string{".git/index", ".git/modules/s/index", ".git/sharedindex.1", ".git/worktrees/w/index", "s/.GIT/INDEX"}},
		{"damaged", indexed, []string{".git/index: " + index("a.c")[:60]}, []string{".git/index"}},
		{"not of git", repository, []string{"src/index: " + bad, "src/sharedindex.1: " + bad}, nil},
		{"becomes git's", at(nil, "d/index: "+bad, "d/objects/x: ", "d/refs/x: ", "e/sharedindex.1: "+bad, "e/objects/x: ", "e/refs/x: "), []string{"d/HEAD: ref: refs/heads/x", "e/HEAD: ref: refs/heads/x"}, []string{"d/HEAD", "e/HEAD"}},
		{"the other hash", indexed, []string{".git/config: " + wide}, []string{".git/config"}},
		{"the other hash, later", at(nil, ".git/index: "+index("a.c")), []string{".git/config: " + wide, ".git/HEAD: x", ".git/objects/x: ", ".git/refs/x: "}, []string{".git/config"}},
		{"a new repository with the other hash", nil, []string{".git/config: " + wide, ".git/HEAD: x", ".git/objects/x: ", ".git/refs/x: "}, nil},
		{"an index that is only good with the other hash", nil, []string{"n/.git/config: " + wide, "n/.git/index: " + index("a.c")}, []string{"n/.git/index"}},
		{"files that git copies", repository, []string{".git/MERGE_RR: 1\tx\x00", ".git/worktrees/w/MERGE_RR: 1\tx\x00", "MERGE_RR: 1"}, []string{".git/MERGE_RR", ".git/worktrees/w/MERGE_RR"}},
	} {
		got := slices.Sorted(maps.Keys(reasons(c.old, at(c.old, c.new...))))
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestNamesAreLower checks the table itself: names are compared in lower case.
func TestNamesAreLower(t *testing.T) {
	for _, c := range append(slices.Clone(classes), anchored) {
		if c.patterns != strings.ToLower(c.patterns) {
			t.Errorf("%s: there is upper case in its patterns", c.reason)
		}
	}
}

// TestOutside says that a root's own path counts too, and others' do not.
func TestOutside(t *testing.T) {
	for _, c := range []struct{ root, path, want string }{
		{"/home/me/.config", "/home/me/.config/fish/config.fish", "shell startup file"},
		{"/home/me/.git", "/home/me/.git/hooks/update", reasonHook},
		{"/home/me/.git/modules/x", "/home/me/.git/modules/x/hooks/update", reasonHook},
		{"/home/me/vendor/p", "/home/me/vendor/p/.vscode/tasks.json", "VS Code settings"},
		{"/etc", "/etc/profile.d/x.sh", "run by the system"},
		{"/srv/rootfs", "/srv/rootfs/etc/profile.d/x.sh", ""},
		{"/home/me/p", "/home/me/p/etc/cron.d/x", ""},
		{"/", "/hooks/l", ""},
	} {
		v := tree{c.path: "x"}
		k := Classifier{Roots: []string{c.root}, Old: tree{}, New: v}
		kind := File
		if path.Base(c.path) == "l" {
			kind = Link
		}
		if got := k.Reason(Change{Path: c.path, Kind: kind, Content: true}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.path, got, c.want)
		}
	}
}

// TestHome: a configuration may name what is below the owner's home directory.
func TestHome(t *testing.T) {
	t.Setenv("HOME", "/p")
	t.Setenv("USER", "me")
	old := at(repository, ".git/config: [core]\nhooksPath = ~/hk\n[include]\npath = ~me/inc\n[alias]\nx = !~/t/h.sh\ny = !~other/b\n", "hk/x: x", "inc: ", "t/h.sh: x")
	got := reasons(old, at(old, "hk/pre-commit: x", "inc: [core]\npager = x", "t/h.sh: y", "b: x"))
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"hk/pre-commit", "inc", "t/h.sh"}) {
		t.Errorf("got %q", got)
	}
}

// TestAtHome: where shells look for programs of the owner, below the home directory, they run later. In a project the
// same names do not.
func TestAtHome(t *testing.T) {
	now := at(nil, "bin/ls: x", "go/bin/x: x", "go/pkg/x: x", "src/bin/x: x", "other/x: x", ".local/share/pnpm/pnpm: x", ".local/share/pnpm/store/v3/x: x", ".local/share/uv: =>x", "perl5: =>x", ".yarn/bin/y: x")
	for home, want := range map[string][]string{
		"/p":     {".local/share/pnpm/pnpm", ".local/share/uv", ".yarn/bin/y", "bin/ls", "go/bin/x", "perl5"},
		"/p/src": {"src/bin/x"},
		"/":      nil,
		"/q":     nil,
	} {
		t.Setenv("HOME", home)
		got := reasons(nil, now)
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
			t.Errorf("%s: got %q, want %q", home, got, want)
		}
		c := Classifier{Roots: []string{"/p"}, Old: tree(nil), New: now}
		for _, p := range want {
			if now.Kind("/p/"+p) == File && c.Plain("/p", p) {
				t.Errorf("%s: %s is plain", home, p)
			}
		}
	}
}

// TestModes says which changes count where the content is the same.
func TestModes(t *testing.T) {
	v := at(repository, ".git/hooks/update: x", ".envrc: x")
	k := Classifier{Roots: []string{"/p"}, Old: v, New: v}
	for _, c := range []struct {
		ch   Change
		want string
	}{
		{Change{Path: "/p/.git/hooks/update", Kind: File, Executable: true}, reasonHook},
		{Change{Path: "/p/.git/hooks/update", Kind: File}, ""},
		{Change{Path: "/p/.git/hooks/update"}, ""}, // deleted
		{Change{Path: "/p/.git/config", Kind: File, Executable: true}, ""},
	} {
		if got := k.Reason(c.ch); got != c.want {
			t.Errorf("%v: got %q, want %q", c.ch, got, c.want)
		}
	}
}

// TestTable: the table visits what a look at each pattern finds.
func TestTable(t *testing.T) {
	all := names().patterns
	seen := map[string]bool{"": true, "*": true, ".": true, "unknown": true, "x.go": true, ".git": true}
	for i := range all {
		first := all[i].first()
		seen[strings.ReplaceAll(first, "*", "x")], seen[strings.ReplaceAll(first, "*", "")], seen[first+"x"] = true, true, true
	}
	for name := range seen {
		want := map[*pattern]bool{}
		for i := range all {
			if ok, _ := path.Match(all[i].first(), name); ok {
				want[&all[i]] = true
			}
		}
		names().at(name, func(p *pattern) bool {
			delete(want, p)
			return true
		})
		for p := range want {
			t.Errorf("%q: %s was not visited", name, p.text)
		}
	}
}

// TestIncludedThroughLinks: files that git reads and executes through links to directories are found as without links.
// Relative paths begin at the directory that git was told.
func TestIncludedThroughLinks(t *testing.T) {
	old := tree{
		"/p/.git/HEAD": "ref: refs/heads/x\n", "/p/.git/objects/x": "", "/p/.git/refs/x": "",
		"/p/.git/config":         "[include]\n\tpath = ../linked/one\n\tpath = ../file\n",
		"/p/linked":              "=>conf",
		"/p/conf/one":            "[core]\n\thooksPath = scripts/hooks\n",
		"/p/file":                "=>conf/two",
		"/p/conf/two":            "[include]\n\tpath = three\n",
		"/p/three":               "[core]\n\tfsmonitor = ./watch\n",
		"/p/scripts":             "=>real",
		"/p/real/hooks/pre-push": "=>../check",
		"/p/real/check":          "old", "/p/watch": "old", "/p/other": "old",
	}
	now := maps.Clone(old)
	for _, name := range []string{"/p/real/check", "/p/watch", "/p/other", "/p/real/hooks/post-merge"} {
		now[name] = "new"
	}
	got := reasons(old, now)
	for _, name := range []string{"real/check", "watch", "real/hooks/post-merge"} {
		if got[name] == "" {
			t.Errorf("%s does not run later: %q", name, got)
		}
	}
	if got["other"] != "" {
		t.Errorf("other runs later: %s", got["other"])
	}
}

// A counted counts the files that are read, and those that are looked at.
type counted struct {
	tree
	reads, looks *int
}

func (c counted) Kind(p string) Kind {
	*c.looks++
	return c.tree.Kind(p)
}

func (c counted) Read(p string) (string, bool) {
	*c.reads++
	return c.tree.Read(p)
}

// TestIncludedOften: each configuration is read once, however often and through whatever links others include it.
func TestIncludedOften(t *testing.T) {
	const levels, times = 10, 50
	old := tree{"/p/.git/HEAD": "ref: refs/heads/x\n", "/p/.git/objects/x": "", "/p/.git/refs/x": "", "/p/.git/here": "=>."}
	include := func(n int) string {
		return strings.Repeat(fmt.Sprintf("[include]\n\tpath = level%d\n\tpath = here/level%[1]d\n", n), times)
	}
	old["/p/.git/config"] = include(0)
	for n := range levels {
		old[fmt.Sprint("/p/.git/level", n)] = include(n + 1)
	}
	old[fmt.Sprint("/p/.git/level", levels)] = "[core]\n\tfsmonitor = ./watch\n"
	var reads, looks int
	c := Classifier{Roots: []string{"/p"}, Old: counted{old, &reads, &looks}, New: old}
	if got := c.Reason(Change{Path: "/p/watch", Kind: File, Content: true}); got == "" {
		t.Error("the file that the last setting names does not run later")
	}
	if reads > levels+10 {
		t.Errorf("%d reads of %d files", reads, levels+2)
	}
}

// TestChains: a link of a chain is looked at once, though each of them is followed.
func TestChains(t *testing.T) {
	const length = 200
	old := tree{"/p/.git/HEAD": "ref: refs/heads/x\n", "/p/.git/objects/x": "", "/p/.git/refs/x": ""}
	for i := range length {
		old[fmt.Sprintf("/p/.git/hooks/%d", i)] = fmt.Sprintf("=>%d", i+1)
	}
	old[fmt.Sprintf("/p/.git/hooks/%d", length)] = "=>../../check"
	var reads, looks int
	c := Classifier{Roots: []string{"/p"}, Old: counted{old, &reads, &looks}, New: old}
	if got := c.Reason(Change{Path: "/p/check", Kind: File, Content: true}); got == "" {
		t.Error("the end of the chain does not run later")
	}
	if looks > 3*length {
		t.Errorf("%d looks at %d links", looks, length)
	}
}

// TestManyChains: links that lead through the same chain cost no more than one, though the target of each link is as
// long as it can be.
func TestManyChains(t *testing.T) {
	const length, many = 39, 20_000
	old := tree{"/p/d": "=dir"}
	now := tree{"/p/check": "new", "/p/other": "new"}
	for i := range length {
		old[fmt.Sprintf("/p/l%d", i)] = "=>" + strings.Repeat("d/../", 800) + fmt.Sprintf("l%d", i+1)
	}
	old[fmt.Sprintf("/p/l%d", length)] = "=>check"
	for i := range many {
		old[fmt.Sprintf("/p/.idea/%d", i)] = "=>../l0"
	}
	c := Classifier{Roots: []string{"/p"}, Old: old, New: now}
	start := time.Now()
	if got := c.Reason(Change{Path: "/p/other", Kind: File, Content: true}); got != "" {
		t.Errorf("another file: %s", got)
	}
	for _, name := range []string{"l0", "l20", "check"} {
		if got := c.Reason(Change{Path: "/p/" + name, Kind: File, Content: true}); got == "" {
			t.Errorf("%s does not run later", name)
		}
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestManyWords: the words of a command cost no more the deeper the directory is that it changes to.
func TestManyWords(t *testing.T) {
	const count = 2000
	deep := strings.TrimSuffix(strings.Repeat("d/", 1000), "/")
	old := tree{"/p/.git/HEAD": "ref: refs/heads/x\n", "/p/.git/objects/x": "", "/p/.git/refs/x": "",
		"/p/.git/config": "[core]\n\tfsmonitor = \"cd " + deep + strings.Repeat(" w", count) + strings.Repeat(" cd d", count) + "; cd d; ./check\"\n"}
	var reads, looks int
	c := Classifier{Roots: []string{"/p"}, Old: counted{old, &reads, &looks}, New: old}
	if got := c.Reason(Change{Path: "/p/check", Kind: File, Content: true}); got == "" {
		t.Error("the file that the command executes does not run later")
	}
	if most := 10 * count; looks > most {
		t.Errorf("%d looks, not %d", looks, most)
	}
}

// TestLongPaths: a text longer than any path leads nowhere and is not looked up. Each component used to take memory for
// all components before it.
func TestLongPaths(t *testing.T) {
	long := strings.Repeat("d/", 5000)
	old := tree{"/p/.git/HEAD": "ref: refs/heads/x\n", "/p/.git/objects/x": "", "/p/.git/refs/x": "",
		"/p/.git/config":    "[core]\n\thooksPath = " + long + "\n\tfsmonitor = ./" + long + "x\n[include]\n\tpath = " + long + "x\n[core]\n\tpager = ./check\n",
		"/p/.git/commondir": "../" + long + "\n",
		"/p/sub/.git":       "gitdir: " + long + "\n"}
	for _, commondir := range []bool{true, false} {
		var reads, looks int
		c := Classifier{Roots: []string{"/p"}, Old: counted{old, &reads, &looks}, New: old}
		if got := c.Reason(Change{Path: "/p/check", Kind: File, Content: true}); (got == "") != commondir {
			t.Errorf("commondir %v: %q", commondir, got)
		}
		if looks > 200 {
			t.Errorf("%d looks", looks)
		}
		delete(old, "/p/.git/commondir")
	}
}

// What is known about the directory of a change does not depend on the directories of earlier changes.
func TestEnter(t *testing.T) {
	c := new(Classifier)
	for _, dir := range []string{
		"", "/p", "/p/a", "/p/a/b", "/p/b", "/p/Hooks", "/p/Hooks/a", "/p/hooks/a", "/p/a", "/p/.git/a/b", "/p/.git/a", "/p/.git", "/p", "/q/.git", "/q/.gitx/b/c", "/q/a/.git", "/q/a/b", "/q/a/bc", "/q", "",
	} {
		fresh := new(Classifier)
		fresh.enter(dir)
		if c.enter(dir); !slices.Equal(c.elems, fresh.elems) || c.plain != fresh.plain {
			t.Errorf("%q: %q, %v; alone it is %q, %v", dir, c.elems, c.plain, fresh.elems, fresh.plain)
		}
		plain := true
		for e := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
			plain = plain && !c.interesting(fold(e))
		}
		if plain != fresh.plain {
			t.Errorf("%q: %v", dir, fresh.plain)
		}
	}
}

// TestLongLinks: links of a project can name thousands of directories one after the other, which need not exist.
func TestLongLinks(t *testing.T) {
	up, down := strings.Repeat("../", 2000), strings.Repeat("a/", 2000)
	for name, tt := range map[string]struct {
		old           tree
		changes, want string
	}{
		"missing, and back": {tree{"/p/.envrc": "=>none/a/../../none/b/../../x/y", "/p/x/z": ""}, "x/y x/z none/a", "x/y"},
		"down and up":       {tree{"/p/.envrc": "=>l", "/p/l": "=>" + down + "l/" + up + "m", "/p/m": "=>x"}, "x y l", "l"},
		"up and down":       {tree{"/p/.envrc": "=>l/" + up[:3990] + "p/m", "/p/l": "=>" + down, "/p/m": "=>x"}, "x l y", "l"},
		"deep":              {tree{"/p/.envrc": "=>l/" + down, "/p/l": "=>" + down}, down + down + "b x", down + down + "b"},
	} {
		t.Run(name, func(t *testing.T) {
			now := maps.Clone(tt.old)
			for name := range strings.FieldsSeq(tt.changes) {
				now["/p/"+name] = "new"
			}
			got := slices.Sorted(maps.Keys(reasons(tt.old, now)))
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got %.200q, want %.200q", g, tt.want)
			}
		})
	}
	chain := tree{"/p/.envrc": "=>l0"}
	for i := range maxLinks - 2 {
		chain[fmt.Sprintf("/p/l%d", i)] = fmt.Sprintf("=>l%d/%s", i+1, down)
	}
	var reads, looks int
	c := Classifier{Roots: []string{"/p"}, Old: counted{chain, &reads, &looks}, New: chain}
	c.lead()
	if looks > 200 || c.links.bytes > 1<<20 {
		t.Errorf("%d looks; paths with %d bytes are remembered", looks, c.links.bytes)
	}
}

// TestLinksRemembered: what is remembered of links is bounded.
func TestLinksRemembered(t *testing.T) {
	deep := "/p" + strings.Repeat("/a", 1500)
	old := tree{deep + "/x": ""}
	l := links{view: old, roots: []string{"/p"}}
	for i := range 2 * mostKnown / len(deep) {
		if l.at(fmt.Sprint(deep, "/", i)); i%1000 == 0 && l.at(deep+"/x").to != "" {
			t.Fatal("a file is a link")
		}
	}
	size := 0
	for p := range l.known {
		size += len(p)
	}
	if size > mostKnown {
		t.Errorf("paths with %d bytes are remembered", size)
	}
}

// TestGiven: a change of owner or mode counts where other users can then write to what runs later. Nothing else about
// the path has changed.
func TestGiven(t *testing.T) {
	now := at(repository, ".git/hooks/pre-commit: x", ".git/hooks/x.sample: x", ".git/index: x", ".git/objects/ab/cd: x", ".git/modules/m/HEAD: x",
		".vscode/tasks.json: x", ".envrc: x", "a.c: x", "src/hooks/b: x", "conf: [core]", "bare/HEAD: ref: refs/heads/x", "bare/objects/x: x", "bare/refs/x: x", "bare/hooks/update: x")
	now["/p/.git/config"] = "[include]\npath = ../conf\n"
	c := Classifier{Roots: []string{"/p"}, Old: now, New: now}
	for p, want := range map[string]bool{
		".git": true, ".git/hooks": true, ".git/hooks/pre-commit": true, ".git/hooks/x.sample": false, ".git/config": true, ".git/index": false, ".git/HEAD": false,
		".git/objects/ab": false, ".git/objects/ab/cd": false, ".git/modules": true, ".git/modules/m": true, ".vscode": true, ".vscode/tasks.json": true,
		".envrc": true, "a.c": false, "src": false, "src/hooks": false, "src/hooks/b": false, "conf": true, "bare": true, "bare/hooks": true, "bare/hooks/update": true,
	} {
		ch := Change{Path: "/p/" + p, Kind: now.Kind("/p/" + p), Given: true}
		if got := c.Reason(ch); (got != "") != want {
			t.Errorf("%s: %q", p, got)
		}
		if ch.Given = false; c.Reason(ch) != "" {
			t.Errorf("%s: %q, although nobody gets it", p, c.Reason(ch))
		}
	}
}
