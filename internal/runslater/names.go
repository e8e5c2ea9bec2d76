package runslater

import (
	"path"
	"strings"
)

// A scope says where below a root a name means something.
type scope uint8

const (
	anywhere scope = iota // in any directory that is entered
	own                   // not in the directories of dependencies, which nobody works in
	top                   // where a repository begins
)

// A class is some names with one reason. In patterns, which are in lower case, "*" stands
// for any part of a name, and "**" at the end for anything below a directory.
type class struct {
	reason   string
	scope    scope
	patterns string   // separated by white space
	lines    []string // only these settings count, if there are any; "*text": lines with that text
}

var classes = []class{
	{reason: "shell startup file", scope: own, patterns: `
		.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .bashrc.d/** .profile .profile.d/** .login .logout .shrc
		.kshrc .mkshrc .cshrc .tcshrc .zshrc .zshenv .zprofile .zlogin .zlogout .zsh/** .zshrc.d/** .zfunctions/** .oh-my-zsh/** .p10k.zsh .xonshrc .inputrc
		.config/fish/** .config/nushell/** .config/elvish/** .config/powershell/** .config/xonsh/** .config/bash/** .config/zsh/**
		.config/environment.d/** .config/starship.toml .pam_environment .lessfilter .lesskey .config/lesskey`},
	{reason: "login session", scope: own, patterns: `
		.xprofile .xinitrc .xsession .xsessionrc .xclients .xserverrc .config/autostart/** .config/autostart-scripts/** .config/plasma-workspace/**
		.config/systemd/** .local/share/systemd/** .local/share/applications/** .local/share/dbus-1/** .local/share/kservices5/** library/launchagents/**
		.config/i3/** .config/sway/** .config/hypr/** .config/awesome/** .config/bspwm/** .config/openbox/** .config/qtile/** .config/xmonad/**
		.config/herbstluftwm/** .config/niri/** .config/river/** .config/labwc/** .config/polybar/** .config/waybar/** .config/sxhkd/** .config/rofi/**
		.config/kitty/** .config/alacritty/** .config/wezterm/** .config/ghostty/** .config/zellij/** .i3/** .sway/** .xmonad/** .fluxbox/** .fvwm/**
		.hammerspoon/** .skhdrc .yabairc .xbindkeysrc .conkyrc .wezterm.lua .alacritty.toml .alacritty.yml`},
	{reason: "program of the home directory", scope: own, patterns: `
		.local/bin/** .local/lib/** .cargo/bin/** .npm-global/** .ssh/** .gnupg/** .aws/config .aws/credentials .kube/config .docker/config.json .docker/cli-plugins/** .forward .procmailrc .mailcap .muttrc
		.mbsyncrc .msmtprc .fetchmailrc .curlrc .wgetrc .ripgreprc .terraformrc .config/go/env .m2/settings.xml .m2/extensions.xml .gradle/init.gradle
		.gradle/init.gradle.kts .gradle/init.d/** .config/mpv/** .config/ranger/** .config/lf/** .config/vifm/** .config/nnn/** .config/mc/** .config/pip/**
		.config/ncmpcpp/** .config/lazygit/** .config/htop/** .config/procps/** .weechat/** .irssi/**`},
	{reason: "tmux or screen settings", scope: own, patterns: `.tmux.conf .tmux.conf.local .tmux/** .config/tmux/** .screenrc .byobu/** .byoburc`},

	{reason: "direnv", patterns: `.envrc .direnvrc .config/direnv/**`},
	{reason: "loaded as environment", scope: own, patterns: `.env .autoenv.zsh .autoenv_leave.zsh .autoenv .autoenv.leave .env.leave .rbenv-vars .rvmrc .shadowenv.d/**`},
	{reason: "mise or asdf", patterns: `.mise.toml mise.toml .mise.*.toml mise.*.toml .mise/** mise/config.toml .config/mise/** .config/mise.toml .rtx.toml .asdfrc`},
	{reason: "mise or asdf", patterns: `.tool-versions`, lines: []string{"*path:", "*ref:"}},
	{reason: "rustup toolchain", patterns: `rust-toolchain rust-toolchain.toml`, lines: []string{"*path", "*/"}},

	{reason: "VS Code settings", scope: own, patterns: `.vscode/** *.code-workspace .vscode-server/** .vscode-oss/** .config/code/** .config/vscodium/** .vs/tasks.vs.json .vs/launch.vs.json .theia/**`},
	{reason: "JetBrains settings", scope: own, patterns: `.idea/** .run/** .fleet/** *.ipr *.iws .config/jetbrains/** .ideavimrc`},
	{reason: "editor settings", scope: own, patterns: `
		.zed/** .config/zed/** .helix/** .config/helix/** .nova/** *.sublime-project *.sublime-workspace .externaltoolbuilders/**
		.luarc.json .luarc.jsonc .neoconf.json .nlsp.json .ycm_extra_conf.py .config/sublime-text/** .config/kak/** .kakrc .nanorc .config/nano/** .config/micro/**`},
	{reason: "vim settings", patterns: `.exrc .nexrc .nvimrc .nvim.lua .vimrc .gvimrc _vimrc _exrc .lvimrc .local.vimrc .lazy.lua .vim/** .config/nvim/** .config/vim/** .vimspector.json`, scope: own},
	{reason: "emacs settings", patterns: `.dir-locals.el .dir-locals-2.el .emacs .emacs.el .emacs.d/** .config/emacs/** .config/doom/** .doom.d/** .spacemacs .spacemacs.d/**`},
	{reason: "development container", scope: own, patterns: `.devcontainer/** .devcontainer.json .gitpod.yml .gitpod.dockerfile .devfile.yaml devfile.yaml .replit .idx/** .codesandbox/** .stackblitzrc`},

	{reason: "Claude settings", scope: own, patterns: `.claude/** .claude.json .mcp.json .config/claude/**`},
	{reason: "Cursor settings", scope: own, patterns: `.cursor/** .cursorrules`},
	{reason: "agent settings", scope: own, patterns: `
		.codex/** .gemini/** .qwen/** .aider.conf.yml .aider.model.settings.yml .continue/** .continuerc.json .windsurf/** .windsurfrules .codeium/** .opencode/** .config/opencode/** opencode.json
		opencode.jsonc .crush.json crush.json .crush/** .goose/** .config/goose/** .goosehints .cline/** .clinerules .clinerules/** .roo/** .roomodes
		.roorules* .kilocode/** .kilocodemodes .kiro/** .trae/** .junie/** .amazonq/** .augment/** .augment-guidelines .amp/** .factory/** .openhands/** .openhands_instructions
		.agent/** .agents/** .copilot/** .config/github-copilot/** .github/copilot-instructions.md .github/instructions/** .github/prompts/**
		.github/agents/** .github/chatmodes/** .github/hooks/** .github/skills/** .github/mcp.json .warp/** .rules .zencoder/** .tabnine/** mcp.json .mcp/**`},
	{reason: "instructions that agents follow", scope: own, patterns: `claude.md claude.local.md agents.md agents.override.md agent.md gemini.md qwen.md warp.md crush.md copilot-instructions.md`},

	{reason: "built when it is pushed", scope: top, patterns: `
		.github/workflows/** .github/actions/** .gitlab-ci.yml .gitlab-ci.yaml .gitlab-ci/** .gitlab/ci/** .gitlab/agents/** .circleci/** jenkinsfile* azure-pipelines*
		.azure-pipelines/** .azuredevops/** .travis.yml appveyor.yml .appveyor.yml bitbucket-pipelines.yml .drone.yml .drone.star .drone.jsonnet
		.woodpecker.yml .woodpecker.yaml .woodpecker/** .buildkite/** .semaphore/** .cirrus.yml .cirrus.star .tekton/** .teamcity/** buildspec.yml
		cloudbuild.yaml cloudbuild.yml .gitea/workflows/** .forgejo/workflows/** codefresh.yml .codefresh/** wercker.yml .build.yml .builds/**
		.prow.yaml .zuul.yaml .zuul.d/** zuul.yaml zuul.d/** .harness/** .readthedocs.yml .readthedocs.yaml .cloudbuild/** .onedev-buildspec.yml .screwdriver.yaml screwdriver.yaml`},
	{reason: "run by git hooks", scope: own, patterns: `
		.pre-commit-config.yaml .pre-commit-config.yml prek.toml .husky/** .huskyrc* husky.config.* .githooks/** .git-hooks/** lefthook.* .lefthook.* lefthook-local.*
		.lefthook-local.* .lefthook/** .lefthook-local/** .lintstagedrc* lint-staged.config.* .simple-git-hooks.* simple-git-hooks.* .overcommit.yml .commitlintrc* commitlint.config.*
		captainhook.json grumphp.yml grumphp.yml.dist .rusty-hook.toml rusty-hook.toml .cargo-husky/** hk.pkl .czrc .cz.toml .cz-config.js`},
	{reason: "settings of a version control", scope: own, patterns: `.hgrc .hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .jjconfig.toml .jj/repo/config.toml .jj/repo/workspace-config.toml .config/jj/** .p4config .bzr/branch/branch.conf _darcs/prefs/defaults .arcconfig .fossil-settings/**`},

	{reason: "npm runs it", scope: own, patterns: `.npmrc .pnpmrc`, lines: []string{
		"script-shell", "shell", "node-options", "git", "editor", "viewer", "init-module", "onload-script", "globalconfig", "userconfig", "prefix", "pnpmfile", "node-gyp", "python", "tokenhelper", "npm-path", "use-node-version", "node-path", "browser"}},
	{reason: "yarn runs it", scope: own, patterns: `.yarnrc .yarnrc.yml`, lines: []string{"*yarnpath", "*yarn-path", "*plugins", "*path:", "*script-shell", "*nodeoptions"}},
	{reason: "yarn runs it", scope: own, patterns: `.yarn/releases/** .yarn/plugins/**`},
	{reason: "pnpm runs it", scope: own, patterns: `.pnpmfile.cjs .pnpmfile.mjs pnpmfile.js`},
	{reason: "bun runs it", scope: own, patterns: `bunfig.toml .bunfig.toml`, lines: []string{"*preload"}},
	{reason: "cargo settings", scope: own, patterns: `.cargo/config.toml .cargo/config`},
	{reason: "bazel settings", scope: own, patterns: `.bazelrc .bazeliskrc tools/bazel .buckconfig .buckconfig.local`},
	{reason: "JVM build settings", scope: own, patterns: `.mvn/** gradle/wrapper/gradle-wrapper.jar gradle/wrapper/gradle-wrapper.properties .jvmopts .sbtopts`},
	{reason: "JVM build settings", scope: own, patterns: `gradle.properties`, lines: []string{"jvmargs", "home", "systemprop"}},

	{reason: "debugger startup file", scope: own, patterns: `.gdbinit .gdbearlyinit .config/gdb/** .lldbinit .lldbinit-* .cgdb/** .pdbrc .pdbrc.py .perldb .radare2rc .rizinrc .rdbgrc .byebugrc`},
	{reason: "interpreter startup file", scope: own, patterns: `
		.irbrc .pryrc .railsrc .rprofile .renviron .rdata rprofile.site .ghci .haskeline .ocamlinit .utoprc .julia/config/** .sbclrc .eclrc .clisprc .ccl-init.lisp .guile
		.racketrc .lein/** .clojure/** .erlang .iex.exs .octaverc startup.m .maxima/** maxima-init.mac .gnuplot .pythonrc .pythonrc.py
		.pythonstartup .ipython/** .jupyter/** .config/ipython/** .config/matplotlib/** .phprc .psysh.php .config/psysh/** .user.ini .tclshrc .wishrc .luarc .swank.lisp`},
	{reason: "client startup file", scope: own, patterns: `.psqlrc .sqliterc .my.cnf .mylogin.cnf .mongorc.js .mongoshrc.js .mc.menu .mc/** .config/pgcli/** .config/litecli/** .config/mycli/** .toprc`},
}

