//go:build linux

package sys

import "golang.org/x/sys/unix"

// Effective takes the capabilities of a mask from this thread's effective ones, or makes those effective again that are
// permitted. The thread has to be locked.
func Effective(mask uint64, on bool) bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return false
	}
	changed := false
	for i, part := range [...]uint32{uint32(mask), uint32(mask >> 32)} {
		was := data[i].Effective
		if data[i].Effective &^= part; on {
			data[i].Effective |= data[i].Permitted & part
		}
		changed = changed || was != data[i].Effective
	}
	return !changed || unix.Capset(&head, &data[0]) == nil
}
