//go:build linux

package host

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
)

// OthersFolders are notices about folders that root may not write to in a sandbox: there it is
// no more than any user, and these belong to another one.
func OthersFolders(lists ...[]string) (notices []string) {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, dir := range slices.Concat(lists...) {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || st.Uid == 0 || st.Mode&0o002 != 0 || st.Gid == 0 && st.Mode&0o020 != 0 {
			continue
		}
		notices = append(notices, fmt.Sprintf("root has no privileges in the sandbox, and %s belongs to user %d: it cannot be written to", escape.Quote(dir), st.Uid))
	}
	return notices
}
