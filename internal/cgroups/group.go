//go:build linux

// Package cgroups makes and removes cgroups, in cgroup v2 and in hierarchies of v1. It finds the file system and the
// cgroup of this process, makes cgroups that other processes of nsrun do not mistake for stale ones, kills the
// processes in them, and removes cgroups that killed processes of nsrun left. It may import packages sys and mounts,
// and does not know what cgroups are made for.
package cgroups

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// prefix begins the names of all our cgroups.
const prefix = "nsrun-"

// A Group is a cgroup that was made here.
type Group struct {
	Dir    *os.File
	Name   string
	Drop   func(cgroup *os.File) // called first by End; nil: no call
	parent sys.FD                // owned
	lock   sys.FD
}

var (
	errNoTree = errors.New("no cgroup v2 is mounted, and none can be mounted")
	errStays  = errors.New("a process in the cgroup does not end")
)

func open(at int, name string) (sys.FD, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return sys.None, err
	}
	return sys.FD(fd), nil
}

// findTree opens the root of the cgroup v2 file system, and returns the path of this process's cgroup in it, "." for
// the root.
func findTree() (root sys.FD, own string, err error) {
	if own, err = pathOf("self"); err != nil {
		return sys.None, "", err
	}
	return findTreeOf(own)
}

// pathOf returns the path of a process's cgroup of v2, as this process sees it (cgroups(7)).
func pathOf(pid string) (string, error) {
	b, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return "", err
	}
	own := "/"
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			own = strings.TrimSuffix(string(rest), "\n")
		}
	}
	return own, nil
}

// findTreeOf is findTree for the cgroup with that path.
func findTreeOf(own string) (root sys.FD, at string, err error) {
	infos, err := mounts.ReadMountinfo()
	if err != nil {
		return sys.None, "", err
	}
	for _, in := range infos {
		if !holds(in, "") {
			continue
		}
		if root, err = open(unix.AT_FDCWD, in.Target); err != nil {
			continue
		}
		// Something else may be mounted over it.
		var st unix.Statfs_t
		if unix.Fstatfs(int(root), &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return root, inside(in.Root, own), nil
		}
		root.Close()
	}
	// Only if none is mounted: another mount would change the options of all (nsdelegate …).
	if root, err = mountTree(); err != nil {
		return sys.None, "", errors.Join(errNoTree, err)
	}
	return root, inside("/", own), nil
}

// holds reports whether a mount is a hierarchy of cgroup v1 with a controller; with "", whether it is cgroup v2.
func holds(in mounts.Info, controller string) bool {
	if controller == "" {
		return in.FSType == "cgroup2"
	}
	return in.FSType == "cgroup" && slices.Contains(strings.Split(in.Super, ","), controller)
}

// inside returns the path of a cgroup below the root of a mount. It is "." if the cgroup is not below that.
func inside(top, own string) string {
	rest, ok := strings.CutPrefix(own, strings.TrimSuffix(top, "/"))
	if !ok || !strings.HasPrefix(rest, "/") || strings.Contains(rest+"/", "/../") {
		return "."
	}
	if rest = strings.Trim(rest, "/"); rest == "" {
		return "."
	}
	return rest
}

// mountTree mounts the cgroup v2 file system where nobody sees it.
func mountTree() (sys.FD, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return sys.None, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return sys.None, err
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return sys.None, err
	}
	return sys.FD(fd), nil
}

// MakeTop makes a cgroup below the caller's own, or, if that fails, below the root. It removes what killed processes of
// nsrun have left there.
func MakeTop() (*Group, error) {
	root, own, err := findTree()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	places := []string{own, "."}
	if own == "." {
		places = places[:1]
	}
	for _, place := range places {
		var parent sys.FD
		if parent, err = open(int(root), place); err != nil {
			continue
		}
		clean(parent)
		var g *Group
		if g, err = makeGroup(parent); err != nil {
			parent.Close()
			continue
		}
		if g.holdsProcesses() {
			return g, nil
		}
		err = unix.EOPNOTSUPP
		_ = g.Remove()
	}
	return nil, err
}

// tries is how often makeGroup tries again after somebody has removed the cgroup.
const tries = 100

// makeGroup makes a cgroup, which then owns parent.
func makeGroup(parent sys.FD) (*Group, error) {
	for try := 0; ; try++ {
		name := prefix + strconv.FormatUint(rand.Uint64(), 36)
		err := unix.Mkdirat(int(parent), name, 0o755)
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return nil, err
		}
		dir, err := open(int(parent), name)
		if err == unix.ENOENT {
			continue // somebody removed it as a stale one
		}
		lock := sys.None
		if err == nil {
			lock, err = lockGroup(dir, unix.O_RDONLY, unix.F_RDLCK)
		}
		if (err == unix.EAGAIN || err == unix.EACCES || err == unix.ENOENT || err == unix.ENODEV) && try < tries {
			dir.Close()
			continue // somebody is removing it as a stale one
		}
		if err != nil {
			dir.Close()
			_ = unix.Unlinkat(int(parent), name, unix.AT_REMOVEDIR)
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
			lock.Close()
			dir.Close()
			continue
		}
		return &Group{Dir: os.NewFile(uintptr(dir), name), parent: parent, Name: name, lock: lock}, nil
	}
}

