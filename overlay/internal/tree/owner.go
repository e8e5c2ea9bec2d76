//go:build linux

package tree

import (
	"slices"

	"golang.org/x/sys/unix"
)

// An OwnerError says that the caller may not give a file its owner or group.
type OwnerError struct {
	UID, GID uint32
	Err      error // EPERM, or EINVAL if this user namespace lacks the id
}

func (e *OwnerError) Error() string { return e.Err.Error() }

func (e *OwnerError) Unwrap() error { return e.Err }

// ofCaller reports whether everybody may give such an owner to what is the caller's own.
func (s Stat) ofCaller() bool { return s.Owned() && slices.Contains(groups(), int(s.GID)) }

// SetOwner is Chown, with an *OwnerError.
func (h *Handle) SetOwner(uid, gid uint32) error {
	err := h.Chown(uid, gid)
	if err == unix.EPERM || err == unix.EINVAL {
		return &OwnerError{uid, gid, err}
	}
	return err
}

// KeepGroup gives the upper object the lower one's group if the caller may not give it its own. The command could not
// do that either, so the upper object has its group from the project, which has given the lower one another since.
func (d *Diff) KeepGroup() {
	if d.HasUp && d.HasLow && d.Up.GID != d.Low.GID && d.Up.Owned() && !IsRoot() && !slices.Contains(groups(), int(d.Up.GID)) {
		d.Up.GID = d.Low.GID
	}
}
