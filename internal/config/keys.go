package config

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/netpolicy"
)

type Kind uint8

const (
	Bool     Kind = iota
	Word          // a string, one of Key.Words
	Duration      // a string like "10m"
	Strings       // an array of strings
	Ports         // an array of integers
	Size          // a string like "512M", or an integer
	Count         // an integer
	Number        // an integer or a float
)

var wants = [...]string{Bool: "true or false", Word: "a string", Duration: `a string like "10m"`, Strings: "an array of strings", Ports: "an array of integers",
	Size: `a string like "512M"`, Count: "an integer", Number: "a number"}

// A Key is one setting. The decoder, the JSON schema, the template of a file, and the list in docs/config.md are made
// from the table of keys.
type Key struct {
	Table, Name string
	Kind        Kind
	Doc         string   // a sentence without a full stop
	Default     string   // the value in TOML that holds where nobody sets it
	Example     string   // another one
	Words       []string // all that a Word, or an element of Strings, can be; nil: any
	To          string   // the key whose value it adds to; empty: its own
	Adds        bool     // it adds to what lower layers say, and takes nothing away
	General     bool     // it is about what nsrun keeps, not about commands: for no profile, and for no project

	// parse checks and normalizes a text. Nil: any text is valid.
	parse func(text string, f *Facts) (string, error)
	// stricter reports whether a change lets commands do no more. Nil: only removals do.
	stricter func(before, after []Item) bool
}

func (k *Key) flag() string { return strings.ReplaceAll(k.Name, "_", "-") }

func (k *Key) Full() string { return k.Table + "." + k.Name }

// The indexes of keys in Keys.
const (
	enabled = iota
	mode
	backend
	isolateNetwork
	isolatePIDs
	presets
	rwPaths
	extraRWPaths
	roPaths
	extraROPaths
	blockedPaths
	protectedPaths
	blockExisting
	home
	caches
	homeSize
	envPassthrough
	env
	clearEnv
	allowNet
	netBy
	publish
	allowUnix
	allowUserns
	ownIDs
	devices
	credentials
	timeout
	grace
	memory
	swap
	pids
	cpus
	nofile
	fsize
	output
	disk
	inodes
	nice
	idleIO
	keepSessions
	keepBackups
	keepLog
	numKeys
)

