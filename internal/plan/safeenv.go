package plan

import (
	"slices"
	"strings"
)

// SafeEnv is env without the variables that hold secrets, lead to services that do, or make programs run other code
// than they would. Secrets are known by the name of the variable, and in values by what they look like.
func SafeEnv(env []string) []string {
	safe := make([]string, 0, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !secretName(name, value) && !serviceName(name) && !steeringName(name) && !secretValue(value) {
			safe = append(safe, kv)
		}
	}
	return safe
}

// secretParts are what names of variables with secrets contain, by their first byte: this is looked at for every
// variable of every command.
var secretParts = [...][]string{
	'A': {"API_KEY", "APIKEY", "ACCESS_KEY", "ACCESSKEY", "AUTH_KEY", "AUTHORIZATION"},
	'B': {"BEARER"},
	'C': {"CREDENTIAL", "CREDS", "CONNECTION_STRING", "CONNECTIONSTRING", "CONN_STR", "CONNSTR", "COOKIE"},
	'D': {"DATABASE_URL"},
	'E': {"ENCRYPTION_KEY"},
	'M': {"MASTER_KEY", "MNEMONIC"},
	'P': {"PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "PASSCOMMAND", "PRIVATE_KEY", "PRIVATEKEY", "PRIVKEY"},
	'S': {"SECRET", "SIGNING_KEY", "SESSION_KEY", "SEED_PHRASE"},
	'T': {"TOKEN"},
	'W': {"WEBHOOK"},
}

var secretEnds = [...]string{"_KEY", "JWT", "_AUTH", "_PAT", "_PASS", "_PWD", "_PW", "_DSN", "_OTP", "SSHPASS"}

// secretPrefixes begin the names of variables of services.
var secretPrefixes = [...]string{"AWS_", "AZURE_", "OPENAI_", "ANTHROPIC_", "VAULT_", "PGPASS", "DOCKER_", "KUBE", "OP_SESSION"}

// harmlessNames are among those, and say where something is, or how.
var harmlessNames = [...]string{
	"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_DEFAULT_OUTPUT", "AWS_SDK_LOAD_CONFIG", "AWS_EC2_METADATA_DISABLED",
	"DOCKER_BUILDKIT", "DOCKER_CLI_HINTS", "DOCKER_DEFAULT_PLATFORM", "VAULT_ADDR", "VAULT_NAMESPACE", "OPENAI_BASE_URL", "OPENAI_API_BASE",
	"OPENAI_MODEL", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
}

var secretNames = [...]string{"PASS", "PW", "KEY", "AUTH", "OTP", "BW_SESSION", "KRB5CCNAME", "SUDO_COMMAND"}

func secretName(name, value string) bool {
	upper := strings.ToUpper(name)
	switch strings.ToLower(value) {
	case "", "false", "no", "off":
		return false // a switch, which is off
	case "true", "yes", "on":
		if !wordName(upper) {
			return false // a switch
		}
	}
	if slices.Contains(harmlessNames[:], upper) {
		return false
	}
	// Of language models, not of services.
	words := strings.ReplaceAll(upper, "TOKENIZER", "")
	if strings.HasSuffix(words, "_TOKENS") && isNumber(value) {
		words = strings.TrimSuffix(words, "_TOKENS")
	}
	return hasSecretPart(words) ||
		slices.ContainsFunc(secretPrefixes[:], func(p string) bool { return strings.HasPrefix(upper, p) }) ||
		slices.ContainsFunc(secretEnds[:], func(p string) bool { return strings.HasSuffix(upper, p) }) ||
		slices.Contains(secretNames[:], upper)
}

// wordNames end the names of variables whose value is a secret, and be it the word "on".
var wordNames = [...]string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "PASS", "_PWD", "_PW", "_KEY", "_OTP", "_PAT"}

func wordName(upper string) bool {
	return slices.ContainsFunc(wordNames[:], func(p string) bool { return strings.HasSuffix(upper, p) }) ||
		strings.HasPrefix(upper, "PGPASS") || slices.Contains(secretNames[:], upper)
}

func hasSecretPart(name string) bool {
	for i := range len(name) {
		if int(name[i]) >= len(secretParts) {
			continue
		}
		for _, p := range secretParts[name[i]] {
			if strings.HasPrefix(name[i:], p) {
				return true
			}
		}
	}
	return false
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// serviceName tells variables that lead to services of the caller's.
func serviceName(name string) bool {
	switch name {
	case "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
		"XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID",
		"SESSION_MANAGER", "GNOME_KEYRING_CONTROL", "CONTAINER_HOST", "KITTY_LISTEN_ON", "NVIM", "NVIM_LISTEN_ADDRESS", "VSCODE_IPC_HOOK_CLI":
		return true
	}
	return strings.HasSuffix(name, "SOCK")
}

// secretValue tells secrets by what they look like.
func secretValue(value string) bool {
	return strings.IndexByte(value, '@') >= 0 && (secretURL(value) || secretLogin(value)) || secretSetting(value) || secretLook(value)
}

// secretURL tells values with URLs like scheme://user:password@host or scheme://token@host, in a list
// too. What ends such a part is not searched for: passwords hold anything. Only user names that say nothing pass.
func secretURL(value string) bool {
	parts := strings.Split(value, "://")
	for i, rest := range parts[1:] {
		if end := strings.IndexAny(rest, " ,|;"); end >= 0 {
			rest = rest[:end]
		}
		user, _, at := strings.Cut(rest, "@")
		if !at || user == "git" || pathSign(user) {
			continue
		}
		login := strings.HasSuffix(parts[i], "ssh") || strings.HasSuffix(parts[i], "sftp")
		if !login || strings.Contains(user, ":") {
			return true
		}
	}
	return false
}

// pathSign reports whether what is in front of the sign can be nothing but a host and the beginning of a path: a
// name in it, as of npm's scopes, begins with the sign. All else may be the user's name and a password with a slash.
func pathSign(front string) bool {
	host, path, ok := strings.Cut(front, "/")
	if !ok {
		return false
	}
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && !isNumber(port) {
		return false
	}
	if name == "localhost" {
		return true
	}
	return !hasPort && strings.Contains(name, ".") && (path == "" || strings.HasSuffix(path, "/"))
}

// secretLogin tells user:password@host, as proxies may be written, alone or in a list.
func secretLogin(value string) bool {
	for item := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		login, host, ok := strings.Cut(item, "@")
		user, password, both := strings.Cut(login, ":")
		if ok && both && user != "" && password != "" && host != "" && !strings.ContainsAny(login, "/=") && !strings.HasPrefix(host, "sha256:") {
			return true
		}
	}
	return false
}

