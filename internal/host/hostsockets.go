//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// nsrun finds the host's sockets by what the kernel says about them (sock_diag(7)): the name that each was bound to,
// and the inode number of its file. A name may be relative, or may have been a link; the file may have been renamed, or
// may have other names. So if no file with that number has the name, the directory is searched for it.

type namedSocket struct {
	name string // that it was bound to
	ino  uint32 // the lower half of the inode number
	dev  uint32 // the device of its file system, as sys.UnixSocket.FileDev; only with ino
}

// mostLists is how often the kernel is asked for its sockets at most.
const mostLists = 8

// diagSockets asks the kernel for the sockets of this network namespace that have files.
func diagSockets() ([]namedSocket, error) {
	return listSockets(func(do func(sys.UnixSocket)) error { return sys.UnixSockets(0, do) })
}

// listSockets asks for all sockets until a list has all that the one before it had, and returns what any of them had.
// The kernel makes a list in parts, and finds its place again by counting: if a socket that was listed already ends
// between two parts, it leaves another one out. A command that shares the network namespace can end many. If nothing
// has ended that a list had, the list was complete. Where sockets end all the time, the last list is not waited for.
func listSockets(ask func(do func(sys.UnixSocket)) error) (list []namedSocket, err error) {
	type listed struct { // binding one to a file moves it, too
		ino     uint32
		hasFile bool
	}
	seen := make(map[namedSocket]bool)
	var before map[listed]bool
	for range mostLists {
		now := make(map[listed]bool)
		if err := ask(func(u sys.UnixSocket) {
			now[listed{u.Ino, u.HasFile}] = true
			if s := (namedSocket{u.Name, u.FileIno, u.FileDev}); u.HasFile && s.name != "" && !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}); err != nil {
			return nil, err
		}
		ended := before == nil
		for l := range before {
			ended = ended || !now[l]
		}
		if !ended {
			break
		}
		before = now
	}
	return list, nil
}

type socketFinder struct {
	private  bool              // those in private places, too
	known    map[uint32]bool   // the numbers of all
	placed   map[uint32]bool   // of those that were found, or are in private places
	dirs     map[string]string // where directories are, by their names; "-": what is there does not matter
	searched map[string]bool   // directories; true: for all sockets
	found    []string
	views    views
	lack     shortage
	stopped  *atomic.Bool
}

// A shortage is the first error that has nothing to do with what is looked for: this process can open no more files, or
// has no memory. Something may have been missed, and would be shown.
type shortage struct{ err error }

func (s *shortage) note(err error) {
	if s.err == nil && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)) {
		s.err = err
	}
}

// failed says why the search is not complete.
func (f *socketFinder) failed() error {
	if f.lack.err != nil {
		return fmt.Errorf("find the sockets of the host: %w", f.lack.err)
	}
	if f.stopped.Load() {
		return errStopped
	}
	return nil
}

var errStopped = errors.New("find the sockets of the host: the search was stopped")

func newSocketFinder(all bool, stopped *atomic.Bool) *socketFinder {
	f := &socketFinder{
		stopped: stopped,
		private: all, known: make(map[uint32]bool), placed: make(map[uint32]bool), dirs: make(map[string]string), searched: make(map[string]bool),
	}
	f.views.init()
	f.views.lack = &f.lack
	return f
}

// FindSockets returns the paths of the host's sockets, without symbolic links; those in private places only with all.
// more returns the other sockets, which takes longer, because it looks through all processes: sockets of other network
// namespaces, and sockets that were bound to a relative name, in another mount namespace or below another root. It ends
// early, with an error, if stopped is set.
func FindSockets(all bool, stopped *atomic.Bool) (near []string, more func() ([]string, error), err error) {
	f := newSocketFinder(all, stopped)
	list, err := diagSockets()
	if err != nil {
		f.lack.note(err)
		b, err := os.ReadFile("/proc/net/unix") // no /proc: no way to know
		f.lack.note(err)
		for _, name := range socketNames(b) {
			list = append(list, namedSocket{name: name})
		}
	}
	for _, s := range list {
		f.known[s.ino] = true
	}
	var lost []namedSocket
	for _, s := range list {
		if !filepath.IsAbs(s.name) || !f.at(s) {
			lost = append(lost, s)
		}
	}
	lost = slices.DeleteFunc(lost, func(s namedSocket) bool { return s.ino != 0 && f.placed[s.ino] })
	near = f.result()
	return near, func() ([]string, error) {
		f.processes(f.mounted(lost))
		found := f.result()
		return found, f.failed()
	}, f.failed()
}