// Keys is the table. A key that adds to another one follows it.
var Keys = [numKeys]Key{
	enabled: {Table: "sandbox", Name: "enabled", Kind: Bool, Default: "true", stricter: onlyTrue,
		Doc: "false runs commands without a sandbox, and says so each time (--sandbox disabled)"},
	mode: {Table: "sandbox", Name: "mode", Kind: Word, Default: `"required"`, Words: sandboxModes, stricter: stricterMode,
		Doc: "preferred runs commands without a sandbox where there can be none, and says so each time (--sandbox)"},
	backend: {Table: "sandbox", Name: "backend", Kind: Word, Default: `"auto"`, Words: backends, stricter: same,
		Doc: "native uses namespaces, landlock does not, and auto uses what this machine allows (--backend)"},
	isolateNetwork: {Table: "sandbox", Name: "isolate_network", Kind: Bool, Default: "true", stricter: onlyTrue,
		Doc: "false asks for the network of this host, which needs approval every time (--net host)"},
	isolatePIDs: {Table: "sandbox", Name: "isolate_pids", Kind: Bool, Default: "true", parse: alwaysTrue,
		Doc: "commands never see other processes; false is refused"},
	presets: {Table: "sandbox", Name: "presets", Kind: Strings, Default: "[]", Example: `["build", "go"]`, stricter: stricterPresets,
		Words: []string{"default", "build", "test", "git", "strict", "workspace-root", "browser", "npm", "pypi", "go", "cargo", "debian", "github"},
		Doc:   "settings for a kind of command, and networks (--preset); nsrun help presets says what they do"},
	rwPaths: {Table: "sandbox", Name: "rw_paths", Kind: Strings, Default: "[]", Example: `["~/.cache/ccache"]`, parse: parseAbsolute,
		Doc: "paths and patterns that commands write to directly, without an overlay (--rw)"},
	extraRWPaths: {Table: "sandbox", Name: "extra_rw_paths", Kind: Strings, Default: "[]", Example: `["~/.cargo"]`, parse: parseAbsolute, To: "rw_paths", Adds: true,
		Doc: "more such paths, which are added to rw_paths of other files"},
	roPaths: {Table: "sandbox", Name: "ro_paths", Kind: Strings, Default: "[]", Example: `["vendor"]`, parse: parseAbsolute, stricter: same,
		Doc: "paths and patterns that are read-only, and shown even if they are hidden otherwise (--ro)"},
	extraROPaths: {Table: "sandbox", Name: "extra_ro_paths", Kind: Strings, Default: "[]", Example: `["/opt/tools"]`, parse: parseAbsolute, To: "ro_paths", Adds: true, stricter: same,
		Doc: "more such paths, which are added to ro_paths of other files"},
	blockedPaths: {Table: "sandbox", Name: "blocked_paths", Kind: Strings, Default: "[]", Example: `[".env", "~/private"]`, parse: parseBlocked, Adds: true, stricter: hides,
		Doc: "paths and patterns that are hidden (--block), and exceptions (\"!PATTERN\"); they add to those of other files, and win over rw_paths and ro_paths"},
	protectedPaths: {Table: "sandbox", Name: "protected_paths", Kind: Strings, Default: "[]", Example: `["Makefile", ".github", "**/*.lock"]`, parse: parseAbsolute, Adds: true, stricter: within,
		Doc: "paths and patterns in the project whose changes are held back, or refused where they are written to in place (--protect); they add to those of other files"},
	blockExisting: {Table: "sandbox", Name: "block_existing", Kind: Bool, Default: "false", stricter: onlyFalse,
		Doc: "true runs commands even if blocked_paths can only hide what exists when they start (--block-existing)"},
	home: {Table: "sandbox", Name: "home", Kind: Word, Default: `"layer"`, Words: []string{"layer", "none"}, stricter: onlyNone,
		Doc: "layer keeps what commands write below the home directory for the project's next commands; none refuses such writes (--home)"},
	caches: {Table: "sandbox", Name: "caches", Kind: Strings, Default: "[]", Example: `["~/.cache/tool"]`, parse: parseCache, Adds: true,
		Doc: "more directories below the home directory to treat as caches: commands can write to them, and nsrun may remove their contents (--cache)"},
	homeSize: {Table: "sandbox", Name: "home_size", Kind: Size, Default: `"10G"`, parse: parseSize, stricter: lower,
		Doc: "how much that layer keeps after a command: if it has more, caches in it are removed, the largest first, or all of it (--home-size)"},
	envPassthrough: {Table: "sandbox", Name: "env_passthrough", Kind: Strings, Default: "[]", Example: `["GITHUB_TOKEN"]`, parse: parseName,
		Doc: "variables that are passed on although they look like secrets (--env NAME)"},
	env: {Table: "sandbox", Name: "env", Kind: Strings, Default: "[]", Example: `["CI=true"]`, parse: parseSetting, stricter: same,
		Doc: "variables that are set (--env NAME=VALUE)"},
	clearEnv: {Table: "sandbox", Name: "clear_env", Kind: Bool, Default: "false", stricter: onlyTrue,
		Doc: "true passes only PATH and HOME from the environment (--clear-env)"},
	allowNet: {Table: "sandbox", Name: "allow_net", Kind: Strings, Default: "[]", Example: `["proxy.golang.org:443", "*.npmjs.org:443"]`, parse: parseNet,
		Doc: "rules for the network: what commands can connect to without a question (--allow-net)"},
	netBy: {Table: "sandbox", Name: "net_by", Kind: Word, Example: `"broker"`, Words: []string{"kernel", "broker"}, stricter: same,
		Doc: "who enforces the rules (--net-by); by default the kernel, if permitted"},
	publish: {Table: "sandbox", Name: "publish", Kind: Ports, Default: "[]", Example: `[8080]`, parse: parsePort,
		Doc: "TCP ports of commands' servers that this host can reach at 127.0.0.1 (--publish)"},
	allowUnix: {Table: "sandbox", Name: "allow_unix", Kind: Strings, Default: "[]", Example: `["/run/postgresql/.s.PGSQL.5432"]`, parse: parseUnix,
		Doc: "Unix sockets of this host that commands can connect to, and services: ssh-agent, ssh-agent:KEY, gpg-agent:KEY, dbus:NAME, docker, x11, wayland (--allow-unix)"},
	allowUserns: {Table: "sandbox", Name: "allow_userns", Kind: Bool, Default: "false", stricter: onlyFalse,
		Doc: "true lets commands make user namespaces, as programs with a sandbox of their own do (--allow-userns)"},
	ownIDs: {Table: "sandbox", Name: "own_ids", Kind: Bool, Default: "false", stricter: same,
		Doc: "true gives root's commands ids of their own, and root's rights to what they may write (--own-ids)"},
	devices: {Table: "sandbox", Name: "devices", Kind: Strings, Default: "[]", Example: `["dri"]`, parse: parseDevice,
		Doc: "devices of this host that commands can use: nvidia, dri, kvm, or a path below /dev (--device)"},
	credentials: {Table: "sandbox", Name: "credentials", Kind: Strings, Default: "[]", Example: `["api.example.com=env:API_TOKEN"]`, parse: parseCredential, stricter: same,
		Doc: "secrets that nsrun adds to requests to a host without showing them to commands; git:HOST adds the password that git has for it (--credential)"},
	timeout: {Table: "limits", Name: "timeout", Kind: Duration, Example: `"10m"`, parse: parseDuration, stricter: shorter,
		Doc: "how long a command can take before it is ended (--timeout)"},
	grace: {Table: "limits", Name: "grace", Kind: Duration, Default: `"2s"`, parse: parseDuration, stricter: shorter,
		Doc: "how long after its timeout a command is killed, if SIGTERM has not ended it (--grace)"},
	memory: {Table: "limits", Name: "memory", Kind: Size, Example: `"2G"`, stricter: lower,
		Doc: "memory of a command with all that it starts; with more, it is killed (--memory)"},
	swap: {Table: "limits", Name: "swap", Kind: Size, Example: `"1G"`, stricter: lowerSwap,
		Doc: "swap that a command may use in addition to memory, or \"max\"; by default none; it needs memory (--swap)"},
	pids: {Table: "limits", Name: "pids", Kind: Count, Example: "1000", stricter: lower,
		Doc: "processes and threads (--pids)"},
	cpus: {Table: "limits", Name: "cpus", Kind: Number, Example: "1.5", stricter: lower,
		Doc: "processors (--cpus)"},
	nofile: {Table: "limits", Name: "nofile", Kind: Count, Example: "1024", stricter: lower,
		Doc: "open files of each process (--nofile)"},
	fsize: {Table: "limits", Name: "fsize", Kind: Size, Example: `"1G"`, stricter: lower,
		Doc: "the size of each file that is written (--fsize)"},
	output: {Table: "limits", Name: "output", Kind: Size, Example: `"10M"`, stricter: lower,
		Doc: "standard output and standard error together, which are pipes then; with more, the command is killed (--output)"},
	disk: {Table: "limits", Name: "disk", Kind: Size, Example: `"5G"`, stricter: lower,
		Doc: "what a command writes to its session; with more, it is killed (--disk)"},
	inodes: {Table: "limits", Name: "inodes", Kind: Count, Example: "100000", stricter: lower,
		Doc: "files that it makes in its session; with more, it is killed (--inodes)"},
	nice: {Table: "limits", Name: "nice", Kind: Count, Example: "10", stricter: higher,
		Doc: "how much lower the priority is, 1 to 19 (--nice)"},
	idleIO: {Table: "limits", Name: "idle_io", Kind: Bool, Default: "false", stricter: onlyTrue,
		Doc: "true lets commands use disks only when nobody else does (--idle-io)"},
	keepSessions: {Table: "retention", Name: "sessions", Kind: Duration, Default: `"7d"`, Example: `"30d"`, parse: parseDays, General: true, stricter: same,
		Doc: "how long committed and discarded sessions stay, and can be undone"},
	keepBackups: {Table: "retention", Name: "backups", Kind: Duration, Default: `"7d"`, Example: `"30d"`, parse: parseDays, General: true, stricter: same,
		Doc: "how long backups and versions of files stay"},
	keepLog: {Table: "retention", Name: "log", Kind: Duration, Default: `"90d"`, Example: `"365d"`, parse: parseDays, General: true, stricter: same,
		Doc: "how long commands stay in the log"},
}

