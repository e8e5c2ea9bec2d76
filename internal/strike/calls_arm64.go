//go:build linux

package strike

import "golang.org/x/sys/unix"

func init() { looks[unix.SYS_FSTATAT] = form{"fstatat", look, onPathAt} }
