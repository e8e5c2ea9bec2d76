//go:build linux

package homelayer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
)

// Names in a layer.
const (
	lockName    = "lock"
	projectName = "project"
	upperName   = "upper"
	workName    = "work"
	kernelName  = "work" // in work: the kernel's own
	goneName    = "gone" // in work: the same, of the command before
	runsName    = "runs"
	seenName    = "seen"
	movedName   = "moved"
	ended       = "+" // ends the name of a run that has ended
)

// What the file lock contains: whether a command has upper, or was killed while it had it.
const (
	busy = 'b'
	free = 'f'
)

// mostPending is how many ended runs can wait to be merged. Later ones are discarded.
const mostPending = 8

var (
	ErrUnfit = errors.New("this file system cannot hold the changes of an overlay")
	ErrBusy  = errors.New("a command uses it")
)

// A Layer is a command's use of a project's layer.
type Layer struct {
	path string
	dir  sys.FD
	lock sys.FD
	home string
	perm uint32 // of the home directory

	run     string // name in runs; empty: it has the layer to itself
	runLock sys.FD
	lower   []string // of those runs that have ended, and of the layer
	discard bool     // what it writes is thrown away

	restarted bool // see Restarted

	tidying sync.WaitGroup // see Begun
}

// Take begins a command's use of the layer at path, and makes the layer if it is missing. perm is the mode of the home
// directory. With apart the command writes to a directory of its own, so that its writes can be measured. Call Release.
func Take(path, project, home string, perm fs.FileMode, apart bool) (l *Layer, err error) {
	for tries := 0; ; tries++ {
		l = &Layer{path: path, home: home, dir: sys.None, lock: sys.None, runLock: sys.None, perm: uint32(perm.Perm())}
		if perm&fs.ModeSticky != 0 {
			l.perm |= unix.S_ISVTX
		}
		if err = l.take(project, apart); err == nil {
			return l, nil
		}
		l.close()
		if !errors.Is(err, unix.ENOENT) || tries == 10 { // else it was removed just now
			return nil, &fs.PathError{Op: "use home layer", Path: path, Err: sys.Bare(err)}
		}
	}
}

func (l *Layer) take(project string, apart bool) (err error) {
	if err = l.open(project); err != nil {
		return err
	}
	if err = l.noteBoot(sys.BootID()); err != nil {
		return err
	}
	if apart {
		return l.takeRun()
	}
	mine, err := lock(l.lock, unix.F_WRLCK, writing)
	if err != nil {
		return err
	}
	if mine {
		if mine, err = l.takeUpper(); mine || err != nil {
			return err
		}
		if _, err = lock(l.lock, unix.F_UNLCK, writing); err != nil {
			return err
		}
	}
	return l.takeRun()
}

