//go:build linux

package nsrun_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An attack is what a hostile command does. It is this program in a sandbox, and prints what it found that it should
// not have.
type attack struct {
	Seed           [2]uint64
	Roots          []string // that it may write to
	Hidden, Steady []string // what it is after
	Victims        []string // where its links lead
	random         *rand.Rand
	nested         bool
}

// attackArg is the first argument of this program as a hostile command.
const attackArg = "attack-trees"

// closedNow is the content of a file that may not be read.
const closedNow = "closed"

// attackDone is what it says at its end.
const attackDone = "done\n"

func init() {
	if len(os.Args) != 3 || os.Args[1] != attackArg {
		return
	}
	// It moves, removes and overwrites what it finds: only where nothing else can be.
	if !contained() {
		fmt.Println("not in a sandbox")
		os.Exit(1)
	}
	var a attack
	if err := json.Unmarshal([]byte(os.Args[2]), &a); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	a.nested = os.Getenv(attackArg) != ""
	a.run(os.Stdout)
	if !a.nested {
		fmt.Print(attackDone)
	}
	os.Exit(0)
}

// contained reports whether this program is in a sandbox: its root directory is read-only,
// and so is what lies there.
func contained() bool {
	for _, dir := range []string{"/", "/etc", "/usr"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) != nil || st.Flags&unix.ST_RDONLY == 0 {
			return false
		}
	}
	return true
}

func (a *attack) run(out io.Writer) {
	a.random = rand.New(rand.NewPCG(a.Seed[0], a.Seed[1]))
	n := runSequences
	if a.nested {
		n = 2
	}
	for range n {
		for range sequenceLength {
			a.step()
		}
		a.look(out)
	}
	if !a.nested && a.random.IntN(4) == 0 {
		a.nest(out)
	}
	if a.random.IntN(8) != 0 { // else directories stay closed for the next one
		a.openUp()
	}
}

// nest goes on in namespaces of its own, where it may mount.
func (a *attack) nest(out io.Writer) {
	again := *a
	again.Seed[1] += 1 << 32
	text, _ := json.Marshal(again)
	c := exec.Command("/proc/self/exe", attackArg, string(text))
	c.Env = []string{attackArg + "=nested"}
	c.Stdout = out
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	_ = c.Run()
}

// path is a path to do something to: mostly one that matters, or that is above one.
func (a *attack) path() string {
	var list []string
	switch a.random.IntN(4) {
	case 0:
		list = a.Hidden
	case 1:
		list = a.Steady
	default:
		list = a.Roots
	}
	if len(list) == 0 {
		list = a.Roots
	}
	path := list[a.random.IntN(len(list))]
	for _, root := range a.Roots {
		// Up to below the root.
		for strings.HasPrefix(path, root+"/") && filepath.Dir(path) != root && a.random.IntN(3) != 0 {
			path = filepath.Dir(path)
		}
	}
	for a.random.IntN(3) != 0 {
		names := []string{"a", "b", "c", "d", "e", "f", "1", "2", "3", "x", "y", "z", "new", ".git", "gh", "git", "key"}
		if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 && a.random.IntN(3) != 0 {
			path = filepath.Join(path, entries[a.random.IntN(len(entries))].Name())
			continue
		}
		path = filepath.Join(path, names[a.random.IntN(len(names))])
	}
	return path
}

func (a *attack) step() {
	from, to := a.path(), a.path()
	if a.random.IntN(2) == 0 { // beside it
		to = filepath.Join(filepath.Dir(from), []string{"g", "h", "a", "e", "1"}[a.random.IntN(5)])
	}
	switch a.random.IntN(21) {
	case 20: // what a pattern will find
		dir := filepath.Join(a.Roots[len(a.Roots)-1], []string{"a", "b", "g", "h"}[a.random.IntN(4)])
		name := []string{"d", "c/e"}[a.random.IntN(2)]
		_ = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		_ = unix.Symlink(a.Victims[a.random.IntN(len(a.Victims))], filepath.Join(dir, name))
	case 0, 1, 2, 3, 4:
		_ = unix.Rename(from, to)
	case 5, 6:
		_ = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	case 7:
		_ = unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, to, a.random.IntN(2)*unix.AT_SYMLINK_FOLLOW)
	case 8, 9:
		victim := a.Victims[a.random.IntN(len(a.Victims))]
		if a.random.IntN(3) == 0 {
			victim = from
		}
		_ = unix.Symlink(victim, to)
	case 10, 11:
		_ = unix.Mkdir(from, 0o755)
	case 12:
		_ = os.MkdirAll(from, 0o755) // a decoy
		_ = os.WriteFile(filepath.Join(from, "1"), []byte("decoy"), 0o644)
	case 13:
		_ = unix.Rmdir(from)
	case 14:
		_ = unix.Unlink(from)
	case 15, 16, 17:
		flags := os.O_WRONLY | os.O_CREATE | unix.O_NONBLOCK
		if a.random.IntN(2) == 0 {
			flags |= os.O_TRUNC
		}
		if f, err := os.OpenFile(from, flags, 0o644); err == nil {
			_, _ = f.WriteString("written")
			_ = f.Close()
		}
	case 18:
		_ = os.Chmod(from, []fs.FileMode{0, 0o100, 0o500, 0o755}[a.random.IntN(4)])
	case 19:
		a.mount(from, to)
	}
}

// mount tries what takes privileges.
func (a *attack) mount(from, to string) {
	switch a.random.IntN(6) {
	case 0:
		_ = unix.Unmount(from, unix.MNT_DETACH)
	case 1:
		_ = unix.Mount(from, to, "", unix.MS_BIND, "")
	case 2:
		_ = unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
	case 3:
		_ = unix.Mount("", from, "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case 4:
		_ = unix.Mount(from, to, "", unix.MS_MOVE, "")
	case 5:
		if fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err == nil {
			_ = unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
			_ = unix.Close(fd)
		}
	}
}

// openUp lets everything be read again that it owns.
func (a *attack) openUp() {
	for _, root := range a.Roots {
		_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if e != nil && e.Type() != fs.ModeSymlink {
				_ = os.Chmod(name, 0o755)
			}
			return nil
		})
	}
}

// look reads all that can be read.
func (a *attack) look(out io.Writer) {
	a.openUp()
	read := func(name string) string {
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrPermission) {
			return closedNow // by another one, which runs beside this
		}
		if err != nil {
			return ""
		}
		defer f.Close()
		b := make([]byte, 100)
		n, _ := f.Read(b)
		return string(b[:n])
	}
	for _, root := range append(a.Roots, a.Hidden...) {
		_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && strings.Contains(read(name), marker) {
				fmt.Fprintf(out, "hidden, and can be read: %s\n", name)
			}
			if err == nil && e.Type() == fs.ModeSymlink {
				// What is behind it.
				entries, _ := os.ReadDir(name)
				for _, e := range entries {
					if in := filepath.Join(name, e.Name()); strings.Contains(read(in), marker) {
						fmt.Fprintf(out, "hidden, and can be read: %s\n", in)
					}
				}
			}
			return nil
		})
	}
	if a.nested {
		return // where it mounts, it sees what it wants to see
	}
	for _, name := range a.Steady {
		if got := read(name); got != steady && got != closedNow {
			fmt.Fprintf(out, "read-only, and has %q: %s\n", got, name)
		}
	}
}