// notNetworks is the number of presets that are not about the network; they come first.
const notNetworks = 7

var tables = [...]string{"sandbox", "limits", "retention"}

// keyNumber returns the index of a key, or -1. An empty table stands for all.
func keyNumber(table, name string) int {
	for i := range Keys {
		if k := &Keys[i]; k.Name == name && (table == "" || k.Table == table) {
			return i
		}
	}
	return -1
}

// target is the index of the key whose value key i sets.
func target(i int) int {
	if to := Keys[i].To; to != "" {
		return keyNumber(Keys[i].Table, to)
	}
	return i
}

func alwaysTrue(text string, _ *Facts) (string, error) {
	if text != "true" {
		return "", errors.New("commands never see other processes; only true is possible")
	}
	return text, nil
}

// parsePath parses a path or pattern. "!" marks an exception.
func parsePath(text string, f *Facts) (string, error) {
	rest, except := strings.CutPrefix(text, "!")
	clean := rest
	if rest == "" || rest[0] != '$' {
		abs, err := absolute(rest, f, pathrule.Quote)
		if err != nil {
			return "", err
		}
		rest, clean = abs, path.Clean(abs)
	}
	if _, err := pathrule.Parse(rest, func(string) string { return "/" }); err != nil {
		return "", err
	}
	if except {
		return "!" + clean, nil
	}
	return clean, nil
}

func parseBlocked(text string, f *Facts) (string, error) {
	text, err := parsePath(text, f)
	if text == "/" {
		err = errors.New("the whole file system cannot be hidden")
	}
	return text, err
}

