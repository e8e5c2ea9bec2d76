package mounts

import (
	"bytes"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Info is one line of /proc/self/mountinfo.
type Info struct {
	ID     int    // unique in the namespace
	Parent int    // the mount it is mounted on
	Target string // where it is mounted
	Root   string // which directory of its file system is
	FSType string
	Flags  MountFlags // the mount's own, not its file system's
	Device string     // the file system's major and minor number, as in "8:1"
	Super  string     // the file system's options, separated by commas
}

// MountFlags are flags of a mount, numbered as the flags argument of mount(2).
type MountFlags uint64

// The flags that a remount would lose if it did not repeat them.
const (
	FlagReadOnly    MountFlags = 0x1
	FlagNoSuid      MountFlags = 0x2
	FlagNoDev       MountFlags = 0x4
	FlagNoExec      MountFlags = 0x8
	FlagNoSymfollow MountFlags = 0x100
	FlagNoAtime     MountFlags = 0x400
	FlagNoDirAtime  MountFlags = 0x800
	FlagRelAtime    MountFlags = 0x200000
)

var flagNames = [...]struct {
	name string
	flag MountFlags
}{
	{"ro", FlagReadOnly}, {"nosuid", FlagNoSuid}, {"nodev", FlagNoDev}, {"noexec", FlagNoExec},
	{"nosymfollow", FlagNoSymfollow}, {"noatime", FlagNoAtime}, {"nodiratime", FlagNoDirAtime},
	{"relatime", FlagRelAtime},
}

var errMountinfo = errors.New("line not understood")

// ReadMountinfo lists the mounts of this process, proc_pid_mountinfo(5).
func ReadMountinfo() ([]Info, error) {
	const name = "/proc/self/mountinfo"
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Not os.ReadFile: it begins with little, and the kernel makes the lines anew for each read.
	b := bytes.NewBuffer(make([]byte, 0, 16<<10))
	if _, err = b.ReadFrom(f); err != nil {
		return nil, err
	}
	infos, err := ParseMountinfo(b.Bytes())
	if err != nil {
		return nil, &Error{"read", name, err}
	}
	return infos, nil
}

// ParseMountinfo parses the content of a mountinfo file.
func ParseMountinfo(b []byte) ([]Info, error) {
	var infos []Info
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
		// ID, parent, device, root, target, flags, optional fields, "-", type, source, super flags
		if len(f) < 10 {
			return nil, errMountinfo
		}
		sep := 6
		for sep < len(f) && f[sep] != "-" {
			sep++
		}
		if sep+3 >= len(f) {
			return nil, errMountinfo
		}
		id, err1 := strconv.Atoi(f[0])
		parent, err2 := strconv.Atoi(f[1])
		if err1 != nil || err2 != nil {
			return nil, errMountinfo
		}
		in := Info{
			ID: id, Parent: parent, Device: f[2], Root: unescape(f[3]), Target: unescape(f[4]), FSType: unescape(f[sep+1]), Super: f[sep+3],
		}
		for o := range strings.SplitSeq(f[5], ",") {
			for _, n := range flagNames {
				if o == n.name {
					in.Flags |= n.flag
				}
			}
		}
		infos = append(infos, in)
	}
	return infos, nil
}

// unescape undoes the octal escapes that the kernel writes for space, tab, newline and backslash.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] <= '3' && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b = append(b, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func octal(c byte) bool { return '0' <= c && c <= '7' }

// MasksProc reports whether the kernel refuses a new procfs in a user namespace because of this mount: it covers a path
// in /proc that is not an empty directory made for mounts.
func (in Info) MasksProc() bool {
	switch in.Target {
	case "/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd", "/proc/openprom": // there to be mounted on
		return false
	}
	return strings.HasPrefix(in.Target, "/proc/")
}

// Below lists the visible mounts at and below dir, each with its path relative to dir ("" for dir's own), parents
// before children. The first is the mount that holds dir. dir must be absolute, without symbolic links.
func Below(infos []Info, dir string) []Info {
	dir = path.Clean(dir)
	t := newMountTree(infos)
	own := t.at(dir)
	own.Target = ""
	var below []Info
	for _, in := range infos {
		rel, ok := under(dir, in.Target)
		if ok && rel != "" && t.at(in.Target).ID == in.ID {
			in.Target = rel
			below = append(below, in)
		}
	}
	slices.SortFunc(below, func(a, b Info) int { return strings.Compare(a.Target, b.Target) })
	// A table that changed while it was read can have a line twice.
	below = slices.CompactFunc(below, func(a, b Info) bool { return a.Target == b.Target })
	return append([]Info{own}, below...)
}

// mountTree finds the mount that a path leads to. The lines of mountinfo are in no order that would tell.
type mountTree struct {
	root Info
	on   map[mountPoint]Info
}

type mountPoint struct {
	parent int
	target string
}

func newMountTree(infos []Info) mountTree {
	t := mountTree{on: make(map[mountPoint]Info, len(infos))}
	ids := make(map[int]bool, len(infos))
	for _, in := range infos {
		ids[in.ID] = true
	}
	for _, in := range infos {
		if !ids[in.Parent] || in.Parent == in.ID {
			if in.Target == "/" {
				t.root = in
			}
			continue
		}
		t.on[mountPoint{in.Parent, in.Target}] = in
	}
	return t
}

// at is the topmost mount at the path p.
func (t *mountTree) at(p string) Info {
	cur := t.root
	for end := 0; end <= len(p); end++ {
		if end != len(p) && p[end] != '/' {
			continue
		}
		prefix := p[:end]
		if prefix == "" {
			prefix = "/"
		}
		for range len(t.on) + 1 { // a stack, and no endless loop over a made-up one
			next, ok := t.on[mountPoint{cur.ID, prefix}]
			if !ok {
				break
			}
			cur = next
		}
	}
	return cur
}

// under reports whether p is dir or below it, and how it is called there.
func under(dir, p string) (rel string, ok bool) {
	if p == dir {
		return "", true
	}
	if dir != "/" {
		dir += "/"
	}
	return strings.CutPrefix(p, dir)
}
