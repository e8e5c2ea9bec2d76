//go:build linux

package diff

import (
	"os"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/overlay"
)

// TestDetails: what a letter does not tell is in parentheses.
func TestDetails(t *testing.T) {
	const dir = os.ModeDir | 0o755
	changes := []overlay.Change{
		{Kind: overlay.Added, Path: "d", Mode: dir},
		{Kind: overlay.Added, Path: "d/a", Mode: 0o644},
		{Kind: overlay.Added, Path: "d/su", Mode: os.ModeSetuid | 0o755, Special: "is setuid"},
		{Kind: overlay.Modified, Path: "exe", Mode: 0o755, OldMode: 0o644, Aspects: overlay.Content | overlay.Mode},
		{Kind: overlay.Modified, Path: "file", Mode: 0o644, OldMode: 0o644, Aspects: overlay.Content},
		{Kind: overlay.Modified, Path: "mine", Mode: 0o644, OldMode: 0o644, Aspects: overlay.Owner | overlay.Attributes},
		{Kind: overlay.Deleted, Path: "old", Mode: dir, OldMode: dir, Below: 312},
		{Kind: overlay.TypeChanged, Path: "was", Mode: 0o644, OldMode: dir, Below: 2},
	}
	var out strings.Builder
	printChanges(&out, "", changes, false)
	want := "D old/ (and 312 below)\nA d/ (and 1 below)\nA d/su (is setuid)\nM exe (content, mode 0644 → 0755)\nM file\n" +
		"M mine (owner, attributes)\nT was (was a directory with 2 below)\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
