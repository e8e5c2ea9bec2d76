//go:build linux

package nsexec_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

func tmpfs(at string) mounts.Mount { return mounts.Tmpfs(at) }

// system is what programs need to run, on an otherwise empty root.
func system(more ...mounts.Mount) mounts.Plan {
	p := mounts.Plan{mounts.Tmpfs("/"), mounts.ROBind("/usr", "/usr")}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if link, err := os.Readlink("/" + name); err == nil {
			p = append(p, mounts.Symlink(link, "/"+name))
		} else {
			p = append(p, mounts.ROBind("/"+name, "/"+name).Try())
		}
	}
	return append(p, more...)
}

// in is a script in the given file system.
func in(classic bool, plan mounts.Plan, script string) *nsexec.Cmd {
	c := nsexec.Command("/bin/sh", "-c", script)
	c.Mounts, sandbox.Of(c).ClassicMounts = plan, classic
	c.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	return c
}

// try is a shell function: whether a command works.
const try = `try() { "$@" >/dev/null 2>&1 && echo yes || echo no; }; `

// TestKinds mounts every kind, on the host's root and on an empty one.
func TestKinds(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "src/f: text", "src/sub/g: deep", "upper/", "work/", "low1/a: one", "low1/both: 1", "low2/b: two", "low2/both: 2",
			"up2/", "work2/", "secret/key: hidden", "pointer => secret", "noexec")
		at := func(name string) string { return filepath.Join(dir, name) }
		write(t, 0o755, "#!/bin/sh\necho ran\n", at("src/run"))
		for n, c := range []struct {
			name   string
			plan   mounts.Plan
			script string
			want   string
		}{
			{"bind", mounts.Plan{mounts.Bind(at("src"), "/mnt/s")}, "cat /mnt/s/f /mnt/s/sub/g; /mnt/s/run; echo new > /mnt/s/new; cat /mnt/s/new; rm /mnt/s/new", "textdeepran\nnew"},
			{"bind of a file", mounts.Plan{mounts.Bind(at("src/f"), "/mnt/file")}, "cat /mnt/file; stat -c ' %F' /mnt/file", "text regular file"},
			{"read-only bind", mounts.Plan{mounts.ROBind(at("src"), "/mnt/s")}, try + "cat /mnt/s/f; echo; try touch /mnt/s/f; try rm /mnt/s/f; try mkdir /mnt/s/d; try touch /mnt/s/sub/g", "text\nno\nno\nno\nno"},
			{"bind, then read-only below", mounts.Plan{mounts.Bind(at("src"), "/mnt/s"), mounts.ROBind(at("src/sub"), "/mnt/s/sub")}, try + "try touch /mnt/s/f; try touch /mnt/s/sub/g", "yes\nno"},
			{"read-only, then writable below", mounts.Plan{mounts.ROBind(at("src"), "/mnt/s"), mounts.Bind(at("src/sub"), "/mnt/s/sub")}, try + "try touch /mnt/s/f; try touch /mnt/s/sub/g", "no\nyes"},
			{"optional sources", mounts.Plan{mounts.Bind(at("none"), "/mnt/none").Try(), mounts.Bind(at("src"), "/mnt/s").Try()}, "ls /mnt", "s"},
			{"device in a bind", mounts.Plan{mounts.Bind("/dev/null", "/mnt/null")}, try + "try sh -c 'echo > /mnt/null'", "no"},
			{"device that may work", mounts.Plan{mounts.DevBind("/dev/null", "/mnt/null")}, try + "try sh -c 'echo > /mnt/null'", "yes"},
			{"parents", mounts.Plan{mounts.Bind(at("src"), "/mnt/a/b/c"), mounts.Tmpfs("/mnt/a/x/y")}, "cat /mnt/a/b/c/f; stat -c ' %a' /mnt/a/b /mnt/a/x | tr -d '\\n'", "text 755 755"},
			{"tmpfs", mounts.Plan{mounts.Tmpfs("/mnt/t"), mounts.Tmpfs("/mnt/s").WithPerm(fs.ModeSticky | 0o777), mounts.Tmpfs("/mnt/r").RO()}, try + "stat -c '%a %i' /mnt/t /mnt/s | cut -d' ' -f1; try touch /mnt/t/f; try touch /mnt/r/f", "755\n1777\nyes\nno"},
			{"tmpfs with a size", mounts.Plan{mounts.Tmpfs("/mnt/t").WithSize(64 << 10)}, try + "try head -c 1000 /mnt/t; try sh -c 'head -c 100000 /dev/zero > /mnt/t/f'; stat -fc '%b %S' /mnt/t", "no\nno\n16 4096"},
			{"dir", mounts.Plan{mounts.Dir("/mnt/d"), mounts.Dir("/mnt/e/f").WithPerm(0o700), mounts.Dir("/mnt/d")}, "stat -c '%F %a' /mnt/d /mnt/e /mnt/e/f", "directory 755\ndirectory 755\ndirectory 700"},
			{"dir where a link leads to one", mounts.Plan{mounts.Dir("/mnt/d"), mounts.Symlink("d", "/mnt/l"), mounts.Dir("/mnt/l")}, "readlink /mnt/l", "d"},
			{"file", mounts.Plan{mounts.File("/mnt/f", []byte("a\x00b")), mounts.File("/mnt/d/g", nil).WithPerm(0o600)}, "od -An -c /mnt/f | tr -s ' '; stat -c '%a %s' /mnt/f /mnt/d/g", " a \\0 b\n644 3\n600 0"},
			{"file over a file", mounts.Plan{mounts.File("/mnt/f", []byte("long text")), mounts.File("/mnt/f", []byte("short"))}, "cat /mnt/f", "short"},
			{"symlink", mounts.Plan{mounts.Symlink("/no where", "/mnt/l"), mounts.Symlink("/no where", "/mnt/l"), mounts.Symlink("x", "/mnt/d/l")}, "readlink /mnt/l /mnt/d/l", "/no where\nx"},
			{"chmod", mounts.Plan{mounts.Dir("/mnt/d"), mounts.Chmod(0o1770|fs.ModeSticky, "/mnt/d"), mounts.Chmod(0o700, "/mnt/none").Try(), mounts.Chmod(0o711, "/mnt")}, "stat -c '%a' /mnt/d /mnt", "1770\n711"},
			{"remount", mounts.Plan{mounts.Tmpfs("/mnt/t"), mounts.File("/mnt/t/f", []byte("x")), mounts.Remount("/mnt/t"), mounts.Remount("/mnt/none").Try()}, try + "cat /mnt/t/f; try touch /mnt/t/f; try touch /mnt/f", "xno\nyes"},
			{"overlay", mounts.Plan{mounts.Overlay("/mnt/o", at("upper"), at("work"), at("low1"), at("low2"))}, "cd /mnt/o; cat a b both; echo changed > a; rm b; echo; ls | tr '\\n' ' '", "onetwo1\na both "},
			{"read-only overlay", mounts.Plan{mounts.ROOverlay("/mnt/o", at("low2"), at("low1"))}, try + "cd /mnt/o; cat a b both; try touch a", "onetwo2no"},
			{"overlay over an overlay, with texts", mounts.Plan{
				{Kind: mounts.KindOverlay, Target: "/mnt/o", Lower: []string{at("low1")}, ReadOnly: true, Hide: []string{"both"}, Texts: []mounts.Text{{Path: "a", Data: []byte("text")}, {Path: "d/t", Data: []byte("deep"), Perm: 0o640}}},
				{Kind: mounts.KindOverlay, Target: "/mnt/o", Lower: []string{at("low2")}, Upper: at("upper"), Work: at("work"), Over: true},
			}, "cd /mnt/o; cat a b both d/t; stat -c ' %a' a d/t | tr -d '\\n'; echo new >a; rm both; cat a; ls | tr '\\n' ' '", "texttwo2deep 600 640new\na b d "},
			{"block", mounts.Plan{mounts.Block(at("secret")), mounts.Block(at("none")), mounts.Block(at("noexec"))}, try + "try ls " + at("secret") + "; try cat " + at("secret/key") + "; try cat " + at("noexec") + "; try touch " + at("secret/x"), "no\nno\nno\nno"},
			{"block through a link", mounts.Plan{mounts.Block(at("pointer"))}, try + "try cat " + at("secret/key"), "no"},
			{"proc", nil, try + "cat /proc/1/comm >/dev/null && echo seen; try test -e /proc/sys/kernel; ls -d /proc/[0-9]* | wc -l | grep -qx '[1-6]' && echo few; try sh -c 'echo h > /proc/sys/kernel/hostname'; try sh -c 'echo s > /proc/sysrq-trigger'", "seen\nyes\nfew\nno\nno"},
			{"dev", nil, try + "echo x > /dev/null; head -c 2 /dev/zero | od -An -tx1; head -c 4 /dev/urandom | wc -c; try sh -c 'echo > /dev/full'; try test -c /dev/ptmx; try touch /dev/shm/x; readlink /dev/fd /dev/stdin; stat -c %a /dev/shm; try test -e /dev/kmsg; try test -e /dev/vda; try mknod /dev/x c 1 3",
				" 00 00\n4\nno\nyes\nyes\n/proc/self/fd\n/proc/self/fd/0\n1777\nno\nno\nno"},
			{"the host's root, elsewhere", mounts.Plan{mounts.ROBind("/", "/mnt/host")}, try + "try test -e /mnt/host" + dir + "/secret; try test -e /mnt/host/mnt/host; ls -d /mnt/host/../host /..", "yes\nno\n/..\n/mnt/host/../host"},
			{"mqueue", mounts.Plan{mounts.Mqueue("/mnt/mq")}, "stat -fc %T /mnt/mq; touch /mnt/mq/q && ls /mnt/mq", "mqueue\nq"},
		} {
			for k, root := range []struct {
				name string
				plan mounts.Plan
			}{{"host", base()}, {"empty", system(mounts.Proc("/proc"), mounts.Dev("/dev"), mounts.Dir("/mnt"), mounts.Bind(dir, dir))}} {
				if !testenv.Turn(n + k) {
					continue
				}
				t.Run(c.name+" on "+root.name, func(t *testing.T) {
					if strings.HasPrefix(c.name, "overlay") || strings.HasPrefix(c.name, "read-only overlay") {
						need(t, features.Overlay)
					}
					if c.name == "mqueue" && !strings.Contains(filesystems(t), "mqueue") {
						testenv.Skip(t, "mqueue", "this kernel has none")
					}
					for _, d := range []string{"upper", "work"} {
						// The kernel's own directory there has mode 0.
						_ = os.Chmod(at(d+"/work"), 0o700)
						if err := os.RemoveAll(at(d)); err != nil {
							t.Fatal(err)
						}
						if err := os.Mkdir(at(d), 0o755); err != nil {
							t.Fatal(err)
						}
					}
					if c.name == "block through a link" && root.name == "empty" {
						// The link is where a command can put one.
						err := in(classic, append(append(mounts.Plan{}, root.plan...), c.plan...), c.script).Run()
						wantError(t, err, "block", at("pointer"), unix.ELOOP)
						return
					}
					check(t, in(classic, append(append(mounts.Plan{}, root.plan...), c.plan...), c.script), c.want)
				})
			}
		}
		if b, _ := os.ReadFile(at("low1/a")); string(b) != "one" {
			t.Errorf("the overlay's lower directory has %q", b)
		}
	})
}