// anchored are names below the root of the file system.
var anchored = class{reason: "run by the system", patterns: `
	/etc/cron* /etc/cron*/** /etc/profile /etc/profile.d/** /etc/bash.bashrc /etc/zsh/** /etc/fish/** /etc/systemd/** /etc/init.d/** /etc/rc.local /etc/ld.so.preload
	/etc/ld.so.conf /etc/ld.so.conf.d/** /etc/sudoers /etc/sudoers.d/** /etc/udev/** /etc/xdg/** /etc/ssh/** /etc/apt/** /etc/pam.d/** /etc/gitconfig /etc/environment
	/var/spool/cron/**`}

// notClaude are directories of .claude that nothing is executed from, or that hold
// projects of their own.
var notClaude = []string{"worktrees", "projects", "todos", "plans", "shell-snapshots", "logs", "transcripts", "file-history", "debug", "session-env", "statsig"}

// dependencies are directories that package managers fill.
var dependencies = map[string]bool{"node_modules": true, "bower_components": true, "site-packages": true, "dist-packages": true, "vendor": true, "pods": true}

// A pattern is one name of a class.
type pattern struct {
	*class
	elements []string
	below    bool // it ended in "**"
	first    string
}

// A table finds patterns by their first element.
type table struct {
	byName   map[string][]*pattern
	byEnd    map[string][]*pattern // "*.end", by ".end"
	prefixes [256][]*pattern       // "begin*", by the first byte
}

