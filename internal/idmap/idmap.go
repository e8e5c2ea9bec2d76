//go:build linux

package idmap

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsexec"
)

// The outer ids of a sandbox's ids below Count are the ids from First on.
const (
	First = 0x7800_0000
	Count = 0x07fe_0000
)

// high are the rest of a sandbox's map: an overlay cannot copy up a file whose owner has no id in the sandbox
// (EOVERFLOW). Files of a domain's users and of containers have such owners, and archives some of the last ids, which
// are negative where an id has 32 bits (nobody is -2 on some systems).
var high = [...]nsexec.IDMap{
	{Inside: Count, Outside: 1 << 31, Count: 1<<31 - Count},
	{Inside: 1<<32 - 1<<16, Outside: 1<<32 - Count, Count: 1<<16 - 1},
}

// Capabilities are those that give a command no rights outside its ids. The others either apply to more than files
// (CAP_SYS_ADMIN could remove a mount that hides something), or leave something in a file for others (CAP_SETFCAP), or
// change PID 1, which keeps the time limit (CAP_SYS_NICE, by /proc/1/timerslack_ns).
// CAP_FSETID lets root set the set-group-id bit for all groups of the sandbox. A member of the group can do that
// without, and CAP_SETGID makes root a member. A write to a file clears the bits all the same: there the kernel asks
// for the capability in the host's user namespace.
const Capabilities = nsexec.Capabilities(sandbox.RootsCapabilities)

// ErrUnsupported says that a file system cannot have idmapped mounts.
var ErrUnsupported = errors.New("its file system, or this kernel, cannot show it with other ids")

// Possible reports whether this thread has the capabilities to make such mounts and sandboxes, and to remove whatever
// files of other users a command leaves. A process whose group is another one than root's, as in a container with user
// 0:1000, would have a group there that is not mapped, with which nobody can make files (EOVERFLOW).
func Possible() bool {
	const needs = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE |
		1<<unix.CAP_FOWNER
	return sys.Held()&needs == needs && unix.Getegid() == 0
}

// A Root says whose ids the root of a sandbox has. All other ids of the sandbox are its own.
type Root bool

const (
	OwnRoot  Root = false // ids of its own, too
	HostRoot Root = true  // those of the host's root
)

// Map is the id map of a sandbox, of users or of groups. A map of at most five rows is the fastest.
func (r Root) Map() []nsexec.IDMap {
	if r == HostRoot {
		return append([]nsexec.IDMap{{Count: 1}, {Inside: 1, Outside: First + 1, Count: Count - 1}}, high[:]...)
	}
	return append([]nsexec.IDMap{{Outside: First, Count: Count}}, high[:]...)
}

// Ahead is Map, as sandbox.Ahead takes it.
func (r Root) Ahead() (list []sandbox.IDMap) {
	for _, m := range r.Map() {
		list = append(list, sandbox.IDMap(m))
	}
	return list
}

// Has reports whether an outer id is one of the sandbox's.
func (r Root) Has(id uint32) bool {
	return slices.ContainsFunc(r.Map(), func(m nsexec.IDMap) bool { return id-m.Outside < m.Count })
}

// A Namespace is a user namespace with these ids, by which mounts are mapped. The zero Namespace makes it when it is
// needed, which takes about half a millisecond. It can be used by several goroutines.
type Namespace struct {
	Root Root // not to be changed after the first use

	mu   sync.Mutex
	made bool
	fd   sys.FD
}

// Close closes it. Mount then makes it again.
func (n *Namespace) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made {
		n.fd.Close()
		n.made = false
	}
}

// Mount returns an idmapped mount of a path with these ids, which is not attached yet. With recursive it includes the
// mounts below the path. A symbolic link in the path is an error. If the file system has no such mounts, the error is
// ErrUnsupported.
func (n *Namespace) Mount(path string, recursive bool) (*os.File, error) {
	fd, err := sys.Openat2(unix.AT_FDCWD, path, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return n.MountOf(f, recursive)
}

// MountOf is Mount for an open file. A file in a mount that is not attached needs Linux 6.15.
func (n *Namespace) MountOf(f *os.File, recursive bool) (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.made {
		fd, err := n.create()
		if err != nil {
			return nil, err
		}
		n.fd, n.made = fd, true
	}
	all := uint(0)
	if recursive {
		all = unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|all)
	if err == unix.EINVAL {
		return nil, ErrUnsupported
	}
	if err != nil {
		return nil, err
	}
	mount := sys.FD(fd)
	// Private, because what is mounted in a copy of a shared mount would also be mounted on the host
	// (mount_namespaces(7)).
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Propagation: unix.MS_PRIVATE, Userns_fd: uint64(n.fd)}
	err = unix.MountSetattr(int(mount), "", unix.AT_EMPTY_PATH|all, &attr)
	switch err {
	case nil:
		return os.NewFile(uintptr(mount), f.Name()), nil
	case unix.EINVAL, unix.ENOSYS: // the kernel is older than 5.12
		err = ErrUnsupported
	case unix.EPERM: // the file system belongs to another user namespace, or has such ids already
		err = ErrUnsupported
	}
	mount.Close()
	return nil, err
}

// errMade ends the process that was started only for its namespace.
var errMade = errors.New("the namespace is there")

// create makes the namespace, as that of a sandbox that ends before its command is executed. If this program has begun
// a sandbox with these ids, it is that one's.
func (n *Namespace) create() (ns sys.FD, err error) {
	ids := n.Root.Ahead()
	if fd, ok := sandbox.AheadUser(ids); ok {
		return fd, nil
	}
	ns = sys.None
	var text []byte
	for _, m := range ids {
		text = fmt.Appendf(text, "%d %d %d\n", m.Inside, m.Outside, m.Count)
	}
	cmd := nsexec.Command("/")
	cmd.Share = nsexec.All &^ nsexec.User
	o := sandbox.Of(cmd)
	o.MapLater = true
	o.Created = func(pid int) error {
		dir := "/proc/" + strconv.Itoa(pid)
		for _, name := range [...]string{"/uid_map", "/gid_map"} {
			if err := os.WriteFile(dir+name, text, 0); err != nil {
				return err
			}
		}
		fd, err := unix.Open(dir+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: dir + "/ns/user", Err: err}
		}
		ns = sys.FD(fd)
		return errMade
	}
	if err := cmd.Start(); !errors.Is(err, errMade) {
		return ns, fmt.Errorf("make their user namespace: %w", err)
	}
	return ns, nil
}
