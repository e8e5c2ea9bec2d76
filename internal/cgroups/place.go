//go:build linux

package cgroups

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// A Place is an open cgroup in which others can be made.
type Place struct{ Dir sys.FD }

func (p *Place) Close() { p.Dir.Close() }

func (p *Place) Make() (*Group, error) { return makeIn(int(p.Dir)) }

// Clean removes what killed processes of nsrun have left in the place.
func (p *Place) Clean() { clean(p.Dir) }

// Find finds the nearest cgroup of v2, from that of this process upward, in which this process can make cgroups with as
// many of the wanted controllers as possible. Nil: there is none.
func Find(want []string) (p *Place, have []string) {
	root, own, err := findTree()
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	for at := own; ; at = path.Dir(at) {
		if dir, err := open(int(root), at); err == nil {
			if usable(dir) {
				if got := enable(dir, want); len(got) > len(have) {
					if p != nil {
						p.Close()
					}
					p, have = &Place{dir}, got
					dir = sys.None
				}
			}
			dir.Close()
		}
		if at == "." || len(have) == len(want) {
			return p, have
		}
	}
}

// usable reports whether this process can make cgroups in dir, and move processes there.
func usable(dir sys.FD) bool {
	return sys.Access(int(dir), ".", unix.W_OK|unix.X_OK) == nil &&
		sys.Access(int(dir), "cgroup.procs", unix.W_OK) == nil
}

// EnableAbove enables controllers for a cgroup and those beside it, and returns those of want that they have.
func EnableAbove(g *os.File, want []string) []string {
	parent, err := open(int(g.Fd()), "..")
	if err != nil {
		return nil
	}
	defer parent.Close()
	return enable(parent, want)
}

// enable enables controllers for the cgroups in dir, and returns those of want that they have.
func enable(dir sys.FD, want []string) (have []string) {
	on := fields(dir, "cgroup.subtree_control")
	there := fields(dir, "cgroup.controllers")
	for _, name := range want {
		if !slices.Contains(on, name) && (!slices.Contains(there, name) || Write(int(dir), "cgroup.subtree_control", "+"+name) != nil) {
			continue
		}
		have = append(have, name)
	}
	return have
}

// fields are the words of a file.
func fields(dir sys.FD, name string) []string {
	text, _ := Read(int(dir), name)
	return strings.Fields(text)
}

// Write writes to a file of a cgroup.
func Write(dir int, name, text string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := sys.FD(fd)
	defer f.Close()
	_, err = unix.Write(fd, []byte(text))
	return err
}

// FindV1 finds the cgroup of this process in the hierarchy of v1 that has a controller, if this process can make
// cgroups there. Nil: it cannot, or no hierarchy of v1 has the controller.
func FindV1(controller string) *Place {
	b, _ := os.ReadFile("/proc/self/cgroup")
	own := ""
	for line := range bytes.Lines(b) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			own = f[2]
		}
	}
	if own == "" {
		return nil
	}
	infos, err := mounts.ReadMountinfo()
	if err != nil {
		return nil
	}
	for _, in := range infos {
		if !holds(in, controller) {
			continue
		}
		root, err := open(unix.AT_FDCWD, in.Target)
		if err != nil {
			continue
		}
		dir, err := open(int(root), inside(in.Root, own))
		root.Close()
		if err != nil {
			continue
		}
		var st unix.Statfs_t
		if unix.Fstatfs(int(dir), &st) == nil && st.Type == unix.CGROUP_SUPER_MAGIC &&
			sys.Access(int(dir), ".", unix.W_OK|unix.X_OK) == nil {
			return &Place{dir}
		}
		dir.Close()
	}
	return nil
}

// Missing returns the controllers that no cgroup could have that this process can make, in v2 or v1, or that the user's
// service manager can make for it. It changes nothing.
func Missing(want []string) (missing []string) {
	have := map[string]bool{}
	if root, own, err := findTree(); err == nil {
		for at := own; ; at = path.Dir(at) {
			if dir, err := open(int(root), at); err == nil {
				if usable(dir) {
					for _, name := range could(dir) {
						have[name] = true
					}
				}
				dir.Close()
			}
			if at == "." {
				break
			}
		}
		root.Close()
	}
	for _, name := range want {
		if have[name] {
			continue
		}
		if p := FindV1(name); p != nil {
			p.Close()
			continue
		}
		missing = append(missing, name)
	}
	if missing == nil || os.Geteuid() == 0 {
		return missing
	}
	m, err := FindManager()
	if err != nil {
		return missing
	}
	defer m.Close()
	return slices.DeleteFunc(missing, func(name string) bool { return slices.Contains(m.Controllers, name) })
}

// could returns the controllers that cgroups in dir have or can get. They can get none if there are processes in dir
// itself, unless that is the root, which has no type.
func could(dir sys.FD) []string {
	_, err := Read(int(dir), "cgroup.type")
	if err != nil || len(fields(dir, "cgroup.procs")) == 0 {
		return fields(dir, "cgroup.controllers")
	}
	return fields(dir, "cgroup.subtree_control")
}
