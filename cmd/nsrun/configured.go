//go:build linux

package main

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/service"
)

// Configuration files have lower precedence than flags: their settings are used for flags that were not given.

// query collects what files and flags say for a command in projects.
func (o *runOptions) query(projects []string) (configfile.Query, error) {
	q := configfile.Query{Places: configfile.DefaultPlaces(), Projects: slices.Clone(projects), Flags: o.layer()}
	for i, dir := range projects {
		real, err := trusted(dir)
		if _, ok := errors.AsType[*links.Error](err); ok {
			return q, &nsrunlib.Error{Op: "use as project", Path: dir, Err: err}
		}
		if err == nil { // else the use of it reports the error
			q.Projects[i] = real
		}
	}
	q.WorkDir, _ = syscall.Getwd() // as the kernel has it: without links
	if !o.shellSet {
		q.Command = o.command
	}
	return q, nil
}

func (o *runOptions) layer() *config.Layer {
	l := config.Flags()
	if l.NoRules = o.isGiven("net"); l.NoRules {
		l.Set("isolate_network", "--net", strconv.FormatBool(o.net != "host"))
	} else if o.byRules() {
		l.Set("isolate_network", "--allow-net", "true")
	}
	if o.isGiven("sandbox") {
		l.Sandbox("--sandbox", o.sandbox.String())
	}
	if o.isGiven("backend") {
		l.Set("backend", "--backend", o.backend.String())
	}
	for _, p := range o.presets {
		l.Add("presets", "--preset", p.String())
	}
	for _, rule := range o.paths {
		l.Add(config.PathKey(rule.kind), "--"+rule.kind, rule.pattern)
	}
	if o.blockExisting {
		l.Set("block_existing", "--block-existing", "true")
	}
	for _, dir := range o.caches {
		l.Add("caches", "--cache", dir)
	}
	if o.isGiven("home") {
		l.Set("home", "--home", o.home.String())
	}
	if o.homeSize > 0 {
		l.Set("home_size", "--home-size", limits.SizeText(o.homeSize))
	}
	for _, rule := range o.allowNet {
		l.Add("allow_net", "--allow-net", rule.String())
	}
	if o.learnNet {
		l.Add("allow_net", "--learn-net", "*")
	}
	for _, port := range o.publish {
		l.Add("publish", "--publish", strconv.Itoa(int(port)))
	}
	for _, path := range o.allowUnix {
		l.Add("allow_unix", "--allow-unix", path)
	}
	for _, name := range o.devices {
		l.Add("devices", "--device", name)
	}
	if o.allowUserns {
		l.Set("allow_userns", "--allow-userns", "true")
	}
	if o.ownIDs {
		l.Set("own_ids", "--own-ids", "true")
	}
	for i := range o.credentials {
		l.Add("credentials", "--credential", o.credentials[i].String())
	}
	for _, text := range o.env {
		l.Env("--env", text)
	}
	if o.isGiven("clear-env") {
		l.Set("clear_env", "--clear-env", strconv.FormatBool(o.clearEnv))
	}
	if o.enforcer != nsrunlib.AutoEnforcer {
		l.Set("net_by", "--net-by", o.enforcer.String())
	}
	if o.timeout > 0 {
		l.Set("timeout", "--timeout", o.timeout.String())
	}
	if o.grace > 0 {
		l.Set("grace", "--grace", o.grace.String())
	}
	l.Limits(limits.Limits(o.limits), o.isGiven)
	return l
}

// configure adds the settings of configuration files to the flags.
func (r *runner) configure(projects []string) error {
	q, err := r.o.query(projects)
	if err != nil {
		return r.typed(err)
	}
	q.Without = r.without
	p, notes, err := configfile.Load(host.Home(), q)
	if err != nil || p == nil {
		return err
	}
	for _, note := range notes {
		if !r.checks {
			console.Say("%s", note)
		}
	}
	return r.o.take(p)
}

// take copies the settings of files into the flags.
func (o *runOptions) take(p *config.Policy) error {
	if o.net = "none"; p.HostNetwork() {
		o.net = "host"
	}
	if err := o.setSandbox(p.Sandbox()); err != nil {
		return err
	}
	if err := o.setBackend(p.Backend()); err != nil {
		return err
	}
	decided := o.commit || o.keep || o.session != ""
	o.presets = nil
	for _, name := range p.Presets() {
		preset, err := nsrunlib.ParsePreset(name)
		if err != nil {
			return err
		}
		if preset != nsrunlib.TestPreset || !decided {
			o.presets = append(o.presets, preset)
		}
	}
	o.discard = o.discard || o.has(nsrunlib.TestPreset) && !o.direct
	var rules [2][]pathRule
	list, last := p.Rules(host.Depths)
	for i, list := range [...][]config.Rule{list, last} {
		for _, rule := range list {
			if (rule.Kind == "rw" || rule.Kind == "ro") && host.Nothing(rule.Pattern) {
				continue // on this machine, in this project
			}
			rules[i] = append(rules[i], pathRule{rule.Kind, rule.Pattern, rule.Pos.String()})
		}
	}
	o.paths, o.blockExisting = slices.Concat(rules[0], o.paths, rules[1]), p.BlockExisting()
	o.lockedPaths = len(last) > 0 && !o.isGiven("block")
	o.allowUserns, o.ownIDs, o.devices, o.caches = p.AllowUserns(), p.OwnIDs(), p.Devices(), p.Caches()
	o.place = p.Place
	if err := o.setHome(p.Home()); err != nil {
		return err
	}
	o.homeSize = p.HomeSize()
	if !o.learnNet {
		o.allowNet = p.Net()
	}
	o.publish, o.env, o.clearEnv, o.timeout = p.Publish(), append(p.Env(), o.env...), p.ClearEnv(), p.Timeout()
	o.grace, o.limits = p.Grace(), nsrunlib.Limits(p.Limits())
	o.credentials = p.Credentials()
	for _, item := range p.Sockets() {
		if _, err := os.Lstat(item.Text); err == nil || service.Is(item.Text) {
			o.allowUnix = append(o.allowUnix, item.Text)
		}
	}
	if by := p.NetBy(); by != "" && o.byRules() {
		return o.setEnforcer(by)
	}
	return nil
}