// TestProcOfRoot: what in a procfs is the whole host's, root cannot write to.
func TestProcOfRoot(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		for _, share := range []nsexec.Namespace{0, nsexec.User} {
			for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "asound", "acpi", "scsi", "mtrr", "driver", "dynamic_debug"} {
				if !exists("/proc", name) {
					continue // this kernel has none
				}
				c := in(classic, base(), "grep ' /proc/"+name+" ' /proc/self/mountinfo | cut -d' ' -f6; cat /proc/self/comm")
				c.Share = share
				if got := output(t, c); !strings.HasPrefix(got, "ro,nosuid,nodev,noexec") {
					t.Errorf("share %b: /proc/%s is mounted %q", share, name, got)
				}
			}
		}
	})
}

func filesystems(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// need skips where the kernel lacks a feature.
func need(t testing.TB, name features.Name) {
	t.Helper()
	if f := features.Get(name); f.Status == features.No {
		testenv.Skip(t, string(f.Name), f.Why)
	}
}

// TestOverlayNames: names that an overlay's options would take apart.
func TestOverlayNames(t *testing.T) {
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		long := "/" + strings.Repeat("x", 200)
		for _, odd := range []string{long + long, "a:b", `a\b`, "a,b", "a=b", "a b", "a\nb", `a\:,b`} {
			low, up, work := filepath.Join(dir, "l"+odd), filepath.Join(dir, "u"+odd), filepath.Join(dir, "w"+odd)
			testenv.Tree(t, low, "f: lower")
			testenv.Tree(t, up, "./")
			testenv.Tree(t, work, "./")
			c := in(classic, base(mounts.Overlay("/mnt/o", up, work, low)), "cat /mnt/o/f; echo new > /mnt/o/new")
			got := output(t, c)
			_ = os.Chmod(filepath.Join(work, "work"), 0o700)
			if got != "lower" || !exists(up, "new") {
				t.Errorf("%q: got %q, written to the upper directory: %v", odd, got, exists(up, "new"))
			}
		}
	})
}

