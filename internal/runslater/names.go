package runslater

import (
	"path"
	"strings"
)

// A scope says where below a root a name has a meaning.
type scope uint8

const (
	anywhere scope = iota // in any directory that is entered
	own                   // not in the directories of dependencies, which nobody works in
	top                   // where a repository begins
)

// A class is a list of names with one reason. In patterns, which are in lower case, "*" stands for any part of a name,
// and "**" at the end for anything below a directory.
type class struct {
	reason   string
	scope    scope
	patterns string   // separated by white space
	lines    []string // only these settings count, if there are any; "*text": lines with that text; "**text": comments, too
	keys     []string // only these keys of JSON count, if there are any: "a" at the top, "a.b" in that; "a=text": values with that text
	harmless []string // a file does not count that has no other settings and headings than these
	beside   string   // they count only in a directory that has this file
}

var classes = []class{
	{reason: "shell startup file", scope: own, patterns: `
		.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .bashrc.d/** .profile .profile.d/** .login .logout .shrc
		.kshrc .mkshrc .cshrc .tcshrc .zshrc .zshenv .zprofile .zlogin .zlogout .zsh/** .zshrc.d/** .zfunctions/** .oh-my-zsh/** .p10k.zsh .xonshrc .inputrc
		*.zwc .zcompdump* .yashrc .yash_profile .elvish/** .blerc .zprezto/** .zplug/** .zinit/** .zim/** .antidote/** .bash_it/** .oh-my-bash/** .bash_completion.d/** .config/bash_completion
		.config/fish/** .config/nushell/** .config/elvish/** .config/powershell/** .config/xonsh/** .config/bash/** .config/zsh/** .config/sheldon/** .config/user-dirs.dirs
		.aliases .exports .functions .bash_prompt .zsh_aliases .bashrc.local .zshrc.local .local/share/zsh/** .local/share/zinit/** .local/share/sheldon/**
		.config/environment.d/** .config/starship.toml .pam_environment .lessfilter .lesskey .config/lesskey`},
	{reason: "login session", scope: own, patterns: `
		.xprofile .xinitrc .xsession .xsessionrc .xclients .xserverrc .config/autostart/** .config/autostart-scripts/** .config/plasma-workspace/**
		.config/systemd/** .local/share/systemd/** .local/share/applications/** .local/share/dbus-1/** .local/share/kservices5/** library/launchagents/**
		.config/i3/** .config/sway/** .config/hypr/** .config/awesome/** .config/bspwm/** .config/openbox/** .config/qtile/** .config/xmonad/**
		.config/herbstluftwm/** .config/niri/** .config/river/** .config/labwc/** .config/polybar/** .config/waybar/** .config/sxhkd/** .config/rofi/**
		.config/kitty/** .config/alacritty/** .config/wezterm/** .config/ghostty/** .config/zellij/** .i3/** .sway/** .xmonad/** .fluxbox/** .fvwm/**
		.config/foot/** .config/terminator/** .config/dunst/** .config/kanshi/** .config/lxsession/** .config/pipewire/** .config/wireplumber/** .config/pulse/** .local/share/konsole/**
		.config/autorandr/** .config/eww/** .config/swayidle/** .config/swaync/** .config/mako/** .config/wofi/** .config/wlogout/** .config/fuzzel/** .config/xfce4/** .config/lxpanel/**
		.config/leftwm/** .config/spectrwm/** .spectrwm.conf .dwm/** .config/i3blocks/** .config/xmobar/** .xmobarrc .config/tint2/** .config/jgmenu/** .config/espanso/** .config/rio/** .config/termite/**
		.config/redshift/hooks/** .config/gammastep/hooks/** .config/thunar/** .local/share/nautilus/** .local/share/nemo/** .config/kglobalshortcutsrc .config/*-flags.conf
		.xresources .xdefaults .hammerspoon/** .skhdrc .yabairc .xbindkeysrc .conkyrc .wezterm.lua .alacritty.toml .alacritty.yml`},
	{reason: "program of the home directory", scope: own, patterns: `
		.local/bin/** .local/lib/** .cargo/bin/** .npm-global/** .ssh/** .gnupg/** .aws/config .aws/credentials .kube/config .docker/config.json .docker/cli-plugins/** .forward .procmailrc .mailcap .muttrc
		.mbsyncrc .msmtprc .fetchmailrc .curlrc .wgetrc .ripgreprc .terraformrc .config/go/env .m2/settings.xml .m2/extensions.xml .gradle/init.gradle
		.gradle/init.gradle.kts .gradle/init.d/** .config/mpv/** .config/ranger/** .config/lf/** .config/vifm/** .config/nnn/** .config/mc/** .config/pip/**
		.config/ncmpcpp/** .config/lazygit/** .config/htop/** .config/procps/** .weechat/** .irssi/** .gitk .netrc .asoundrc .gemrc .vagrant.d/** .mutt/**
		.neomuttrc .config/mutt/** .config/neomutt/** .config/aerc/** .config/newsboat/** .config/notmuch/** .config/husky/** .config/nixpkgs/** .config/home-manager/**
		.config/yazi/** .config/joshuto/** .config/xplr/** .config/clifm/** .config/broot/** .config/zathura/** .config/imv/** .config/feh/** .config/sxiv/** .config/nsxiv/** .config/bat/** .config/tig/**
		.config/sqlite3/** .config/vdirsyncer/** .config/msmtp/** .config/isyncrc .config/himalaya/** .config/meli/** .config/calcurse/** .config/task/** .taskrc .task/hooks/** .config/yt-dlp/** .config/yt-dlp.conf
		.config/aria2/** .config/beets/** .config/lftp/** .config/topgrade.toml .config/glab-cli/** .unison/** .rtorrent.rc .urlview .config/urlview .npm-init.js`},
	{reason: "tmux or screen settings", scope: own, patterns: `.tmux.conf .tmux.conf.local .tmux/** .config/tmux/** .screenrc .byobu/** .byoburc`},

	// direnv asks about .envrc only: not about what that loads.
	{reason: "direnv", patterns: `.envrc .direnvrc .config/direnv/** .envrc.local .envrc.private .envrc.user`},
	{reason: "direnv", scope: own, patterns: `flake.nix shell.nix devenv.nix devenv.local.nix devenv.yaml .direnv/**`},
	{reason: "direnv", scope: own, patterns: `default.nix flake.lock devenv.lock devbox.json .devbox/** pixi.toml`, beside: ".envrc"},
	{reason: reasonSettings, patterns: `.nsrun.toml nsrun/config.toml .config/nsrun/**`},
	{reason: "loaded as environment", scope: own, patterns: `.env .autoenv.zsh .autoenv_leave.zsh .autoenv .autoenv.leave .env.leave .env.yarn .rbenv-vars .rvmrc .shadowenv.d/** .powrc .powenv .pumaenv .flox/** bin/activate-hermit bin/hermit.hcl .ruby-env .phpbrewrc pkgx.yaml .pkgx.yaml pkgx.yml .pkgx.yml`},
	{reason: "loaded as environment", scope: own, patterns: `.versions.conf`, lines: []string{"*env-"}}, // of rvm
	{reason: "loaded as environment", scope: own, patterns: `gemfile`, lines: []string{"**#ruby-env-"}},
	{reason: "opam switch", patterns: `_opam/.opam-switch/environment _opam/.opam-switch/switch-config _opam/bin/**`}, // opam's hook of the shell obeys it
	{reason: "mise or asdf", patterns: `.mise.toml mise.toml .mise.*.toml mise.*.toml .mise/** mise/config.toml mise/config.*.toml mise/conf.d/** .miserc.toml .config/miserc.toml .config/mise/** .config/mise.toml .rtx.toml .asdfrc`},
	{reason: "mise or asdf", patterns: `.tool-versions`, lines: []string{"*path:", "*ref:"}},
	{reason: "proto plugin", patterns: `.prototools`, lines: []string{"*://"}},
	{reason: "rustup toolchain", patterns: `rust-toolchain rust-toolchain.toml`, lines: []string{"*path", "*/"}},

	{reason: "VS Code settings", scope: own, patterns: `.vscode/** *.code-workspace .vscode-server/** .vscode-oss/** .config/code/** .config/vscodium/** .config/cursor/** .config/windsurf/** .vs/tasks.vs.json .vs/launch.vs.json .theia/**`},
	{reason: "JetBrains settings", scope: own, patterns: `.idea/** .run/** .fleet/** *.ipr *.iws .config/jetbrains/** .ideavimrc`},
	{reason: "editor settings", scope: own, patterns: `
		.zed/** .config/zed/** .helix/** .config/helix/** .nova/** *.sublime-project *.sublime-workspace .externaltoolbuilders/**
		.luarc.json .luarc.jsonc .neoconf.json .nlsp.json .nlsp-settings/** .tern-project .tern-config .ycm_extra_conf.py .config/sublime-text/** .config/kak/** .kakrc .nanorc .config/nano/** .config/micro/**`},
	{reason: "vim settings", patterns: `.exrc .nexrc .nvimrc .nvim.lua .vimrc .gvimrc _vimrc _exrc .lvimrc .local.vimrc .lazy.lua .vim/** .config/nvim/** .config/vim/** .vimspector.json`, scope: own},
	{reason: "ctags settings", scope: own, patterns: `.ctags .ctags.d/** ctags.d/** .gutctags`}, // ctags writes where they say
	{reason: "emacs settings", patterns: `.dir-locals.el .dir-locals-2.el .emacs .emacs.el .emacs.d/** .config/emacs/** .config/doom/** .doom.d/** .spacemacs .spacemacs.d/**`},
	{reason: "development container", scope: own, patterns: `.devcontainer/** .devcontainer.json .gitpod.yml .gitpod/** .ona/** .gitpod.dockerfile .devfile.yaml devfile.yaml .replit .idx/** .codesandbox/** .stackblitzrc replit.nix`},

	{reason: "Claude settings", scope: own, patterns: `.claude/** .claude.json .mcp.json .config/claude/**`},
	{reason: "Cursor settings", scope: own, patterns: `.cursor/** .cursorrules`},
	{reason: "agent settings", scope: own, patterns: `
		.codex/** .gemini/** .qwen/** .aider.conf.yml .aider.model.settings.yml .continue/** .continuerc.json .windsurf/** .windsurfrules .codeium/** .opencode/** .config/opencode/** opencode.json
		opencode.jsonc .crush.json crush.json .crush/** .goose/** .config/goose/** .goosehints .cline/** .clinerules .clinerules/** .roo/** .roomodes
		.roorules* .kilocode/** .kilocodemodes .kiro/** .trae/** .junie/** .amazonq/** .augment/** .augment-guidelines .amp/** .factory/** .openhands/** .openhands_instructions
		.kimi/** .llxprt/** .stakpak/** .forge/** forge.yaml .container-use/** .conductor/** conductor.json .cody/** .openclaw/** .github/aw/**
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
		.lefthook-local.* .lefthookrc .lefthook/** .lefthook-local/** .lintstagedrc* lint-staged.config.* .simple-git-hooks.* simple-git-hooks.* .overcommit.yml .commitlintrc* commitlint.config.*
		captainhook.json grumphp.yml grumphp.yml.dist .rusty-hook.toml rusty-hook.toml .cargo-husky/** hk.pkl .trunk/trunk.yaml .trunk/user.yaml .trunk/user_trunk.yaml .qlty/qlty.toml .qlty/hooks/** .czrc .cz.toml .cz-config.js .wtp.yml`},
	// Hooks that are installed once read what they do from these.
	{reason: "run by git hooks", scope: own, patterns: `package.json`, keys: []string{
		"husky", "lint-staged", "simple-git-hooks", "nano-staged", "pre-commit", "prepush", "pre-push", "precommit", "gitHooks", "git-hooks", "commitlint", "mookme", "config.ghooks", "config.commitizen", "config.validate-commit-msg"}},
	{reason: "run by git hooks", scope: own, patterns: `composer.json`, keys: []string{"extra.hooks", "extra.captainhook", "extra.grumphp", "extra.whitelisted-hooks"}},
	{reason: "run by git hooks", scope: own, patterns: `package.yaml package.json5`, lines: []string{"husky", "lint-staged", "simple-git-hooks", "nano-staged", "pre-commit", "githooks"}},
	{reason: "corepack settings", scope: own, patterns: `package.json`, keys: []string{"packageManager=://"}},
	{reason: "run by git hooks", scope: own, patterns: `.moon/workspace.yml .moon/workspace.pkl .moon/workspace.toml`, lines: []string{"*hooks"}},
	{reason: "settings of a version control", scope: own, patterns: `.hg/hgrc`, harmless: []string{"[paths]", "default", "default-push", "[ui]"}},
	{reason: "settings of a version control", scope: own, patterns: `.jj/repo/store/git_target`, harmless: []string{"git", "../../../.git"}},
	{reason: "settings of a version control", scope: own, patterns: `.hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .sl/hgrc .sl/hgrc-not-shared .sl/sharedpath .jjconfig.toml .jj/repo .jj/repo/config.toml .jj/repo/workspace-config.toml .config/jj/** .p4config .bzr/branch/branch.conf _darcs/prefs/defaults _darcs/prefs/prefs cvs/root .gitreview .arcconfig .fossil-settings/**
		.lazygit.yml .git/lazygit.yml .pijul/config .repo/** .gclient .gclient_entries .west/config`},

	{reason: "npm runs it", scope: own, patterns: `.npmrc .pnpmrc .config/pnpm/rc`, lines: []string{
		"script-shell", "shell", "node-options", "git", "editor", "viewer", "init-module", "onload-script", "globalconfig", "userconfig", "prefix", "pnpmfile", "node-gyp", "python", "tokenhelper", "npm-path", "use-node-version", "node-path", "browser", "package", "call"}},
	{reason: "yarn runs it", scope: own, patterns: `.yarnrc .yarnrc.yml`, lines: []string{"*yarnpath", "*yarn-path", "*plugins", "*path:", "*script-shell", "*nodeoptions", "*injectenvironmentfiles"}},
	{reason: "yarn runs it", scope: own, patterns: `.yarn/releases/** .yarn/plugins/**`},
	{reason: "pnpm runs it", scope: own, patterns: `.pnpmfile.cjs .pnpmfile.mjs pnpmfile.js`},
	{reason: "pnpm runs it", scope: own, patterns: `pnpm-workspace.yaml .config/pnpm/config.yaml`, lines: []string{
		"*pnpmfile", "*scriptshell", "*nodeoptions", "*configdependencies", "*usenodeversion", "*nodedownloadmirrors"}},
	{reason: "bun runs it", scope: own, patterns: `bunfig.toml .bunfig.toml`, lines: []string{"*preload"}},
	{reason: "cargo settings", scope: own, patterns: `.cargo/config.toml .cargo/config`},
	{reason: "bazel settings", scope: own, patterns: `.bazelrc *.bazelrc .bazeliskrc tools/bazel .aspect/** .buckconfig .buckconfig.local .buckconfig.d/**`},
	{reason: "pants or please runs it", scope: own, patterns: `.pants.bootstrap .pants.rc .plzconfig .plzconfig.*`},
	{reason: "JVM build settings", scope: own, patterns: `.mill-jvm-opts .mill-opts .config/mill-jvm-opts .config/mill-opts gradle/gradle-daemon-jvm.properties .mvn/** gradle/wrapper/gradle-wrapper.jar gradle/wrapper/gradle-wrapper.properties .jvmopts .sbtopts`},
	{reason: "JVM build settings", scope: own, patterns: `gradle.properties`, lines: []string{"jvmargs", "home", "systemprop"}},

	{reason: "language server settings", scope: own, patterns: `
		rust-analyzer.toml .rust-analyzer.toml .bsp/** buildserver.json .sourcekit-lsp/** hie.yaml .hie-bios .merlin .solargraph.yml .ruby-lsp/** ruby_lsp/**
		.phpactor.json .phpactor.yml omnisharp.json .lsp/config.edn .joyride/** .nrepl.edn erlang_ls.config erlang_ls.yaml gtags.conf .globalrc .yarn/sdks/** .factorypath .metals/**`},
	{reason: "editor settings", scope: own, patterns: `
		.emacs.desktop .abbrev_defs .gnus .gnus.el .eshell/** .spacevim.d/** .vimprj session.vim .lvim.lua .nvim/** .config/lvim/** .lite_project.lua .lite_project/**
		.config/lite-xl/** .config/vis/** .textadept/** .atom/** .pulsar/** .tm_properties .kateproject .spyproject/** .qtcreator/** .lapce/** .config/rstudio/** *.suo .cproject .settings/language.settings.xml cmakelists.txt.user`},
	{reason: "editor settings", scope: own, patterns: `.project`, lines: []string{"**externaltoolbuilder", "**&#", "**<!"}},
	{reason: "latexmk runs it", scope: own, patterns: `.latexmkrc latexmkrc`},
	{reason: "pylint runs it", scope: own, patterns: `.pylintrc pylintrc .pylintrc.toml pylintrc.toml`, lines: []string{"init-hook", "load-plugins", "unsafe-load-any-extension", "extension-pkg-allow-list", "extension-pkg-whitelist"}},
	{reason: "flake8 runs it", scope: own, patterns: `.flake8`, lines: []string{"flake8:local-plugins", "paths", "output-file"}},
	{reason: "golangci-lint runs it", scope: own, patterns: `.golangci.yml .golangci.yaml .golangci.toml .golangci.json`, lines: []string{"custom", "*.custom", "*.so"}},
	{reason: "sqlfluff runs it", scope: own, patterns: `.sqlfluff`, lines: []string{"library-path"}},
	{reason: "ansible runs it", scope: own, patterns: `.ansible-lint .ansible-lint.yml`, lines: []string{"rulesdir"}},
	{reason: "run by git hooks", scope: own, patterns: `.gitlint`, lines: []string{"extra-path"}},
	{reason: "run by git hooks", scope: own, patterns: `.secrets.baseline`, lines: []string{"*file://"}},
	{reason: "mypy runs it", scope: own, patterns: `mypy.ini .mypy.ini`, lines: []string{"plugins", "python-executable"}},
	{reason: "ansible runs it", scope: own, patterns: `ansible.cfg .ansible.cfg`},
	{reason: "names an interpreter", scope: own, patterns: `.python-version .python-versions`, lines: []string{"**/"}},
	{reason: "names an interpreter", scope: own, patterns: `
		.*-version .nvmrc .sdkmanrc .jabbarc .dvmrc .jvmrc`, lines: []string{"*../", "*path:", "*ref:"}},
	{reason: "names an interpreter", scope: own, patterns: `.pdm-python .fvm/flutter_sdk .fvm/versions/**`},
	{reason: "names an interpreter", scope: own, patterns: `global.json`, lines: []string{"paths"}}, // of .NET
	{reason: "names a version of bazel", scope: own, patterns: `.bazelversion`, lines: []string{"*/"}},
	{reason: "bundler runs it", scope: own, patterns: `.bundle/plugin/**`},
	{reason: "bundler runs it", scope: own, patterns: `.bundle/config`, lines: []string{"*bundle_gemfile", "*plugin"}},
	{reason: "corepack settings", scope: own, patterns: `.corepack.env`},
	{reason: "sbt runs it", scope: own, patterns: `.sbtrc .sbt/**`},
	{reason: "R startup file", scope: own, patterns: `renv/activate.r`},
	{reason: "web server settings", scope: own, patterns: `.htaccess`, lines: []string{"*php_value", "*php_admin", "*sethandler", "*x-httpd-", "*includes", "*addhandler", "*action", "*execcgi"}},
	{reason: "agent settings", scope: own, patterns: `
		.claude-plugin/** gptme.toml .gptme/** .pi/** .qoder/** .iflow/** iflow.md .codebuff/** codebuff.json .aiassistant/** .firebender/** firebender.json .rovodev/**
		.codebuddy/** .lingma/** .antigravity/** .vibe/** .grok/** .letta/** .serena/** .devin/** .sourcegraph/** .refact/** .qodo/** .ruler/** .rulesync/** .kilocoderules* replit.md .gitlab/duo/** mcp_config.json mcp_settings.json cline_mcp_settings.json .eca/** .bolt/** .cursor-plugin/** .codex-plugin/** .specify/** .taskmaster/**`},
	{reason: "built when it is pushed", scope: top, patterns: `
		.taskcluster.yml .bazelci/** .evergreen.yml .evergreen/** .kokoro/** .vela.yml .vela.yaml .scrutinizer.yml bitrise.yml codemagic.yaml ci_scripts/** .eas/workflows/**
		.packit.yaml .packit.yml packit.yaml .copr/** .obs/workflows.yml amplify.yml netlify.toml .platform.app.yaml .upsun/** shippable.yml bamboo-specs/** .buddy/** buddy.yml vercel.json heroku.yml render.yaml
		.ebextensions/** .platform/hooks/** appspec.yml .vsts-ci.yml .rultor.yml garnix.yaml .crow.yaml .crow.yml .crow/** .cnb.yml .yamato/** .cirun.yml
		.ci-operator.yaml .depot/workflows/** .workflow/** .pipelines/** common/git-hooks/**`},
	{reason: "program of the home directory", scope: own, patterns: `
		.local/share/bash-completion/** .local/share/fish/** .local/share/nvim/** .local/share/gh/** .local/share/helm/** .local/share/thumbnailers/** .local/share/gnome-shell/**
		.local/share/jupyter/** .mozilla/native-messaging-hosts/** .config/gh/** .config/nix/** .config/containers/** .config/helm/** .config/k9s/** .config/qutebrowser/**
		.cargo/env .nvm/** .pyenv/** .rbenv/** .asdf/** .sdkman/** .rvm/** .volta/** .bun/bin/** .deno/bin/** .krew/** .terraform.d/** .kube/kuberc .aws/cli/alias
		.fzf.bash .fzf.zsh .zimrc .zpreztorc .antigenrc .zsh_plugins.zsh .urxvt/** .mailrc .mailfilter .qmail .lftprc .offlineimaprc .rhosts .shosts .k5login .tigrc`},

	{reason: "git-buildpackage runs it", scope: own, patterns: `.gbp.conf debian/gbp.conf .git/gbp.conf`, lines: []string{
		"builder", "cleaner", "customizations", "postclone", "postunpack", "postedit", "preexport", "prebuild", "postbuild", "pretag", "posttag", "prepush", "postpush", "postimport", "postrm", "pbuilder-options"}},
	{reason: "agent settings", scope: own, patterns: `.opencode.json .opencode.jsonc .kilo/** kilo.json kilo.jsonc .beads/hooks/**`},
	{reason: "tmux or screen settings", scope: own, patterns: `.tmuxinator.yml .tmuxinator.yaml .tmuxp.yaml .tmuxp.yml .tmuxp.json`},
	{reason: "login session", scope: own, patterns: `
		.config/user-tmpfiles.d/** .local/share/user-tmpfiles.d/** .local/share/vulkan/** .config/vulkan/** .gtkrc-2.0 .config/gtk-2.0/** .config/gtk-3.0/settings.ini .dmrc`},
	{reason: "settings of a version control", scope: own, patterns: `.config/hg/** .config/breezy/** .config/sapling/** .bazaar/** .subversion/** .darcs/** .mrconfig .mrtrust .cvsrc`},
	{reason: "program of the home directory", scope: own, patterns: `
		.devscripts .pbuilderrc .sbuildrc .config/sbuild/** .quiltrc .dput.cf .dput.d/** .debuild .xpdfrc .w3m/** .elinks/** .lynxrc .purple/** .config/hexchat/** .config/geany/**`},
	{reason: "agent settings", scope: own, patterns: `
		lsp.json .github/lsp.json .github/copilot/** .github/extensions/** .github/plugin/** .commandcode/** .cortex/** .kode/** .mcpjam/** .mux/** .neovate/** .pochi/** .adal/** .bob/**
		.hermes/** .void/** .pearai/** .superset/** .emdash.json .workmux.yaml .workmux.yml .config/wt.toml .gtrconfig uzi.yaml codex.md`},
	{reason: "language server settings", scope: own, patterns: `.ropeproject/config.py .pyre_configuration .pyre_configuration.local .calva/** .bloop/** steepfile .jrubyrc`},
	{reason: "run by git hooks", scope: own, patterns: `.hooks/** .nano-staged.* nano-staged.* .nanostagedrc cz.toml cz.yaml .cz.yaml cz.json .cz.json .mookme.json`},
	{reason: "tmux or screen settings", scope: own, patterns: `.tmux-sessionizer .twm.yaml`},
	{reason: "vim settings", scope: own, patterns: `_vimrc_local.vim .vimrc_local.vim .vimrc_local/** .vimrc.local .nvimrc.lua`},
	{reason: "program of the home directory", scope: own, patterns: `
		.vscode-insiders/** .vscode-server-insiders/** .vscode-remote/** .cursor-server/** .windsurf-server/** .antigravity-server/** .trae-server/** .positron-server/** .zed_server/** .local/share/code-server/**
		.mavenrc .antrc .ant/** .groovy/** .ammonite/** .r/makevars .config/octave/** .config/chezmoi/** .config/yadm/** .config/neofetch/** .config/fastfetch/** .config/shell/** .config/mimeapps.list
		.local/share/flatpak/** .local/share/plasma/** .local/share/kwin/** .local/share/cinnamon/** .xscreensaver .icewm/** .jwmrc .pekwm/** .stumpwmrc .stumpwm.d/** .ratpoisonrc .twmrc`},

	{reason: "debugger startup file", scope: own, patterns: `.gdbinit .gdbearlyinit .config/gdb/** .lldbinit .lldbinit-* .cgdb/** .valgrindrc .pdbrc .pdbrc.py .perldb .radare2rc .rizinrc .rdbgrc .byebugrc`},
	{reason: "interpreter startup file", scope: own, patterns: `
		.irbrc .pryrc .railsrc .rprofile .renviron .rdata rprofile.site .ghci .haskeline .ocamlinit .utoprc .julia/config/** .sbclrc .eclrc .clisprc .ccl-init.lisp .guile
		.racketrc .lein/** .clojure/** .erlang .iex.exs .octaverc startup.m .maxima/** maxima-init.mac .gnuplot .pythonrc .pythonrc.py
		.pythonstartup .ipython/** .jupyter/** .config/ipython/** .config/matplotlib/** .phprc .psysh.php .config/psysh/** .user.ini .tclshrc .wishrc .luarc .swank.lisp
		.luarocks/** ipython_config.py profile_default/startup/** jupyter_*config.py jupyter_*config.json .re.pl/** .csirc .clinit.cl .gforthrc .swiplrc .config/swi-prolog/** .gprc .gaprc .gap/** .sage/** .mapleinit finish.m .spiceinit .expect.rc .murex_profile .config/oils/** .ptpython/** .config/ptpython/** .bpython/** .config/bpython/** .chef/**`},
	{reason: "client startup file", scope: own, patterns: `.psqlrc .sqliterc .my.cnf .mylogin.cnf .mongorc.js .mongoshrc.js .mc.menu .mc/** .config/pgcli/** .config/litecli/** .config/mycli/** .toprc .duckdbrc .usqlrc .myclirc`},
}

