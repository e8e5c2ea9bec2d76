//go:build linux

package host

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Some sockets have relative names, or were bound below another root, or in another mount namespace or network. To find
// them, nsrun looks at what other processes see. A command can have thousands of sockets and processes, and must not
// delay the start of another one. So each root and each directory is looked at once, however many processes have it,
// and however many sockets are said to be in it.

// views records what was looked at.
type views struct {
	done   map[string]bool          // roots and networks
	walked map[step]bool            // directories that relative names mean
	dirs   map[string]shown         // directories of absolute names, by the paths below /proc at which processes see them
	ours   []mounts.Info            // nil: not read yet
	theirs map[string][]mounts.Info // by the mount namespace
	looked int                      // how many directories of processes were opened
	lack   *shortage
}

// fewNames is how many names are looked up one by one; for more, the directory is listed.
const fewNames = 64

func (v *views) init() {
	v.done, v.walked, v.dirs, v.theirs = make(map[string]bool), make(map[step]bool), make(map[string]shown), make(map[string][]mounts.Info)
}

// once calls look if it was not yet called for this key; it never calls it for "". It reads the key again afterwards:
// if the process has ended meanwhile, look may have missed something, and the next process with that key is asked.
func (v *views) once(key string, again func() string, look func()) {
	if key == "" || v.done[key] {
		return
	}
	look()
	if again() == key {
		v.done[key] = true
	}
}

// A shown is a directory of another process that this process can see, too.
type shown struct {
	dirs  []string            // its paths
	files map[string][]string // where files in it are that are mounted by themselves, by their names
}

// paths are the possible paths of a name in the directory.
func (s shown) paths(base string) (list []string) {
	for _, dir := range s.dirs {
		list = append(list, filepath.Join(dir, base))
	}
	return append(list, s.files[base]...)
}

// where finds, in this process's view, a directory that a process has at a path below /proc.
func (v *views) where(pid, name string) (s shown) {
	v.looked++
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	v.lack.note(err)
	if err != nil {
		return s
	}
	defer unix.Close(fd)
	var there, here unix.Stat_t
	real, err := os.Readlink(sys.ProcPath(fd))
	if err != nil || unix.Fstat(fd, &there) != nil {
		return s
	}
	same := func(path string) bool {
		return unix.Lstat(path, &here) == nil && here.Ino == there.Ino && here.Dev == there.Dev
	}
	if same(real) {
		s.dirs = []string{real}
		return s
	}
	theirs := v.mountsOf(pid)
	s.dirs = slices.DeleteFunc(elsewhere(real, theirs, v.ours), func(path string) bool { return !same(path) })
	of, kind := origin(real, theirs)
	for _, m := range v.ours {
		if dir, base := filepath.Split(m.Root); m.FSType == kind && of != "" && base != "" && filepath.Clean(dir) == of {
			if s.files == nil {
				s.files = make(map[string][]string)
			}
			s.files[base] = append(s.files[base], m.Target)
		}
	}
	return s
}

// mountsOf are the mounts that a process sees. Those of this process are read, too.
func (v *views) mountsOf(pid string) []mounts.Info {
	if v.ours == nil {
		var err error
		v.ours, err = mounts.ReadMountinfo()
		v.lack.note(err)
	}
	key, err := os.Readlink("/proc/" + pid + "/ns/mnt")
	if err != nil {
		key = pid
	}
	theirs, ok := v.theirs[key]
	if !ok {
		b, err := os.ReadFile("/proc/" + pid + "/mountinfo")
		v.lack.note(err)
		if err == nil {
			theirs, _ = mounts.ParseMountinfo(b)
		}
		v.theirs[key] = theirs
	}
	return theirs
}

// root is the root of a process or thread, whose directory below /proc is at, in its mount namespace.
func root(at string) string {
	root, _ := os.Readlink("/proc/" + at + "/root")
	mnt, _ := os.Readlink("/proc/" + at + "/ns/mnt")
	return "root " + root + " " + mnt
}

// same reports whether a view of the file system is this process's own.
func (f *socketFinder) same(key string) bool {
	ours, ok := f.dirs["our root"]
	if !ok {
		ours = root("self")
		f.dirs["our root"] = ours
	}
	return key == ours || key == "root  " // which nobody may ask for
}

type lostSockets struct {
	absolute []namedSocket
	relative branch
}

