//go:build linux

package nsrun_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestDiscardUnlisted: changes that are to be discarded are, even if not all of them can be listed, and a notice says
// so. Without that they are kept, and there is an error.
func TestDiscardUnlisted(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	deep := strings.Repeat(strings.Repeat("x", 250)+"/", 16) + "y"
	dir := place(t)
	for _, after := range []nsrun.After{nsrun.Discard, nsrun.Commit} {
		res, err := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: after}).Run(t.Context(), nsrun.Request{Args: []string{"mkdir", "-p", deep}})
		told := false
		for _, n := range res.Notices {
			told = told || strings.Contains(n.Text, "longer than")
		}
		discards := after == nsrun.Discard
		want := overlay.Kept
		if discards {
			want = overlay.Discarded
		}
		if res.ExitCode != 0 || (err == nil) != discards || told != discards || res.State != want {
			t.Errorf("%v: %v, %q, %v", after, err, res.Notices, res.State)
		}
	}
}
