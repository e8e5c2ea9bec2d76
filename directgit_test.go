//go:build linux

package nsrun_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// repositories makes a project with all kinds of repositories: a submodule, one with its own git directory, one that
// does not exist yet, one that belongs to no other, and a linked work tree.
const repositories = `set -e
mkdir ../up && export GIT_TEMPLATE_DIR= && git init -q -b main ../up && echo x >../up/f && git -C ../up add f && git -C ../up commit -qm up
git init -q -b main . && mkdir tools tools/hooks .husky .husky/_ && echo x | tee f tools/mon tools/settings tools/more .husky/pre-commit .husky/_/pre-commit >/dev/null
git -c protocol.file.allow=always submodule --quiet add ../up m
git -c protocol.file.allow=always submodule --quiet add ../up u
git clone -q ../up e && git -c advice.addEmbeddedRepo=false add e
git add . && git commit -qm first && git submodule --quiet deinit -f u && rm -rf .git/modules/u && git clone -q ../up n`

// TestWrittenInPlace: what a command puts where git of its owner takes it from makes git
// execute nothing, with --direct and in a tree of --rw. The control is the same without a sandbox.
func TestWrittenInPlace(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	const (
		evil   = "'[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = echo changed >>$VICTIM;false\\n'"
		script = "printf '#!/bin/sh\\necho changed >>$VICTIM\\n'"
		hook   = script + " >$H/pre-commit; chmod +x $H/pre-commit"
		commit = "git commit -q --allow-empty -m x"
		many   = "$(seq -f d%.0f 2500)"
	)
	template := place(t)
	git := func(dir, script string, env ...string) (string, error) {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_NOSYSTEM=1"), env...)
		b, err := cmd.CombinedOutput()
		return string(b), err
	}
	if out, err := git(filepath.Join(template, "p"), repositories); err != nil {
		t.Fatal(err, out)
	}
	for _, c := range []struct {
		name, setup, root, plant, again, use string
		rw                                   bool
	}{
		{name: "submodule's .git", rw: true, plant: "rm m/.git; git init -q m; printf " + evil + " >m/.git/config", use: "git status"},
		{name: "submodule moved", plant: "mv m m2; mkdir m; git init -q m; printf " + evil + " >m/.git/config", use: "git status"},
		{name: "submodule's hook", plant: "H=.git/modules/m/hooks; mkdir -p $H; " + hook, use: "cd m && " + commit},
		{name: "embedded submodule", rw: true, plant: "printf " + evil + " >e/.git/config", use: "git status"},
		{name: "embedded submodule's hook", plant: "H=e/.git/hooks; mkdir -p $H; " + hook, use: "cd e && " + commit},
		{name: "submodule that is not there", plant: "git init -q u; printf " + evil + " >u/.git/config", use: "git status"},
		{name: "submodule that is left out", plant: "rm .gitmodules; git init -q u 2>/dev/null", again: "git init -q u; printf " + evil + " >u/.git/config", use: "git status"},
		{name: "nested repository", plant: "printf " + evil + " >n/.git/config", use: "git -C n status"},
		{name: "nested repository moved", rw: true, plant: "mv n n2; mkdir n; git init -q n; printf " + evil + " >n/.git/config", use: "git -C n status"},
		{name: "linked work tree", setup: "git worktree add -q w", plant: "rm w/.git; git init -q w; printf " + evil + " >w/.git/config", use: "git -C w status"},
		{name: "deep work tree", setup: "git worktree add -q d/e/w", plant: "rm d/e/w/.git; git init -q d/e/w; printf " + evil + " >d/e/w/.git/config", use: "git -C d/e/w status"},
		{name: "deep submodule", setup: "git -c protocol.file.allow=always submodule --quiet add ../up a/b/c", plant: "rm a/b/c/.git; git init -q a/b/c; printf " + evil + " >a/b/c/.git/config", use: "git status"},
		{name: "hooksPath", rw: true, setup: "git config core.hooksPath tools/hooks", plant: "H=tools/hooks; " + hook, use: commit},
		{name: "hooksPath moved", setup: "git config core.hooksPath tools/hooks", plant: "mv tools t; mkdir -p tools/hooks; H=tools/hooks; " + hook, use: commit},
		{name: "link in hooksPath", setup: "git config core.hooksPath tools/hooks; ln -s ../mon tools/hooks/pre-commit; chmod +x tools/mon", plant: script + " >tools/mon", use: commit},
		{name: "submodule's hooksPath", setup: "git -C m config core.hooksPath hooks; mkdir m/hooks", plant: "H=m/hooks; " + hook, use: "cd m && " + commit},
		{name: "everybody's hooksPath", setup: "git config --global core.hooksPath tools/hooks", plant: "H=tools/hooks; " + hook, use: commit},
		{name: "husky", setup: "git config core.hooksPath .husky/_; printf '#!/bin/sh\\n. .husky/pre-commit' >.husky/_/pre-commit; chmod +x .husky/_/pre-commit", plant: script + " >.husky/pre-commit", use: commit},
		{name: "include", setup: ": >tools/settings; git config include.path ../tools/settings", plant: "printf " + evil + " >tools/settings", use: "git status"},
		{name: "include in an include", setup: ": >tools/more; printf '[include]\\n\\tpath = more\\n' >tools/settings; git config include.path ../tools/settings", plant: "printf " + evil + " >tools/more", use: "git status"},
		{name: "includeIf", setup: ": >tools/settings; git config includeIf.onbranch:main.path ../tools/settings", plant: "printf " + evil + " >tools/settings", use: "git status"},
		{name: "configuration kept in the project", setup: ": >tools/settings; ln -s $PWD/tools/settings $HOME/.gitconfig", plant: "printf " + evil + " >tools/settings", use: "git status"},
		{name: "command", setup: "git config core.fsmonitor tools/mon; printf '#!/bin/sh\\nexit 1\\n' >tools/mon; chmod +x tools/mon", plant: script + " >tools/mon", use: "git status"},
		{name: "hooksPath of the project around it", rw: true, root: "tools", setup: "git config core.hooksPath tools/hooks", plant: "H=hooks; " + hook, use: "cd .. && " + commit},
		{name: "submodule in a directory", rw: true, root: "a", setup: "git -c protocol.file.allow=always submodule --quiet add ../up a/b/c", plant: "rm b/c/.git; git init -q b/c; printf " + evil + " >b/c/.git/config", use: "cd .. && git status"},
		{name: "submodule in the index alone", rw: true, setup: "mkdir -p deep/er; mv n deep/er; git -c advice.addEmbeddedRepo=false add deep/er/n; git commit -qm deep", plant: "printf " + evil + " >deep/er/n/.git/config", use: "git status"},
		{name: "submodule in a split index", setup: "mkdir -p deep/er; mv n deep/er; git -c advice.addEmbeddedRepo=false add deep/er/n; git commit -qm deep; git update-index --split-index", plant: "printf " + evil + " >deep/er/n/.git/config", use: "git status"},
		{name: "submodule in the index of a submodule", setup: "mkdir -p e/deep/er; mv n e/deep/er; cd e; git -c advice.addEmbeddedRepo=false add deep; git commit -qm deep", plant: "printf " + evil + " >e/deep/er/n/.git/config", use: "git status"},
		{name: "submodule in the index that is not there", setup: "mkdir -p deep/er; mv n deep/er; git -c advice.addEmbeddedRepo=false add deep; git commit -qm deep; rm -rf deep/er/n/* deep/er/n/.git", plant: "git init -q deep/er/n; printf " + evil + " >deep/er/n/.git/config", use: "git status"},
		{name: "submodule in the index of the project around it", root: "deep", setup: "mkdir -p deep/er; mv n deep/er; git -c advice.addEmbeddedRepo=false add deep; git commit -qm deep", plant: "printf " + evil + " >er/n/.git/config", use: "cd .. && git status"},
		{name: "nested repository among many names", rw: true, setup: "mkdir " + many + " && mv n zz", plant: "printf " + evil + " >zz/.git/config", use: "git -C zz status"},
		{name: "repository without a work tree", rw: true, setup: "git clone -q --bare ../up b.git", plant: "H=b.git/hooks; mkdir -p $H; " + script + " >$H/post-update; chmod +x $H/post-update", use: "git push -q ./b.git HEAD:refs/heads/new"},
		{name: "hook in a repository without a work tree", setup: "git clone -q --bare ../up b.git; git -C b.git config core.hooksPath $PWD/tools/hooks", plant: "H=tools/hooks; " + script + " >$H/post-update; chmod +x $H/post-update", use: "git push -q ./b.git HEAD:refs/heads/new"},
		{name: "nested repository behind a link", setup: "mkdir -p deep/er; mv n deep/er; ln -s deep/er/n l", plant: "printf " + evil + " >deep/er/n/.git/config", use: "git -C l status"},
	} {
		if !testenv.TurnOf(c.name) {
			continue
		}
		for i, way := range []string{"", "direct", "rw"} {
			if i == 2 && !c.rw {
				continue
			}
			dir := place(t, "../q/")
			top, victim := filepath.Join(dir, "p"), filepath.Join(dir, "victim")
			testenv.Tree(t, dir, "victim: as it was")
			if out, err := git(dir, "cp -a "+template+"/p "+template+"/up . && cd p && "+"{ "+cmp.Or(c.setup, ":")+"; }"); err != nil {
				t.Fatalf("%s: %v %s", c.name, err, out)
			}
			p := filepath.Join(top, c.root)
			env := "VICTIM=" + victim
			config := nsrun.Config{Project: p, Mode: nsrun.Direct, Env: []string{env}}
			if way == "rw" {
				config = nsrun.Config{Project: filepath.Join(dir, "q"), Rules: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: p}}, Env: []string{env}}
			}
			for _, plant := range []string{c.plant, c.again} {
				if plant == "" {
					continue
				}
				if way == "" {
					_, _ = git(p, plant, env)
					continue
				}
				q := nsrun.Request{Command: "touch here; " + plant, WorkingDir: p}
				if got := output(t, runner(t, config), q); content(p, "here") != "" {
					t.Errorf("%s, %s: nothing was written: %s", c.name, way, got)
				}
			}
			out, _ := git(p, c.use, env)
			if changed := content(victim) != "as it was"; changed != (way == "") {
				t.Errorf("%s, %q: %q; git says %q", c.name, way, content(victim), out)
			}
		}
	}
}

