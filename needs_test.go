//go:build linux

package nsrun_test

import (
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay"
)

// need skips where the kernel lacks a feature.
func need(t testing.TB, names ...features.Name) {
	t.Helper()
	for _, name := range names {
		if f := features.Get(name); f.Status != features.Yes {
			testenv.Skip(t, string(name), f.Why)
		}
	}
}

// needFor skips where the kernel lacks what a Config takes.
func needFor(t testing.TB, c nsrun.Config) {
	t.Helper()
	if c.Why {
		need(t, features.SeccompNotification)
	}
	if len(c.Net.Rules)+len(c.Publish) > 0 {
		needEnforcer(t, c.Enforcer)
	}
	if c.Engine == overlay.EngineTmpfs {
		need(t, features.TmpfsAttributes)
	}
	if c.Engine == overlay.EngineOverlay || c.Engine == overlay.EngineTmpfs || c.Preset == nsrun.WorkspaceRootPreset {
		need(t, features.Overlay)
	}
}

// needEnforcer skips where the kernel has nothing by which network rules are enforced so.
func needEnforcer(t testing.TB, e nsrun.Enforcer) {
	t.Helper()
	if e == nsrun.KernelEnforcer {
		need(t, features.BPF)
	} else if e == nsrun.BrokerEnforcer || !features.Has(features.BPF) {
		need(t, features.SeccompNotification)
	}
}
