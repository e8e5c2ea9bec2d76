package host

import (
	"path/filepath"
	"slices"
	"strings"
)

// homeSecrets are hidden below the home directory: keys, tokens, passwords, cookies, the history of shells.
var homeSecrets = [...]string{
	".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".cache/huggingface/token", ".huggingface/token",
	".ssh", ".gnupg", ".pki", ".aws", ".azure", ".kube", ".docker", ".oci", ".terraform.d",
	".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub", ".config/op", ".config/doctl",
	".config/rclone", ".config/sops", ".config/age", ".config/containers/auth.json",
	".netrc", "_netrc", ".git-credentials", ".gitcookies", ".config/git/credentials", ".npmrc", ".yarnrc.yml", ".pypirc",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
	".composer/auth.json", ".nuget/NuGet/NuGet.Config", ".vault-token", ".pgpass", ".my.cnf", ".s3cfg", ".boto",
	".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/keepassxc",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/vivaldi", ".config/Signal", ".config/Slack", ".config/discord", ".local/share/TelegramDesktop",
	".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history", ".node_repl_history",
	".psql_history", ".mysql_history", ".rediscli_history", ".lesshst", ".viminfo",
	".Xauthority", ".ICEauthority", ".bitcoin", ".ethereum", ".electrum",
	// Sockets of services that execute requests.
	".1password", ".colima", ".lima", ".rd",
	// Agents and editors, which keep tokens beside their settings.
	".claude.json", ".cursor/mcp.json", ".config/Claude", ".config/github-copilot", ".codeium", ".continue", ".local/share/opencode/auth.json",
	// Tools of clouds and hosts.
	".fly", ".config/.wrangler", ".wrangler", ".vercel", ".config/netlify", ".netlify", ".supabase", ".config/stripe", ".config/configstore",
	".config/ngrok", ".cloudflared", ".config/helm", ".minikube", ".ansible/vault_password", ".config/pypoetry/auth.toml",
	".ngrok2", ".local/share/heroku", ".local/share/com.vercel.cli", ".railway", ".sentryclirc", ".config/hcloud", ".config/linode-cli", ".config/scw",
	".config/openstack", ".config/yandex-cloud", ".aliyun", ".bluemix", ".terraformrc", ".pulumi/credentials.json", ".config/argocd", ".tsh", ".step",
	".doppler", ".infisical", ".databrickscfg", ".snowsql", ".snowflake", ".dbt/profiles.yml", ".kaggle", ".config/io.datasette.llm", ".mc", ".gsutil",
	".config/tea", ".subversion/auth", ".circleci", ".jfrog", ".expo", ".android/adbkey", ".duckdb/stored_secrets",
	// More agents and editors. Of editors, only the places of secrets: commands can use their other settings and
	// extensions.
	".gemini/mcp-oauth-tokens.json", ".qwen/oauth_creds.json", ".copilot", ".config/cursor/auth.json", ".config/goose/secrets.yaml", ".local/share/amp/secrets.json",
	".config/Code/User/globalStorage", ".config/Code/User/mcp.json", ".config/VSCodium/User/globalStorage", ".config/Cursor/User/globalStorage",
	".config/Windsurf/User/globalStorage", ".vscode-server/data/User/globalStorage", ".cursor-server/data/User/globalStorage",
	".config/JetBrains", ".config/zed/settings.json", ".local/share/zed/db",
	// Package managers.
	".config/pnpm/rc", ".yarnrc", ".bunfig.toml", ".config/pip/pip.conf", ".pip/pip.conf", ".local/share/uv/credentials", ".local/share/gem/credentials", ".bundle/config", ".m2/settings-security.xml",
	".ivy2/.credentials", ".sbt/.credentials", ".config/coursier", ".condarc",
	// Backups, passwords, keys, wallets.
	".config/restic", ".config/borg", ".config/gopass", ".local/share/gopass", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/1Password", ".lpass", ".authinfo",
	".authinfo.gpg", ".config/syncthing", ".local/state/syncthing", ".config/Nextcloud", ".monero", ".config/solana", ".config/Exodus", ".config/Ledger Live",
	".foundry/keystores",
	// Browsers, mail and chat.
	".config/opera", ".librewolf", ".zen", ".local/share/qutebrowser", ".var/app", "snap/firefox", "snap/chromium", ".config/evolution", ".local/share/evolution", ".msmtprc",
	".mbsyncrc", ".offlineimaprc", ".fetchmailrc", ".config/Element", ".config/teams-for-linux", ".config/weechat", ".purple",
	// Connections to other hosts, and histories.
	".config/filezilla", ".config/remmina", ".local/share/remmina", ".vnc", ".cert", ".mylogin.cnf", ".local/share/DBeaverData", ".sqlite_history", ".irb_history",
	".php_history", ".dbshell", ".zhistory", ".histfile", ".local/share/atuin",
	// Agents and editors once more, and what serves models and notebooks.
	".config/anthropic", ".config/aichat", ".local/share/crush", ".augment/session.json", ".factory/auth.json", ".local/share/amazon-q", ".local/share/kiro-cli", ".cline/data",
	".config/Code - Insiders/User/globalStorage", ".config/Code - OSS/User/globalStorage", ".config/Antigravity/User/globalStorage", ".config/Google",
	".config/code-server", ".local/share/code-server/User/globalStorage", ".vscode/cli",
	".cache/huggingface/stored_tokens", ".ollama/id_ed25519", ".modal.toml", ".config/kaggle", ".local/share/jupyter/runtime",
	// Clouds and hosts once more.
	".chef", ".puppetlabs", ".rancher", ".cf", ".config/coderv2", ".config/snowflake", ".databricks", ".okta", ".saml2aws", ".awsvault", ".tofurc", ".config/opentofu",
	".config/exoscale", ".config/nats", ".confluent", ".config/auth0", ".twilio-cli", ".slack", ".travis", ".ansible/galaxy_token", ".vault_pass", ".vault_pass.txt",
	".passwd-s3fs", ".rclone.conf", ".config/b2", ".davfs2", ".smbcredentials", ".dropbox", ".config/onedrive",
	// Repositories and packages, keys of certificates: not the certificates themselves, which programs need.
	".gcm", ".python-gitlab.cfg", ".config/lab", ".config/hut", ".gist", ".config/composer/auth.json", ".hex/hex.config", ".config/dart", ".pub-cache/credentials.json",
	".conan2/credentials.json", ".dockercfg", ".microsoft/usersecrets", ".local/share/mkcert/rootCA-key.pem", ".local/share/caddy", ".acme.sh", ".keystore",
	// Databases, browsers, mail, chat, other hosts, histories and wallets once more.
	".mongodb", ".influxdbv2", ".mariadb_history", ".config/MongoDB Compass", ".pgadmin", ".mysql", ".config/Postman", ".config/Insomnia",
	".config/mozilla", ".config/google-chrome-beta", ".config/google-chrome-unstable", ".waterfox", ".local/share/epiphany",
	".config/msmtp", ".config/isyncrc", ".config/himalaya", ".config/aerc/accounts.conf", ".local/share/geary",
	".config/discordcanary", ".config/vesktop", ".config/Mattermost", ".zoom", ".local/share/fractal", ".config/hexchat", ".irssi", ".config/keybase", ".local/share/signal-cli",
	".putty", ".config/tigervnc", ".anydesk", ".config/rustdesk",
	".ksh_history", ".ash_history", ".Rhistory", ".local/state/nvim/shada", ".config/nushell/history.txt", ".config/nushell/history.sqlite3", ".local/share/powershell/PSReadLine",
	".litecoin", ".dogecoin", ".near-credentials", ".sui", ".aptos",
	// Sessions of other programs.
	".local/state/nsrun",
}

