//go:build linux

package nsexec_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Attacks, each with a control that shows that it works where nothing is done
// against it.

// TestLinkInParent: a link in the workspace, in the parents of a target, makes
// nothing on the host.
func TestLinkInParent(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "outside/", "ws/")
		ws, outside := filepath.Join(dir, "ws"), filepath.Join(dir, "outside")
		up := strings.Repeat("../", 20)
		for _, link := range []string{outside, "../outside", "/proc/self/root" + outside, "/proc/1/root" + outside, "/proc/self/cwd/" + up + outside, up + outside} {
			l := filepath.Join(ws, "link")
			_ = os.Remove(l)
			if err := os.Symlink(link, l); err != nil {
				t.Fatal(err)
			}
			for _, root := range []mounts.Plan{base(mounts.Bind(ws, ws)), system(mounts.Proc("/proc"), mounts.Bind(ws, ws))} {
				for _, m := range []mounts.Mount{
					mounts.Tmpfs(l + "/newdir"), mounts.Bind(ws, l+"/newdir"), mounts.Bind("/etc/passwd", l+"/newdir/f"), mounts.Dir(l + "/newdir"),
					mounts.File(l+"/newdir", nil), mounts.Symlink("x", l+"/newdir"), mounts.Dev(l + "/newdir"), mounts.Proc(l + "/newdir"),
				} {
					c := in(classic, append(append(mounts.Plan{}, root...), m), "true")
					err := c.Run()
					if e, ok := errors.AsType[*nsexec.Error](err); err != nil && !ok {
						t.Errorf("%v: %v", m, e)
					}
					if exists(outside, "newdir") {
						t.Fatalf("%s, %s: something was made on the host", link, m.Kind)
					}
				}
			}
		}
		// Control: a program that follows the link outside creates it there.
		_ = os.Remove(filepath.Join(ws, "link"))
		testenv.Tree(t, ws, "link => ../outside")
		if err := os.MkdirAll(filepath.Join(ws, "link/newdir"), 0o755); err != nil || !exists(outside, "newdir") {
			t.Errorf("the control: %v", err)
		}
	})
}

// TestLinkAtTarget: a target that is a link is refused, whatever it leads to.
func TestLinkAtTarget(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/d/", "ws/abs => /etc", "ws/rel => d", "ws/loop => loop", "ws/dangling => nowhere", "ws/magic => /proc/self/fd/0")
		ws := filepath.Join(dir, "ws")
		for _, name := range []string{"abs", "rel", "loop", "dangling", "magic"} {
			target := filepath.Join(ws, name)
			for _, m := range []mounts.Mount{
				mounts.Tmpfs(target), mounts.Bind(ws, target), mounts.Bind("/etc/passwd", target), mounts.Dev(target), mounts.Proc(target), mounts.File(target, nil),
				mounts.Data(target, nil), mounts.TmpOverlay(target, ws), mounts.ROOverlay(target, ws, "/usr"), mounts.Chmod(0o777, target), mounts.Remount(target),
			} {
				c := in(classic, base(mounts.Bind(ws, ws), m), "true")
				err := c.Run()
				if m.Kind == mounts.KindChmod && errors.Is(err, syscall.EOPNOTSUPP) {
					continue // the mode of a link, which cannot be set
				}
				wantError(t, err, m.Kind.String(), target, syscall.ELOOP)
			}
		}
		if exists(ws, "nowhere") {
			t.Error("a dangling link was followed")
		}
		// Control: mount(2) follows.
		if testenv.Root() {
			if err := unix.Mount("tmpfs", filepath.Join(ws, "rel"), "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			if err := unix.Unmount(filepath.Join(ws, "d"), 0); err != nil {
				t.Errorf("the control did not follow the link: %v", err)
			}
		}
	})
}

// TestSourceLink: a link as a source is followed on the host once, and what it
// leads to is as read-only as was said.
func TestSourceLink(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "d/f: first", "e/f: second", "link => d")
		link := filepath.Join(dir, "link")
		c := in(classic, base(mounts.ROBind(link, "/mnt/l"), mounts.Bind(dir, dir)),
			try+"cat /mnt/l/f; rm "+link+"; ln -s e "+link+"; cat /mnt/l/f; try touch /mnt/l/f; cat "+link+"/f")
		check(t, c, "firstfirstno\nsecond")
	})
}