// open opens or makes the layer's directories.
func (l *Layer) open(project string) error {
	n, err := unix.Open(l.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		if err = l.make(project); err != nil {
			return err
		}
		n, err = unix.Open(l.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	l.dir = sys.FD(n)
	if err = owndir.Check(l.dir); err != nil {
		return err
	}
	l.lock, err = openAt(l.dir, lockName, unix.O_RDWR)
	return err
}

// make makes the layer, which appears under its name when it is complete.
func (l *Layer) make(project string) error {
	all, _, err := owndir.Open(filepath.Dir(l.path), true)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := fits(all); err != nil {
		return err
	}
	made := newBegin + sys.RandomText(12)
	if err := sys.Mkdir(int(all), made, 0o700); err != nil {
		return err
	}
	dir, err := openAt(all, made, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer dir.Close()
		err = errors.Join(writeFile(dir, lockName, ""), writeFile(dir, projectName, project), l.makePair(dir))
	}
	if err == nil {
		err = sys.RenameNew(int(all), made, int(all), filepath.Base(l.path))
	}
	if err != nil {
		_ = removeTree(all, made)
		if errors.Is(err, unix.EEXIST) {
			err = nil // somebody was quicker
		}
	}
	return err
}

func (l *Layer) makePair(dir sys.FD) error {
	err := errors.Join(sys.Mkdir(int(dir), upperName, 0o700), sys.Mkdir(int(dir), workName, 0o700))
	if err == nil { // not by mkdir, which heeds the umask; an overlay shows it as the home directory's
		err = unix.Fchmodat(int(dir), upperName, l.perm, 0)
	}
	return err
}

// fits refuses file systems that are known not to hold an upper directory.
func fits(dir sys.FD) error {
	if sys.On9P(dir) {
		return ErrUnfit
	}
	var st unix.Statfs_t
	if err := sys.Retry(func() error { return unix.Fstatfs(int(dir), &st) }); err != nil {
		return err
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		if ok, err := sys.TellsTypes(dir); err != nil || ok {
			return err
		}
		return ErrUnfit
	case unix.OVERLAYFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
		unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.ECRYPTFS_SUPER_MAGIC, unix.RAMFS_MAGIC:
		return ErrUnfit
	}
	if err := unix.Fsetxattr(int(dir), "user.overlay.nsrun", []byte("y"), 0); err != nil {
		return ErrUnfit
	}
	return unix.Fremovexattr(int(dir), "user.overlay.nsrun")
}

// takeUpper takes upper for the command alone. The caller has the write lock. Not ok: others use the layer, or their
// runs must be merged first.
func (l *Layer) takeUpper() (ok bool, err error) {
	if ok, err = l.mergeRuns(); !ok {
		return false, err
	}
	if ok, err = share(l.lock); !ok {
		return false, err
	}
	var st unix.Stat_t
	if err = unix.Fstatat(int(l.dir), upperName, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, err // somebody removed the layer before it was locked
	}
	if st.Mode&0o700 != 0o700 { // a command closed the home directory for those after it
		if err = unix.Fchmodat(int(l.dir), upperName, l.perm|0o700, 0); err != nil {
			return false, err
		}
	}
	if int(st.Uid) != os.Geteuid() { // one of root's gave it away, and others of root's have no privileges
		if err = unix.Fchownat(int(l.dir), upperName, os.Geteuid(), os.Getegid(), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return false, err
		}
	}
	var mark [1]byte
	n, err := unix.Pread(int(l.lock), mark[:], 0)
	if err == nil && n == 1 && mark[0] == busy { // whoever had it was killed, and what it started may not have ended yet
		if !vacant(filepath.Join(filepath.Base(l.path), upperName)) {
			_, err = lock(l.lock, unix.F_UNLCK, using)
			return false, err
		}
		err = l.resetWork()
	}
	if err == nil && mark[0] != busy {
		err = l.mark(busy)
	}
	return err == nil, err
}

// retireWork moves the kernel's work directory away: a volatile overlay leaves a mark there that prevents the next
// mount. Removing it takes longer than the rename, and is done while the command runs.
func (l *Layer) retireWork() error {
	dir, err := openAt(l.dir, workName, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	// The kernel's directories have mode 0, which would make them hard to remove by hand.
	for _, name := range [...]string{kernelName, kernelName + "/incompat", kernelName + "/incompat/volatile"} {
		if err = unix.Fchmodat(int(dir), name, 0o700, 0); err == unix.ENOENT && name == kernelName {
			return nil // no overlay was made
		}
		if err != nil {
			return removeTree(dir, kernelName)
		}
	}
	if sys.RenameNew(int(dir), kernelName, int(dir), goneName) != nil {
		return removeTree(dir, kernelName)
	}
	return nil
}

// Begun says that the command runs: now what the last command left can be removed. Release waits for that.
func (l *Layer) Begun() {
	if l != nil && l.run == "" {
		l.tidying.Go(func() {
			if dir, err := openAt(l.dir, workName, unix.O_PATH|unix.O_DIRECTORY); err == nil {
				_ = removeTree(dir, goneName)
				dir.Close()
			}
		})
	}
}

// Again prepares the layer for another sandbox of the same command.
func (l *Layer) Again() error {
	if err := l.resetWork(); err != nil {
		return &fs.PathError{Op: "use home layer", Path: l.path, Err: sys.Bare(err)}
	}
	return nil
}

// resetWork removes what the kernel left in work for a killed command.
func (l *Layer) resetWork() error {
	work := workName
	if l.run != "" {
		work = filepath.Join(runsName, l.run, workName)
	}
	dir, err := openAt(l.dir, work, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	if !exists(dir, kernelName) {
		return nil
	}
	return removeTree(dir, kernelName)
}

// mark writes the state into the file lock. It does not wait for the disk.
func (l *Layer) mark(state byte) error {
	_, err := unix.Pwrite(int(l.lock), []byte{state}, 0)
	return err
}

// takeRun makes directories for a command that does not have the layer alone.
func (l *Layer) takeRun() error {
	if ok, err := share(l.lock); !ok {
		return errors.Join(err, ErrBusy)
	}
	if err := sys.Mkdir(int(l.dir), runsName, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	runs, err := openAt(l.dir, runsName, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer runs.Close()
	names, err := runNames(runs)
	if err != nil {
		return err
	}
	var seen []string
	for i := len(names) - 1; i >= 0; i-- {
		if strings.HasSuffix(names[i], ended) {
			seen = append(seen, names[i])
			l.lower = append(l.lower, filepath.Join(l.path, runsName, names[i], upperName))
		}
	}
	l.discard = len(l.lower) >= mostPending
	l.lower = append(l.lower, filepath.Join(l.path, upperName))
	// Names sort by start, even if the clock was set back: sixteen digits and a suffix that makes them unique.
	began := time.Now().UnixMicro()
	if len(names) > 0 {
		last, _, _ := strings.Cut(names[len(names)-1], "-")
		if n, err := strconv.ParseInt(last, 10, 64); err == nil {
			began = max(began, n+1)
		}
	}
	name := strconv.FormatInt(began, 10) + "-" + sys.RandomText(8)
	if err = sys.Mkdir(int(runs), name, 0o700); err != nil {
		return err
	}
	l.run = name
	dir, err := openAt(runs, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err = errors.Join(writeFile(dir, lockName, ""), writeFile(dir, seenName, strings.Join(seen, "\n")), l.makePair(dir)); err != nil {
		return err
	}
	if l.runLock, err = openAt(dir, lockName, unix.O_RDWR); err == nil {
		_, err = lock(l.runLock, unix.F_WRLCK, writing)
	}
	return err
}

// own is the directory with the command's upper and work.
func (l *Layer) own() string {
	if l.run != "" {
		return filepath.Join(l.path, runsName, l.run)
	}
	return l.path
}

// Upper is the command's upper directory.
func (l *Layer) Upper() string { return filepath.Join(l.own(), upperName) }

// Work is the overlay's work directory.
func (l *Layer) Work() string { return filepath.Join(l.own(), workName) }

// Lower are the directories of other commands below Upper, newest first.
func (l *Layer) Lower() []string { return l.lower }

// Discard discards what the command writes, if it has a directory of its own.
func (l *Layer) Discard() { l.discard = true }

// Release ends the use of a layer after the command's last process has ended. If nobody else uses the layer, runs are
// merged; otherwise the last or next user merges them.
func (l *Layer) Release() error {
	if l == nil {
		return nil
	}
	defer l.close()
	l.tidying.Wait()
	var err error
	if l.run == "" {
		if err = l.retireWork(); err == nil {
			err = l.mark(free)
		}
	} else {
		err = l.endRun()
	}
	if exists(l.dir, runsName) {
		if ok, lerr := alone(l.lock); ok {
			_, merr := l.mergeRuns()
			err = errors.Join(err, merr)
		} else if lerr != nil {
			err = errors.Join(err, lerr)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "leave home layer", Path: l.path, Err: sys.Bare(err)}
	}
	return nil
}

// endRun marks the run as ended, or removes it if it wrote nothing.
func (l *Layer) endRun() error {
	runs, err := openAt(l.dir, runsName, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer runs.Close()
	keep := !l.discard
	if upper, err := openUpper(runs, l.run); err == nil {
		names, nerr := sys.Names(int(upper), make([]byte, 4<<10))
		upper.Close()
		keep = keep && (nerr != nil || len(names) > 0)
	}
	if !keep {
		return removeTree(runs, l.run)
	}
	return sys.RenameNew(int(runs), l.run, int(runs), l.run+ended)
}

func (l *Layer) close() {
	l.runLock.Close()
	l.lock.Close()
	l.dir.Close()
}

// openAt opens a name without following links.
func openAt(dir sys.FD, name string, flags uint64) (sys.FD, error) {
	n, err := sys.Openat2(int(dir), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return sys.None, err
	}
	return sys.FD(n), nil
}

// openUpper opens an upper directory, whose mode a command can have changed, for reading and removing.
func openUpper(at sys.FD, name string) (sys.FD, error) {
	dir, err := openAt(at, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return sys.None, err
	}
	defer dir.Close()
	return openSub(dir, upperName)
}

func openSub(dir sys.FD, name string) (sys.FD, error) {
	fd, _, err := deep.OpenForRemoval(int(dir), name)
	return sys.FD(fd), err
}

func exists(dir sys.FD, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func writeFile(dir sys.FD, name, text string) error {
	f, err := sys.OwnFile(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
