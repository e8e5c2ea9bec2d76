//go:build linux

package host

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
)

// Others are the folders that root may not write to in a sandbox: there it is no more than any user, and these belong
// to another one. Other users than root get none.
func Others(lists ...[]string) (others []plan.Other) {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, dir := range slices.Concat(lists...) {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || st.Uid == 0 || st.Mode&0o002 != 0 || st.Gid == 0 && st.Mode&0o020 != 0 {
			continue
		}
		others = append(others, plan.Other{Dir: dir, UID: st.Uid})
	}
	return others
}