// TestSubmounts: what is mounted below a read-only root is read-only too, and
// what the host mounts later is not there at all.
func TestSubmounts(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		m := filepath.Join(dir, "m")
		hostTmpfs(t, m, 0)
		hostTmpfs(t, filepath.Join(m, "below"), 0)
		late := filepath.Join(dir, "late")
		testenv.Tree(t, dir, "late/")
		for _, caps := range []nsexec.Capabilities{0, nsexec.AllCapabilities()} {
			c := in(classic, base(mounts.ROBind(dir, "/mnt/dir")), try+"for f in "+m+" "+m+"/below /mnt/dir/m /mnt/dir/m/below; do try touch $f/x; done")
			c.Capabilities = caps
			check(t, c, "no\nno\nno\nno")
			// Only who may mount can take the flag away again.
			c = in(classic, base(mounts.ROBind(dir, "/mnt/dir")), try+"try mount -o remount,bind,rw "+m+"; try touch "+m+"/x; try mount -o remount,bind,rw /; try umount "+m)
			c.Capabilities = caps
			if out := output(t, c); caps == 0 && strings.Contains(out, "yes") {
				t.Errorf("without capabilities: %q", out)
			}
		}
		if f := write(t, 0o644, "", m, "below/control"); !exists(f) {
			t.Error("the control cannot write")
		}

		// Later mounts. The control is a namespace as unshare(1) makes it with
		// --propagation unchanged.
		script := "echo; read x; test -e " + late + "/f && echo there || echo absent"
		control := exec.Command("sh", "-c", script)
		control.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		cmd := in(classic, base(mounts.ROBind(dir, "/mnt/dir")), script+"; test -e /mnt/dir/late/f && echo there || echo absent")
		type process interface {
			Start() error
			Wait() error
		}
		var results []string
		for _, p := range []struct {
			process
			in, out func() (*os.File, error)
		}{
			{control, pipeTo(&control.Stdin), pipeFrom(&control.Stdout)},
			{cmd, pipeTo(&cmd.Stdin), pipeFrom(&cmd.Stdout)},
		} {
			stdin, err := p.in()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := p.out()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			closeFile(t, control.Stdin, control.Stdout, cmd.Stdin, cmd.Stdout)
			r := bufio.NewReader(stdout)
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			t.Run("later", func(t *testing.T) {
				hostTmpfs(t, late, 0)
				write(t, 0o644, "", late, "f")
				fmt.Fprintln(stdin)
				rest, _ := r.ReadString(0)
				results = append(results, rest)
			})
			if err := p.Wait(); err != nil {
				t.Error(err)
			}
			stdin.Close()
			stdout.Close()
		}
		if results[0] != "there\n" || results[1] != "absent\nabsent\n" {
			t.Errorf("the control says %q, the sandbox %q", results[0], results[1])
		}
	})
}

// TestClosedSubmounts: a mount in a directory that is closed to the caller, as
// debugfs and containers have them, stops nothing; the command does not reach it.
func TestClosedSubmounts(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		const someone = 4321 // without a number in the sandbox
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "closed/")
		closed := filepath.Join(dir, "closed")
		hostTmpfs(t, filepath.Join(closed, "m"), 0)
		hostTmpfs(t, filepath.Join(closed, "m/below"), 0)
		hostTmpfs(t, filepath.Join(dir, "open"), 0)
		if err := errors.Join(os.Chown(closed, someone, someone), os.Chmod(closed, 0o700)); err != nil {
			t.Fatal(err)
		}
		script := try + "for d in " + dir + " /mnt/dir; do try touch $d/closed/m/x; try touch $d/closed/m/below/x; try touch $d/open/x; done"
		reach := "stat -c %F /mnt/dir/closed/m 2>/dev/null || echo closed; "
		c := in(classic, base(mounts.ROBind(dir, "/mnt/dir")), reach+script)
		c.UIDMap, c.GIDMap = []nsexec.IDMap{{0, 0, 1}}, []nsexec.IDMap{{0, 0, 1}}
		c.Capabilities = nsexec.AllCapabilities()
		check(t, c, "closed\nno\nno\nno\nno\nno\nno")
		// Control: where someone has a number it is open to root, and read-only.
		c = in(classic, base(mounts.ROBind(dir, "/mnt/dir")), reach+script)
		c.Capabilities = nsexec.AllCapabilities()
		check(t, c, "directory\nno\nno\nno\nno\nno\nno")
	})
}

