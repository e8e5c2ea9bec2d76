//go:build linux

package host

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
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
	placed   map[uint32]bool   // of those that were found, or are in private places
	dirs     map[string]string // where directories are, by their names; "-": what is there does not matter
	searched map[string]bool   // directories; true: for all sockets
	found    []string
}

// FindSockets returns the paths of the host's sockets, without symbolic links; those in private places only with all. The
// others are returned by more, which takes a while, as it looks through all processes: for other network namespaces, and
// for what has a relative name or was bound in another mount namespace or root.
func FindSockets(all bool) (near []string, more func() []string) {
	f := &socketFinder{
		private: all, known: make(map[uint32]bool), placed: make(map[uint32]bool), dirs: make(map[string]string), searched: make(map[string]bool),
	}
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
	var lost []namedSocket
	for _, s := range list {
		if !filepath.IsAbs(s.name) || !f.at(s) {
			lost = append(lost, s)
		}
	}
	lost = slices.DeleteFunc(lost, func(s namedSocket) bool { return s.ino != 0 && f.placed[s.ino] })
	return f.result(), func() []string {
		f.processes(lost)
		return f.result()
	}
}

// result takes what was found since it was last taken, at all paths at which mounts show it.
func (f *socketFinder) result() []string {
	found := f.found
	f.found = nil
	if len(found) > 0 {
		ours, _ := mounts.ReadMountinfo()
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

// nowhere is where directories are in which nothing matters.
const nowhere = "-"

// dir is where a directory is, "" if there is none here, nowhere if what is in it does not matter.
func (f *socketFinder) dir(name string) string {
	real, ok := f.dirs[name]
	if ok {
		return real
	}
	if fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
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

// at looks where a socket says that it is, and if it is not there, or has other names, around it. It reports whether it
// was found, or does not matter.
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

// search looks for known sockets in a directory. Of other network namespaces none is known: then all are meant, even those
// that nobody has any more.
func (f *socketFinder) search(dir string, all bool) {
	if before, ok := f.searched[dir]; ok && (before || !all) {
		return
	}
	f.searched[dir] = all
	d, err := openDir(dir)
	if err != nil {
		return
	}
	defer d.Close()
	var st unix.Stat_t
	for {
		entries, err := d.ReadDir(1024)
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

// processes looks through all processes: for where lost sockets may be, and for other network namespaces, whose sockets
// have files like any others.
func (f *socketFinder) processes(lost []namedSocket) {
	n, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	proc := sys.FD(n)
	defer proc.Close()
	pids, _ := sys.Names(n, make([]byte, 8<<10))
	pids = slices.DeleteFunc(pids, func(pid string) bool { return pid[0] < '0' || pid[0] > '9' })
	f.networks(n, pids)
	if len(lost) == 0 {
		return
	}
	if euid := os.Geteuid(); euid != 0 { // others' processes say nothing to us
		var st unix.Stat_t
		pids = slices.DeleteFunc(pids, func(pid string) bool { return unix.Fstatat(n, pid, &st, 0) != nil || int(st.Uid) != euid })
	} else {
		threads := kernelThreads()
		pids = slices.DeleteFunc(pids, threads.has)
	}
	for _, pid := range pids {
		f.lookIn(pid, lost, pid)
	}
	lost = slices.DeleteFunc(lost, func(s namedSocket) bool { return s.ino != 0 && f.placed[s.ino] })
	if len(lost) == 0 {
		return
	}
	for _, pid := range pids {
		for _, s := range lost {
			f.around(pid, s)
		}
		for _, at := range ownViews(n, pid) {
			f.lookIn(pid, lost, at)
		}
	}
}

// around looks for sockets where a socket with a relative name would be, if a process or thread has bound it: it may have
// another name by now.
func (f *socketFinder) around(at string, s namedSocket) {
	if filepath.IsAbs(s.name) {
		return
	}
	sub, _ := filepath.Split(s.name)
	if dir := f.dir("/proc/" + at + "/cwd/" + sub); dir != "" && dir != nowhere {
		f.search(dir, s.ino == 0)
	}
}

// ownViews are the threads of a process that may have a directory or a root of their own, as paths below /proc: those
// that do not share them with the first thread, which may have ended.
func ownViews(proc int, pid string) []string {
	const kcmpFS = 3 // KCMP_FS in the kernel's include/uapi/linux/kcmp.h
	if !hasThreads(proc, pid) {
		return nil
	}
	first, _ := strconv.Atoi(pid)
	return slices.DeleteFunc(tasks(pid), func(at string) bool {
		tid, _ := strconv.Atoi(filepath.Base(at))
		differs, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(first), uintptr(tid), kcmpFS, 0, 0, 0)
		return errno == 0 && differs == 0
	})
}

// hasThreads reports whether a process may have other threads than the first: zombies have none, mostly.
func hasThreads(proc int, pid string) bool {
	const one = 2 + 1 // links of the directory task, which has one for each thread
	var st unix.Stat_t
	return unix.Fstatat(proc, pid+"/task", &st, 0) != nil || st.Nlink > one
}

// tasks are the threads of a process but the first, as paths below /proc.
func tasks(pid string) (list []string) {
	n, err := unix.Open("/proc/"+pid+"/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(n)
	names, _ := sys.Names(n, make([]byte, 4<<10))
	for _, tid := range names {
		if tid != "." && tid != ".." && tid != pid {
			list = append(list, pid+"/task/"+tid)
		}
	}
	return list
}

// lookIn looks for lost sockets in the working directory and, where it is another one, the root of a process or of one of
// its threads, whose directory below /proc is at.
func (f *socketFinder) lookIn(pid string, lost []namedSocket, at string) {
	var cwd, root string
	view := func() string {
		if root == "" {
			root, _ = os.Readlink("/proc/" + at + "/root")
			mnt, _ := os.Readlink("/proc/" + at + "/ns/mnt")
			root += " " + mnt
		}
		return root
	}
	for _, s := range lost {
		switch {
		case s.ino != 0 && f.placed[s.ino]:
		case filepath.IsAbs(s.name):
			if key := "root " + view(); !f.same(key) {
				f.seen(pid, "/proc/"+at+"/root", s)
			}
		default:
			if cwd == "" {
				cwd, _ = os.Readlink("/proc/" + at + "/cwd")
			}
			if cwd != "" {
				f.seen(pid, "/proc/"+at+"/cwd/", s)
			}
		}
	}
}

// same reports whether a view of the file system is ours.
func (f *socketFinder) same(key string) bool {
	ours, ok := f.dirs["our root"]
	if !ok {
		root, _ := os.Readlink("/proc/self/root")
		mnt, _ := os.Readlink("/proc/self/ns/mnt")
		ours = "root " + root + " " + mnt
		f.dirs["our root"] = ours
	}
	return key == ours || key == "root  " // which nobody may ask for
}

// seen looks for a socket where a process has it, below a link of its in /proc, and for where that is here.
func (f *socketFinder) seen(pid, below string, s namedSocket) {
	dir, base := filepath.Split(s.name)
	fd, err := unix.Open(below+dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var there, here unix.Stat_t
	if unix.Fstatat(fd, base, &there, unix.AT_SYMLINK_NOFOLLOW) != nil || there.Mode&unix.S_IFMT != unix.S_IFSOCK || s.ino != 0 && s.ino != uint32(there.Ino) {
		return
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return
	}
	path := filepath.Join(real, base)
	places := []string{path}
	if unix.Lstat(path, &here) != nil || here.Ino != there.Ino || here.Dev != there.Dev {
		ours, _ := mounts.ReadMountinfo()
		var theirs []mounts.Info
		if b, err := os.ReadFile("/proc/" + pid + "/mountinfo"); err == nil {
			theirs, _ = mounts.ParseMountinfo(b)
		}
		places = elsewhere(path, theirs, ours)
	}
	for _, path := range places {
		if unix.Lstat(path, &here) == nil && here.Ino == there.Ino && here.Dev == there.Dev {
			f.placed[s.ino] = true
			if f.private || !plan.Private(path) {
				f.found = append(f.found, path)
			}
		}
	}
}

// networks looks for the sockets of other network namespaces. The kernel says their names, but not which files they are.
func (f *socketFinder) networks(proc int, pids []string) {
	var st unix.Stat_t
	nets := make(map[uint64][]string) // the names in each, by the number of their list
	var own uint64
	if unix.Stat("/proc/self/net/unix", &st) == nil {
		own = st.Ino
	}
	ours, theirs := make([]byte, 64), make([]byte, 64)
	ours = ours[:max(0, readlinkat(proc, "self/ns/net", ours))]
	trusted, settle := settled.search(string(ours), time.Now())
	var mine processes
	look := func(pid, at string) bool {
		// Where this may be asked for it takes half as long.
		if size := readlinkat(proc, at+"/ns/net", theirs); size > 0 && bytes.Equal(theirs[:size], ours) {
			mine.add(at)
			return true
		}
		list := at + "/net/unix"
		if unix.Fstatat(proc, list, &st, 0) != nil {
			return false
		}
		if st.Ino == own {
			mine.add(at)
			return true
		}
		names, ok := nets[st.Ino]
		if !ok {
			b, err := os.ReadFile("/proc/" + list)
			if err != nil {
				return true
			}
			names = socketNames(b)
			nets[st.Ino] = names
			for _, name := range names {
				if filepath.IsAbs(name) {
					f.at(namedSocket{name: name})
					f.seen(pid, "/proc/"+at+"/root", namedSocket{name: name}) // here it may be elsewhere
				}
			}
		}
		for _, name := range names {
			if !filepath.IsAbs(name) {
				f.seen(pid, "/proc/"+at+"/cwd/", namedSocket{name: name})
				f.around(at, namedSocket{name: name})
			}
		}
		return true
	}
	if settle != nil {
		trusted = kernelThreads()
		defer func() { settle(trusted, mine) }()
	}
	for _, pid := range pids {
		if !trusted.has(pid) && !look(pid, pid) && hasThreads(proc, pid) { // its first thread has ended
			for _, at := range tasks(pid) {
				look(pid, at)
			}
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
// the second process of the initial PID namespace; in another one the second is some program. So are, for a moment, the helpers that
// the kernel executes (core(5), modprobe(8)).
func kernelThreads() processes {
	const kernelThread = 1 << 21 // PF_KTHREAD in the kernel's include/linux/sched.h
	room := make([]byte, 4<<10)
	stat := readProc("/proc/2/stat", room)
	field, flags := 2, uint64(0) // from the third, see proc_pid_stat(5)
	for text := range bytes.FieldsSeq(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		if field++; field == 9 {
			flags, _ = strconv.ParseUint(string(text), 10, 64)
			break
		}
	}
	if flags&kernelThread == 0 {
		return nil
	}
	children := readProc("/proc/2/task/2/children", room)
	threads := make(processes, 0, bytes.Count(children, []byte(" ")))
	for pid := range bytes.FieldsSeq(children) {
		threads.add(string(pid))
	}
	slices.Sort(threads)
	return threads
}

// readProc reads a file, into room where that is enough. Nil: it cannot be read.
func readProc(name string, room []byte) []byte {
	n, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	fd := sys.FD(n)
	defer fd.Close()
	for have := 0; ; {
		k, err := fd.Read(room[have:])
		if err != nil {
			return nil
		}
		if have += k; k == 0 {
			return room[:have]
		}
		if have == len(room) {
			room = append(room, make([]byte, len(room))...)
		}
	}
}

// elsewhere are the paths at which our mounts may show what is at a path of theirs.
func elsewhere(path string, theirs, ours []mounts.Info) (list []string) {
	var on mounts.Info
	for _, m := range theirs {
		if paths.Inside(path, m.Target) && len(m.Target) >= len(on.Target) {
			on = m // the last one covers those before
		}
	}
	if on.Target == "" {
		return nil
	}
	of := filepath.Join(on.Root, strings.TrimPrefix(path, on.Target))
	for _, m := range ours {
		if m.FSType == on.FSType && paths.Inside(of, m.Root) {
			list = append(list, filepath.Join(m.Target, strings.TrimPrefix(of, m.Root)))
		}
	}
	return list
}
