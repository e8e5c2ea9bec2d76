//go:build linux

package strike

import "golang.org/x/sys/unix"

func init() {
	for nr, c := range map[uintptr]form{
		unix.SYS_OPEN:    {"open", opens, []arg{{path, 0}, {flags, 1}}},
		unix.SYS_CREAT:   {"creat", change | room, onPath},
		unix.SYS_MKDIR:   {"mkdir", change | room, onPath},
		unix.SYS_MKNOD:   {"mknod", change | room, onPath},
		unix.SYS_SYMLINK: {"symlink", change | room, []arg{{path, 1}, {text, 0}}},
		unix.SYS_LINK:    {"link", change | room, []arg{{path, 0}, {path, 1}}},
		unix.SYS_RENAME:  {"rename", change | room, []arg{{path, 0}, {path, 1}}},
		unix.SYS_UNLINK:  {"unlink", change, onPath},
		unix.SYS_RMDIR:   {"rmdir", change, onPath},
		unix.SYS_CHMOD:   {"chmod", change, onPath},
		unix.SYS_CHOWN:   {"chown", change, onPath},
		unix.SYS_LCHOWN:  {"lchown", change, onPath},
		unix.SYS_UTIME:   {"utime", change, onPath},
		unix.SYS_UTIMES:  {"utimes", change, onPath},
	} {
		calls[nr] = c
	}
	looks[unix.SYS_NEWFSTATAT] = form{"newfstatat", look, onPathAt}
	looks[unix.SYS_ACCESS] = form{"access", look, onPath}
	looks[unix.SYS_READLINK] = form{"readlink", look, onPath}
}
