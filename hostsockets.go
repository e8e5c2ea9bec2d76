//go:build linux

package nsrun

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Sockets of the host are found by what the kernel says of them (sock_diag(7)): the name that each was bound
// to, and the inode number of its file. A name may be relative, or have been a link; the file may have been renamed, or
// have other names. So where no file with that number has the name, the directory is searched for it.

// A namedSocket is a socket with a file.
type namedSocket struct {
	name string // that it was bound to
	ino  uint32 // the lower half of the inode number
}

// diagSockets asks the kernel for those of this network namespace.
func diagSockets() ([]namedSocket, error) {
	n, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	fd := sys.FD(n)
	defer fd.Close()
	const (
		byFamily, showNameAndVFS = 20, 3
		header, message          = unix.SizeofNlMsghdr, 16
	)
	// struct nlmsghdr, struct unix_diag_req
	q := make([]byte, header+24)
	binary.NativeEndian.PutUint32(q, uint32(len(q)))
	binary.NativeEndian.PutUint16(q[4:], byFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	q[header] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[header+4:], ^uint32(0)) // in all states
	binary.NativeEndian.PutUint32(q[header+12:], showNameAndVFS)
	if err := sys.Retry(func() error { return unix.Sendto(int(fd), q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) }); err != nil {
		return nil, err
	}
	var list []namedSocket
	seen := make(map[namedSocket]bool)
	for buf := make([]byte, 16<<10); ; {
		n, err := fd.Read(buf)
		if err != nil {
			return nil, err
		}
		for b := buf[:n]; len(b) >= header; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < header || size > len(b) {
				return nil, unix.EBADMSG
			}
			switch binary.NativeEndian.Uint16(b[4:]) {
			case unix.NLMSG_DONE:
				return list, nil
			case unix.NLMSG_ERROR:
				return nil, unix.ENOTSUP
			}
			if s, ok := diagnosed(b[min(size, header+message):size]); ok && !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

// diagnosed reads the attributes of one; ok if it has a file.
func diagnosed(b []byte) (s namedSocket, ok bool) {
	const attrName, attrVFS = 0, 1
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		value := b[4:size]
		switch binary.NativeEndian.Uint16(b[2:]) {
		case attrName:
			s.name = string(bytes.TrimRight(value, "\x00"))
		case attrVFS:
			if ok = len(value) >= 8; ok {
				s.ino = binary.NativeEndian.Uint32(value)
			}
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return s, ok && s.name != ""
}

// A socketFinder finds the files.
type socketFinder struct {
	private  bool              // those in private places, too
	known    map[uint32]bool   // the numbers of all
	dirs     map[string]string // where directories are, by their names
	searched map[string]bool
	found    []string
}

// findSockets returns the paths of the host's sockets, without symbolic links; those in private places only with all. What
// may not be there is returned by more: it looks through all processes, which takes a while, for what has a relative name
// and, with all, for other network namespaces. Nil: there is no need.
func findSockets(all bool) (near []string, more func() []string) {
	f := &socketFinder{private: all, known: make(map[uint32]bool), dirs: make(map[string]string), searched: make(map[string]bool)}
	list, err := diagSockets()
	if err != nil {
		b, _ := os.ReadFile("/proc/net/unix") // no /proc: no way to know
		for _, name := range socketNames(b) {
			list = append(list, namedSocket{name: name})
		}
	}
	for _, s := range list {
		f.known[s.ino] = true
	}
	var relative []namedSocket
	for _, s := range list {
		if filepath.IsAbs(s.name) {
			f.at(s)
		} else {
			relative = append(relative, s)
		}
	}
	if all || len(relative) > 0 {
		more = func() []string {
			f.processes(relative)
			return f.result()
		}
	}
	return f.result(), more
}

// result takes what was found since it was last taken.
func (f *socketFinder) result() []string {
	found := f.found
	f.found = nil
	slices.Sort(found)
	return slices.Compact(found)
}

// dir is where a directory is, "" if there is none or what is in it does not matter.
func (f *socketFinder) dir(name string) string {
	real, ok := f.dirs[name]
	if ok {
		return real
	}
	if fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		unix.Close(fd)
		if err != nil || !f.private && inPrivatePlace(real+"/") {
			real = ""
		}
	}
	f.dirs[name] = real
	return real
}

// at looks where a socket says that it is, and if it is not there, or has other names, around it.
func (f *socketFinder) at(s namedSocket) {
	dir, base := filepath.Split(s.name)
	if dir = f.dir(dir); dir == "" {
		return
	}
	var st unix.Stat_t
	name := filepath.Join(dir, base)
	if unix.Lstat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		f.found = append(f.found, name)
		if st.Nlink == 1 && (s.ino == uint32(st.Ino) || s.ino == 0) {
			return
		}
	}
	f.search(dir)
}

// search looks for known sockets in a directory.
func (f *socketFinder) search(dir string) {
	if f.searched[dir] {
		return
	}
	f.searched[dir] = true
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	var st unix.Stat_t
	for {
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if e.Type() == os.ModeSocket && unix.Lstat(name, &st) == nil && f.known[uint32(st.Ino)] {
				f.found = append(f.found, name)
			}
		}
		if err != nil {
			return
		}
	}
}

