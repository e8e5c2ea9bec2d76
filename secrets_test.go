//go:build linux

package nsrun_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestSecretPlaces: of what tools keep as secrets a command can read nothing; and beside that
// are settings that it can.
func TestSecretPlaces(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	secrets := strings.Fields(`
		.ssh/id_ed25519 .gnupg/x .aws/credentials .azure/x .kube/config .docker/config.json .oci/config .config/gcloud/x .config/gh/hosts.yml .config/glab-cli/config.yml
		.config/doctl/config.yaml .config/hcloud/cli.toml .terraform.d/credentials.tfrc.json .terraformrc .pulumi/credentials.json .npmrc .config/pnpm/rc .yarnrc .yarnrc.yml .bunfig.toml
		.cargo/credentials.toml .pypirc .config/pip/pip.conf .config/pypoetry/auth.toml .local/share/uv/credentials/x .gem/credentials .bundle/config .m2/settings.xml .gradle/gradle.properties
		.config/containers/auth.json .config/helm/x .config/ngrok/ngrok.yml .cloudflared/cert.pem .config/.wrangler/x .local/share/com.vercel.cli/auth.json .config/netlify/config.json
		.config/stripe/config.toml .sentryclirc .fly/config.yml .netrc .local/share/heroku/x .cache/huggingface/token .codex/auth.json .claude/.credentials.json .claude.json .gemini/oauth_creds.json
		.copilot/config.json .config/github-copilot/hosts.json .codeium/x .cursor/mcp.json .config/cursor/auth.json .config/rclone/rclone.conf .config/restic/x .config/borg/keys/x .password-store/x
		.local/share/gopass/x .config/age/x .config/sops/age/keys.txt .local/share/keyrings/x .mozilla/x .config/google-chrome/x .config/chromium/x .librewolf/x .var/app/org.mozilla.firefox/x .thunderbird/x
		.config/evolution/x .msmtprc .config/Signal/x .config/Element/x .config/Bitwarden/x .config/1Password/x .bitcoin/wallet.dat .config/solana/id.json .bash_history .zsh_history
		.local/share/fish/fish_history .local/share/atuin/history.db .python_history .psql_history .sqlite_history .config/JetBrains/IntelliJIdea2025.1/c.kdbx .config/Code/User/globalStorage/state.vscdb
		.config/Cursor/User/globalStorage/state.vscdb .config/Windsurf/User/globalStorage/state.vscdb .config/zed/settings.json .vscode-server/data/User/globalStorage/x .pgpass .my.cnf .mylogin.cnf .databrickscfg
		.config/filezilla/sitemanager.xml .authinfo`)
	shown := strings.Fields(`
		.bashrc .profile .gitconfig .config/git/config .config/Code/User/settings.json .config/Code/User/keybindings.json .vscode/extensions/x .vscode-server/bin/x .cursor/extensions/x .config/zed/keymap.json
		.local/share/zed/languages/x .local/share/JetBrains/Toolbox/x .config/nvim/init.lua .cargo/config.toml .cargo/bin/x .m2/repository/x .gradle/caches/x .local/bin/x .local/share/uv/python/x .local/share/uv/tools/x
		.local/share/pnpm/x .config/pnpm/x .config/htop/htoprc .config/fish/config.fish .claude/settings.json .codex/config.toml .gemini/settings.json .bundle/cache/x .local/share/gem/ruby/x .foundry/bin/x .deno/bin/x
		.bun/bin/x .nvm/x .rustup/x .sdkman/x .pulumi/plugins/x .ivy2/cache/x .sbt/1.0/x .cache/huggingface/hub/x .config/goose/config.yaml .local/share/amp/x snap/other/x`)
	dir := place(t)
	home := filepath.Join(dir, "home")
	for _, name := range secrets {
		testenv.Tree(t, home, name+": hush")
	}
	for _, name := range shown {
		testenv.Tree(t, home, name+": shown")
	}
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: home}}})
	script := "cd " + home + "; for f in " + strings.Join(append(secrets, shown...), " ") + `; do echo "$f $(cat $f 2>/dev/null)"; done`
	for _, outside := range []bool{true, false} { // the control
		out := ""
		if outside {
			b, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
			if err != nil {
				t.Fatal(err)
			}
			out = string(b)
		} else {
			out = sh(t, r, script)
		}
		for _, name := range secrets {
			if strings.Contains(out, name+" hush\n") != outside {
				t.Errorf("outside %v: %s", outside, name)
			}
		}
		for _, name := range shown {
			if !strings.Contains(out, name+" shown\n") {
				t.Errorf("outside %v: %s is not visible", outside, name)
			}
		}
	}
}