// TestFlagsStay: what the host's mounts do not allow, binds of them do not.
func TestFlagsStay(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		m := filepath.Join(dir, "m")
		hostTmpfs(t, m, unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NOATIME)
		hostTmpfs(t, filepath.Join(m, "below"), unix.MS_NOEXEC|unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSYMFOLLOW)
		write(t, 0o755, "#!/bin/sh\necho ran\n", m, "run")
		options := func(target string) string {
			return `awk '$5 == "` + target + `" {print $6}' /proc/self/mountinfo; `
		}
		for _, share := range []nsexec.Namespace{0, nsexec.User} {
			for _, c := range []struct {
				plan  mounts.Plan
				where string
			}{
				{base(), m},
				{base(mounts.Bind(dir, "/mnt/d")), "/mnt/d/m"},
				{base(mounts.ROBind(dir, "/mnt/d")), "/mnt/d/m"},
				{base(mounts.DevBind(m, "/mnt/m")), "/mnt/m"},
				{base(mounts.Bind(m, "/mnt/m"), mounts.Remount("/mnt/m")), "/mnt/m"},
				{base(mounts.Bind(dir, "/mnt/d"), mounts.Remount("/mnt/d/m"), mounts.Remount("/mnt/d/m/below")), "/mnt/d/m"},
			} {
				cmd := in(classic, c.plan, try+"try "+c.where+"/run; "+options(c.where)+options(c.where+"/below"))
				cmd.Share = share
				got := strings.Split(output(t, cmd), "\n")
				if len(got) != 3 || got[0] != "no" {
					t.Errorf("%v: got %q", c.plan[4:], got)
					continue
				}
				for i, want := range []string{"noexec nosuid noatime", "noexec ro nodev nosymfollow"} {
					for w := range strings.FieldsSeq(want) {
						if !strings.Contains(","+got[i+1]+",", ","+w+",") {
							t.Errorf("share %b, %v: %s lost %s: %s", share, c.plan[4:], c.where, w, got[i+1])
						}
					}
				}
			}
		}
	})
}

// TestDirThroughDescriptor: no descriptor of the host is open when the working
// directory is entered.
func TestDirThroughDescriptor(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for fd := range 100 {
			c := shell("/bin/pwd -P; ls ..")
			sandbox.Of(c).ClassicMounts = classic
			c.Dir = fmt.Sprintf("/proc/self/fd/%d", fd)
			err := c.Run()
			if e, ok := errors.AsType[*nsexec.Error](err); !ok || e.Op != nsexec.StepChdir {
				t.Errorf("%s: %v", c.Dir, err)
			}
		}
		for _, d := range []string{"/proc/self/root/..", "/proc/1/root", "/proc/self/cwd/../.."} {
			c := shell("/bin/pwd -P; cat /proc/self/mountinfo | grep -c ' / / '")
			sandbox.Of(c).ClassicMounts = classic
			c.Dir = d
			check(t, c, "/\n1")
		}
		// Control: a descriptor that is passed on purpose leads out.
		control := exec.Command("sh", "-c", "cd /proc/self/fd/3 && pwd -P")
		control.ExtraFiles = []*os.File{f}
		if out, err := control.Output(); strings.TrimSpace(string(out)) != dir {
			t.Errorf("the control's working directory is %q, %v", out, err)
		}
	})
}

// TestOverwriteRuntime: no process in the sandbox can open the file of the program that started it through a process
// that runs that program. PID 1 is such a process. Through the control, a process of the command's own, the file can be
// opened.
func TestOverwriteRuntime(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		for _, caps := range []nsexec.Capabilities{0, nsexec.AllCapabilities()} {
			c := in(classic, mounts.Plan{mounts.Bind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc"), mounts.Bind(dir, dir)},
				try+`try sh -c 'exec 3< /proc/1/exe'; try sh -c 'exec 3>> /proc/1/exe'; try readlink /proc/1/exe; ls -l /proc/1/map_files 2>/dev/null | grep -c exe; try sh -c 'exec 3< /proc/self/exe'`)
			c.Capabilities = caps
			check(t, c, "no\nno\nno\n0\nyes")
		}
		// Control: where it is not protected, a copy of a running program can be
		// overwritten as soon as it does not run any more, through a descriptor
		// opened while it ran.
		prog := filepath.Join(dir, "prog")
		b, err := os.ReadFile("/bin/cat")
		if err != nil {
			t.Fatal(err)
		}
		write(t, 0o755, string(b), prog)
		victim := exec.Command(prog)
		stdin, err1 := victim.StdinPipe()
		stdout, err2 := victim.StdoutPipe()
		if err := errors.Join(err1, err2, victim.Start()); err != nil {
			t.Fatal(err)
		}
		// Until it answers, its executable file may still be the test's.
		_, err1 = io.WriteString(stdin, "x")
		_, err2 = io.ReadFull(stdout, make([]byte, 1))
		held, err := os.Open(fmt.Sprintf("/proc/%d/exe", victim.Process.Pid))
		_ = victim.Process.Kill()
		_ = victim.Wait()
		err = errors.Join(err, err1, err2)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", held.Fd()), os.O_WRONLY, 0)
		if err != nil {
			t.Fatalf("the control: %v", err)
		}
		again.Close()
	})
}