// processes looks through all processes: for where those with relative names may be, and for other network
// namespaces, whose sockets have files like any others.
func (f *socketFinder) processes(relative []namedSocket) {
	n, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	proc := sys.FD(n)
	defer proc.Close()
	pids, _ := sys.Names(n, make([]byte, 8<<10))
	idle := kernelThreads()
	var st unix.Stat_t
	nets := make(map[uint64]bool) // by the number of their list
	if unix.Stat("/proc/self/net/unix", &st) == nil {
		nets[st.Ino] = true
	}
	var ours []byte
	if os.Geteuid() == 0 { // others may not ask for that of most processes
		ours = make([]byte, 64)
		ours = ours[:max(0, readlinkat(n, "self/ns/net", ours))]
	}
	theirs := make([]byte, 64)
	cwds := make(map[string]bool)
	for _, pid := range pids {
		if pid[0] < '0' || pid[0] > '9' || idle[pid] {
			continue
		}
		if len(relative) > 0 {
			if cwd, err := os.Readlink("/proc/" + pid + "/cwd"); err == nil && !cwds[cwd] {
				cwds[cwd] = true
				for _, s := range relative {
					f.at(namedSocket{cwd + "/" + s.name, s.ino})
				}
			}
		}
		if len(ours) > 0 { // this says it sooner
			if size := readlinkat(n, pid+"/ns/net", theirs); size > 0 && bytes.Equal(theirs[:size], ours) {
				continue
			}
		}
		if unix.Fstatat(n, pid+"/net/unix", &st, 0) == nil && !nets[st.Ino] {
			nets[st.Ino] = true
			f.network(pid)
		}
	}
}

func readlinkat(dir int, name string, buf []byte) int {
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return -1
	}
	return n
}

// kernelThreads are the kernel's own processes, which have no sockets with names. All of them are children of kthreadd,
// the second process of the initial PID namespace; in another one the second is some program.
func kernelThreads() map[string]bool {
	const kernelThread = 1 << 21 // PF_KTHREAD in the kernel's include/linux/sched.h
	stat, err := os.ReadFile("/proc/2/stat")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest) // from the third, see proc_pid_stat(5)
	if len(fields) < 7 {
		return nil
	}
	if flags, err := strconv.ParseUint(fields[6], 10, 64); err != nil || flags&kernelThread == 0 {
		return nil
	}
	children, _ := os.ReadFile("/proc/2/task/2/children")
	threads := make(map[string]bool)
	for _, pid := range strings.Fields(string(children)) {
		threads[pid] = true
	}
	return threads
}

// network finds the sockets of a process's network namespace.
func (f *socketFinder) network(pid string) {
	b, err := os.ReadFile("/proc/" + pid + "/net/unix")
	if err != nil {
		return
	}
	var theirs, ours []mounts.Info
	for _, name := range socketNames(b) {
		f.at(namedSocket{name: name})
		// What the process sees at that path may be elsewhere here.
		var there, here unix.Stat_t
		fd, err := unix.Open("/proc/"+pid+"/root"+filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		err = unix.Fstatat(fd, filepath.Base(name), &there, unix.AT_SYMLINK_NOFOLLOW)
		real, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		unix.Close(fd)
		if err != nil || there.Mode&unix.S_IFMT != unix.S_IFSOCK {
			continue
		}
		if ours == nil {
			ours, _ = mounts.ReadMountinfo()
			if b, err := os.ReadFile("/proc/" + pid + "/mountinfo"); err == nil {
				theirs, _ = mounts.ParseMountinfo(b)
			}
		}
		for _, path := range elsewhere(filepath.Join(real, filepath.Base(name)), theirs, ours) {
			if unix.Lstat(path, &here) == nil && here.Ino == there.Ino && here.Dev == there.Dev {
				f.found = append(f.found, path)
			}
		}
	}
}

// elsewhere are the paths at which our mounts may show what is at a path of theirs.
func elsewhere(path string, theirs, ours []mounts.Info) (list []string) {
	var on mounts.Info
	for _, m := range theirs {
		if inside(path, m.Target) && len(m.Target) >= len(on.Target) {
			on = m // the last one covers those before
		}
	}
	if on.Target == "" {
		return nil
	}
	of := filepath.Join(on.Root, strings.TrimPrefix(path, on.Target))
	for _, m := range ours {
		if m.FSType == on.FSType && inside(of, m.Root) {
			list = append(list, filepath.Join(m.Target, strings.TrimPrefix(of, m.Root)))
		}
	}
	return list
}