// TestOverlayOverMounts: what is mounted on a lower directory an overlay in a new
// user namespace may not uncover, and the error says so.
func TestOverlayOverMounts(t *testing.T) {
	testenv.NeedRoot(t)
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "low/m/", "other/")
		low, other := filepath.Join(dir, "low"), filepath.Join(dir, "other")
		hostTmpfs(t, filepath.Join(low, "m"), 0)
		err := in(classic, base(mounts.ROOverlay("/mnt/o", low, other)), "true").Run()
		wantError(t, err, "overlay", "/mnt/o", unix.EINVAL)
		if err != nil && !strings.Contains(err.Error(), "another mount inside") {
			t.Errorf("the error does not say why: %v", err)
		}
		c := in(classic, base(mounts.ROOverlay("/mnt/o", low, other)), "true")
		c.Share = nsexec.User
		check(t, c, "")
	})
}

// TestEmptyPlan: nothing of the host is there.
func TestEmptyPlan(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		c := in(classic, system(), "echo /*; umask; pwd")
		got := output(t, c)
		for word := range strings.FieldsSeq(strings.SplitN(got, "\n", 2)[0]) {
			switch word {
			case "/usr", "/bin", "/lib", "/lib64", "/sbin":
			default:
				t.Errorf("there is %s", word)
			}
		}
		if !strings.HasSuffix(got, "\n/") {
			t.Errorf("got %q", got)
		}
	})
}

