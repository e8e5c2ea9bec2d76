package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/netpolicy"
)

// A Rule is about paths.
type Rule struct {
	Kind    string // "rw", "ro", "protect" or "block"
	Pattern string // see pathrule.Parse
	Pos     Pos
}

// Rules are those of files, in the order in which later ones win. Flags have their own. Of what is writable and what is
// read-only, what lies deeper wins, then what is read-only; what is hidden wins over both. last are those that win over the rules
// of flags, too: what locked blocked_paths hide.
func (p *Policy) Rules() (list, last []Rule) {
	for _, of := range [...]struct {
		key  int
		kind string
	}{{rwPaths, "rw"}, {roPaths, "ro"}, {protectedPaths, "protect"}, {blockedPaths, "block"}} {
		if of.key == protectedPaths {
			slices.SortStableFunc(list, func(a, b Rule) int { return strings.Count(a.Pattern, "/") - strings.Count(b.Pattern, "/") })
		}
		to := &list
		if _, ok := p.locked[of.key]; ok && of.key == blockedPaths {
			to = &last
		}
		for _, item := range p.ofFiles(of.key) {
			*to = append(*to, Rule{of.kind, item.Text, item.Pos})
		}
	}
	return list, last
}

func (p *Policy) ofFiles(key int) (list []Item) {
	for _, item := range p.Settings[key].Items {
		if item.Source != Flag {
			list = append(list, item)
		}
	}
	return list
}

func (p *Policy) texts(key int) (list []string) {
	for _, item := range p.Settings[key].Items {
		list = append(list, item.Text)
	}
	return list
}

// Sandbox is "required", "preferred" or "disabled".
func (p *Policy) Sandbox() string {
	if one(p.Settings[enabled].Items) == "false" {
		return "disabled"
	}
	return one(p.Settings[mode].Items)
}

// Backend is "auto", "native" or "landlock".
func (p *Policy) Backend() string { return one(p.Settings[backend].Items) }

// HostNetwork reports whether the network of the host is asked for.
func (p *Policy) HostNetwork() bool { return one(p.Settings[isolateNetwork].Items) == "false" }

func (p *Policy) Presets() []string { return p.texts(presets) }

// Env are the variables of files, "NAME" to pass one on and "NAME=VALUE" to set one.
func (p *Policy) Env() (list []string) {
	for _, key := range [...]int{envPassthrough, env} {
		for _, item := range p.ofFiles(key) {
			list = append(list, item.Text)
		}
	}
	return list
}

// ClearEnv reports whether nothing else is passed on.
func (p *Policy) ClearEnv() bool { return one(p.Settings[clearEnv].Items) == "true" }

// Caches are more of them below the home directory.
func (p *Policy) Caches() []string { return p.texts(caches) }

// BlockExisting reports whether it is enough to hide what is there at the start.
func (p *Policy) BlockExisting() bool { return one(p.Settings[blockExisting].Items) == "true" }

// AllowUserns reports whether commands can make user namespaces.
func (p *Policy) AllowUserns() bool { return one(p.Settings[allowUserns].Items) == "true" }

// OwnIDs reports whether root's commands have ids of their own.
func (p *Policy) OwnIDs() bool { return one(p.Settings[ownIDs].Items) == "true" }

// Home is what becomes of what is written below the home directory: "layer" or "none".
func (p *Policy) Home() string { return one(p.Settings[home].Items) }

// HomeSize is how much the layer of the home directory keeps after a command, in bytes.
func (p *Policy) HomeSize() int64 {
	n, _ := limits.ParseSize(one(p.Settings[homeSize].Items)) // it was parsed before
	return n
}

// Devices are those of this host that commands can use.
func (p *Policy) Devices() []string { return p.texts(devices) }

// DevicePlace is where a file names a device. Empty: a flag does, or nothing.
func (p *Policy) DevicePlace(name string) string {
	for _, item := range p.ofFiles(devices) {
		if item.Text == name {
			return item.Pos.String()
		}
	}
	return ""
}

func (p *Policy) Net() []netpolicy.Rule { return parsed(p.texts(allowNet), netpolicy.Parse) }

// parsed are values that were parsed before.
func parsed[T any](texts []string, parse func(string) (T, error)) (list []T) {
	for _, text := range texts {
		if v, err := parse(text); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// NetBy is who enforces them, "kernel" or "broker". Empty: as is permitted.
func (p *Policy) NetBy() string { return one(p.Settings[netBy].Items) }

// Publish are ports of commands' servers that this host can reach.
func (p *Policy) Publish() (list []uint16) {
	for _, text := range p.texts(publish) {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			list = append(list, uint16(n))
		}
	}
	return list
}

// Sockets are those of this host that files allow connections to.
func (p *Policy) Sockets() []Item { return p.ofFiles(allowUnix) }

// Credentials are secrets for requests to hosts.
func (p *Policy) Credentials() []credential.Rule {
	return parsed(p.texts(credentials), credential.Parse)
}

// Timeout ends commands. Zero: there is none.
func (p *Policy) Timeout() time.Duration { return p.duration(timeout) }

// Grace is how long they go on after they were asked to end.
func (p *Policy) Grace() time.Duration { return p.duration(grace) }

func (p *Policy) duration(key int) time.Duration {
	d, _ := time.ParseDuration(one(p.Settings[key].Items)) // it was parsed before
	return d
}

// A Retention is how long what nsrun keeps stays. Zero: as nobody says.
type Retention struct{ Sessions, Backups, Log time.Duration }

func (p *Policy) Retention() (r Retention) {
	for key, to := range map[int]*time.Duration{keepSessions: &r.Sessions, keepBackups: &r.Backups, keepLog: &r.Log} {
		if items := p.Settings[key].Items; len(items) > 0 {
			*to, _ = Days(items[0].Text) // it was parsed before
		}
	}
	return r
}