// anchored are names below the root of the file system.
var anchored = class{reason: "run by the system", patterns: `
	/etc/cron* /etc/cron*/** /etc/profile /etc/profile.d/** /etc/bash.bashrc /etc/zsh/** /etc/fish/** /etc/systemd/** /etc/init.d/** /etc/rc.local /etc/ld.so.preload
	/etc/ld.so.conf /etc/ld.so.conf.d/** /etc/sudoers /etc/sudoers.d/** /etc/nsrun/** /etc/udev/** /etc/xdg/** /etc/ssh/** /etc/apt/** /etc/pam.d/** /etc/gitconfig /etc/environment
	/var/spool/cron/**`}

// atHome are names below the home directory, where shells find programs, or versions of programs are kept that run by
// themselves. In a project they are usual.
var atHome = class{reason: "program of the home directory", patterns: `
	bin/** go/bin/** perl5/** .yarn/bin/** .dotnet/tools/** .cabal/bin/** .ghcup/** .juliaup/** .pixi/** .rye/** .proto/** .foundry/bin/** .fly/bin/**
	.nix-profile .opam/** .gem/** .composer/vendor/** .config/composer/vendor/** .poetry/bin/** .nodenv/** .goenv/** .jenv/** .phpenv/** .plenv/** .tfenv/** .nodebrew/**
	.local/share/mise/shims/** .local/share/fnm/** .local/share/pnpm/* .local/share/pipx/** .local/share/uv/tools/** .local/share/uv/python/**`}

