package config

import (
	"slices"
	"strconv"
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/netpolicy"
)

// A Rule is about paths.
type Rule struct {
	Kind    string // "rw", "ro", "protect" or "block"
	Pattern string // see pathrule.Parse
	Pos     Pos    // zero: it is a flag
}

// Rules are the rules of files; later ones win. The deeper path wins; then read-only wins over writable; hidden wins
// over both. last are rules that also win over flags: what locked blocked_paths hide.
//
// depths are how deep the paths lie that a pattern means, at least and at most. Where it is not certain which of two
// paths is the deeper one, read-only wins.
func (p *Policy) Rules(depths func(pattern string) (least, most int)) (list, last []Rule) {
	for _, of := range [...]struct {
		key  int
		kind string
	}{{rwPaths, "rw"}, {roPaths, "ro"}, {protectedPaths, "protect"}, {blockedPaths, "block"}} {
		if of.key == protectedPaths {
			list = byDepth(list, depths)
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

// With returns the rules of flags among those of files, and whether some of files win over them. Rules of files that
// make paths writable or read-only are left out if they mean nothing on this machine.
func (p *Policy) With(flags []Rule, depths func(pattern string) (least, most int), nothing func(pattern string) bool) (all []Rule, locked bool) {
	list, last := p.Rules(depths)
	list = slices.DeleteFunc(list, func(r Rule) bool { return (r.Kind == "rw" || r.Kind == "ro") && nothing(r.Pattern) })
	return slices.Concat(list, flags, last), len(last) > 0
}

// byDepth sorts rules that make paths writable or read-only.
func byDepth(list []Rule, depths func(pattern string) (least, most int)) []Rule {
	at := make(map[Rule]int, len(list))
	for _, r := range list {
		least, most := depths(r.Pattern)
		if at[r] = least; r.Kind == "ro" {
			at[r] = most
		}
	}
	slices.SortStableFunc(list, func(a, b Rule) int { return at[a] - at[b] })
	return list
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

func (p *Policy) HostNetwork() bool { return one(p.Settings[isolateNetwork].Items) == "false" }

// Locked reports whether a key, such as limits.memory, can only be made stricter.
func (p *Policy) Locked(key string) bool {
	for i := range p.locked {
		if Keys[i].Full() == key {
			return true
		}
	}
	return false
}

func (p *Policy) Presets() []string { return p.texts(presets) }

func (p *Policy) Env() (list []string) {
	for _, key := range [...]int{envPassthrough, env} {
		for _, item := range p.ofFiles(key) {
			list = append(list, item.Text)
		}
	}
	return list
}

func (p *Policy) ClearEnv() bool { return one(p.Settings[clearEnv].Items) == "true" }

func (p *Policy) Caches() []string { return p.texts(caches) }

func (p *Policy) BlockExisting() bool { return one(p.Settings[blockExisting].Items) == "true" }

func (p *Policy) AllowUserns() bool { return one(p.Settings[allowUserns].Items) == "true" }

func (p *Policy) OwnIDs() bool { return one(p.Settings[ownIDs].Items) == "true" }

func (p *Policy) Home() string { return one(p.Settings[home].Items) }

// HomeSize is the limit on the home layer's size, in bytes.
func (p *Policy) HomeSize() int64 {
	n, _ := limits.ParseSize(one(p.Settings[homeSize].Items)) // it was parsed before
	return n
}

func (p *Policy) Devices() []string { return p.texts(devices) }

// Place is the place in a file at which a key has a text, or any text if that is empty. It is empty if a flag gives it,
// or nothing.
func (p *Policy) Place(key, text string) string {
	for i := range Keys {
		if Keys[i].Name != key {
			continue
		}
		for _, item := range p.ofFiles(i) {
			if text == "" || item.Text == text {
				return item.Pos.String()
			}
		}
	}
	return ""
}

func (p *Policy) Net() []netpolicy.Rule { return parsed(p.texts(allowNet), netpolicy.Parse) }

func parsed[T any](texts []string, parse func(string) (T, error)) (list []T) {
	for _, text := range texts {
		if v, err := parse(text); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// NetBy is "kernel" or "broker"; empty: whatever is permitted.
func (p *Policy) NetBy() string { return one(p.Settings[netBy].Items) }

func (p *Policy) Publish() (list []uint16) {
	for _, text := range p.texts(publish) {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			list = append(list, uint16(n))
		}
	}
	return list
}

func (p *Policy) Sockets() []Item { return p.ofFiles(allowUnix) }

func (p *Policy) Credentials() []credential.Rule {
	return parsed(p.texts(credentials), credential.Parse)
}

func (p *Policy) Timeout() time.Duration { return p.duration(timeout) }

func (p *Policy) Grace() time.Duration { return p.duration(grace) }

func (p *Policy) duration(key int) time.Duration {
	d, _ := time.ParseDuration(one(p.Settings[key].Items)) // it was parsed before
	return d
}

// A Retention is how long sessions, backups and the log are kept. Zero: the default.
type Retention struct{ Sessions, Backups, Log time.Duration }

func (p *Policy) Retention() (r Retention) {
	for key, to := range map[int]*time.Duration{keepSessions: &r.Sessions, keepBackups: &r.Backups, keepLog: &r.Log} {
		if items := p.Settings[key].Items; len(items) > 0 {
			*to, _ = Days(items[0].Text) // it was parsed before
		}
	}
	return r
}