// A branch has the relative names that continue from a directory.
type branch struct {
	here  []namedSocket      // in the directory itself
	below map[string]*branch // by the next directory in the name
}

func (b *branch) add(s namedSocket) {
	dir, _ := filepath.Split(s.name)
	for part := range strings.SplitSeq(dir, "/") {
		if part == "" || part == "." {
			continue
		}
		next := b.below[part]
		if next == nil {
			next = new(branch)
			if b.below == nil {
				b.below = make(map[string]*branch)
			}
			b.below[part] = next
		}
		b = next
	}
	b.here = append(b.here, s)
}

func (b *branch) none() bool { return len(b.here)+len(b.below) == 0 }

// lose sorts sockets that were not found.
func (f *socketFinder) lose(list []namedSocket) (l lostSockets) {
	for _, s := range list {
		switch {
		case s.ino != 0 && f.placed[s.ino]:
		case filepath.IsAbs(s.name):
			l.absolute = append(l.absolute, s)
		default:
			l.relative.add(s)
		}
	}
	return l
}

func (l *lostSockets) none() bool { return len(l.absolute) == 0 && l.relative.none() }

// processes walks all processes, to find lost sockets and other network namespaces, whose sockets have files, too.
func (f *socketFinder) processes(list []namedSocket) {
	n, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	f.lack.note(err)
	if err != nil {
		return
	}
	proc := sys.FD(n)
	defer proc.Close()
	pids, err := sys.Names(n, make([]byte, 8<<10))
	f.lack.note(err)
	pids = slices.DeleteFunc(pids, func(pid string) bool { return pid[0] < '0' || pid[0] > '9' })
	f.networks(n, pids)
	if lost := f.lose(list); lost.none() {
		return
	}
	if euid := os.Geteuid(); euid != 0 { // others' processes say nothing to us
		var st unix.Stat_t
		pids = slices.DeleteFunc(pids, func(pid string) bool { return unix.Fstatat(n, pid, &st, 0) != nil || int(st.Uid) != euid })
	} else {
		threads := kernelThreads()
		pids = slices.DeleteFunc(pids, threads.has)
	}
	f.lost(n, pids, list)
}

// lost looks for lost sockets where processes may have them, first by their names.
func (f *socketFinder) lost(proc int, pids []string, list []namedSocket) {
	lost := f.lose(list)
	byName := func(at string, in shown, list []namedSocket) {
		if len(list) > fewNames {
			f.searchIn(at, in, list)
			return
		}
		for _, s := range list {
			f.seen(in, at+filepath.Base(s.name), s)
		}
	}
	for _, pid := range pids {
		if f.stopped.Load() {
			return
		}
		f.lookIn(pid, pid, &lost, byName)
	}
	again := f.lose(list)
	if again.none() {
		return
	}
	for _, pid := range pids {
		if f.stopped.Load() {
			return
		}
		f.follow(pid, pid, &again.relative, f.searchIn)
		for _, at := range f.ownViews(proc, pid) {
			f.lookIn(pid, at, &lost, byName)
		}
	}
}

// lookIn looks for lost sockets in the working directory of a process or of one of its threads, and in its root if that
// is another directory. at is the directory of the process or thread below /proc.
func (f *socketFinder) lookIn(pid, at string, lost *lostSockets, look func(at string, in shown, list []namedSocket)) {
	if len(lost.absolute) > 0 {
		if key := root(at); !f.same(key) {
			f.views.once(key, func() string { return root(at) }, func() {
				for _, s := range lost.absolute {
					f.absolute(pid, at, s)
				}
			})
		}
	}
	f.follow(pid, at, &lost.relative, look)
}

// A step is a directory, and the names that continue from there.
type step struct {
	dev, ino uint64
	mnt      string // the mount namespace: what is mounted below depends on it
	names    *branch
}

// follow calls look for the directories to which relative names lead for a process or thread, with their paths below
// /proc.
func (f *socketFinder) follow(pid, at string, names *branch, look func(at string, in shown, list []namedSocket)) {
	if names.none() {
		return
	}
	work := "/proc/" + at + "/cwd"
	cwd, err := os.Readlink(work)
	if err != nil {
		return // nobody may ask for it
	}
	mnt, _ := os.Readlink("/proc/" + at + "/ns/mnt")
	walked := make(map[step]bool)
	f.descend(pid, work+"/", mnt, names, walked, look)
	// If the process has ended meanwhile, something may be missing: the next process with this directory is asked,
	// too.
	if now, err := os.Readlink(work); err == nil && now == cwd {
		maps.Copy(f.views.walked, walked)
	}
}