// otherOwn are nsrun's directories, except that of sessions, that a home directory can contain if $HOME is another one:
// backups of files, and playgrounds.
var otherOwn = [...]string{".cache/nsrun", ".local/share/nsrun"}

// OtherOwn are all of nsrun's directories that a home directory can contain if $HOME is another one.
func OtherOwn(home string) []string {
	return append(belowHome(home, otherOwn[:]), filepath.Join(home, ".local/state/nsrun"))
}

// systemSecrets are hidden for everybody; root could read them.
var systemSecrets = [...]string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/ssl/private", "/etc/krb5.keytab", "/etc/wireguard", "/etc/NetworkManager/system-connections",
	"/etc/docker", "/etc/kubernetes", "/root/.ssh", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
	"/var/lib/containers", "/var/lib/lxc", "/var/lib/rancher",
	"/var/spool/cron", "/var/lib/sss/secrets", "/boot/grub/user.cfg",
	"/etc/letsencrypt", "/etc/openvpn", "/etc/ipsec.secrets", "/etc/ppp/chap-secrets", "/etc/wpa_supplicant", "/var/lib/iwd", "/var/lib/tailscale", "/etc/cloudflared",
	"/etc/rancher", "/etc/mysql/debian.cnf", "/etc/cryptsetup-keys.d", "/etc/credstore",
	// Sockets that give root's rights to every process that may connect.
	"/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket",
}

// HiddenPaths are the places where people and programs keep secrets, whether they
// exist or not. An empty home leaves out those below it.
func HiddenPaths(home string) []string {
	keys, _ := filepath.Glob("/etc/ssh/ssh_host_*_key")
	return append(append(belowHome(home, homeSecrets[:]), systemSecrets[:]...), keys...)
}

// belowHome are paths below a home directory; there are none where that is unknown.
func belowHome(home string, names []string) (list []string) {
	if filepath.IsAbs(home) {
		for _, name := range names {
			list = append(list, filepath.Join(home, name))
		}
	}
	return list
}

// LikelyHidden are the names, relative to a home directory, that are hidden in one that has none of what homeSecrets
// names: those of directories that hold much else stand for what is in them.
func LikelyHidden() []string {
	names := make([]string, 0, len(homeSecrets))
	for _, name := range homeSecrets {
		begin := 0
		for _, dir := range [...]string{".config/", ".local/share/", ".local/state/", ".cache/"} {
			if strings.HasPrefix(name, dir) {
				begin = len(dir)
			}
		}
		if i := strings.IndexByte(name[begin:], '/'); i >= 0 {
			name = name[:begin+i]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
