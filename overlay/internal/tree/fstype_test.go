//go:build linux

package tree

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestIsUpper: which file systems hold the upper directory of an overlay.
func TestIsUpper(t *testing.T) {
	for _, tt := range []struct {
		typ        uint32
		upper, yes bool
	}{
		{unix.EXT4_SUPER_MAGIC, true, true},
		{unix.OVERLAYFS_SUPER_MAGIC, false, true},
		{unix.NFS_SUPER_MAGIC, false, true},
		{MagicFAT, false, true},
		{unix.TMPFS_MAGIC, false, false},
		{0x12345678, false, false},
	} {
		if ok, sure := IsUpper(tt.typ); ok != tt.upper || sure != tt.yes {
			t.Errorf("%#x: %v, %v", tt.typ, ok, sure)
		}
	}
}
