//go:build linux

package nsrun

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/overlay"
)

// check finds mistakes that are independent of the machine. A Config that was meant to discard or commit must never do
// something else.
func (c *Config) check() error {
	text := ""
	switch {
	case c.After > Hold:
		text = "unknown After"
	case c.Preset >= presetCount || slices.ContainsFunc(c.Presets, func(p Preset) bool { return p >= presetCount }):
		text = "unknown preset"
	case c.has(StrictPreset) && c.has(WorkspaceRootPreset):
		text = "the presets strict and workspace-root exclude each other"
	case c.Engine > overlay.EngineCopy:
		text = "unknown Engine"
	case c.Home >= homeModes:
		text = "unknown HomeMode"
	case c.HomeSize < 0: // all of the layer would be removed
		text = "the size of the home layer is negative"
	case c.Timeout < 0 || c.Grace < 0 || c.Retention < 0:
		text = errNegative
	case slices.ContainsFunc(c.Env, func(kv string) bool { return kv == "" || kv[0] == '=' }):
		text = "the environment has a variable without a name"
	case c.Backend > LandlockBackend:
		text = "unknown Backend"
	case c.Enforcer > BrokerEnforcer:
		text = "unknown Enforcer"
	case slices.Contains(c.Publish, 0):
		text = "port 0 cannot be published"
	}
	if text == "" {
		text = c.checkCredentials()
	}
	if err := withoutNUL(*c); err != nil {
		text = err.Error()
	}
	if text == "" {
		text = c.checkSandbox()
	}
	if c.Limits != (Limits{}) {
		if err := c.Limits.Check(); err != nil {
			text = err.Error()
		}
	}
	for _, v := range [...]any{c.Recorder, c.Permissions} {
		if r, keeps := registryOf(v); keeps && r == nil {
			text = "a Registry without a project.Registry"
		}
	}
	switch {
	case text != "":
		return &Error{Op: "configure", Err: errors.New(text)}
	case c.StateDir != "" && !filepath.IsAbs(c.StateDir):
		return &Error{Op: "use as state directory", Path: c.StateDir, Err: plan.ErrNotAbsolute}
	case c.Playground != "" && !filepath.IsAbs(c.Playground):
		return &Error{Op: "use as playground", Path: c.Playground, Err: plan.ErrNotAbsolute}
	}
	return nil
}

// playground reports whether commands have one.
func (c *Config) playground() bool { return !c.NoPlayground && !c.small() }

// small reports whether commands see almost nothing of the host.
func (c *Config) small() bool { return c.has(StrictPreset) || c.has(WorkspaceRootPreset) }

// after is what happens to changes.
func (c *Config) after() After {
	if c.has(TestPreset) && c.After != Hold {
		return Discard
	}
	return c.After
}
