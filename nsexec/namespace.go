//go:build linux

package nsexec

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Namespace is a set of namespaces, see namespaces(7). The zero value is empty.
type Namespace uint32

// The namespaces a command can share with the caller. The mount namespace is always new.
const (
	User Namespace = 1 << iota
	PID
	Net
	IPC
	UTS
	Cgroup
)

// All is every namespace that can be shared.
const All = User | PID | Net | IPC | UTS | Cgroup

var cloneFlags = [...]struct {
	ns   Namespace
	flag uint64
}{
	{User, unix.CLONE_NEWUSER}, {PID, unix.CLONE_NEWPID}, {Net, unix.CLONE_NEWNET},
	{IPC, unix.CLONE_NEWIPC}, {UTS, unix.CLONE_NEWUTS}, {Cgroup, unix.CLONE_NEWCGROUP},
}

// flags are the namespaces in n as flags of clone(2).
func (n Namespace) flags() (f uint64) {
	for _, c := range cloneFlags {
		if n&c.ns != 0 {
			f |= c.flag
		}
	}
	return f
}

// IDMap maps Count user or group ids of the sandbox, beginning with Inside, to ids of the caller's
// user namespace, beginning with Outside; see user_namespaces(7).
type IDMap struct {
	Inside, Outside, Count uint32
}

// idMaps says how ids are mapped, and who has to write the maps.
type idMaps struct {
	uid, gid []IDMap
	// self says that the child itself may write them: a map of one id, its own.
	self bool
}

// text is the map as the kernel reads it.
func text(m []IDMap) string {
	var b strings.Builder
	for _, r := range m {
		b.WriteString(strconv.FormatUint(uint64(r.Inside), 10))
		b.WriteByte(' ')
		b.WriteString(strconv.FormatUint(uint64(r.Outside), 10))
		b.WriteByte(' ')
		b.WriteString(strconv.FormatUint(uint64(r.Count), 10))
		b.WriteByte('\n')
	}
	return b.String()
}

// mapIDs completes the caller's maps. Without any, root keeps all its ids, so that files of other users keep their
// owners, and another user keeps its own id, the only one that it may map.
func mapIDs(uid, gid []IDMap) idMaps {
	euid, egid := uint32(os.Geteuid()), uint32(os.Getegid())
	m := idMaps{uid: uid, gid: gid}
	privileged := euid == 0 && haveCaps(unix.CAP_SETUID, unix.CAP_SETGID)
	if m.uid == nil {
		m.uid = identity(privileged, euid, "/proc/self/uid_map")
	}
	if m.gid == nil {
		m.gid = identity(privileged, egid, "/proc/self/gid_map")
	}
	m.self = single(m.uid, euid) && single(m.gid, egid)
	return m
}

func single(m []IDMap, id uint32) bool { return len(m) == 1 && m[0].Count == 1 && m[0].Outside == id }

func identity(privileged bool, id uint32, name string) []IDMap {
	own := []IDMap{{id, id, 1}}
	if !privileged {
		return own
	}
	b, err := sys.ReadFile(name, make([]byte, 512))
	if err != nil {
		return own
	}
	var m []IDMap
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return own
		}
		inside, err1 := strconv.ParseUint(f[0], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 != nil || err2 != nil {
			return own
		}
		m = append(m, IDMap{uint32(inside), uint32(inside), uint32(count)})
	}
	return m
}

// haveCaps reports whether the calling thread has all of these capabilities in effect.
func haveCaps(caps ...int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return !slices.ContainsFunc(caps, func(c int) bool { return data[c/32].Effective&(1<<(c%32)) == 0 })
}
