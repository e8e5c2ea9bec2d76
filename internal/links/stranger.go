//go:build linux

package links

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stranger is the user, neither root nor the caller, who can have created a link in a directory. Zero: nobody.
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

// lends reports whether following a user's link to a file gives that user more access: the file belongs to the caller,
// or for root, not to that user.
func lends(fd int, user uint32) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	caller := uint32(os.Geteuid())
	return st.Uid != user && (caller == 0 || st.Uid == caller), err
}

// overflow is the id that files of users have who do not exist in this user namespace, such as the host's root.
const overflow = 65534

var isUnknown = sync.OnceValue(func() bool {
	m, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || !bytes.Equal(bytes.Join(bytes.Fields(m), []byte(" ")), []byte("0 0 4294967295"))
})
