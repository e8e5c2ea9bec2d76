//go:build linux

package features

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNspawn: the remedies in a container of systemd-nspawn name its option, for what its filter alone refuses.
func TestNspawn(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "none/", "nspawn/run/host/container-manager: systemd-nspawn", "podman/run/host/container-manager: podman")
	for name, want := range map[string]bool{"none": false, "nspawn": true, "podman": false} {
		if got := nspawned(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, want := range map[Name]string{
		PidfdGetfd:     "systemd-nspawn --system-call-filter='pidfd_getfd'",
		LandlockScopes: "systemd-nspawn --system-call-filter='landlock_create_ruleset landlock_add_rule landlock_restrict_self'",
		SessionKeys:    "systemd-nspawn --system-call-filter='@keyring'",
		BPF:            "",
		UserNamespaces: "",
		CommonCalls:    "", // without which nothing runs that could be told
	} {
		if got := nspawnRemedy(&table[find(name)]); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
