//go:build linux

package sys

import "golang.org/x/sys/unix"

const AllCapabilities = 1<<64 - 1

// Lower takes capabilities from the effective ones of this thread, which has to be locked. After back it has those that
// it had before, and not all that are permitted.
func Lower(capabilities uint64) (back func() bool, ok bool) { return effective(capabilities, 0) }

// Raise makes capabilities effective that are permitted for this thread, which has to be locked, until back is called.
func Raise(capabilities uint64) (back func() bool, ok bool) { return effective(0, capabilities) }

func effective(lower, raise uint64) (back func() bool, ok bool) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if unix.Capget(&head, &had[0]) != nil {
		return nil, false
	}
	left := had
	for i := range left {
		left[i].Effective = had[i].Effective&^uint32(lower>>(32*i)) | had[i].Permitted&uint32(raise>>(32*i))
	}
	if left == had {
		return func() bool { return true }, true
	}
	return func() bool { return unix.Capset(&head, &had[0]) == nil }, unix.Capset(&head, &left[0]) == nil
}
