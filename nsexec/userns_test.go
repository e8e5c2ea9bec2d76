//go:build linux

package nsexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// A command makes namespaces of its own and tries to reach files that its sandbox hides or protects. Each attack begins
// in a new process, so that its mounts do not affect the next one.

// inUserNamespace runs this binary again with all its capabilities in a new mount namespace. With own, it is also in a
// new user namespace. Without, as in the control, its capabilities are those in the sandbox's own user namespace.
func inUserNamespace(name string, own bool, args ...string) (string, error) {
	c := exec.Command("/proc/self/exe", args...)
	c.Env = append(os.Environ(), helperEnv+"="+name)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if own {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// helpUserns tries all attacks: the first argument says whether in another user namespace.
func helpUserns(args []string) int {
	for i := range usernsAttacks {
		out, err := inUserNamespace("usernsattack", args[0] == "own", append([]string{usernsAttacks[i].name}, args[1:]...)...)
		if err != nil {
			out += " " + err.Error()
		}
		fmt.Printf("%s: %s\n", usernsAttacks[i].name, out)
	}
	return 0
}

// scene is what attacks aim at: a file and a directory that are covered, a name that an overlay hides, and a read-only
// directory.
type scene struct{ dir, file, closed, home, readOnly string }

func sceneOf(dir string) scene {
	return scene{dir, dir + "/covered/file", dir + "/covered/dir", dir + "/home", dir + "/ro"}
}

func helpUsernsAttack(args []string) int {
	i := slices.IndexFunc(usernsAttacks[:], func(a usernsAttack) bool { return a.name == args[0] })
	s := sceneOf(args[1])
	if err := os.Mkdir("/tmp/at", 0o700); err != nil && !os.IsExist(err) {
		fmt.Print(err)
		return 1
	}
	if err := usernsAttacks[i].try(s); err != nil {
		fmt.Print(err)
		return 0
	}
	fmt.Print("WON")
	return 0
}

// secretAt reads a secret below another view of the scene.
func secretAt(root string, s scene, name string) error {
	b, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(name, s.dir)))
	if err == nil && string(b) != "secret" {
		return unix.ENODATA
	}
	return err
}

