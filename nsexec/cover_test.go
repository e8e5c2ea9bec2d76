//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Where the root is an initramfs, the sandbox's root covers it. testenv.FixedRoot makes every root such a one.

// helpFixed is another helper, where the kernel does not replace the root.
func helpFixed(args []string) int {
	if err := testenv.FixedRoot(); err != nil {
		fmt.Println(err)
		return 1
	}
	return helpers[args[0]](args[1:])
}

// covered has the directories that the attacks need, and a file that they may read.
var covered = mounts.Plan{
	mounts.Tmpfs("/"), mounts.Dir("/a/b"), mounts.Dir("/at"), mounts.File("/free", []byte("secret")),
	mounts.Proc("/proc"), mounts.Dev("/dev"), mounts.ROBind(exe, "/exe"),
}

// helpCovered runs helpLeave in a sandbox: the arguments are the form of the mounts, "admin" for CAP_SYS_ADMIN, whether
// there is a user namespace, and the secret.
func helpCovered(args []string) int {
	c := nsexec.Command("/exe", args[3])
	c.Env = append(nsexec.BaseEnv(), helperVars("leave")...)
	c.Mounts = slices.Clone(covered)
	for _, at := range []string{"/lib", "/lib64", "/usr"} { // in case this binary needs libraries
		c.Mounts = append(c.Mounts, mounts.ROBind(at, at).Try())
	}
	sandbox.Of(c).ClassicMounts = args[0] == "classic"
	// What containers have, too.
	for _, n := range []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETFCAP, unix.CAP_SYS_CHROOT} {
		c.Capabilities |= 1 << n
	}
	if args[1] == "admin" {
		c.Capabilities |= 1 << unix.CAP_SYS_ADMIN
	}
	if args[2] == "shared" {
		c.Share = nsexec.User
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Println(err)
	}
	return 0
}

// helpLeave tries each attack with the capabilities that it has, and with all of them in namespaces of its own.
func helpLeave(args []string) int {
	for _, own := range []bool{false, true} {
		for _, a := range leaveAttacks {
			c := exec.Command("/proc/self/exe", a.name, args[0])
			c.Env = append(os.Environ(), helperEnv+"=leaveattack")
			if own {
				c.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
					UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
					GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
				}
			}
			out, err := c.CombinedOutput()
			fmt.Printf("%s, own namespaces %v: %s", a.name, own, out)
			if err != nil {
				fmt.Print(" ", err)
			}
			fmt.Println()
		}
	}
	return 0
}

// helpLeaveAttack tries an attack. With a third argument it does that as a control: its root is a directory of the
// host's root, or covers that.
func helpLeaveAttack(args []string) int {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // which setns(2) wants
		fmt.Print(err)
		return 1
	}
	if len(args) == 3 {
		if err := controlRoot(filepath.Dir(args[1])+"/at", args[2]); err != nil {
			fmt.Print("the control: ", err)
			return 1
		}
	}
	i := slices.IndexFunc(leaveAttacks, func(a leaveAttack) bool { return a.name == args[0] })
	if err := leaveAttacks[i].try(args[1]); err != nil {
		fmt.Print(err)
		return 0
	}
	fmt.Print("WON")
	return 0
}

// controlRoot makes a root that can be left: this process has all capabilities in the namespace.
func controlRoot(at, kind string) error {
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("t", at, "tmpfs", 0, ""),
		os.MkdirAll(at+"/a/b", 0o755), os.Mkdir(at+"/at", 0o755), os.Mkdir(at+"/proc", 0o755),
		unix.Mount("/proc", at+"/proc", "", unix.MS_BIND|unix.MS_REC, ""), os.Chdir(at))
	if kind == "covers" {
		return errors.Join(err, unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."))
	}
	return errors.Join(err, unix.Chroot("."), os.Chdir("/"))
}

type leaveAttack struct {
	name string
	try  func(secret string) error
	// control is the kind of root by which the attack succeeds; "free": it succeeds here. Empty: there is none.
	control string
}

// readSecret reads the secret below a directory.
func readSecret(dir, secret string) error {
	b, err := os.ReadFile(dir + secret)
	if err == nil && string(b) != "secret" {
		return unix.ENODATA
	}
	return err
}