// TestHardLinkedHooks: a hook with another name, which a command could write to, is refused.
func TestHardLinkedHooks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	for name, c := range map[string]struct{ setup, root, other string }{
		"hook":                   {"ln tools/pc .git/hooks/pre-commit", "", "tools/pc"},
		"hook of hooksPath":      {"mkdir hooks; ln tools/pc hooks/pre-commit; git config core.hooksPath hooks", "", "tools/pc"},
		"link to a hook":         {"ln tools/pc pc; ln -s $PWD/pc .git/hooks/pre-commit", "", "tools/pc"},
		"hook of project around": {"ln tools/pc .git/hooks/pre-commit", "tools", "pc"},
	} {
		for _, control := range []bool{true, false} {
			dir := place(t)
			top, victim := filepath.Join(dir, "p"), filepath.Join(dir, "victim")
			at := func(in, script string) {
				cmd := exec.Command("/bin/sh", "-c", script)
				cmd.Dir = in
				cmd.Env = append(os.Environ(), "VICTIM="+victim, "GIT_TEMPLATE_DIR=", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_NOSYSTEM=1")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v %s", name, err, out)
				}
			}
			at(top, "git init -q .; mkdir -p tools .git/hooks; echo '#!/bin/sh' >tools/pc; chmod +x tools/pc; "+c.setup)
			root, plant := filepath.Join(top, c.root), "echo 'echo changed >>$VICTIM' >>"+c.other
			if control {
				at(root, plant)
			} else {
				_, err := runner(t, nsrun.Config{Project: root, Mode: nsrun.Direct}).Run(t.Context(), nsrun.Request{Command: plant})
				if err == nil || !strings.Contains(err.Error(), "has another hard link") {
					t.Errorf("%s: %v", name, err)
				}
			}
			at(top, "git commit -q --allow-empty -m x")
			if changed := content(victim) == "changed\n"; changed != control {
				t.Errorf("%s, control %v: %q", name, control, content(victim))
			}
		}
	}
}

