package harmless

import "strings"

var npmKeys = []key{
	{"registry", link, ""}, {"proxy", link, ""}, {"https-proxy", link, ""}, {"http-proxy", link, ""}, {"noproxy", hosts, ""},
	{"strict-ssl", yesNo, ""}, {"cafile", file, ""}, {"save-exact", yesNo, ""}, {"save-prefix", word, "^ ~"}, {"engine-strict", yesNo, ""},
	{"legacy-peer-deps", yesNo, ""}, {"strict-peer-deps", yesNo, ""}, {"package-lock", yesNo, ""}, {"fund", yesNo, ""}, {"audit", yesNo, ""},
	{"prefer-offline", yesNo, ""}, {"prefer-online", yesNo, ""}, {"ignore-scripts", yesNo, ""}, {"progress", yesNo, ""}, {"update-notifier", yesNo, ""},
	{"loglevel", word, "silent error warn notice http info verbose silly"}, {"fetch-retries", number, ""}, {"fetch-timeout", number, ""},
	{"maxsockets", number, ""}, {"node-linker", word, "isolated hoisted pnp"}, {"hoist", yesNo, ""}, {"shamefully-hoist", yesNo, ""},
	{"auto-install-peers", yesNo, ""}, {"strict-peer-dependencies", yesNo, ""}, {"prefer-workspace-packages", yesNo, ""},
	{"package-import-method", word, "auto hardlink copy clone clone-or-copy"}, {"side-effects-cache", yesNo, ""}, {"resolution-mode", word, "highest time-based lowest-direct"},
}

// npm reads npmrc(5): keys of its first part, one a line.
func npm(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			break // what follows belongs to something else
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		value, quoted := unquote(value)
		if k := find(npmKeys, name); ok && quoted && (k != nil && k.fits(value) || isScope(name) && isLink(value)) {
			b.WriteString(name + "=" + value + "\n")
		}
	}
	return b.String()
}

// isScope reports whether a key is the registry of a scope: "@name:registry".
func isScope(name string) bool {
	scope, ok := strings.CutSuffix(name, ":registry")
	scope, at := strings.CutPrefix(scope, "@")
	return ok && at && scope != "" && len(scope) <= 64 && only(scope, letters+digits+"._-") && plain(scope, ".")
}

// unquote takes the quotes from around a value, if it has any. Not ok: it has them elsewhere.
func unquote(value string) (text string, ok bool) {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return value, !strings.ContainsAny(value, `"'\`)
}

var yarnKeys = []key{
	{"registry", link, ""}, {"proxy", link, ""}, {"https-proxy", link, ""}, {"strict-ssl", yesNo, ""}, {"network-timeout", number, ""},
	{"save-prefix", word, "^ ~"}, {"ignore-engines", yesNo, ""}, {"ignore-scripts", yesNo, ""}, {"disable-self-update-check", yesNo, ""}, {"cafile", file, ""},
}

// yarn reads .yarnrc: a key, a space and a value on each line; what is indented belongs to the line before.
func yarn(text string) string {
	return plainLines(text, func(line string) (string, string, bool) { return strings.Cut(line, " ") }, func(name, value string) string {
		name, ok := unquote(name)
		value, quoted := unquote(value)
		if k := find(yarnKeys, name); ok && quoted && (k != nil && k.fits(value) || isScope(name) && isLink(value)) {
			return `"` + name + `" "` + value + "\"\n"
		}
		return ""
	})
}

var berryKeys = []key{
	{"npmRegistryServer", link, ""}, {"httpProxy", link, ""}, {"httpsProxy", link, ""}, {"nodeLinker", word, "pnp pnpm node-modules"}, {"enableTelemetry", yesNo, ""},
	{"enableGlobalCache", yesNo, ""}, {"enableMirror", yesNo, ""}, {"enableImmutableInstalls", yesNo, ""}, {"enableScripts", yesNo, ""}, {"enableStrictSsl", yesNo, ""},
	{"enableProgressBars", yesNo, ""}, {"enableColors", yesNo, ""}, {"compressionLevel", word, "0 1 2 3 4 5 6 7 8 9 mixed"}, {"httpTimeout", number, ""},
	{"httpRetry", number, ""}, {"networkConcurrency", number, ""}, {"httpsCaFilePath", file, ""}, {"pnpMode", word, "strict loose"},
	{"nmMode", word, "classic hardlinks-local hardlinks-global"}, {"nmHoistingLimits", word, "none dependencies workspaces"},
}