// parseAbsolute parses a path or pattern that is no exception.
func parseAbsolute(text string, f *Facts) (string, error) {
	if strings.HasPrefix(text, "!") {
		return "", errors.New("only blocked_paths have exceptions")
	}
	return parsePath(text, f)
}

func parseCache(text string, f *Facts) (string, error) {
	dir, err := absolute(text, f, func(name string) string { return name })
	dir = path.Clean(dir)
	if err == nil && (f.Home == "" || !strings.HasPrefix(dir, strings.TrimSuffix(f.Home, "/")+"/")) {
		err = errors.New("a cache must be below the home directory")
	}
	return dir, err
}

// absolute makes a path absolute, but not clean: "~" is the home directory, and relative paths lie below the project.
// form is applied to names.
func absolute(text string, f *Facts, form func(string) string) (string, error) {
	switch {
	case text == "":
		return "", errors.New("empty path")
	case strings.ContainsRune(text, 0):
		return "", errors.New("a path cannot contain the character NUL")
	case text == "~" || strings.HasPrefix(text, "~/"):
		if f.Home == "" {
			return "", errors.New("the home directory is not known")
		}
		text = form(f.Home) + text[1:]
	case text[0] == '~':
		return "", errors.New("only ~/ stands for a home directory; write that of another user in full")
	case text[0] != '/':
		if f.Project == "" {
			return "", errors.New("a relative path needs a project, and there is none")
		}
		text = form(f.Project) + "/" + text
	}
	return text, nil
}

func parseUnix(text string, f *Facts) (string, error) {
	if text == "@" {
		return "", errors.New("abstract sockets cannot be allowed in a file, only with --allow-unix @")
	}
	if strings.HasPrefix(text, "@") {
		return "", errors.New("one abstract socket cannot be allowed alone, see --allow-unix @; a file is ./" + text)
	}
	if _, ok, err := service.Parse(text); ok {
		return text, err
	}
	name, err := absolute(text, f, func(name string) string { return name })
	if err != nil {
		return "", err
	}
	return path.Clean(name), nil
}

func parseDevice(text string, _ *Facts) (string, error) {
	if text != "nvidia" && text != "dri" && text != "kvm" && (!strings.HasPrefix(text, "/dev/") || path.Clean(text) != text) {
		return "", errors.New("neither nvidia, dri or kvm, nor a path below /dev")
	}
	return text, nil
}

func parseCredential(text string, _ *Facts) (string, error) {
	r, err := credential.Parse(text)
	if e, ok := errors.AsType[*credential.Error](err); ok {
		return "", e.Err
	}
	return r.String(), nil
}

func parseName(text string, _ *Facts) (string, error) {
	if text == "" || text[0] == '-' || strings.ContainsAny(text, "=\x00") {
		return "", errors.New("not the name of a variable")
	}
	if strings.Contains(text, "*") {
		return "", errors.New("name each variable; patterns are not allowed")
	}
	return text, nil
}

func parseSetting(text string, f *Facts) (string, error) {
	name, _, ok := strings.Cut(text, "=")
	if !ok || strings.ContainsRune(text, 0) {
		return "", errors.New("not NAME=VALUE")
	}
	_, err := parseName(name, f)
	return text, err
}

func parseNet(text string, _ *Facts) (string, error) {
	r, err := netpolicy.Parse(text)
	if e, ok := errors.AsType[*netpolicy.Error](err); ok {
		err = e.Err
	}
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

func parsePort(text string, _ *Facts) (string, error) {
	if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 {
		return "", errors.New("a port is a number from 1 to 65535")
	}
	return text, nil
}

func parseDuration(text string, _ *Facts) (string, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return "", errors.New("not a duration like 10s or 5m")
	case d <= 0:
		return "", errors.New("it must be greater than zero")
	}
	return d.String(), nil
}

// Days parses a duration, also in days or weeks: "30d", "2w".
func Days(text string) (time.Duration, error) {
	unit := time.Duration(0)
	number, ok := strings.CutSuffix(text, "d")
	if ok {
		unit = 24 * time.Hour
	} else if number, ok = strings.CutSuffix(text, "w"); ok {
		unit = 7 * 24 * time.Hour
	}
	const most = 100 * 365 * 24 * time.Hour // as good as forever
	if unit > 0 {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && time.Duration(n) <= most/unit {
			return time.Duration(n) * unit, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 && d <= most {
		return d, nil
	}
	return 0, errors.New("not a duration like 30d or 12h")
}

func parseDays(text string, _ *Facts) (string, error) {
	d, err := Days(text)
	switch {
	case err != nil:
		return "", err
	case d == 0:
		return "", errors.New("it must be greater than zero")
	case d%(24*time.Hour) == 0:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d", nil
	}
	return d.String(), nil
}
