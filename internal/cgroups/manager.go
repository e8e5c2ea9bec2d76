//go:build linux

package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A Manager is a connection to systemd's manager of this user's services (user@.service(5)). It has a cgroup whose
// controllers it gives to others, and can have processes moved there that nobody but root could move: those of a login,
// which are in a cgroup of root's.
type Manager struct {
	Sock        sys.FD   // owned
	Bus         bool     // Sock leads to the user's message bus; else to the manager itself
	Controllers []string // that the cgroups below the manager's can have
	service     string   // the path of the manager's cgroup, below root
	root        sys.FD   // owned: that of the cgroup v2 file system
}

var errOtherManager = errors.New("the user's service manager is not one of this user's, or in other namespaces")

// FindManager connects to the manager of the effective user. It does not trust the environment.
func FindManager() (*Manager, error) { return findManager("/run/user", os.Geteuid()) }

func findManager(runtime string, uid int) (_ *Manager, err error) {
	m := &Manager{Sock: sys.None, root: sys.None}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	dir := path.Join(runtime, strconv.Itoa(uid))
	peer := int32(0)
	// The first is what systemctl(1) uses. It is there without a message bus, too.
	if m.Sock, peer, err = connect(path.Join(dir, "systemd/private"), uid); err != nil {
		m.Bus = true
		m.Sock, peer, err = connect(path.Join(dir, "bus"), uid)
	}
	if err != nil {
		return nil, err
	}
	own, err := pathOf(strconv.Itoa(int(peer)))
	if err != nil {
		return nil, err
	}
	service := fmt.Sprintf("user@%d.service", uid)
	before, _, ok := strings.Cut(own+"/", "/"+service+"/")
	if !ok {
		return nil, errOtherManager
	}
	if m.root, m.service, err = findTreeOf(path.Join(before, service)); err != nil {
		return nil, err
	}
	at, err := open(int(m.root), m.service)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	m.Controllers = fields(at, "cgroup.controllers")
	return m, nil
}

// connect connects to a socket if its other end belongs to this user, and to a process that this one can see.
func connect(name string, uid int) (sys.FD, int32, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return sys.None, 0, err
	}
	sock := sys.FD(fd)
	err = sys.Retry(func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: name}) })
	if err == nil {
		var peer *unix.Ucred
		if peer, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			if int(peer.Uid) == uid && peer.Pid > 0 { // 0: it is in another PID namespace
				return sock, peer.Pid, nil
			}
			err = errOtherManager
		}
	}
	sock.Close()
	return sys.None, 0, &fs.PathError{Op: "connect", Path: name, Err: err}
}

// Unit returns the cgroup of v2 in which a process is, if it is that of a unit of the manager, with this name.
func (m *Manager) Unit(pid int, unit string) (*Place, error) {
	own, err := pathOf(strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	root, at, err := findTreeOf(own)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if path.Base(at) != unit || !strings.HasPrefix(at, m.service+"/") {
		return nil, fmt.Errorf("process %d is in the cgroup %q, not in %s", pid, own, unit)
	}
	dir, err := open(int(m.root), at)
	if err != nil {
		return nil, err
	}
	if !usable(dir) {
		dir.Close()
		return nil, fmt.Errorf("the cgroup %q does not belong to this user", own)
	}
	return &Place{dir}, nil
}

// Close closes the connection.
func (m *Manager) Close() {
	m.Sock.Close()
	m.root.Close()
}

// Enable enables controllers for the cgroups in the place, and returns those of want that they have.
func (p *Place) Enable(want []string) []string { return enable(p.Dir, want) }

// Enter moves a process into the cgroup.
func (g *Group) Enter(pid int) error {
	return Write(int(g.Dir.Fd()), "cgroup.procs", strconv.Itoa(pid))
}

// Has reports whether a process is in the cgroup.
func (g *Group) Has(pid int) bool {
	list, _ := g.Read("cgroup.procs")
	return slices.Contains(strings.Fields(list), strconv.Itoa(pid))
}