// berry reads .yarnrc.yml: of YAML only keys at the left with a value on their line.
func berry(text string) string {
	return plainLines(text, func(line string) (string, string, bool) { return strings.Cut(line, ":") }, func(name, value string) string {
		value, quoted := unquote(value)
		if k := find(berryKeys, name); quoted && k != nil && k.fits(value) {
			return name + `: "` + value + "\"\n"
		}
		return ""
	})
}

// plainLines copies lines that stand for themselves: none of what is indented below them.
func plainLines(text string, cut func(line string) (name, value string, ok bool), line func(name, value string) string) string {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	seen := map[string]bool{}
	for i, l := range lines {
		if l == "" || l[0] == ' ' || l[0] == '\t' || l[0] == '#' || l[0] == '-' || follows(lines[i+1:]) {
			continue
		}
		name, value, ok := cut(l)
		name = strings.TrimSpace(name)
		if text := line(name, strings.TrimSpace(value)); ok && text != "" && !seen[name] {
			seen[name] = true
			b.WriteString(text)
		}
	}
	return b.String()
}

// follows reports whether lines begin with one that continues the one before them.
func follows(lines []string) bool {
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			return l[0] == ' ' || l[0] == '\t'
		}
	}
	return false
}

var pipKeys = []key{
	{"index-url", link, ""}, {"extra-index-url", link, ""}, {"trusted-host", host, ""}, {"proxy", link, ""}, {"timeout", number, ""}, {"retries", number, ""},
	{"no-cache-dir", yesNo, ""}, {"disable-pip-version-check", yesNo, ""}, {"require-virtualenv", yesNo, ""}, {"cert", file, ""}, {"no-input", yesNo, ""},
	{"prefer-binary", yesNo, ""}, {"no-color", yesNo, ""}, {"quiet", number, ""}, {"progress-bar", word, "on off raw"},
}

// pip reads pip.conf: sections, keys, and values that may go on in lines that are indented.
func pip(text string) string {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	section, known := "", false
	for i, l := range lines {
		if l == "" || l[0] == ' ' || l[0] == '\t' || follows(lines[i+1:]) && l[0] != '[' {
			continue
		}
		if l[0] == '[' {
			section = strings.TrimSpace(l)
			known = section == "[global]" || section == "[install]" || section == "[download]" || section == "[wheel]"
			continue
		}
		sep := strings.IndexAny(l, "=:")
		if !known || sep < 0 {
			continue
		}
		name, value := strings.TrimSpace(l[:sep]), strings.TrimSpace(l[sep+1:])
		if k := find(pipKeys, strings.ReplaceAll(name, "_", "-")); k != nil && k.fits(value) {
			if section != "" {
				b.WriteString(section + "\n")
				section = ""
			}
			b.WriteString(k.name + " = " + value + "\n")
		}
	}
	return b.String()
}

var gradleKeys = []key{
	{"org.gradle.jvmargs", heap, ""}, {"org.gradle.daemon", yesNo, ""}, {"org.gradle.parallel", yesNo, ""}, {"org.gradle.caching", yesNo, ""},
	{"org.gradle.configureondemand", yesNo, ""}, {"org.gradle.configuration-cache", yesNo, ""}, {"org.gradle.workers.max", number, ""},
	{"org.gradle.vfs.watch", yesNo, ""}, {"org.gradle.console", word, "auto plain rich verbose"}, {"org.gradle.logging.level", word, "quiet warn lifecycle info debug"},
	{"org.gradle.warning.mode", word, "all fail none summary"}, {"systemProp.http.proxyHost", host, ""}, {"systemProp.http.proxyPort", number, ""},
	{"systemProp.https.proxyHost", host, ""}, {"systemProp.https.proxyPort", number, ""}, {"systemProp.http.nonProxyHosts", hosts, ""}, {"systemProp.https.nonProxyHosts", hosts, ""},
	{"android.useAndroidX", yesNo, ""}, {"kotlin.code.style", word, "official obsolete"}, {"kotlin.incremental", yesNo, ""},
}

// gradle reads properties, one a line: none with escapes, and none that goes on.
func gradle(text string) string {
	var b strings.Builder
	continued := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		goesOn := strings.HasSuffix(line, `\`)
		if whole := !continued && !goesOn; whole && line != "" && line[0] != '#' && line[0] != '!' && !strings.Contains(line, `\`) {
			name, value, ok := strings.Cut(line, "=")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if k := find(gradleKeys, name); ok && k != nil && k.fits(value) {
				b.WriteString(name + "=" + value + "\n")
			}
		}
		continued = goesOn
	}
	return b.String()
}