// TestMountPoints: what a Plan makes in a bind is made on the host, and no
// more than that.
func TestMountPoints(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/", "f: x")
		ws := filepath.Join(dir, "ws")
		c := in(classic, base(mounts.Bind(ws, ws), mounts.ROBind(filepath.Join(dir, "f"), filepath.Join(ws, "a/file")), mounts.Tmpfs(filepath.Join(ws, "b"))), "cat "+ws+"/a/file; touch "+ws+"/b/in-tmpfs")
		check(t, c, "x")
		var left []string
		err := filepath.WalkDir(ws, func(p string, d fs.DirEntry, err error) error {
			fi, _ := d.Info()
			left = append(left, fmt.Sprint(strings.TrimPrefix(p, ws), " ", fi.Mode().IsRegular(), " ", fi.Size()*b2i(fi.Mode().IsRegular())))
			return err
		})
		if want := []string{" false 0", "/a false 0", "/a/file true 0", "/b false 0"}; err != nil || fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q, %v", left, want, err)
		}
	})
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// hostTmpfs mounts a tmpfs on the host (on the tests' own copy of its mounts).
func hostTmpfs(t testing.TB, at string, flags uintptr) {
	t.Helper()
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", flags, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestRecursion: mounts below a bind are part of it, or not.
func TestRecursion(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		hostTmpfs(t, filepath.Join(dir, "m"), 0)
		write(t, 0o644, "x", dir, "m/f")
		hostTmpfs(t, filepath.Join(dir, "m/deeper"), 0)
		write(t, 0o644, "y", dir, "m/deeper/g")
		check(t, in(classic, base(mounts.Bind(dir, "/mnt/d")), "cat /mnt/d/m/f /mnt/d/m/deeper/g"), "xy")
		flat := mounts.Bind(dir, "/mnt/d")
		flat.NonRecursive = true
		c := in(classic, base(flat), "ls /mnt/d/m")
		wantError(t, c.Run(), "bind", map[bool]string{false: dir, true: "/mnt/d"}[classic], unix.EINVAL) // would show what m covers
		c = in(classic, base(flat), "ls /mnt/d/m")
		c.Share = nsexec.User // which may look there anyway
		check(t, c, "")
	})
}
