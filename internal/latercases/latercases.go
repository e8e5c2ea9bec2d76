// Package latercases has two tables: files that a command can leave in a project to be executed later, with the program
// that executes each; and ordinary work that leaves no such file. The tests of the Runner, `nsrun run --commit` and
// `nsrun mcp` use both. Only tests import it; it imports nothing of this module.
//
// Each case is a script for sh in the project's directory. The code that is executed later creates the file that the
// variable M names, beside the project: ../marker.
package latercases

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Case is something that runs later.
type Case struct {
	Name  string
	Setup string // what the owner of the project has
	Plant string // what the command does
	// Trigger is done by the owner afterwards, and executes what was planted. Empty: the
	// program cannot be had, or driven, in a test.
	Trigger string
	Needs   string   // the program that Trigger takes; empty: those that are always there
	Held    []string // what must not be in the project
}

// A Workflow is work that leaves nothing to be executed.
type Workflow struct {
	Name, Setup, Do string
	Check           string // that it is done, in the project
	Needs           string
	Beside          string // what it reads outside of the project, relative to it
}

// prelude is what scripts begin with: evil FILE makes a program that makes the marker, put
// FILE TEXT a file, repo a repository. stage FILE PATH puts a file into the index at another path, and rename OLD NEW
// replaces a text in the index.
const prelude = `set -e
export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@example.org GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@example.org GIT_CONFIG_NOSYSTEM=1
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=init.defaultBranch GIT_CONFIG_VALUE_0=main GIT_CONFIG_KEY_1=safe.directory GIT_CONFIG_VALUE_1='*' GIT_CONFIG_KEY_2=protocol.file.allow GIT_CONFIG_VALUE_2=always
unset EDITOR VISUAL PAGER GIT_PAGER GIT_EDITOR GIT_ASKPASS SSH_ASKPASS ZDOTDIR XDG_CONFIG_HOME
put() { mkdir -p "$(dirname "$1")"; printf '%s\n' "$2" >"$1"; }
evil() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\n: >"$M"\n' >"$1"; chmod +x "$1"; }
repo() { git init -q "$@"; for d; do :; done; (cd "${d:-.}"; echo 1 >a; echo x >.gitignore; git add a .gitignore; git commit -q -m a); }
stage() { printf '100755 %s 0\t%s\n' "$(git hash-object -w "$1")" "$2" | git update-index --index-info; }
rename() { for f in .git/*index*; do LC_ALL=C sed "s|$1|$2|" "$f" >../index; cat ../index >"$f"; rm ../index; done; }
`

// Script is what sh executes for one of the scripts.
func Script(text string) string { return prelude + toolchain() + text }

// toolchain lets cargo find its own, which is beside it.
var toolchain = sync.OnceValue(func() string {
	cargo, err := exec.LookPath("cargo")
	if err != nil || os.Getenv("RUSTUP_HOME") != "" {
		return ""
	}
	return "export RUSTUP_HOME=" + filepath.Join(cargo, "../../../.rustup") + "\n"
})

