//go:build linux

package testenv

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// Elevations are ways in which a file lends its rights to whoever executes it.
var Elevations = map[string]func(name string) error{
	"set-user-id":  func(name string) error { return os.Chmod(name, 0o755|os.ModeSetuid) },
	"set-group-id": func(name string) error { return os.Chmod(name, 0o755|os.ModeSetgid) },
	"capability": func(name string) error {
		// struct vfs_cap_data: version 2 and effective, then permitted and inheritable, low and high.
		data := make([]byte, 20)
		binary.LittleEndian.PutUint32(data, 0x02000001)
		binary.LittleEndian.PutUint32(data[4:], 1<<unix.CAP_NET_RAW)
		return unix.Setxattr(name, "security.capability", data, 0)
	},
}
