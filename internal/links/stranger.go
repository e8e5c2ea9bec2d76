//go:build linux

package links

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stranger is the user, neither root nor the caller, who can have made a link in a directory. Zero: nobody.
func stranger(dir, link int) (uint32, error) {
	for _, fd := range [...]int{link, dir} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return 0, err
		}
		if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) && !(st.Uid == overflow && isUnknown()) {
			return st.Uid, nil
		}
	}
	return 0, nil
}

// lends reports whether somebody who leads the caller to a file gets more by that than that user has: the caller's own
// files, and root's from root.
func lends(fd int, user uint32) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	caller := uint32(os.Geteuid())
	return st.Uid != user && (caller == 0 || st.Uid == caller), err
}

// overflow is the user id of files of users whom this user namespace does not have, root of the host among them.
const overflow = 65534

// isUnknown reports whether there are such users.
var isUnknown = sync.OnceValue(func() bool {
	m, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || !bytes.Equal(bytes.Join(bytes.Fields(m), []byte(" ")), []byte("0 0 4294967295"))
})