// TestWrittenInPlaceTold: one line reports files that a command wrote in place and that run later. Nothing else is
// reported.
func TestWrittenInPlaceTold(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, c := range []struct {
		command string
		want    string // in the line; "-": there is none
		watch   bool
	}{
		{"echo x >f; mkdir -p src .vscode; echo x >src/.envrc; touch -d 2020-01-01 src", "-", false},
		{"echo x >.envrc", "/p/.envrc (direnv)", false},
		{"mkdir .vscode; echo {} >.vscode/tasks.json", "/p/.vscode/tasks.json (VS Code settings)", false},
		{"git init -q .", "-", false},
		{"git init -q new; printf '#!/bin/sh\\n' >new/.git/hooks/pre-commit", "/p/new/.git/hooks/pre-commit (git hook)", false},
		{"git init -q .; git config core.fsmonitor evil", "/p/.git/config (git configuration: core.fsmonitor)", false},
		{"mkdir -p a/b/c; echo x >a/b/c/.envrc", "/p/a/b/c/.envrc (direnv)", true},
		{"mkdir -p a/b/c; echo x >a/b/c/f", "-", true},
		{"for i in 1 2 3 4 5 6 7; do echo x >.vimrc$i.code-workspace; done", ", 2 more", false},
		{"mkdir $(seq -f d%.0f 2500); mkdir -p new/.git/hooks; touch new/.git/hooks/pre-commit", "/p/new/.git/hooks/pre-commit (git hook)", false},
		{"git init -q --bare b.git; mkdir -p b.git/hooks; touch b.git/hooks/post-update", "/p/b.git/hooks/post-update (git hook)", false},
		{"git init -q --bare b.git; git init -q a", "-", false},
		{"mkdir .vscode; cd .vscode; seq -f f%.0f 11000 | xargs touch; echo {} >tasks.json", "too many changes to check", false},
		{"rm .bashrc; mv old .envrc", "/p/.envrc (direnv)", false},
	} {
		dir := place(t, "old: x", ".bashrc: as it was", ".mcp.json: as it was")
		p := filepath.Join(dir, "p")
		old := func(name string) {
			if out, err := exec.Command("touch", "-d", "2020-01-01", filepath.Join(p, name)).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
		}
		old(".bashrc")
		waitTick(t, p)
		res, err := runner(t, nsrun.Config{Project: p, Mode: nsrun.Direct, Watch: c.watch}).Run(t.Context(), nsrun.Request{Command: c.command})
		if err != nil || res.ExitCode != 0 {
			t.Errorf("%s: %v, %s", c.command, err, res)
		}
		got := fmt.Sprint(res.Notices)
		told := strings.Contains(got, "written in place, and run later by itself: ")
		if told != (c.want != "-") || told && !strings.Contains(got, c.want) || strings.Contains(got, "mcp.json") {
			t.Errorf("%s: %q", c.command, got)
		}
	}
}

// waitTick waits until files of now are newer than those that are there by more than the
// clock of files lags behind.
func waitTick(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, "tick")
	var first os.FileInfo // when it is called: what is there can have changed since the directory did
	for {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = fi
		}
		if fi.ModTime().Sub(first.ModTime()).Milliseconds() > 60 {
			return
		}
		if fi.ModTime().Before(first.ModTime()) {
			t.Fatal("the clock goes back")
		}
	}
}
