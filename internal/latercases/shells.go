package latercases

// startup is a Case of a startup file that makes the marker as shells do.
func startup(path, program, trigger string) Case {
	return Case{Name: path, Plant: "put " + path + ` ': >"$M"'`, Trigger: trigger, Needs: program, Held: []string{path}}
}

// text is a Case of a file with a text of its own.
func text(path, content, program, trigger string) Case {
	return Case{Name: path, Plant: "put " + path + " '" + content + "'", Trigger: trigger, Needs: program, Held: []string{path}}
}

var shellCases = []Case{
	startup(".bashrc", "bash", "HOME=$PWD bash -ic : </dev/null"),
	startup(".bash_profile", "bash", "HOME=$PWD bash -lc :"),
	startup(".bash_login", "bash", "HOME=$PWD bash -lc :"),
	startup(".bash_logout", "bash", "HOME=$PWD bash -lc exit"),
	startup(".profile", "sh", "HOME=$PWD sh -lc :"),
	startup(".zshrc", "zsh", "HOME=$PWD zsh -ic : </dev/null"),
	startup(".zshenv", "zsh", "HOME=$PWD zsh -c :"),
	{Name: ".zshrc.zwc", Setup: "put .zshrc true; touch -t 202001010000 .zshrc",
		Plant:   `put s/.zshrc ': >"$M"'; zsh -fc 'zcompile s/.zshrc' || put s/.zshrc.zwc x; mv s/.zshrc.zwc .; rm -r s`,
		Trigger: "HOME=$PWD zsh -ic : </dev/null", Needs: "zsh", Held: []string{".zshrc.zwc"}},
	startup(".zcompdump", "zsh", `HOME=$PWD zsh -fc 'autoload -Uz compinit; compinit -C'`),
	startup(".config/bash_completion", "", ""),
	startup(".zprofile", "zsh", "HOME=$PWD zsh -lc :"),
	startup(".zlogin", "zsh", "HOME=$PWD zsh -lc :"),
	startup(".zlogout", "zsh", "HOME=$PWD zsh -lic exit </dev/null"),
	text(".config/fish/config.fish", `touch "$M"`, "fish", "HOME=$PWD fish -c true; rm -rf .config .local .cache"),   // it makes files of its own
	text(".config/fish/conf.d/x.fish", `touch "$M"`, "fish", "HOME=$PWD fish -c true; rm -rf .config .local .cache"), // it makes files of its own
	startup(".envrc", "direnv", "direnv allow . ; direnv exec . true"),
	{Name: ".envrc that is a link", Plant: `put sub/x ': >"$M"'; ln -s sub/x .envrc`, Trigger: "direnv allow . ; direnv exec . true", Needs: "direnv", Held: []string{".envrc"}},
	{Name: ".envrc, the owner's link", Setup: "put sub/x true; ln -s sub/x .envrc", Plant: `put sub/x ': >"$M"'`, Trigger: "direnv allow . ; direnv exec . true", Needs: "direnv"},
	{Name: ".envrc.private", Setup: "put .envrc 'source_env_if_exists .envrc.private'", Plant: `put .envrc.private ': >"$M"'`, Trigger: "direnv allow . ; direnv exec . true", Needs: "direnv", Held: []string{".envrc.private"}},
	{Name: "script that .envrc loads", Setup: "put .envrc '. ./tools/env.sh'; put tools/env.sh true", Plant: `put tools/env.sh ': >"$M"'`, Trigger: "direnv allow . ; direnv exec . true", Needs: "direnv", Held: []string{"tools/env.sh"}},
	{Name: "script that .envrc would load", Setup: "put .envrc 'source_env_if_exists more'", Plant: `put more ': >"$M"'`, Trigger: "direnv allow . ; direnv exec . true", Needs: "direnv"},
	{Name: "server of .mcp.json", Setup: `put .mcp.json '{"mcpServers": {"x": {"command": "node", "args": ["tools/server.js"]}}}'; put tools/server.js x`, Plant: "put tools/server.js y", Held: []string{"tools/server.js"}},
	{Name: "hook of Claude", Setup: `put .claude/settings.json '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/tools/stop.sh"}]}]}}'; put tools/stop.sh x`, Plant: "put tools/stop.sh y", Held: []string{"tools/stop.sh"}},
	{Name: "lint-staged in package.json", Setup: `put package.json '{"name": "x", "lint-staged": {"*.js": "eslint"}}'`, Plant: `put package.json '{"name": "x", "lint-staged": {"*.js": "sh -c evil"}}'`, Held: []string{"package.json"}},
	{Name: "husky in package.json", Setup: `put package.json '{"name": "x"}'`, Plant: `put package.json '{"name": "x", "h\u0075sky": {"hooks": {"pre-commit": "evil"}}}'`, Held: []string{"package.json"}},
	{Name: "the owner's linked settings", Setup: "put tools/vscode/x x; ln -s tools/vscode .vscode", Plant: "put tools/vscode/tasks.json x", Held: []string{"tools/vscode/tasks.json"}},
	{Name: "settings that become a link", Setup: "put .vscode/x x", Plant: "mv .vscode v; put v/tasks.json x; ln -s v .vscode"},
	{Name: "settings that are a link", Plant: "put v/tasks.json x; ln -s v .vscode", Held: []string{".vscode"}},
	{Name: "settings under another name", Setup: "put x/tasks.json x", Plant: "mv x .vscode", Held: []string{".vscode/tasks.json"}},
	{Name: "hard link", Setup: "put x x", Plant: "ln x .envrc", Held: []string{".envrc"}},
	text(".vimrc", `call writefile([], $M)`, "vim", "HOME=$PWD vim --not-a-term -T dumb -c qa </dev/null"),
	text(".exrc", `call writefile([], $M)`, "vim", "vim --not-a-term -T dumb --cmd 'set exrc' -c qa </dev/null"),
	text(".gdbinit", `shell : >"$M"`, "gdb", "gdb -batch -iex 'set auto-load safe-path /'"),
	text(".ctags.d/x.ctags", "-o\n../marker", "ctags", `put a.c "int f(){return 1;}"; ctags -R . || true`),
	text(".valgrindrc", "--log-file=../marker", "valgrind", "valgrind true || true"),
	text(".sqliterc", `.shell : >"$M"`, "", ""),
	text(".perldb", `system q(: >"$M");`, "perl", "PERLDB_OPTS=NonStop=1 perl -d -e 1 </dev/null"),
	text(".pdbrc", "import os\nopen(os.environ[\"M\"], \"w\")\nq", "/usr/bin/python3", "put x.py 1; /usr/bin/python3 -m pdb x.py </dev/null || true"),
	text(".tmux.conf", `run-shell ": >\"$M\""`, "tmux", "HOME=$PWD TMUX_TMPDIR=$PWD tmux -L x new-session -d; TMUX_TMPDIR=$PWD tmux -L x kill-server || true"),
	{Name: ".npmrc", Setup: `put package.json '{"name": "x", "version": "1.0.0", "scripts": {"x": "true"}}'`, Plant: "evil tool; put .npmrc script-shell=./tool", Trigger: "npm run x", Needs: "npm", Held: []string{".npmrc"}},
	{Name: ".npmrc with a return", Setup: `put package.json '{"name": "x", "version": "1.0.0", "scripts": {"x": "true"}}'`, Plant: `evil tool; printf 'save-exact=true\rscript-shell=./tool' >.npmrc`, Trigger: "npm run x", Needs: "npm", Held: []string{".npmrc"}},
	{Name: ".npmrc with a byte order mark", Setup: `put package.json '{"name": "x", "version": "1.0.0", "scripts": {"x": "true"}}'`, Plant: `evil tool; printf '\357\273\277script-shell=./tool' >.npmrc`, Trigger: "npm run x", Needs: "npm", Held: []string{".npmrc"}},
	{Name: ".npmrc with a package", Setup: `put package.json '{"name": "x", "version": "1.0.0", "scripts": {"x": "true"}}'`, Plant: `put tool/package.json '{"name": "y", "version": "1.0.0", "bin": {"z": "z.js"}}'; put tool/z.js "#!/usr/bin/env node
require('fs').writeFileSync(process.env.M, '')"; chmod +x tool/z.js; put .npmrc package=./tool`, Trigger: "npx z </dev/null", Needs: "npx", Held: []string{".npmrc"}},
	{Name: ".cargo/config.toml", Setup: `put Cargo.toml '[package]
name = "x"
version = "1.0.0"'; put src/main.rs 'fn main() {}'`, Plant: `evil tool; put .cargo/config.toml '[build]
rustc = "./tool"'`, Trigger: "cargo build --offline || true", Needs: "cargo", Held: []string{".cargo/config.toml"}},
}