func someSecret(root string, s scene) error {
	var first error
	for _, name := range [...]string{s.file, s.closed + "/inside", s.home + "/.secret"} {
		err := secretAt(root, s, name)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func openTree(path string, flags uint) (int, error) { return unix.OpenTree(unix.AT_FDCWD, path, flags) }

func writeReadOnly(dir string) error { return os.WriteFile(dir+"/written", []byte("x"), 0o600) }

type usernsAttack struct {
	name string
	try  func(s scene) error
	// free says that there is nothing to win: it works, so that the others are known to have had their chance.
	free bool
	// alone says that the control cannot show it: nothing that it lacks is what stops it.
	alone bool
}

var usernsAttacks [25]usernsAttack

func init() {
	const detached = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	first := func(errs ...error) error {
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
	usernsAttacks = [...]usernsAttack{
		{name: "tmpfs", free: true, try: func(scene) error { return unix.Mount("t", "/tmp/at", "tmpfs", 0, "") }},
		{name: "bind and pivot", free: true, try: func(s scene) error {
			return first(unix.Mount("/", "/tmp/at", "", unix.MS_BIND|unix.MS_REC, ""), unix.Chdir("/tmp/at"), unix.PivotRoot(".", "."),
				unix.Unmount(".", unix.MNT_DETACH), writeReadOnly("/tmp"))
		}},
		{name: "umount", try: func(s scene) error { return first(unix.Unmount(s.file, 0), someSecret(s.dir, s)) }},
		{name: "umount of a directory", try: func(s scene) error {
			return first(unix.Unmount(s.closed, unix.MNT_DETACH), secretAt(s.dir, s, s.closed+"/inside"))
		}},
		{name: "umount of an overlay", try: func(s scene) error {
			return first(unix.Unmount(s.home, unix.MNT_DETACH), secretAt(s.dir, s, s.home+"/.secret"))
		}},
		{name: "umount -l /", alone: true, try: func(s scene) error { return first(unix.Unmount("/", unix.MNT_DETACH), someSecret(s.dir, s)) }},
		{name: "remount", try: func(s scene) error {
			return first(unix.Mount("", s.readOnly, "", unix.MS_REMOUNT|unix.MS_BIND, ""), writeReadOnly(s.readOnly))
		}},
		{name: "mount_setattr", try: func(s scene) error {
			attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
			return first(unix.MountSetattr(unix.AT_FDCWD, s.readOnly, 0, &attr), writeReadOnly(s.readOnly))
		}},
		{name: "bind of the parent", try: func(s scene) error {
			return first(unix.Mount(s.dir, "/tmp/at", "", unix.MS_BIND, ""), someSecret("/tmp/at", s))
		}},
		{name: "bind, then remount", try: func(s scene) error {
			return first(unix.Mount(s.readOnly, "/tmp/at", "", unix.MS_BIND, ""), unix.Mount("", "/tmp/at", "", unix.MS_REMOUNT|unix.MS_BIND, ""), writeReadOnly("/tmp/at"))
		}},
		{name: "bind of the tree, then umount", try: func(s scene) error {
			return first(unix.Mount(s.dir, "/tmp/at", "", unix.MS_BIND|unix.MS_REC, ""), unix.Unmount("/tmp/at/covered/file", 0), secretAt("/tmp/at", s, s.file))
		}},
		{name: "private, then umount", try: func(s scene) error {
			return first(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), unix.Unmount(s.file, 0), secretAt(s.dir, s, s.file))
		}},
		{name: "move of a cover", try: func(s scene) error {
			return first(unix.Mount(s.closed, "/tmp/at", "", unix.MS_MOVE, ""), secretAt(s.dir, s, s.closed+"/inside"))
		}},
		{name: "move_mount of a cover", try: func(s scene) error {
			return first(unix.MoveMount(unix.AT_FDCWD, s.closed, unix.AT_FDCWD, "/tmp/at", 0), secretAt(s.dir, s, s.closed+"/inside"))
		}},
		{name: "open_tree of the parent", try: func(s scene) error {
			fd, err := openTree(s.dir, detached)
			return first(err, func() error { return someSecret(fmt.Sprint("/proc/self/fd/", fd), s) }())
		}},
		{name: "open_tree, writable", try: func(s scene) error {
			fd, err := openTree(s.readOnly, detached)
			if err != nil {
				return err
			}
			attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
			return first(unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr), writeReadOnly(fmt.Sprint("/proc/self/fd/", fd)))
		}},
		{name: "overlay over the parent", try: func(s scene) error {
			return first(unix.Mount("o", "/tmp/at", "overlay", 0, "lowerdir="+s.dir+":/tmp,userxattr"), someSecret("/tmp/at", s))
		}},
		{name: "overlay over the root", alone: true, try: func(s scene) error {
			return first(unix.Mount("o", "/tmp/at", "overlay", 0, "lowerdir=/:/tmp,userxattr"), someSecret("/tmp/at"+s.dir, s))
		}},
		{name: "parent user namespace", alone: true, try: func(s scene) error {
			fd, err := unix.Open("/proc/self/ns/user", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			parent, err := unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
			return first(err, unix.Setns(parent, unix.CLONE_NEWUSER), unix.Unmount(s.file, 0))
		}},
		{name: "sysfs", alone: true, try: func(scene) error {
			return first(unix.Mount("s", "/tmp/at", "sysfs", 0, ""), writeReadOnly("/tmp/at/kernel"))
		}},
		{name: "namespace of PID 1", alone: true, try: func(s scene) error {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
			return first(err, unix.Setns(fd, unix.CLONE_NEWNS), someSecret(s.dir, s))
		}},
		{name: "cgroup2", alone: true, try: func(scene) error { return unix.Mount("c", "/tmp/at", "cgroup2", 0, "") }},
		{name: "cgroup namespace", alone: true, try: func(scene) error { return unix.Unshare(unix.CLONE_NEWCGROUP) }},
		{name: "device", alone: true, try: func(scene) error { return unix.Mknod("/tmp/at/null", unix.S_IFCHR|0o666, 1<<8|3) }},
		{name: "set-user-id", alone: true, try: func(scene) error {
			return first(os.WriteFile("/tmp/at/f", nil, 0o700), unix.Chmod("/tmp/at/f", 0o4755))
		}},
	}
}

// TestUserNamespaces: in namespaces of its own, a command gains nothing that its sandbox denies it. The control runs
// the same attacks with capabilities in the sandbox's own user namespace, which owns the mounts.
func TestUserNamespaces(t *testing.T) {
	testenv.NeedUser(t) // root, without capabilities, can map no id
	leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "covered/file: secret", "covered/dir/inside: secret", "home/.secret: secret", "home/seen: seen", "ro/upper/", "ro/work/")
	s := sceneOf(dir)
	// By default nobody makes a user namespace.
	c := helper("userns", "own", dir)
	c.Mounts = base(mounts.Tmpfs("/tmp"), mounts.ROBind(exe, exe))
	c.Seccomp = []nsexec.Filter{nsexec.FilterOptions{}.Filter()}
	if out := output(t, c); strings.Contains(out, "WON") || !strings.Contains(out, "operation not permitted") {
		t.Errorf("by default:\n%s", out)
	}
	// Before 5.14 an overlay of the command's shows what a mount covers: a Runner refuses such a Config.
	need(t, features.LockedLayers)
	need(t, features.Overlay)
	run := func(where string, change func(c *nsexec.Cmd)) map[string]string {
		c := helper("userns", where, dir)
		c.Mounts = base(mounts.Tmpfs("/tmp"), mounts.Bind(dir, dir), mounts.ROBind(s.readOnly, s.readOnly), mounts.Block(s.file), mounts.Block(s.closed),
			mounts.Mount{Kind: mounts.KindOverlay, Target: s.home, Lower: []string{s.home}, Hide: []string{".secret"}, ReadOnly: true}, mounts.ROBind(exe, exe))
		change(c)
		got := make(map[string]string)
		for line := range strings.Lines(output(t, c)) {
			name, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
			got[name] = result
		}
		return got
	}
	got := run("own", func(c *nsexec.Cmd) {
		c.Seccomp = []nsexec.Filter{nsexec.FilterOptions{UserNamespaces: true}.Filter()}
		c.Share = nsexec.Cgroup
	})
	control := run("same", func(c *nsexec.Cmd) { c.Capabilities = nsexec.AllCapabilities(); c.Share = nsexec.Cgroup })
	for _, a := range usernsAttacks {
		if won := got[a.name] == "WON"; won != a.free {
			t.Errorf("%s: %q", a.name, got[a.name])
		}
		if !a.alone && control[a.name] != "WON" {
			t.Errorf("%s: the control does not win: %q", a.name, control[a.name])
		}
		t.Logf("%-50s %-40s %s", a.name, got[a.name], control[a.name])
	}
	if b, err := os.ReadDir(s.readOnly); err != nil || len(b) > 3 {
		t.Errorf("%v, %v", b, err)
	}
}
