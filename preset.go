package nsrun

import (
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/netpolicy"
)

// Preset is a kind of commands, or a kind of sandbox. Presets can be combined.
type Preset uint8

const (
	// DefaultPreset is for any command.
	DefaultPreset Preset = iota
	// BuildPreset is for build commands: they write directly to the caches of build tools that exist below the home
	// directory (.cache/go-build, go/pkg, .npm/_cacache, …), so that the next build finds them. Later builds
	// outside the sandbox then use what commands put there.
	BuildPreset
	// TestPreset is for test commands: their changes in folders with an overlay are discarded, as with Discard.
	TestPreset
	// GitPreset is for git commands: with Direct they can write to all of a git directory, including hooks and
	// configuration, which the next user of git there executes.
	GitPreset
	// StrictPreset shows nothing of the host but /usr, /lib*, /bin, /sbin, /etc/passwd, /etc/group, with a network
	// /etc/resolv.conf, and what Config and Request name. /dev has null, zero and urandom. There is no playground.
	StrictPreset
	// WorkspaceRootPreset makes the project the root, "/", and the home directory. Of the host there are /usr,
	// /lib*, /bin, /sbin, /etc/resolv.conf, /etc/hosts, /etc/ssl and /etc/alternatives, and what Config and Request
	// name, at its own path; /proc, /dev and /tmp are private. /.venv/bin is the first on PATH. Config.SandboxPath
	// and Config.HostPath map paths. With Direct, a command may not see what others create in the project while it
	// runs.
	WorkspaceRootPreset
	// BrowserPreset is for programs with a sandbox of their own, as Config.UserNamespaces.
	BrowserPreset
	// NPMPreset allows connections to the registries of npm and yarn, and to the headers of Node.js.
	NPMPreset
	// PyPIPreset allows connections to the Python package index.
	PyPIPreset
	// GoPreset allows connections to the module proxy and the checksum database of Go.
	GoPreset
	// CargoPreset allows connections to crates.io.
	CargoPreset
	// DebianPreset allows connections to Debian's package servers.
	DebianPreset
	// GitHubPreset allows connections to GitHub: whoever has a token can also write there.
	GitHubPreset
	presetCount
)

// presets is the table of all presets. It is data without code, so that it does not slow down the start of a program.
var presets = [presetCount]struct {
	name, summary string
	rules         []string // of its network
}{
	DefaultPreset:       {"default", "any command: the host's files are readable, changes to the project are kept apart, no network", nil},
	BuildPreset:         {"build", "the command writes to the caches of build tools", nil},
	TestPreset:          {"test", "the changes are discarded", nil},
	GitPreset:           {"git", "with --direct, the command writes to all of .git", nil},
	StrictPreset:        {"strict", "the host's /usr, /lib*, /bin, /sbin, passwd and group, what flags name, and nothing else", nil},
	WorkspaceRootPreset: {"workspace-root", "the project is the root directory, with the host's programs over it", nil},
	BrowserPreset:       {"browser", "programs with a sandbox of their own, such as browsers, can make user namespaces", nil},
	NPMPreset:           {"npm", "network: the npm and yarn registries, headers of Node.js", []string{"tcp:registry.npmjs.org:443", "tcp:registry.yarnpkg.com:443", "tcp:nodejs.org:443"}},
	PyPIPreset:          {"pypi", "network: the Python package index", []string{"tcp:pypi.org:443", "tcp:files.pythonhosted.org:443"}},
	GoPreset:            {"go", "network: the Go module proxy and checksum database", []string{"tcp:proxy.golang.org:443", "tcp:sum.golang.org:443"}},
	CargoPreset:         {"cargo", "network: crates.io", []string{"tcp:crates.io:443", "tcp:index.crates.io:443", "tcp:static.crates.io:443"}},
	DebianPreset:        {"debian", "network: Debian's package servers", []string{"tcp:deb.debian.org:80", "tcp:deb.debian.org:443", "tcp:security.debian.org:80", "tcp:security.debian.org:443"}},
	GitHubPreset: {"github", "network: GitHub; anybody who has a token can write there", []string{
		"tcp:github.com:22", "tcp:github.com:443", "tcp:api.github.com:443", "tcp:codeload.github.com:443",
		"tcp:raw.githubusercontent.com:443", "tcp:objects.githubusercontent.com:443", "tcp:release-assets.githubusercontent.com:443",
	}},
}

// Presets are all of them, in the order in which help lists them.
func Presets() []Preset {
	list := make([]Preset, presetCount)
	for i := range list {
		list[i] = Preset(i)
	}
	return list
}

// ParsePreset returns the preset of a name.
func ParsePreset(name string) (Preset, error) {
	for i := range presets {
		if presets[i].name == name {
			return Preset(i), nil
		}
	}
	names := make([]string, presetCount)
	for i := range presets {
		names[i] = presets[i].name
	}
	return 0, errors.New("there is no preset " + escape.Quote(name) + ", only " + strings.Join(names[:presetCount-1], ", ") + " and " + names[presetCount-1])
}

// String returns the preset's name, as ParsePreset takes it.
func (p Preset) String() string {
	if p >= presetCount {
		return "preset?"
	}
	return presets[p].name
}

// Summary says in one line what the preset does.
func (p Preset) Summary() string {
	if p >= presetCount {
		return ""
	}
	return presets[p].summary
}

// Rules are those of the preset's network. Nil: it has none.
func (p Preset) Rules() (list []netpolicy.Rule) {
	if p >= presetCount {
		return nil
	}
	for _, text := range presets[p].rules {
		r, err := netpolicy.Parse(text)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		list = append(list, r)
	}
	return list
}

// has reports whether a preset is among those of c.
func (c *Config) has(p Preset) bool { return c.Preset == p || slices.Contains(c.Presets, p) }

// withPresets adds the settings of presets. c has slices of its own.
func (c Config) withPresets() Config {
	if c.Preset == DefaultPreset && len(c.Presets) == 0 {
		return c
	}
	for _, p := range append([]Preset{c.Preset}, c.Presets...) {
		for _, r := range p.Rules() {
			if !slices.Contains(c.Net.Rules, r) {
				c.Net.Rules = append(c.Net.Rules, r)
			}
		}
	}
	return c
}

// presetNames are the names of c's presets, each once.
func (c *Config) presetNames() (names []string) {
	for _, p := range append([]Preset{c.Preset}, c.Presets...) {
		if p != DefaultPreset && !slices.Contains(names, p.String()) {
			names = append(names, p.String())
		}
	}
	if names == nil {
		names = []string{DefaultPreset.String()}
	}
	return names
}
