//go:build linux

package host

import (
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/harmless"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// Hidden is what is found in home directories.
type Hidden struct {
	Secrets []string
	Linked  []plan.Link
	Absent  []plan.Absent
	Modes   []mounts.Perm   // see plan.Facts.HomeModes
	Texts   []mounts.Text   // see plan.Facts
	Dirs    map[string]bool // see plan.Facts.SecretDirs
	Present map[string]bool // see Present
}

// FindHidden finds secrets, and what else commands have below a home directory.
func FindHidden(home string) Hidden {
	secrets, absent, modes := Secrets(home)
	real, linked := ThroughLinks(secrets)
	var dirs map[string]bool
	for _, path := range real {
		if paths.Inside(path, home) && IsDir(path) {
			if dirs == nil {
				dirs = make(map[string]bool)
			}
			dirs[path] = true
		}
	}
	return Hidden{Dirs: dirs, Secrets: real, Linked: ways(linked), Absent: absent, Modes: modes, Texts: harmlessCopies(home, secrets), Present: Present(home)}
}

// harmlessCopies are copies of secret files below a home directory, with only their harmless settings.
func harmlessCopies(home string, secrets []string) (list []mounts.Text) {
	for _, path := range secrets {
		name, below := strings.CutPrefix(path, home+"/")
		if !below || !harmless.Knows(name) {
			continue
		}
		at, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if text := harmless.Copy(name, readWhole(at, harmless.Most)); text != nil {
			list = append(list, mounts.Text{Path: at, Data: text, Perm: 0o600})
		}
	}
	return list
}

// readWhole reads a regular file up to a size. Nil: it is not a regular file, is larger, or cannot be read.
func readWhole(path string, most int) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f, _, err := regular(fd, int64(most)-1)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, int64(most)))
	return b
}