// notClaude are directories of .claude from which nothing is executed, or that contain projects of their own.
var notClaude = []string{"worktrees", "projects", "todos", "plans", "shell-snapshots", "logs", "transcripts", "file-history", "debug", "session-env", "statsig"}

// dependencies reports whether package managers fill directories of a name.
func dependencies(name string) bool {
	switch name {
	case "node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "pods":
		return true
	}
	return false
}

// A pattern is one name of a class.
type pattern struct {
	*class
	text  string // elements, with a slash between two
	below bool   // it ended in "**"
	next  uint16 // in its chain
}

// first is a pattern's first element.
func (p *pattern) first() string {
	first, _, _ := strings.Cut(p.text, "/")
	return first
}

// A table finds patterns by their first element: in chains of numbers that count from 1, by the hash of its name or of
// its end ("*.end"), or by its first byte ("begin*"). It is one block, because some commands make one in each run.
type table struct {
	patterns []pattern
	hashed   [1024]uint16
	begin    [256]uint16
}

func newTable() *table {
	n := 0
	for i := range classes {
		for range strings.FieldsSeq(classes[i].patterns) {
			n++
		}
	}
	t := &table{patterns: make([]pattern, 0, n)}
	for i := range classes {
		for text := range strings.FieldsSeq(classes[i].patterns) {
			text, below := strings.CutSuffix(text, "/**")
			t.patterns = append(t.patterns, pattern{class: &classes[i], text: text, below: below})
		}
	}
	for i := n - 1; i >= 0; i-- { // so that the chains have the order of the classes
		p := &t.patterns[i]
		head := t.chain(p.first())
		p.next, *head = *head, uint16(i+1)
	}
	return t
}