// Place makes a project in a new directory, and returns its path.
func Place(t testing.TB, dir, setup string) (project string) {
	t.Helper()
	project = filepath.Join(dir, "p")
	for _, d := range []string{project, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := Outside(project, setup); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	return project
}

// Outside does a script as the owner of a project.
func Outside(project, script string) ([]byte, error) {
	top := filepath.Dir(project)
	said, err := os.CreateTemp(top, "said-") // no pipe: a daemon may keep its end open
	if err != nil {
		return nil, err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	c := exec.Command("sh", "-c", Script(script))
	c.Stdout, c.Stderr = said, said
	c.Dir = project
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(top, "home"), "M=" + Marker(project), "TMPDIR=" + top, "TERM=dumb", "LC_ALL=C"}
	err = c.Run()
	out, e := os.ReadFile(said.Name())
	return out, errors.Join(err, e)
}

// Marker is the file that what was executed makes.
func Marker(project string) string { return filepath.Join(filepath.Dir(project), "marker") }

// Ran reports whether something was executed.
func Ran(project string) bool {
	_, err := os.Lstat(Marker(project))
	return err == nil
}

// Has reports whether the program that a Trigger or a Workflow needs is here.
func Has(program string) bool {
	if program == "" {
		return true
	}
	_, err := exec.LookPath(program)
	return err == nil
}

// Cases are all of them. Files whose programs are known by their documentation are one.
func Cases() []Case {
	c := Case{Name: "documented"}
	add := func(path, text string) {
		c.Plant += "put '" + path + "' '" + text + "'\n"
		c.Held = append(c.Held, path)
	}
	for path := range strings.FieldsSeq(documented) {
		add(path, "x")
	}
	for _, line := range [...][2]string{
		{".tool-versions", "node path:./evil"}, {"rust-toolchain.toml", `path = "evil"`}, {".yarnrc.yml", "yarnPath: ./evil.cjs"}, {"gradle.properties", "org.gradle.jvmargs=-javaagent:x.jar"},
		{".pylintrc", "init-hook=x"}, {"mypy.ini", "plugins = ./evil.py"}, {".python-version", "./evil"}, {".bazelversion", "evil/7.0.0"}, {".bundle/config", "BUNDLE_GEMFILE: evil"},
		{".ruby-version", "../../p/evil"}, {".nvmrc", "path:./evil"}, {".prototools", "x = \"file://./evil.toml\""}, {".flake8", "paths = ."}, {".golangci.yml", "custom:"}, {".sqlfluff", "library_path = ."},
		{".ansible-lint", "rulesdir: [.]"}, {".gitlint", "extra-path=evil.py"}, {".secrets.baseline", "file://evil.py"}, {".project", "<name>org.eclipse.ui.externaltools.ExternalToolBuilder</name>"},
		{"pnpm-workspace.yaml", "scriptShell: ./evil"}, {".htaccess", "php_value auto_prepend_file evil.php"},
		{".sdkmanrc", "java=../../../../p/evil"}, {".opentofu-version", "../../p/evil"}, {".versions.conf", "env-RUBYOPT=-r./evil"}, {"Gemfile", "#ruby-env-RUBYOPT=-r./evil"}, {"global.json", "{\"sdk\": {\"paths\": [\"./evil\"]}}"},
		{".moon/workspace.yml", "vcs: {hooks: {pre-commit: [./evil]}}"}, {"debian/gbp.conf", "postclone = ./evil"},
		{"composer.json", `{"extra": {"hooks": {"pre-commit": "./evil"}}}`}, {"package.json", `{"packageManager": "yarn@https:\/\/example.org/evil.js"}`},
	} {
		add(line[0], line[1])
	}
	return slices.Concat(gitCases, shellCases, []Case{c})
}

// Some are a few of them, for programs that do the same with all; all, where there is time.
func Some() []Case {
	list := Cases()
	if os.Getenv("NSRUN_LONG") != "" {
		return list
	}
	var some []Case
	for i, c := range list {
		if i%6 == 0 || i == len(list)-1 {
			some = append(some, c)
		}
	}
	return some
}

// documented are files that programs read by their documentation.
const documented = `
.vscode/tasks.json .vscode/settings.json .vscode/launch.json .vscode/mcp.json sub/.vscode/tasks.json x.code-workspace .idea/workspace.xml .idea/runConfigurations/x.xml .run/x.run.xml
.zed/tasks.json .helix/languages.toml x.sublime-project .dir-locals.el .nvim.lua .devcontainer/devcontainer.json .gitpod.yml .ycm_extra_conf.py .luarc.json
.claude/settings.json .claude/settings.local.json .claude/hooks/x.sh .claude/commands/x.md .claude/agents/x.md .claude/skills/x/SKILL.md .mcp.json CLAUDE.md AGENTS.md sub/AGENTS.md
.cursor/mcp.json .cursor/rules/x.mdc .cursorrules .codex/config.toml .gemini/settings.json GEMINI.md .aider.conf.yml .continue/config.yaml .windsurf/hooks.json .opencode/x.ts opencode.json
.github/copilot-instructions.md .github/workflows/x.yml .github/actions/x/action.yml .gitlab-ci.yml .circleci/config.yml Jenkinsfile azure-pipelines.yml .travis.yml bitbucket-pipelines.yml
.drone.yml .woodpecker/x.yml .buildkite/pipeline.yml .forgejo/workflows/x.yml
.pre-commit-config.yaml lefthook.yml .lintstagedrc.json .simple-git-hooks.cjs .overcommit.yml commitlint.config.js
mise.toml .mise.toml .config/mise/config.toml .env .envrc.local .direnv/flake-profile-x.rc flake.nix sub/shell.nix devenv.nix nix/.envrc nix/flake.lock nix/default.nix nix/devbox.json nix/.devbox/gen/scripts/.hooks.sh nix/pixi.toml .rvmrc .shadowenv.d/x.lisp .pnpmfile.cjs .yarn/releases/yarn-4.cjs .bazelrc .mvn/jvm.config gradle/wrapper/gradle-wrapper.jar
.irbrc .pryrc .Rprofile .Renviron .RData .ghci .erlang .iex.exs .lldbinit .screenrc .ssh/config .ssh/authorized_keys .hg/hgrc .my.cnf .psqlrc .inputrc .config/environment.d/x.conf
.config/systemd/user/x.service .config/autostart/x.desktop .local/bin/ls .emacs.d/init.el
rust-analyzer.toml .bsp/x.json buildServer.json .sourcekit-lsp/config.json hie.yaml .hie-bios .merlin .solargraph.yml .ruby-lsp/Gemfile lib/ruby_lsp/x/addon.rb .phpactor.json
omnisharp.json .yarn/sdks/eslint/x.js .factorypath .emacs.desktop .gnus.el Session.vim .SpaceVim.d/init.toml .lite_project.lua .atom/init.js .tm_properties .kateproject sub/.latexmkrc
latexmkrc ansible.cfg .pdm-python .bundle/plugin/index .corepack.env .sbtrc renv/activate.R .claude-plugin/plugin.json gptme.toml .pi/extensions/x.ts .qoder/x .iflow/settings.json
codebuff.json .aiassistant/rules/x.md firebender.json .gitlab/duo/mcp.json .taskcluster.yml bitrise.yml ci_scripts/ci_post_clone.sh .packit.yaml .local/share/nvim/site/plugin/x.lua
.local/share/fish/vendor_conf.d/x.fish .mozilla/native-messaging-hosts/x.json .nvm/nvm.sh .config/gh/config.yml .rhosts .k5login .mailfilter .kube/kuberc
.yash_profile .elvish/rc.elv .gitk .netrc .asoundrc .gemrc .config/husky/init.sh .config/pipewire/pipewire.conf .env.yarn .powenv .flox/env/manifest.toml bin/hermit.hcl mise/config.local.toml
user.bazelrc .aspect/cli/config.yaml .buckconfig.d/x .pants.bootstrap .plzconfig.local .mill-jvm-opts gradle/gradle-daemon-jvm.properties .lsp/config.edn .joyride/scripts/workspace_activate.cljs
.nrepl.edn erlang_ls.config gtags.conf .lefthookrc .gitpod/automations.yaml .ona/automations.yaml bamboo-specs/bamboo.yaml vercel.json .ebextensions/x.config appspec.yml .devin/x .ruler/x.md
.cproject .settings/language.settings.xml CMakeLists.txt.user .luarocks/config-5.4.lua ipython_config.py profile_default/startup/x.py .re.pl/repl.rc .csirc .clinit.cl .swiplrc .gprc finish.m
.spiceinit _opam/.opam-switch/environment _opam/.opam-switch/switch-config _opam/bin/ls .ruby-env .nlsp-settings/x.json .tern-project .kimi/x forge.yaml conductor.json .trunk/trunk.yaml .qlty/qlty.toml
.sl/sharedpath .jj/repo CVS/Root _darcs/prefs/prefs .gitreview .fvm/flutter_sdk .aliases .zshrc.local .config/user-dirs.dirs .config/autorandr/postswitch .config/chromium-flags.conf .config/Thunar/uca.xml
.config/yazi/init.lua .config/msmtp/config .task/hooks/on-add .config/Cursor/User/settings.json
.ctags ctags.d/x.ctags .gutctags .phpbrewrc pkgx.yaml replit.nix .eca/config.json .bolt/prompt .cursor-plugin/plugin.json .codex-plugin/plugin.json .specify/scripts/x.sh .taskmaster/config.json
.rultor.yml garnix.yaml .crow.yaml .cnb.yml .yamato/x.yml .ci-operator.yaml .depot/workflows/x.yml .workflow/x.yml .pipelines/x.yml common/git-hooks/pre-commit .wtp.yml
jupyter_server_config.py jupyter_notebook_config.json .murex_profile .config/oils/oshrc .ptpython/config.py .chef/knife.rb .duckdbrc .usqlrc
lsp.json .github/lsp.json .github/copilot/settings.json .github/extensions/x/extension.mjs .commandcode/x .kode/settings.json .superset/config.json .workmux.yaml .gtrconfig .ropeproject/config.py
.pyre_configuration .calva/config.edn .bloop/x.json Steepfile .jrubyrc .hooks/pre-commit nano-staged.mjs cz.yaml .tmux-sessionizer .vimrc_local.vim .cursor-server/x .mavenrc .config/neofetch/config.conf
.opencode.json .kilo/x kilo.json .beads/hooks/x .tmuxinator.yml .config/user-tmpfiles.d/x.conf .local/share/vulkan/implicit_layer.d/x.json .gtkrc-2.0 .subversion/config .mrconfig .quiltrc .devscripts .config/hg/hgrc`