// descend is follow from a directory on. If names continue in many ways, the directory is listed: whoever bound the
// sockets decides how many ways there are.
func (f *socketFinder) descend(pid, at, mnt string, names *branch, walked map[step]bool, look func(at string, in shown, list []namedSocket)) {
	f.views.looked++
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	f.lack.note(err)
	if err != nil {
		return
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	unix.Close(fd)
	s := step{st.Dev, st.Ino, mnt, names}
	if err != nil || walked[s] || f.views.walked[s] {
		return
	}
	walked[s] = true
	if len(names.here) > 0 {
		look(at, f.views.where(pid, at), names.here)
	}
	if len(names.below) <= fewNames {
		for part, next := range names.below {
			f.descend(pid, at+part+"/", mnt, next, walked, look)
		}
		return
	}
	d, err := openDir(at)
	f.lack.note(err)
	if err != nil {
		return
	}
	defer d.Close()
	for parts := []string{".."}; err == nil || len(parts) > 0; parts, err = d.Readdirnames(1024) {
		for _, part := range parts {
			if next := names.below[part]; next != nil {
				f.descend(pid, at+part+"/", mnt, next, walked, look)
			}
		}
	}
}

// searchIn looks for known sockets in a directory, or for all sockets if only their names are known.
func (f *socketFinder) searchIn(_ string, in shown, list []namedSocket) {
	for _, dir := range in.dirs {
		if f.private || !plan.Private(dir+"/") {
			f.search(dir, list[0].ino == 0)
		}
	}
	if len(in.files) == 0 {
		return
	}
	for _, s := range list {
		for _, path := range in.files[filepath.Base(s.name)] {
			f.take(path, s)
		}
	}
}

// take checks whether a path is a wanted socket, and records it.
func (f *socketFinder) take(path string, s namedSocket) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK && (s.ino == 0 || s.ino == uint32(st.Ino)) {
		f.placed[s.ino] = true
		if f.private || !plan.Private(path) {
			f.found = append(f.found, path)
		}
	}
}

// absolute looks for a socket below the root of a process or thread, and for its path in this process's view.
func (f *socketFinder) absolute(pid, at string, s namedSocket) {
	below := "/proc/" + at + "/root"
	dir, _ := filepath.Split(below + s.name)
	in, ok := f.views.dirs[dir]
	if !ok {
		in = f.views.where(pid, dir)
		f.views.dirs[dir] = in
	}
	f.seen(in, below+s.name, s)
}

// seen looks for a socket that a process has at a path below /proc, in a directory that this process can see, too.
func (f *socketFinder) seen(in shown, name string, s namedSocket) {
	var there, here unix.Stat_t
	for _, path := range in.paths(filepath.Base(s.name)) {
		if there.Ino == 0 && unix.Lstat(name, &there) != nil {
			return
		}
		if unix.Lstat(path, &here) == nil && here.Ino == there.Ino && here.Dev == there.Dev {
			f.take(path, s)
		}
	}
}

// networks looks for the sockets of other network namespaces. The kernel reports their names, but not which files they
// are.
func (f *socketFinder) networks(proc int, pids []string) {
	var st unix.Stat_t
	nets := make(map[uint64]*lostSockets) // by the number of their list
	var own uint64
	if unix.Stat("/proc/self/net/unix", &st) == nil {
		own = st.Ino
	}
	ours, theirs := make([]byte, 64), make([]byte, 64)
	ours = ours[:max(0, readlinkat(proc, "self/ns/net", ours))]
	trusted, settle := settled.search(string(ours), time.Now())
	var mine processes
	look := func(pid, at string) bool {
		// Comparing the namespaces, where that is allowed, takes half as long as reading the list of sockets.
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
		number := st.Ino
		names, ok := nets[number]
		if !ok {
			b, err := sys.ReadFile("/proc/"+list, make([]byte, 4<<10))
			f.lack.note(err)
			if err != nil {
				return true
			}
			lost := f.elsewhere(socketNames(b))
			names = &lost
			nets[number] = names
		}
		f.network(pid, at, number, names)
		return true
	}
	if settle != nil {
		trusted = kernelThreads()
		defer func() {
			if settle != nil {
				settle(trusted, mine)
			}
		}()
	}
	for _, pid := range pids {
		if f.stopped.Load() {
			settle = nil // not all were looked at
			return
		}
		if !trusted.has(pid) && !look(pid, pid) && hasThreads(proc, pid) { // its first thread has ended
			for _, at := range f.tasks(pid) {
				look(pid, at)
			}
		}
	}
}

