package plan

import "testing"

// TestSafeEnvURLs: users and passwords in URLs, in lists of them, and sessions of password managers do not pass.
func TestSafeEnvURLs(t *testing.T) {
	for kv, passes := range map[string]bool{
		"GOPROXY=https://u:p@h,direct": false, "GOPROXY=direct,https://u:p@h": false, "GOPROXY=https://proxy.example.org,direct": true,
		"PIP_EXTRA_INDEX_URL=https://a/simple https://u:p@b/simple": false, "PIP_EXTRA_INDEX_URL=https://a/simple https://b/simple": true,
		"URL=https://token@host/x": false, "URL=https://u:p/w@host": false, "URL=https://u:p@w@host": false, "URL=https://host:8080/x": true,
		"REPO=ssh://git@host/x": true, "REPO=git@host:x": true, "X=://": true, "X=a://": true, "X=://,": true,
		"X=postgres://bob.smith:12/ab@db.example/x": false, "X=postgres://bob.smith:12/@db.example/x": false, "X=postgres://bob.smith:/12@h": false,
		"Y=https://u.name/pw@host/": false, "Y=https://u.name:pw@host/": false, "Y=https://a/,https://u.name/pw@host/": false,
		"U=https://cdn.example.org/@acme/x": true, "U=https://cdn.example.org/npm/@acme/x@1.2.3": true, "U=http://localhost:8080/me@home": true,
		"U=http://localhost:x/y@home": false, "U=https://h.example.org:8443/@acme": false,
		"BW_SESSION=x": false, "OP_SESSION_my=x": false, "XDG_SESSION_ID=1": true, "DESKTOP_SESSION=x": true,
	} {
		if got := len(SafeEnv([]string{kv})) == 1; got != passes {
			t.Errorf("%s: passes %t", kv, got)
		}
	}
}

