package strike

import "golang.org/x/sys/unix"

func init() {
	for nr, c := range map[uintptr]call{
		unix.SYS_OPEN:    {"open", opens, []int{0}, 1},
		unix.SYS_CREAT:   {"creat", change | room, []int{0}, 0},
		unix.SYS_MKDIR:   {"mkdir", change | room, []int{0}, 0},
		unix.SYS_MKNOD:   {"mknod", change | room, []int{0}, 0},
		unix.SYS_SYMLINK: {"symlink", change | room, []int{0, 1}, 0},
		unix.SYS_LINK:    {"link", change | room, []int{0, 1}, 0},
		unix.SYS_RENAME:  {"rename", change | room, []int{0, 1}, 0},
		unix.SYS_UNLINK:  {"unlink", change, []int{0}, 0},
		unix.SYS_RMDIR:   {"rmdir", change, []int{0}, 0},
		unix.SYS_CHMOD:   {"chmod", change, []int{0}, 0},
		unix.SYS_CHOWN:   {"chown", change, []int{0}, 0},
		unix.SYS_LCHOWN:  {"lchown", change, []int{0}, 0},
		unix.SYS_UTIME:   {"utime", change, []int{0}, 0},
		unix.SYS_UTIMES:  {"utimes", change, []int{0}, 0},
	} {
		calls[nr] = c
	}
}
