//go:build linux

package main

import (
	"os"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/mcpargs"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/netpolicy"
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
	o.Paths, _ = p.With(o.Paths, host.Depths, host.Nothing)
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
	l.Paths(o.Paths)
	config.AddTexts(l, "allow_net", "--allow-net", o.Net, netpolicy.Rule.String)
	config.AddTexts(l, "publish", "--publish", o.Publish, func(port uint16) string { return strconv.Itoa(int(port)) })
	l.Add("allow_unix", "--allow-unix", o.AllowUnix...)
	config.AddTexts(l, "credentials", "--credential", o.Credentials, credential.Rule.String)
	l.Env("--env", o.Env)
	if o.Sandbox != "" {
		l.Sandbox("--sandbox", o.Sandbox)
	}
	l.SetIf(o.Backend != "", "backend", o.Backend)
	if o.Build {
		l.Add("presets", "--preset", "build")
	}
	l.SetIf(o.BlockExisting, "block_existing", "true")
	l.Add("devices", "--device", o.Devices...)
	l.SetIf(o.OwnIDs, "own_ids", "true")
	l.SetIf(o.AllowUserns, "allow_userns", "true")
	l.SetIf(o.Home != "", "home", o.Home)
	l.SetIf(o.ClearEnv, "clear_env", "true")
	l.SetIf(o.NetBy != "", "net_by", o.NetBy)
	l.SetIf(o.Timeout > 0, "timeout", o.Timeout.String())
	l.Set("isolate_network", "nsrun mcp", "true")
	return l
}
