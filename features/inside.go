//go:build linux

package features

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// inside performs the calls that add adds, in a process with a user namespace of its own. If one fails, the error is
// its errno. See reexec.Perform for taken.
func inside(add func(b *prog.Builder), taken func(sock int) error) error {
	b := prog.New(prog.Native())
	b.SetNFds(1)
	b.Call(prog.SysUmask, prog.Int(0o22)).TolerateAny() // the caller's may leave owners nothing
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWUSER))
	procDir := b.OpenProc()
	b.WriteIDMaps(procDir, b.OneID(0, uint32(os.Geteuid())), b.OneID(0, uint32(os.Getegid())))
	b.Close(procDir)
	add(b)
	b.Call(prog.SysExitGroup, prog.Int(0))
	var err error
	sys.AwaitNamespaces(nil, func() bool {
		err = reexec.Perform(b.Program(), taken)
		return err == unix.ENOSPC || err == unix.EUSERS
	})
	return err
}

func unshares(flags uint64) error {
	return inside(func(b *prog.Builder) { b.Call(prog.SysUnshare, prog.Int(flags)) }, nil)
}

// place is where file systems are mounted: a directory that exists wherever a sandbox can be made.
const place = "/proc"

// tmpfs adds a mount namespace, and a tmpfs at place.
func tmpfs(b *prog.Builder) {
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNS))
	b.Call(prog.SysMount, b.String("tmpfs"), b.String(place), b.String("tmpfs"), prog.Int(0), prog.Null)
}

// copies is how many copies of mounts the sandbox of a plain command has at a time.
const copies = 6

// mountCalls adds a tmpfs that is mounted by the new calls, and copies of it.
func mountCalls(b *prog.Builder) {
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNS))
	fs, root := b.Slot(), b.Slot()
	b.Call(prog.SysFsopen, b.String("tmpfs"), prog.Int(unix.FSOPEN_CLOEXEC)).To(fs)
	b.Call(prog.SysFsconfig, fs.Arg(), prog.Int(unix.FSCONFIG_CMD_CREATE), prog.Null, prog.Null, prog.Int(0))
	b.Call(prog.SysFsmount, fs.Arg(), prog.Int(unix.FSMOUNT_CLOEXEC), prog.Int(0)).To(root)
	b.Call(prog.SysMoveMount, root.Arg(), b.String(""), prog.AtCwd, b.String(place), prog.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
	// Each copy counts as a mount namespace until it is attached, and a sandbox has several at a time.
	for range copies {
		b.Call(prog.SysOpenTree, prog.AtCwd, b.String(place), prog.Int(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)).To(b.Slot())
	}
}

func mkdir(b *prog.Builder, name string) {
	b.Call(prog.SysMkdirat, prog.AtCwd, b.String(name), prog.Int(0o755))
}

func overlay(b *prog.Builder) {
	tmpfs(b)
	for _, dir := range [...]string{"/lower", "/upper", "/work", "/merged"} {
		mkdir(b, place+dir)
	}
	b.Call(prog.SysMount, b.String("overlay"), b.String(place+"/merged"), b.String("overlay"), prog.Int(0),
		b.String("lowerdir="+place+"/lower,upperdir="+place+"/upper,workdir="+place+"/work,userxattr"))
}

// pidProc adds the procfs of a new PID namespace, which the kernel refuses in containers that mask parts of /proc.
func pidProc(b *prog.Builder) {
	tmpfs(b)
	const dir = place + "/proc"
	mkdir(b, dir)
	b.Call(prog.Clone, prog.Int(unix.CLONE_NEWPID))
	flags := prog.Int(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	b.Call(prog.SysMount, b.String("proc"), b.String(dir), b.String("proc"), flags, prog.Null)
}

// tryProcessCounts makes a second process under a limit of two. That fails if the kernel also counts the user's
// processes outside the user namespace.
func tryProcessCounts() error {
	return inside(func(b *prog.Builder) {
		b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(unix.RLIMIT_NPROC), b.Words(2, 2).Arg(), prog.Null)
		b.Call(prog.Clone, prog.Int(0))
	}, nil)
}

// tryTmpfsAttributes sets an attribute of a directory on the tmpfs of another mount namespace, as its owner.
func tryTmpfsAttributes() error {
	return inside(func(b *prog.Builder) {
		tmpfs(b)
		const name = place + "/dir"
		mkdir(b, name)
		dir := b.Slot()
		b.Call(prog.SysOpenat, prog.AtCwd, b.String(name), b.Open(prog.Directory|prog.CloseOnExec), prog.Int(0)).To(dir)
		b.SendFiles(prog.Int(reexec.ControlFd), prog.Int(unix.MSG_NOSIGNAL), []prog.Slot{dir})
	}, func(sock int) error {
		dir, err := sys.ReceiveFD(sys.FD(sock))
		if err != nil {
			return err
		}
		defer dir.Close()
		return unix.Fsetxattr(int(dir), "user.nsrun", []byte("y"), 0)
	})
}