// chain returns the chain of a pattern's first element.
func (t *table) chain(first string) *uint16 {
	switch star := strings.IndexByte(first, '*'); star {
	case -1:
		return t.bucket(first)
	case 0:
		return t.bucket(first[1:])
	}
	return &t.begin[first[0]]
}

// bucket returns the head of the chain of a name, by its hash (FNV-1a).
func (t *table) bucket(name string) *uint16 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return &t.hashed[(h^h>>16)%uint32(len(t.hashed))]
}

// A fit is how a path fits a pattern.
type fit uint8

const (
	no      fit = iota
	leading     // it is a directory above what the pattern means, if it is one
	yes
)

// fits compares a pattern with the elements of a path, beginning at one of them.
func (p *pattern) fits(elements []string) fit {
	for want := range strings.SplitSeq(p.text, "/") {
		if len(elements) == 0 {
			return leading
		}
		if ok, _ := path.Match(want, elements[0]); !ok {
			return no
		}
		elements = elements[1:]
	}
	switch n := len(elements); {
	case n == 0 && p.below:
		return leading
	case n == 0 || n > 0 && p.below:
		return yes
	}
	return no
}

// at calls visit for the patterns that may begin with a name, until it returns false.
func (t *table) at(name string, visit func(*pattern) bool) bool {
	if name == "" {
		return true
	}
	for i := *t.bucket(name); i != 0; i = t.patterns[i-1].next {
		if p := &t.patterns[i-1]; p.first() == name && !visit(p) {
			return false
		}
	}
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		for i := *t.bucket(name[dot:]); i != 0; i = t.patterns[i-1].next {
			p := &t.patterns[i-1]
			if end, ok := strings.CutPrefix(p.first(), "*"); ok && end == name[dot:] && !visit(p) {
				return false
			}
		}
	}
	for i := t.begin[name[0]]; i != 0; i = t.patterns[i-1].next {
		p := &t.patterns[i-1]
		if begin, _, _ := strings.Cut(p.first(), "*"); strings.HasPrefix(name, begin) && !visit(p) {
			return false
		}
	}
	return true
}