// lockGroup locks a cgroup: for reading to use it, for writing to remove it. A command sees the cgroup file system only
// read-only, so it cannot get a lock for writing, and cannot keep anybody from using a cgroup, as it could with
// flock(2) on the directory.
func lockGroup(dir sys.FD, access int, kind int16) (sys.FD, error) {
	fd, err := unix.Openat(int(dir), "cgroup.procs", access|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, err
	}
	lk := unix.Flock_t{Type: kind}
	if err := sys.Retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk) }); err != nil {
		_ = unix.Close(fd)
		return sys.None, err
	}
	return sys.FD(fd), nil
}

// Abandon leaves the cgroup to be cleaned up later, as if this process had ended.
func (g *Group) Abandon() {
	g.lock.Close()
	g.lock = sys.None
}

// Child makes a cgroup in g.
func (g *Group) Child() (*Group, error) { return makeIn(int(g.Dir.Fd())) }

func makeIn(dir int) (*Group, error) {
	parent, err := open(dir, ".")
	if err != nil {
		return nil, err
	}
	g, err := makeGroup(parent)
	if err != nil {
		parent.Close()
	}
	return g, err
}

// ID is the kernel's number of the cgroup.
func (g *Group) ID() (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(g.Dir.Fd()), &st)
	return st.Ino, err
}

// holdsProcesses reports whether processes can be in the cgroup. They cannot if its parent is a cgroup for threads.
func (g *Group) holdsProcesses() bool {
	kind, err := g.Read("cgroup.type")
	return err == nil && strings.TrimSpace(kind) == "domain"
}

// Read reads one of its files, up to 4 KiB.
func (g *Group) Read(name string) (string, error) { return Read(int(g.Dir.Fd()), name) }

// Read reads a file of a cgroup, up to 4 KiB.
func Read(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f := sys.FD(fd)
	defer f.Close()
	var b [4096]byte
	n, err := f.Read(b[:])
	return string(b[:max(n, 0)]), err
}

// endLimit is how long processes that were killed may take to be gone.
const endLimit = 10 * time.Second

// Discard removes the cgroup of a sandbox that does not begin.
func (g *Group) Discard() {
	_ = g.End()
	_ = g.Remove()
}

// DiscardV1 is Discard for a cgroup of v1, in which no process is any more.
func (g *Group) DiscardV1() {
	for deadline := time.Now().Add(endLimit); ; time.Sleep(time.Millisecond) {
		removeChildren(int(g.Dir.Fd()))
		err := unix.Unlinkat(int(g.parent), g.Name, unix.AT_REMOVEDIR)
		if err != unix.EBUSY || time.Now().After(deadline) {
			break // what stays is left to Place.Clean
		}
	}
	g.close()
}

// killFile takes a word at which the kernel kills all processes in a cgroup (Linux 5.14).
var killFile = "cgroup.kill"

// End kills all processes in the cgroup and waits until they are gone.
func (g *Group) End() error {
	if g.Drop != nil {
		g.Drop(g.Dir)
		g.Drop = nil
	}
	fd, err := unix.Openat(int(g.Dir.Fd()), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	events := sys.FD(fd)
	defer events.Close()
	for deadline := time.Now().Add(endLimit); ; {
		var b [256]byte
		n, err := unix.Pread(int(events), b[:], 0)
		if err != nil {
			return err
		}
		if !bytes.Contains(b[:n], []byte("populated 1")) {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return errStays
		}
		if Write(int(g.Dir.Fd()), killFile, "1") != nil {
			left = min(left, time.Millisecond) // some may have been forked meanwhile
			if err := g.killListed(); err != nil {
				return err
			}
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
	}
}

func (g *Group) killListed() error {
	fd, err := unix.Openat(int(g.Dir.Fd()), "cgroup.procs", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "cgroup.procs")
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			_ = sys.Kill(n, unix.SIGKILL)
		}
	}
	return lines.Err()
}

// Remove removes the cgroup, and closes everything. It ends what is in there: a start that its caller has given up may
// make a process after End.
func (g *Group) Remove() error {
	defer g.close()
	for deadline := time.Now().Add(endLimit); ; time.Sleep(time.Millisecond) {
		removeChildren(int(g.Dir.Fd()))
		err := unix.Unlinkat(int(g.parent), g.Name, unix.AT_REMOVEDIR)
		if err != unix.EBUSY || time.Now().After(deadline) || g.End() != nil {
			return err
		}
	}
}

func (g *Group) close() {
	g.lock.Close()
	_ = g.Dir.Close()
	g.parent.Close()
}

// removeChildren removes empty cgroups that processes inside made.
func removeChildren(at int) {
	for _, name := range subdirs(at) {
		if dir, err := open(at, name); err == nil {
			removeChildren(int(dir))
			dir.Close()
		}
		_ = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
}

// clean removes cgroups of nsrun that nobody has locked and that have no processes.
func clean(parent sys.FD) {
	for _, name := range subdirs(int(parent)) {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		dir, err := open(int(parent), name)
		if err != nil {
			continue
		}
		if lock, err := lockGroup(dir, unix.O_RDWR, unix.F_WRLCK); err == nil {
			clean(dir)
			_ = unix.Unlinkat(int(parent), name, unix.AT_REMOVEDIR)
			lock.Close()
		}
		dir.Close()
	}
}

// subdirs lists the directories in a directory.
func subdirs(at int) (names []string) {
	dir, err := open(at, ".")
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(dir), ".")
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
