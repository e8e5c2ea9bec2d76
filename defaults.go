//go:build linux

package nsrun

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
)

// DefaultMounts is the host's file system at its own paths, read-only, with a
// private /tmp, /var/tmp, /run, /dev and /proc, and without the secrets that
// HiddenPaths names.
func DefaultMounts() mounts.Plan {
	hidden, _ := throughLinks(append(HideSecrets(), HideSockets()...))
	return append(BaseMounts(), hidden...)
}

// BaseMounts is DefaultMounts with the secrets: more mounts can lie between the
// two, so that what is hidden stays hidden in them.
func BaseMounts() mounts.Plan {
	p := mounts.Plan{
		mounts.ROBind("/", "/"),
		mounts.Dev("/dev"),
		mounts.Proc("/proc"),
		mounts.Tmpfs("/tmp").WithPerm(0o777 | os.ModeSticky),
	}
	// Links, as some systems have here, lead to the others.
	if isDir("/var/tmp") {
		p = append(p, mounts.Tmpfs("/var/tmp").WithPerm(0o777|os.ModeSticky))
	}
	// The sockets of the host's services: a read-only mount does not keep anybody
	// from connecting to them.
	if isDir("/run") {
		p = append(p, mounts.Tmpfs("/run"))
	}
	return p
}

func isDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// HideSecrets blocks those of HiddenPaths that exist, for each of Homes. If there
// is none, only the system's are hidden.
func HideSecrets() mounts.Plan {
	p, _ := findSecrets("")
	return p
}

// findSecrets returns also what is absent in one of the homes.
func findSecrets(of string) (p mounts.Plan, absent []absentName) {
	p = make(mounts.Plan, 0, 16)
	var st unix.Stat_t
	for _, home := range Homes() {
		fd, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			for _, name := range homeSecrets { // what cannot be looked up is better hidden
				p = append(p, mounts.Block(filepath.Join(home, name)))
			}
			continue
		}
		view := newHomeView(fd)
		for _, name := range homeSecrets {
			if view.exists(name) {
				p = append(p, mounts.Block(filepath.Join(home, name)))
			} else if home == of {
				if absent == nil {
					absent = make([]absentName, 0, len(homeSecrets))
				}
				if n, ok := view.absent(name); ok {
					absent = append(absent, n)
				}
			}
		}
		unix.Close(fd)
	}
	for _, name := range HiddenPaths("") {
		if unix.Lstat(name, &st) == nil {
			p = append(p, mounts.Block(name))
		}
	}
	return p, absent
}

// Homes are the home directories of the caller: the one that /etc/passwd has for
// its effective user id, and $HOME if that is another one.
func Homes() []string {
	var homes []string
	// Not os/user: with cgo it would load libraries, and it asks for more than this.
	if b, err := os.ReadFile("/etc/passwd"); err == nil {
		if home := passwdHome(b, os.Geteuid()); home != "" {
			homes = append(homes, home)
		}
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		if home = filepath.Clean(home); !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	return homes
}

// passwdHome is the home directory that the content of a passwd(5) file has for
// uid, "" if it has none.
func passwdHome(passwd []byte, uid int) string {
	id := strconv.Itoa(uid)
	for line := range strings.Lines(string(passwd)) {
		// name, password, uid, gid, comment, home, shell
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) >= 6 && f[2] == id && filepath.IsAbs(f[5]) {
			return filepath.Clean(f[5])
		}
	}
	return ""
}