// steps does one step after the other until one fails.
func steps(list ...func() error) error {
	for _, f := range list {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

var leaveAttacks []leaveAttack

func init() {
	up := strings.Repeat("../", 100)
	chdir := func(dir string) func() error { return func() error { return unix.Chdir(dir) } }
	chroot := func(dir string) func() error { return func() error { return unix.Chroot(dir) } }
	umount := func(at string, flags int) func() error { return func() error { return unix.Unmount(at, flags) } }
	mount := func(from, to string, flags uintptr) func() error {
		return func() error { return unix.Mount(from, to, "", flags, "") }
	}
	read := func(dir, secret string) func() error { return func() error { return readSecret(dir, secret) } }
	// enter enters the process's own mount namespace once more: its root is what is mounted topmost.
	enter := func(then ...func() error) error {
		ns, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		first, last := then[:len(then)-1], then[len(then)-1]
		prepared, entered := steps(first...), unix.Setns(ns, unix.CLONE_NEWNS)
		if err := last(); err != nil {
			return fmt.Errorf("%v, %v, %w", prepared, entered, err)
		}
		return nil
	}
	leaveAttacks = []leaveAttack{
		{"what is inside", func(string) error { return readSecret("/", "free") }, "free"},
		{"..", func(s string) error { return readSecret("/"+up+".", s) }, ""},
		{"chroot", func(s string) error { return steps(chroot("a"), chdir(up), read(".", s)) }, "directory"},
		{"chroot twice", func(s string) error {
			return steps(chroot("a"), chdir("/"), chroot("b"), chdir(up), chroot("."), read(".", s))
		}, "directory"},
		{"a kept descriptor", func(s string) error {
			fd, err := unix.Open("/", unix.O_PATH, 0)
			return steps(func() error { return err }, chroot("a"), chdir("/b"), func() error { return unix.Fchdir(fd) }, chdir(up), read(".", s))
		}, "directory"},
		{"the root of PID 1", func(s string) error { return readSecret("/proc/1/root", s) }, ""},
		{"above the root of PID 1", func(s string) error { return readSecret("/proc/1/root/"+up+".", s) }, ""},
		{"the directory of PID 1", func(s string) error { return readSecret("/proc/1/cwd/"+up+".", s) }, ""},
		{"the namespace of PID 1", func(s string) error {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
			return steps(func() error { return err }, func() error { return unix.Setns(fd, unix.CLONE_NEWNS) }, read("/", s))
		}, ""},
		{"its own namespace", func(s string) error { return enter(read("/", s)) }, "directory"},
		{"umount", func(s string) error { return enter(umount("/", 0), read("/", s)) }, ""},
		{"umount -l", func(s string) error { return enter(umount("/", unix.MNT_DETACH), read("/", s)) }, "covers"},
		{"private, umount -l", func(s string) error {
			return enter(mount("", "/", unix.MS_PRIVATE|unix.MS_REC), umount("/", unix.MNT_DETACH), read("/", s))
		}, "covers"},
		{"move of the root", func(s string) error { return enter(mount("/", "/at", unix.MS_MOVE), read("/", s)) }, ""},
		{"pivot_root, umount -l", func(s string) error {
			return enter(mount("/a", "/a", unix.MS_BIND), chdir("/a"), func() error { return unix.PivotRoot(".", ".") },
				umount("/", unix.MNT_DETACH), umount("/", unix.MNT_DETACH), read("/", s))
		}, "covers"},
		{"a copy of the root, and above", func(s string) error {
			return steps(mount("/", "/at", unix.MS_BIND|unix.MS_REC), chroot("/at/a"), chdir(up), read(".", s))
		}, "directory"},
		{"a detached root, and above", func(s string) error {
			fd, err := openTree("/", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE)
			return steps(func() error { return err }, chroot("a"), func() error { return unix.Fchdir(fd) }, chdir(up), read(".", s))
		}, ""},
	}
}

// TestFixedRoot: a sandbox whose root covers the host's cannot be left, with all capabilities but CAP_SYS_ADMIN, and
// with all of them in namespaces of the command.
func TestFixedRoot(t *testing.T) {
	leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "secret: secret", "at/")
	secret := dir + "/secret"
	run := func(flags uintptr, name string, args ...string) string {
		t.Helper()
		c := exec.Command(exe, args...)
		c.Env = append(os.Environ(), helperVars(name)...)
		if flags != 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
			if flags&unix.CLONE_NEWUSER != 0 {
				c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
				c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
			}
		}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s %q: %v", name, args, err)
		}
		return strings.TrimSpace(string(out))
	}
	for _, a := range leaveAttacks {
		if a.control == "" || a.control == "free" {
			continue
		}
		if got := run(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, "leaveattack", a.name, secret, a.control); got != "WON" {
			t.Errorf("%s: the control: %s", a.name, got)
		}
	}
	bothWays(t, func(t *testing.T, classic bool) {
		form := map[bool]string{false: "new", true: "classic"}[classic]
		for _, users := range []string{"own", "shared"} {
			if users == "shared" && !testenv.Root() {
				continue
			}
			for _, fixed := range []bool{false, true} {
				name, args := "covered", []string{form, "usual", users, secret}
				if fixed {
					name, args = "fixed", append([]string{"covered"}, args...)
				}
				got := run(0, name, args...)
				if n := strings.Count(got, "\n") + 1; n != 2*len(leaveAttacks) || strings.Count(got, "WON") != 2 {
					t.Errorf("%s user namespace, the root is fixed: %v, %d lines:\n%s", users, fixed, n, got)
				}
				t.Log(got)
			}
			want := "prepare /: invalid argument (the root file system is an initramfs"
			if got := run(0, "fixed", "covered", form, "admin", users, secret); !strings.HasPrefix(got, want) {
				t.Errorf("with CAP_SYS_ADMIN, %s user namespace: %s", users, got)
			}
		}
	})
}
