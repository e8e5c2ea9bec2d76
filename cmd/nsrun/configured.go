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
	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/netpolicy"
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
	l.SetIf(o.isGiven("backend"), "backend", o.backend.String())
	config.AddTexts(l, "presets", "--preset", o.presets, nsrunlib.Preset.String)
	l.Paths(o.paths)
	l.SetIf(o.blockExisting, "block_existing", "true")
	l.Add("caches", "--cache", o.caches...)
	l.SetIf(o.isGiven("home"), "home", o.home.String())
	l.SetIf(o.homeSize > 0, "home_size", limits.SizeText(o.homeSize))
	config.AddTexts(l, "allow_net", "--allow-net", o.allowNet, netpolicy.Rule.String)
	if o.learnNet {
		l.Add("allow_net", "--learn-net", "*")
	}
	config.AddTexts(l, "publish", "--publish", o.publish, func(port uint16) string { return strconv.Itoa(int(port)) })
	l.Add("allow_unix", "--allow-unix", o.allowUnix...)
	l.Add("devices", "--device", o.devices...)
	l.SetIf(o.allowUserns, "allow_userns", "true")
	l.SetIf(o.ownIDs, "own_ids", "true")
	config.AddTexts(l, "credentials", "--credential", o.credentials, credential.Rule.String)
	l.Env("--env", o.env)
	l.SetIf(o.isGiven("clear-env"), "clear_env", strconv.FormatBool(o.clearEnv))
	l.SetIf(o.enforcer != nsrunlib.AutoEnforcer, "net_by", o.enforcer.String())
	l.SetIf(o.timeout > 0, "timeout", o.timeout.String())
	l.SetIf(o.grace > 0, "grace", o.grace.String())
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
	o.paths, o.lockedPaths = p.With(o.paths, host.Depths, host.Nothing)
	o.lockedPaths, o.blockExisting = o.lockedPaths && !o.isGiven("block"), p.BlockExisting()
	o.allowUserns, o.ownIDs, o.devices, o.caches = p.AllowUserns(), p.OwnIDs(), p.Devices(), p.Caches()
	o.place, o.locked = p.Place, p.Locked
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