// network looks for the sockets of another network namespace, of which number is the list, where a process or thread in
// it has them.
func (f *socketFinder) network(pid, at string, number uint64, names *lostSockets) {
	key := "network " + strconv.FormatUint(number, 10)
	f.views.once(key, func() string {
		var st unix.Stat_t
		if unix.Stat("/proc/"+at+"/net/unix", &st) != nil || st.Ino != number {
			return ""
		}
		return key
	}, func() {
		for _, s := range names.absolute {
			f.absolute(pid, at, s)
		}
	})
	f.follow(pid, at, &names.relative, f.searchIn)
}

// elsewhere are the sockets of another network namespace. Absolute names are looked for in this process's view as well.
func (f *socketFinder) elsewhere(names []string) lostSockets {
	list := make([]namedSocket, len(names))
	for i, name := range names {
		list[i].name = name
		if filepath.IsAbs(name) {
			f.at(list[i])
		}
	}
	return f.lose(list)
}

func readlinkat(dir int, name string, buf []byte) int {
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return -1
	}
	return n
}

// ownViews are the threads of a process that may have their own working directory or root, as paths below /proc: those
// that do not share them with the first thread, which may have ended.
func (f *socketFinder) ownViews(proc int, pid string) []string {
	const kcmpFS = 3 // KCMP_FS in the kernel's include/uapi/linux/kcmp.h
	if !hasThreads(proc, pid) {
		return nil
	}
	if !features.Has(features.Kcmp) { // a filter may end this process at the call
		return f.tasks(pid)
	}
	first, _ := strconv.Atoi(pid)
	return slices.DeleteFunc(f.tasks(pid), func(at string) bool {
		tid, _ := strconv.Atoi(filepath.Base(at))
		differs, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(first), uintptr(tid), kcmpFS, 0, 0, 0)
		return errno == 0 && differs == 0
	})
}

// hasThreads reports whether a process may have more threads than the first; a zombie usually has none.
func hasThreads(proc int, pid string) bool {
	const one = 2 + 1 // links of the directory task, which has one for each thread
	var st unix.Stat_t
	return unix.Fstatat(proc, pid+"/task", &st, 0) != nil || st.Nlink > one
}

// tasks are the threads of a process except the first, as paths below /proc.
func (f *socketFinder) tasks(pid string) (list []string) {
	n, err := unix.Open("/proc/"+pid+"/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	f.lack.note(err)
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

// kernelThreads are the kernel's own processes, which have no sockets with names. All of them are children of kthreadd,
// the second process of the initial PID namespace; in another one the second is some program. So are, for a moment, the
// helpers that the kernel executes (core(5), modprobe(8)).
func kernelThreads() processes {
	const kernelThread = 1 << 21 // PF_KTHREAD in the kernel's include/linux/sched.h
	room := make([]byte, 4<<10)
	stat, _ := sys.ReadFile("/proc/2/stat", room)
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
	children, _ := sys.ReadFile("/proc/2/task/2/children", room)
	threads := make(processes, 0, bytes.Count(children, []byte(" ")))
	for pid := range bytes.FieldsSeq(children) {
		threads.add(string(pid))
	}
	slices.Sort(threads)
	return threads
}

// origin returns where, in its file system, a path of their view is, and the type of the file system.
func origin(path string, theirs []mounts.Info) (of, kind string) {
	var on mounts.Info
	for _, m := range theirs {
		if paths.Inside(path, m.Target) && len(m.Target) >= len(on.Target) {
			on = m // the last one covers those before
		}
	}
	if on.Target == "" {
		return "", ""
	}
	return filepath.Join(on.Root, strings.TrimPrefix(path, on.Target)), on.FSType
}

// elsewhere are the paths at which this process's mounts may show a path of their view.
func elsewhere(path string, theirs, ours []mounts.Info) (list []string) {
	of, kind := origin(path, theirs)
	if of == "" {
		return nil
	}
	for _, m := range ours {
		if m.FSType == kind && paths.Inside(of, m.Root) {
			list = append(list, filepath.Join(m.Target, strings.TrimPrefix(of, m.Root)))
		}
	}
	return list
}