// TestFIFO: a FIFO where a file was meant does not make the set-up hang.
func TestFIFO(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		fifo := filepath.Join(dir, "fifo")
		if err := unix.Mkfifo(fifo, 0o666); err != nil {
			t.Fatal(err)
		}
		wantError(t, in(classic, base(mounts.Bind(dir, dir), mounts.File(fifo, []byte("x"))), "true").Run(), "file", fifo, syscall.ENXIO)
		check(t, in(classic, base(mounts.Bind(dir, dir), mounts.Chmod(0o600, fifo)), "stat -c %a "+fifo), "600")
		check(t, in(classic, base(mounts.Bind(fifo, "/mnt/fifo"), mounts.Block(fifo)), try+"stat -c %F /mnt/fifo; try cat "+fifo), "fifo\nno")
	})
}

// TestDeviceNodes: devices work, and no process, not even root with its capabilities, can change the host's nodes
// through them. Nodes that are made beside them belong to the sandbox.
func TestDeviceNodes(t *testing.T) {
	const node = "/dev/full"
	before := lstat(t, node)
	// Whatever the attack does, the host's node is left as it was.
	t.Cleanup(func() {
		if os.Geteuid() == 0 {
			if err := os.Chmod(node, before.Mode().Perm()); err != nil {
				t.Error(err)
			}
		}
	})
	attacks := "try chmod 644 " + node + "; try chown 1:1 " + node + "; try touch -d @1 " + node
	bothWays(t, func(t *testing.T, classic bool) {
		for _, share := range []nsexec.Namespace{0, nsexec.User} {
			if share != 0 && os.Geteuid() != 0 {
				continue // nobody else can do without a user namespace
			}
			for _, caps := range []nsexec.Capabilities{0, 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER} {
				for name, plan := range map[string]mounts.Plan{
					"host": base(), "empty": system(mounts.Proc("/proc"), mounts.Dev("/dev"), mounts.Dir("/mnt")),
				} {
					c := in(classic, plan, try+attacks+"; try sh -c 'echo > /dev/null'; try sh -c 'echo >> /dev/null'; try sh -c ': <> /dev/zero'; try sh -c 'echo > "+node+"'; try touch /dev/own; try touch /dev/shm/own; try chmod 700 /dev/shm; grep -E ' /dev/(null|tty) ' /proc/self/mountinfo | cut -d' ' -f6")
					c.Share, c.Capabilities = share, caps
					got := output(t, c)
					flags, works := strings.CutPrefix(got, "no\nno\nno\nyes\nyes\nyes\nno\nyes\nyes\nyes\n")
					if !works || strings.Count(flags, "ro,nosuid") != 2 {
						t.Errorf("share %b, capabilities %x, %s: %q", share, uint64(caps), name, got)
					}
					if st := lstat(t, node); st.Mode() != before.Mode() || !st.ModTime().Equal(before.ModTime()) {
						t.Errorf("share %b, capabilities %x, %s: the host's node is %v, %v", share, uint64(caps), name, st.Mode(), st.ModTime())
					}
				}
			}
		}
	})
	// Control: through a writable bind root changes the host's inode. Of a node made
	// for that, which nobody else uses.
	if os.Geteuid() != 0 {
		return
	}
	own := filepath.Join(testenv.Dir(t), "node")
	if err := unix.Mknod(own, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 7))); err != nil {
		t.Fatal(err)
	}
	check(t, in(false, base(mounts.File("/mnt/node", nil), mounts.DevBind(own, "/mnt/node")), try+"try chmod 644 /mnt/node"), "yes")
	if st := lstat(t, own); st.Mode().Perm() != 0o644 {
		t.Errorf("the control left %v", st.Mode())
	}
}