func newTable() *table {
	t := &table{byName: map[string][]*pattern{}, byEnd: map[string][]*pattern{}}
	for i := range classes {
		for _, text := range strings.Fields(classes[i].patterns) {
			t.add(&classes[i], text)
		}
	}
	return t
}

func (t *table) add(c *class, text string) {
	p := &pattern{class: c}
	text, p.below = strings.CutSuffix(text, "/**")
	p.elements = strings.Split(text, "/")
	first := p.elements[0]
	star := strings.IndexByte(first, '*')
	switch {
	case star < 0:
		t.byName[first] = append(t.byName[first], p)
	case star == 0:
		t.byEnd[first[1:]] = append(t.byEnd[first[1:]], p)
	default:
		p.first = first[:star]
		t.prefixes[first[0]] = append(t.prefixes[first[0]], p)
	}
}

// A fit is how a path fits a pattern.
type fit uint8

const (
	no      fit = iota
	leading     // it is a directory above what the pattern means, if it is one
	yes
)

// fits compares a pattern with the elements of a path, from one on.
func (p *pattern) fits(elements []string) fit {
	for i, want := range p.elements {
		if i == len(elements) {
			return leading
		}
		if ok, _ := path.Match(want, elements[i]); !ok {
			return no
		}
	}
	switch n := len(elements) - len(p.elements); {
	case n == 0 && p.below:
		return leading
	case n == 0 || n > 0 && p.below:
		return yes
	}
	return no
}

// at returns the patterns that may begin with a name.
func (t *table) at(name string, visit func(*pattern) bool) bool {
	for _, p := range t.byName[name] {
		if !visit(p) {
			return false
		}
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		for _, p := range t.byEnd[name[i:]] {
			if !visit(p) {
				return false
			}
		}
	}
	if name == "" {
		return true
	}
	for _, p := range t.prefixes[name[0]] {
		if strings.HasPrefix(name, p.first) && !visit(p) {
			return false
		}
	}
	return true
}