// TestSafeEnv: what people have in their environment passes if it is harmless, and does not
// if it is a secret, by its name or by its look.
func TestSafeEnv(t *testing.T) {
	const digits = "0123456789abcdef0123456789abcdef0123"
	for _, kv := range []string{
		// By name.
		"GITHUB_TOKEN=x", "GH_TOKEN=x", "GITLAB_PRIVATE_TOKEN=x", "NPM_TOKEN=x", "NODE_AUTH_TOKEN=x", "npm_config__auth=x", "npm_config__authToken=x", "npm_config__password=x",
		"NPM_CONFIG_OTP=123456", "CARGO_REGISTRY_TOKEN=x", "TWINE_PASSWORD=x", "UV_PUBLISH_TOKEN=x", "POETRY_PYPI_TOKEN_PYPI=x", "POETRY_HTTP_BASIC_X_PASSWORD=x", "GEM_HOST_API_KEY=x", "HOMEBREW_GITHUB_API_TOKEN=x",
		"AWS_SECRET_ACCESS_KEY=x", "AWS_ACCESS_KEY_ID=x", "AWS_PROFILE=dev", "AWS_SESSION_TOKEN=x", "AWS_SHARED_CREDENTIALS_FILE=/x", "GOOGLE_APPLICATION_CREDENTIALS=/x", "GCP_CREDS=x", "CLOUDSDK_AUTH_ACCESS_TOKEN=x", "AZURE_CLIENT_SECRET=x",
		"ARM_CLIENT_SECRET=x", "AZURE_STORAGE_CONNECTION_STRING=x", "DIGITALOCEAN_ACCESS_TOKEN=x", "HCLOUD_TOKEN=x", "CLOUDFLARE_API_KEY=x", "CF_API_TOKEN=x", "FLY_API_TOKEN=x", "HEROKU_API_KEY=x", "VERCEL_TOKEN=x",
		"TF_VAR_db_password=x", "PULUMI_ACCESS_TOKEN=x", "VAULT_TOKEN=x", "CONSUL_HTTP_TOKEN=x", "SENTRY_DSN=x", "SENTRY_AUTH_TOKEN=x", "STRIPE_SECRET_KEY=x", "SLACK_WEBHOOK_URL=x", "DATABASE_URL=x",
		"PGPASSWORD=x", "PGPASSFILE=/x", "MYSQL_PWD=x", "REDISCLI_AUTH=x", "MONGO_INITDB_ROOT_PASSWORD=x", "DB_PASS=x", "DB_PW=x", "ConnectionStrings__Default=x", "RESTIC_PASSWORD=x", "BORG_PASSPHRASE=x", "BORG_PASSCOMMAND=x",
		"SOPS_AGE_KEY=x", "GPG_PASSPHRASE=x", "SSHPASS=x", "ANSIBLE_VAULT_PASSWORD_FILE=/x", "KUBECONFIG=/x", "DOCKER_HOST=unix:///x", "DOCKER_AUTH_CONFIG=x", "OPENAI_API_KEY=x", "ANTHROPIC_AUTH_TOKEN=x", "GEMINI_API_KEY=x",
		"HF_TOKEN=x", "HUGGING_FACE_HUB_TOKEN=x", "WANDB_API_KEY=x", "CI_JOB_JWT=x", "ACTIONS_ID_TOKEN_REQUEST_URL=x", "AZURE_DEVOPS_EXT_PAT=x", "WALLET_MNEMONIC=x", "DEPLOYER_PRIVATE_KEY=x", "RAILS_MASTER_KEY=x",
		"LOGIN_PASSWORD=on", "login_password=Yes", "MY_TOKEN=true", "PGPASSWORD=on", "PASS=yes", "X_SECRET=on", "SIGNING_KEY=true", "DB_PW=on", "SSHPASS=yes",
		"SECRET_KEY_BASE=x", "DJANGO_SECRET_KEY=x", "JWT=x", "PASS=x", "AUTH=x", "HTTP_AUTHORIZATION=x", "BW_SESSION=x", "OP_SESSION_my=x", "my_token=x",
		// By their look, under any name.
		"A=ghp_" + digits, "A=github_pat_" + digits, "A=x,glpat-" + digits, "A=xoxb-123-" + digits, "A=sk-ant-api03-" + digits, "A=sk-proj-" + digits, "A=sk_live_" + digits, "A=AKIAIOSFODNN7EXAMPLE",
		"A=AIza" + digits, "A=npm_" + digits, "A=pypi-AgE" + digits, "A=hf_" + digits, "A=hvs." + digits, "A=AGE-SECRET-KEY-1" + digits, "A=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
		"A=-----BEGIN OPENSSH PRIVATE KEY-----\nx", "CURL_OPTS=-H 'Authorization: Basic eDp5'", "A={\"token\":\"ghp_" + digits + "\"}",
		// In URLs and settings.
		"GOPROXY=https://u:p@h,direct", "PIP_INDEX_URL=https://__token__:x@h/simple", "PIP_EXTRA_INDEX_URL=https://a/simple https://u:p@b/simple", "UV_INDEX=x=https://u:p@h/simple", "HTTPS_PROXY=http://u:p@h:3128",
		"http_proxy=u:p@h:3128", "MONGO_URI=mongodb+srv://u:p@h/db", "REDIS_URL=redis://:p@h", "AMQP=amqp://u:p@h//", "CELERY=x;amqp://u:p@h", "JDBC=jdbc:postgresql://h/db?user=a&password=b", "SQL=Server=h;User=sa;Pwd=x",
		"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.keyStorePassword=x", "AZ=DefaultEndpointsProtocol=https;AccountKey=x==", "FEED=https://h/feed?token=x", "GRADLE_OPTS=-Psigning.password=x",
		"A={\"token\":\"x\"}", "A={\"db\": {\"adminPassword\" : \"x\"}}",
		"A={\"token\"\n:\t\"x\"}", `A="{\"client_secret\":\"x\"}"`, `A={"access_key":"x"}`, "A=private_key=x",
		// Ways to services, and to other code.
		"SSH_AUTH_SOCK=/x", "DBUS_SESSION_BUS_ADDRESS=x", "DISPLAY=:0", "WAYLAND_DISPLAY=x", "XDG_RUNTIME_DIR=/x", "SWAYSOCK=/x", "I3SOCK=/x", "NVIM=/x", "KITTY_LISTEN_ON=unix:@x", "VSCODE_IPC_HOOK_CLI=/x", "CONTAINER_HOST=x",
		"LD_PRELOAD=/x", "BASH_ENV=/x", "GIT_SSH_COMMAND=x", "GIT_CONFIG_COUNT=1", "GIT_ASKPASS=x", "BASH_FUNC_x%%=() { :; }", "PROMPT_COMMAND=x",
	} {
		if got := SafeEnv([]string{kv}); len(got) != 0 {
			t.Errorf("%s passes", kv)
		}
	}
	for _, kv := range []string{
		"PATH=/usr/local/bin:/usr/bin:/home/me/.local/share/fnm/aliases/default/bin", "HOME=/home/me", "USER=me", "LOGNAME=me", "SHELL=/bin/bash", "LANG=en_GB.UTF-8", "LANGUAGE=en_GB:en", "LC_ALL=C.UTF-8", "LC_TIME=de_DE.UTF-8",
		"TZ=Europe/Berlin", "TERM=xterm-256color", "COLORTERM=truecolor", "TERM_PROGRAM=vscode", "TERM_SESSION_ID=w0t0p0:1", "LS_COLORS=rs=0:di=01;34:ln=01;36:*.tar=01;31", "NO_COLOR=1", "FORCE_COLOR=1", "COLUMNS=80", "SHLVL=1",
		"EDITOR=vim", "VISUAL=code --wait", "PAGER=less -R", "LESS=-FRX", "MANPATH=/usr/share/man:", "XDG_CONFIG_HOME=/home/me/.config", "XDG_DATA_DIRS=/usr/local/share:/usr/share", "XDG_SESSION_TYPE=wayland", "XDG_SESSION_ID=1", "DESKTOP_SESSION=x",
		"GPG_TTY=/dev/pts/0", "SSH_CONNECTION=10.0.0.1 5022 10.0.0.2 22", "SUDO_USER=me", "KEYTIMEOUT=1", "KEYBOARD_LAYOUT=de", "GOFLAGS=-mod=mod -ldflags=-s", "GOPATH=/home/me/go", "GOPROXY=https://proxy.example.org,direct", "GOPRIVATE=*.corp.example.com",
		"GONOSUMDB=x", "CGO_ENABLED=0", "NODE_ENV=test", "NODE_OPTIONS=--max-old-space-size=4096", "NODE_PATH=/usr/lib/node_modules", "NVM_DIR=/home/me/.nvm", "NPM_CONFIG_PREFIX=/home/me/.npm-global", "npm_config_registry=https://registry.example.org/", "NPM_CONFIG_LOGLEVEL=warn",
		"npm_config_@acme:registry=https://npm.example.org/@acme/", "PYTHONPATH=/x", "PYTHONDONTWRITEBYTECODE=1", "VIRTUAL_ENV=/x/.venv", "CONDA_PREFIX=/opt/conda", "PIP_INDEX_URL=https://pypi.example.org/simple", "UV_CACHE_DIR=/x", "POETRY_VIRTUALENVS_IN_PROJECT=true",
		"CARGO_HOME=/home/me/.cargo", "RUSTFLAGS=-C target-cpu=native", "RUST_BACKTRACE=1", "JAVA_HOME=/usr/lib/jvm/default", "MAVEN_OPTS=-Xmx1g", "GRADLE_OPTS=-Dorg.gradle.daemon=false", "JAVA_TOOL_OPTIONS=-Dfile.encoding=UTF-8", "CC=gcc", "CFLAGS=-O2 -DKEY=1", "MAKEFLAGS=-j4",
		"DOTNET_CLI_TELEMETRY_OPTOUT=1", "CI=true", "GITHUB_ACTIONS=true", "GITHUB_REPOSITORY=me/x", "GITHUB_SHA=" + digits, "DEBUG=*", "AWS_REGION=eu-central-1", "DOCKER_BUILDKIT=1", "VAULT_ADDR=https://vault.example.org:8200",
		"TOKENIZERS_PARALLELISM=false", "TOKENIZERS_PARALLELISM=4", "CLAUDE_CODE_MAX_OUTPUT_TOKENS=32000", "SECRET_SCANNING=true", "USE_AUTH_TOKEN=false", "PASSWORD_AUTHENTICATION=on", "TOKEN_CACHE=yes", "TF_LOG=debug", "HTTP_PROXY=http://proxy.example.org:3128", "NO_PROXY=localhost,127.0.0.1,.example.org", "REPO=git@github.com:me/x.git",
		"REPO=ssh://git@host/x", "REMOTE=ssh://me@host:22/x", "REPO=git+ssh://me@host/x", "IMAGE=alpine:3@sha256:" + digits, "IMAGE=reg.example.org/x:1@sha256:" + digits, "URL=https://cdn.example.org/npm/@acme/x@1.2.3/index.js", "URL=http://localhost:8080/@me", "EMAIL=me@example.org",
		"GIT_AUTHOR_NAME=me", "GIT_COMMITTER_EMAIL=me@example.org", "PS1=\\u@\\h:\\w$ ", "MAILCHECK=60", "HISTFILE=/home/me/.hist", "WINDOWID=1", "UUID=6ba7b810-9dad-11d1-80b4-00c04fd430c8", "EMPTY=", "SOME_PASSWORD=",
		"A={\"token\":\"\",\"tokens\":\"x\",\"password\":true}", "A=\"token\"", `A="{\"token\":\"\"}"`,
	} {
		if got := SafeEnv([]string{kv}); len(got) != 1 {
			t.Errorf("%s does not pass", kv)
		}
	}
}