// mounted returns the sockets whose file systems this process can see. The kernel finds a socket by the inode of its
// file, and an inode belongs to one file system: where that is mounted nowhere, no path leads to the socket. Such are
// the sockets of a container in the same network, or of the manager of the container that this process is in. If they
// were looked for, each start would ask all processes for their roots.
func (f *socketFinder) mounted(lost []namedSocket) []namedSocket {
	if len(lost) == 0 {
		return lost
	}
	ours, err := mounts.ReadMountinfo()
	f.lack.note(err)
	if err != nil {
		return lost // no way to know
	}
	f.views.ours = ours
	seen := make(map[string]bool)
	for _, m := range ours {
		seen[m.Device] = true
	}
	return slices.DeleteFunc(lost, func(s namedSocket) bool { return s.ino != 0 && !seen[s.device()] })
}

// device is the device of the file system, as mountinfo has it.
func (s namedSocket) device() string {
	const minorBits = 20
	return strconv.Itoa(int(s.dev>>minorBits)) + ":" + strconv.Itoa(int(s.dev&(1<<minorBits-1)))
}

// result returns what was found since the last call, at all paths at which mounts show it.
func (f *socketFinder) result() []string {
	found := f.found
	f.found = nil
	if len(found) > 0 {
		ours, err := mounts.ReadMountinfo()
		f.lack.note(err)
		var st, same unix.Stat_t
		for _, path := range found {
			if unix.Lstat(path, &st) != nil {
				continue
			}
			for _, other := range elsewhere(path, ours, ours) {
				if unix.Lstat(other, &same) == nil && same.Ino == st.Ino && same.Dev == st.Dev {
					found = append(found, other)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// nowhere stands for directories whose content does not matter.
const nowhere = "-"

// dir resolves a directory. "": it does not exist here; nowhere: its content does not matter.
func (f *socketFinder) dir(name string) string {
	real, ok := f.dirs[name]
	if ok {
		return real
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	f.lack.note(err)
	if err == nil {
		real, err = os.Readlink(sys.ProcPath(fd))
		unix.Close(fd)
		switch {
		case err != nil:
			real = ""
		case !f.private && plan.Private(real+"/"):
			real = nowhere
		}
	}
	f.dirs[name] = real
	return real
}

// at looks for a socket at its name, and next to it if it is not there or has other names. It reports whether the
// socket was found, or does not matter.
func (f *socketFinder) at(s namedSocket) bool {
	dir, base := filepath.Split(s.name)
	switch dir = f.dir(dir); dir {
	case "":
		return false
	case nowhere:
		f.placed[s.ino] = true
		return true
	}
	var st unix.Stat_t
	name := filepath.Join(dir, base)
	if unix.Lstat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		f.found = append(f.found, name)
		if s.ino == uint32(st.Ino) || s.ino == 0 {
			f.placed[s.ino] = true
			if st.Nlink == 1 {
				return true
			}
		}
	}
	f.search(dir, s.ino == 0)
	return f.placed[s.ino]
}

// search looks for known sockets in a directory. No socket of another network namespace is known: then it takes all
// sockets, even those that no process has any more.
func (f *socketFinder) search(dir string, all bool) {
	if before, ok := f.searched[dir]; ok && (before || !all) {
		return
	}
	f.searched[dir] = all
	d, err := openDir(dir)
	f.lack.note(err)
	if err != nil {
		return
	}
	defer d.Close()
	var st unix.Stat_t
	for {
		entries, err := d.ReadDir(1024)
		f.lack.note(err)
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if e.Type() != os.ModeSocket || unix.Lstat(name, &st) != nil {
				continue
			}
			if known := f.known[uint32(st.Ino)]; known || all {
				f.found = append(f.found, name)
				f.placed[uint32(st.Ino)] = known
			}
		}
		if err != nil {
			return
		}
	}
}