// secretKeys are the ends of names of settings in values: parameters of URLs, fields of connection
// strings and of JSON, options of programs.
var secretKeys = [...]string{"password", "passwd", "pwd", "secret", "token", "api_key", "apikey", "accesskey", "accountkey", "signature",
	"access_key", "secretkey", "secret_key", "privatekey", "private_key", "credential",
}

func secretSetting(value string) bool {
	for rest := value; ; {
		i := strings.IndexByte(rest, '=')
		if i < 0 {
			break
		}
		name := rest[:i]
		rest = rest[i+1:]
		if rest == "" || rest[0] == '&' || rest[0] == ';' || rest[0] == ' ' {
			continue
		}
		if secretKey(name) {
			return true
		}
	}
	for rest := value; ; {
		i := strings.IndexByte(rest, ':')
		if i < 0 {
			return false
		}
		const key = "authorization"
		if n := i - len(key); n >= 0 && strings.EqualFold(rest[n:i], key) {
			return true
		}
		name := strings.TrimRight(rest[:i], " \t\r\n")
		rest = rest[i+1:]
		// A string in JSON that is not empty; in JSON in a string of JSON, backslashes are before the quotes.
		text, isText := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n\\"), `"`)
		name, ok := strings.CutSuffix(name, `"`)
		if ok && isText && !strings.HasPrefix(strings.TrimLeft(text, `\`), `"`) && secretKey(strings.TrimRight(name, `\`)) {
			return true
		}
	}
}

// secretKey reports whether what a value has in front of a setting's value ends with one of secretKeys.
func secretKey(name string) bool {
	return slices.ContainsFunc(secretKeys[:], func(key string) bool {
		n := len(name) - len(key)
		return n >= 0 && strings.EqualFold(name[n:], key)
	})
}

// secretLooks are what tokens of services begin with.
var secretLooks = [...]string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glsa_", "xoxb-", "xoxp-", "xoxa-", "xoxe-", "xapp-",
	"sk-", "sk_live_", "sk_test_", "rk_live_", "whsec_", "AIza", "ya29.", "npm_", "pypi-", "hf_", "dop_v1_", "shpat_", "SG.", "hvs.", "hvb.",
	"dckr_pat_", "lin_api_", "xai-", "gsk_", "r8_", "tskey-", "ATATT", "AGE-SECRET-KEY-", "nvapi-", "pul-", "sntrys_", "ntn_", "figd_", "fo1_", "FlyV1",
}

// leastLook is the least length of a token.
const leastLook = 20

func secretLook(value string) bool {
	if len(value) < leastLook {
		return false
	}
	if strings.Contains(value, "PRIVATE KEY-----") {
		return true
	}
	for begin, i := 0, 0; i <= len(value); i++ {
		if i < len(value) && wordByte(value[i]) {
			continue
		}
		if i-begin >= leastLook && tokenLook(value[begin:i]) {
			return true
		}
		begin = i + 1
	}
	return false
}

// wordByte reports whether a byte can be one of a token.
func wordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_' || c == '-' || c == '.'
}

// tokenLook is for words of some length.
func tokenLook(word string) bool {
	switch {
	case len(word) == leastLook && (strings.HasPrefix(word, "AKIA") || strings.HasPrefix(word, "ASIA")) && strings.ToUpper(word) == word:
		return true
	case strings.HasPrefix(word, "eyJ") && strings.Count(word, ".") >= 2:
		return true // a JSON Web Token
	}
	return slices.ContainsFunc(secretLooks[:], func(p string) bool { return strings.HasPrefix(word, p) }) && strings.ContainsAny(word, "0123456789")
}

// steeringName tells variables through which the caller's environment would decide what code runs.
func steeringName(name string) bool {
	switch name {
	case "LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "PROMPT_COMMAND", "PYTHONSTARTUP", "PERL5OPT", "PERL5DB", "RUBYOPT",
		"SSH_ASKPASS", "SUDO_ASKPASS":
		return true
	}
	if strings.HasPrefix(name, "BASH_FUNC_") {
		return true
	}
	if rest, ok := strings.CutPrefix(name, "GIT_"); ok {
		return !strings.HasPrefix(rest, "AUTHOR_") && !strings.HasPrefix(rest, "COMMITTER_")
	}
	return false
}