func lstat(t testing.TB, name string) os.FileInfo {
	t.Helper()
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

// TestWayBack: the host's root is not to be found, not with all capabilities that
// the sandbox has.
func TestWayBack(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "secret: x", "shown/")
		hidden := mounts.Tmpfs(dir)
		for name, plan := range map[string]mounts.Plan{
			"host":  base(hidden),
			"empty": system(mounts.Proc("/proc"), mounts.Dev("/dev")),
		} {
			for _, caps := range []nsexec.Capabilities{0, nsexec.AllCapabilities()} {
				for _, p := range []string{"", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../..", "/../../..", "/proc/self/fd/0/../../.."} {
					c := in(classic, plan, try+"try cat "+p+dir+"/secret")
					c.Capabilities = caps
					check(t, c, "no")
				}
				c := in(classic, plan, try+"umount -l "+dir+" 2>/dev/null; umount -l / 2>/dev/null; try cat "+dir+"/secret; cd /.. && try cat ."+dir+"/secret")
				c.Capabilities = caps
				if out := output(t, c); out != "no\nno" && !(caps != 0 && name == "host") {
					t.Errorf("%s, capabilities %x: %q", name, uint64(caps), out)
				}
			}
		}
		check(t, in(classic, mounts.Plan{mounts.ROBind("/", "/")}, "cat "+dir+"/secret"), "x") // the control
	})
}

// TestChrootedCaller: a program with another root directory, which makes
// sandboxes without a user namespace (the kernel refuses it one), gives them no
// way to what is outside of it. What it mounts is in a namespace of its own.
func TestChrootedCaller(t *testing.T) {
	testenv.NeedRoot(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "secret", "root/inside", "root/exe", "root/dev/null", "root/proc/")
	run := func(helper []string, args ...string) string {
		t.Helper()
		c := exec.Command(exe, slices.Concat(helper[1:], []string{dir}, args)...)
		c.Env = append(os.Environ(), helperVars(helper[0])...)
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, root := range []string{"mount", "directory"} {
		bothWays(t, func(t *testing.T, classic bool) {
			form := map[bool]string{false: "new", true: "classic"}[classic]
			want := "inside\n"
			if classic && root == "directory" {
				want = "mount /: " + mounts.ErrRootNoMount.Error() + "\n"
			}
			for _, plan := range []string{"host", "built"} {
				for _, helper := range [][]string{{"chrooted"}, {"fixed", "chrooted"}} {
					if got := run(helper, root, plan, form); got != want {
						t.Errorf("%q: the root is a %s, plan %s: %q", helper, root, plan, got)
					}
				}
			}
		})
		if got := run([]string{"chrooted"}, root, "control"); got != "inside\noutside\n" {
			t.Errorf("the root is a %s, the control: %q", root, got)
		}
	}
	if !features.Has(features.NewMountCalls) {
		return // the classic form takes no directory
	}
	// Nobody climbs out of so many directories with one path.
	dir = filepath.Join(dir, strings.Repeat("d/", 1400))
	testenv.Tree(t, dir, "root/inside", "root/exe", "root/dev/null", "root/proc/")
	if got := run([]string{"chrooted"}, "directory", "built", "new"); !strings.HasPrefix(got, "prepare /..: invalid argument (too many directories") {
		t.Errorf("a deep root: %q", got)
	}
}

// pipeTo and pipeFrom make pipes whose other ends a command gets as files.
func pipeTo[R any](field *R) func() (*os.File, error) {
	return func() (*os.File, error) {
		r, w, err := os.Pipe()
		if err == nil {
			*field = any(r).(R)
		}
		return w, err
	}
}

func pipeFrom[W any](field *W) func() (*os.File, error) {
	return func() (*os.File, error) {
		r, w, err := os.Pipe()
		if err == nil {
			*field = any(w).(W)
		}
		return r, err
	}
}

func closeFile(t testing.TB, files ...any) {
	t.Helper()
	for _, f := range files {
		if f, ok := f.(*os.File); ok && f != nil {
			_ = f.Close()
		}
	}
}
