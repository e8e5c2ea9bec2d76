//go:build linux

package host

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// systemDirs hold programs and libraries; the last two are those of NixOS and Guix. Directories that are links to /usr
// stay links.
var systemDirs = [...]string{"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store", "/gnu/store"}

// System shows the host's programs and libraries, and the names of users and groups, read-only, and returns the path of
// the host's resolv.conf(5).
func System() (p mounts.Plan, resolvConf string, err error) {
	for _, dir := range systemDirs {
		fi, err := os.Lstat(dir)
		switch {
		case os.IsNotExist(err):
			continue
		case err != nil:
			return nil, "", err
		case fi.Mode()&os.ModeSymlink != 0:
			text, err := os.Readlink(dir)
			if err != nil {
				return nil, "", err
			}
			p = append(p, mounts.Symlink(text, dir))
		default:
			p = append(p, mounts.ROBind(dir, dir))
		}
	}
	// Directories come first: a link leads into one of them.
	slices.SortStableFunc(p, func(a, b mounts.Mount) int { return int(a.Kind) - int(b.Kind) })
	for _, file := range [...]string{"/etc/passwd", "/etc/group"} {
		p = append(p, mounts.ROBind(file, file).Try())
	}
	if resolvConf, err = filepath.EvalSymlinks(resolvPath); err != nil {
		resolvConf = ""
	}
	return p, resolvConf, nil
}

// WorkspaceSystem is the part of plan.WorkspaceSystem that the host has, read-only, without links.
func WorkspaceSystem() (p mounts.Plan, err error) {
	for _, name := range plan.WorkspaceSystem {
		real, err := filepath.EvalSymlinks(name)
		switch {
		case os.IsNotExist(err):
			continue
		case err != nil:
			return nil, err
		}
		p = append(p, mounts.ROBind(real, name))
	}
	return p, nil
}

// NoDirs are the targets of binds that do not show a directory.
func NoDirs(lists ...mounts.Plan) map[string]bool {
	files := make(map[string]bool)
	for _, list := range lists {
		for _, m := range list {
			if m.Kind == mounts.KindBind && !IsDir(m.Source) {
				files[m.Target] = true
			}
		}
	}
	return files
}
