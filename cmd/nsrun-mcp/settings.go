//go:build linux

package main

import (
	"os"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/mcpargs"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/project"
)

// settings adds the settings of configuration files to the flags and the Config. It ignores profiles, because a model
// could choose one by the first words of a command, and isolate_network, because each call asks for the host's network.
func settings(o *mcpargs.Options, c *nsrun.Config) error {
	projects := []string{c.Project}
	for _, f := range c.Shared {
		projects = append(projects, f.Path)
	}
	p, notes, err := configfile.Load(host.Home(), configfile.Query{Places: configfile.DefaultPlaces(), Projects: projects, Flags: layer(o)})
	if err != nil || p == nil {
		return err
	}
	for _, note := range notes {
		say("%s", note)
	}
	for _, name := range p.Presets() {
		preset, err := nsrun.ParsePreset(name)
		if err != nil {
			return err
		}
		c.Presets = append(c.Presets, preset)
	}
	var rules [2][]mcpargs.Path
	list, last := p.Rules(host.Depths)
	for i, list := range [...][]config.Rule{list, last} {
		for _, rule := range list {
			if rule.Kind == "protect" || rule.Kind == "block" || !host.Nothing(rule.Pattern) {
				rules[i] = append(rules[i], mcpargs.Path{Kind: rule.Kind, Pattern: rule.Pattern, At: rule.Pos.String()})
			}
		}
	}
	o.Paths = slices.Concat(rules[0], o.Paths, rules[1])
	for _, item := range p.Sockets() {
		if _, err := os.Lstat(item.Text); err == nil || service.Is(item.Text) {
			o.AllowUnix = append(o.AllowUnix, item.Text)
		}
	}
	o.Credentials = p.Credentials()
	o.Net, o.Publish, o.Env, o.ClearEnv, o.Timeout = p.Net(), p.Publish(), append(p.Env(), o.Env...), p.ClearEnv(), p.Timeout()
	if c.Sandbox, err = nsrun.ParseSandboxMode(p.Sandbox()); err != nil {
		return err
	}
	if c.Backend, err = nsrun.ParseBackend(p.Backend()); err != nil {
		return err
	}
	o.BlockExisting, o.AllowUserns, o.OwnIDs, o.Home = p.BlockExisting(), p.AllowUserns(), p.OwnIDs(), p.Home()
	o.Devices, c.Caches, c.HomeSize = p.Devices(), p.Caches(), p.HomeSize()
	c.Retention = p.Retention().Sessions
	c.Grace, c.Limits = p.Grace(), nsrun.Limits(p.Limits())
	if by := p.NetBy(); by != "" && byRules(o, c) {
		o.NetBy = by
	}
	return nil
}

// byRules reports whether there are network rules.
func byRules(o *mcpargs.Options, c *nsrun.Config) bool {
	return len(o.Net)+len(o.Publish) > 0 || slices.ContainsFunc(c.Presets, func(p nsrun.Preset) bool { return len(p.Rules()) > 0 })
}

// kept returns how long a registry keeps its copies and log, by configuration files. Others report mistakes in them.
func kept() (o project.Options) {
	p, _, err := configfile.Load(host.Home(), configfile.Query{Places: configfile.DefaultPlaces()})
	if err == nil && p != nil {
		r := p.Retention()
		o.Retention, o.LogRetention = r.Backups, r.Log
	}
	return o
}

// layer returns the settings of the flags.
func layer(o *mcpargs.Options) *config.Layer {
	l := config.Flags()
	for _, p := range o.Paths {
		l.Add(config.PathKey(p.Kind), "--"+p.Kind, p.Pattern)
	}
	for _, rule := range o.Net {
		l.Add("allow_net", "--allow-net", rule.String())
	}
	for _, port := range o.Publish {
		l.Add("publish", "--publish", strconv.Itoa(int(port)))
	}
	for _, path := range o.AllowUnix {
		l.Add("allow_unix", "--allow-unix", path)
	}
	for i := range o.Credentials {
		l.Add("credentials", "--credential", o.Credentials[i].String())
	}
	for _, text := range o.Env {
		l.Env("--env", text)
	}
	if o.Sandbox != "" {
		l.Sandbox("--sandbox", o.Sandbox)
	}
	if o.Backend != "" {
		l.Set("backend", "--backend", o.Backend)
	}
	if o.Build {
		l.Add("presets", "--preset", "build")
	}
	if o.BlockExisting {
		l.Set("block_existing", "--block-existing", "true")
	}
	for _, name := range o.Devices {
		l.Add("devices", "--device", name)
	}
	if o.OwnIDs {
		l.Set("own_ids", "--own-ids", "true")
	}
	if o.AllowUserns {
		l.Set("allow_userns", "--allow-userns", "true")
	}
	if o.Home != "" {
		l.Set("home", "--home", o.Home)
	}
	if o.ClearEnv {
		l.Set("clear_env", "--clear-env", "true")
	}
	if o.NetBy != "" {
		l.Set("net_by", "--net-by", o.NetBy)
	}
	if o.Timeout > 0 {
		l.Set("timeout", "--timeout", o.Timeout.String())
	}
	l.Set("isolate_network", "nsrun mcp", "true")
	return l
}
