//go:build linux

package nsexec_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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

// TestStartErrors: what goes wrong before the program runs is an *Error that names
// the step and the path, and keeps the errno.
func TestStartErrors(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		// The kernel mounts an overlay read-only if it cannot remove what is in the way of its work directory.
		testenv.Tree(t, dir, "upper/", "work/work/1/2/3/4/5/", "d/", "f: text", "link => d", "script: #!/no/such/interpreter\n", "junk: \x01\x02\x03")
		for _, name := range []string{"script", "junk"} {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		at := func(name string) string { return filepath.Join(dir, name) }
		uid := uint32(os.Getuid())
		for _, c := range []struct {
			name, op, path string
			cause          error
			change         func(c *nsexec.Cmd)
		}{
			{"missing program", "exec", "/no/such/program", syscall.ENOENT, func(c *nsexec.Cmd) { c.Path = "/no/such/program" }},
			{"missing program on PATH", "exec", "no-such-program", syscall.ENOENT, func(c *nsexec.Cmd) { c.Path = "no-such-program" }},
			{"missing program as fs", "exec", "no-such-program", fs.ErrNotExist, func(c *nsexec.Cmd) { c.Path = "no-such-program" }},
			{"not executable", "exec", at("f"), fs.ErrPermission, func(c *nsexec.Cmd) { c.Path = at("f") }},
			{"not executable on PATH", "exec", "f", syscall.EACCES, func(c *nsexec.Cmd) { c.Path = "f"; c.Env = []string{"PATH=/nowhere:" + dir + ":/none"} }},
			{"a directory", "exec", at("d"), syscall.EACCES, func(c *nsexec.Cmd) { c.Path = at("d") }},
			{"below a file", "exec", at("f/x"), syscall.ENOTDIR, func(c *nsexec.Cmd) { c.Path = at("f/x") }},
			{"missing interpreter", "exec", at("script"), syscall.ENOENT, func(c *nsexec.Cmd) { c.Path = at("script") }},
			{"no program at all", "exec", at("junk"), syscall.ENOEXEC, func(c *nsexec.Cmd) { c.Path = at("junk") }},
			{"empty sandbox", "exec", "true", syscall.ENOENT, func(c *nsexec.Cmd) { c.Mounts = nil }},
			{"arguments too long", "exec", "true", syscall.E2BIG, func(c *nsexec.Cmd) { c.Args = []string{"true", strings.Repeat("x", 1<<20)} }},
			{"program as the first process", "exec", "/no/such/program", syscall.ENOENT, func(c *nsexec.Cmd) { sandbox.Of(c).AsPID1, c.Path = true, "/no/such/program" }},
			{"missing directory", "chdir", "/no/such/dir", syscall.ENOENT, func(c *nsexec.Cmd) { c.Dir = "/no/such/dir" }},
			{"directory is a file", "chdir", at("f"), syscall.ENOTDIR, func(c *nsexec.Cmd) { c.Dir = at("f") }},
			{"missing source", "bind", at("gone"), syscall.ENOENT, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Bind(at("gone"), "/mnt/x")) }},
			{"missing source, far down", "bind", at("gone/x/y"), fs.ErrNotExist, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Bind(at("gone/x/y"), "/mnt/x")) }},
			{"target is a link", "bind", at("link"), syscall.ELOOP, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Bind(at("d"), at("link"))) }},
			{"tmpfs on a link", "tmpfs", at("link"), syscall.ELOOP, func(c *nsexec.Cmd) { c.Mounts = append(base()[:1], mounts.Tmpfs(at("link"))) }},
			{"directory on a file", "bind", at("f"), syscall.ENOTDIR, func(c *nsexec.Cmd) { c.Mounts = append(base()[:1], mounts.Bind(at("d"), at("f"))) }},
			{"file on a directory", "bind", at("d"), syscall.EISDIR, func(c *nsexec.Cmd) { c.Mounts = append(base()[:1], mounts.Bind(at("f"), at("d"))) }},
			{"target in read-only files", "tmpfs", "/no-such-dir", syscall.EROFS, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Tmpfs("/no-such-dir")) }},
			{"target must exist", "bind", "/mnt/x", syscall.ENOENT, func(c *nsexec.Cmd) {
				m := mounts.Bind(dir, "/mnt/x")
				m.MustExist = true
				c.Mounts = base(m)
			}},
			{"file that does not fit", "file", "/mnt/t/f", syscall.ENOSPC, func(c *nsexec.Cmd) {
				c.Mounts = base(mounts.Tmpfs("/mnt/t").WithSize(4096), mounts.File("/mnt/t/f", make([]byte, 64<<10)))
			}},
			{"another link there", "symlink", "/mnt/l", syscall.EEXIST, func(c *nsexec.Cmd) {
				c.Mounts = base(mounts.Symlink("a", "/mnt/l"), mounts.Symlink("b", "/mnt/l"))
			}},
			{"remount of no mount", "remount", at("d"), syscall.EINVAL, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Remount(at("d"))) }},
			{"overlay without its upper directory", "overlay", at("gone"), syscall.ENOENT, func(c *nsexec.Cmd) {
				c.Mounts = base(mounts.Overlay("/mnt/o", at("gone"), at("gone2"), at("d")))
			}},
			{"overlay whose work directory cannot be made", "overlay", "/mnt/o", syscall.EROFS, func(c *nsexec.Cmd) {
				c.Mounts = base(mounts.Overlay("/mnt/o", at("upper"), at("work"), at("d")))
			}},
			{"closed file", "start", "/dev/null", os.ErrClosed, func(c *nsexec.Cmd) {
				f, _ := os.Open("/dev/null")
				_ = f.Close()
				c.Stdin = f
			}},
			{"too many descriptors", "start", "true", syscall.EINVAL, func(c *nsexec.Cmd) { c.ExtraFiles = make([]*os.File, 300) }},
			{"relative target", "tmpfs", "x", mounts.ErrNotAbsolute, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Tmpfs("x")) }},
			{"NUL in a mount", "tmpfs", "/x\x00", mounts.ErrNUL, func(c *nsexec.Cmd) { c.Mounts = base(mounts.Tmpfs("/x\x00")) }},
			{"NUL in the path", "exec", "tr\x00ue", syscall.EINVAL, func(c *nsexec.Cmd) { c.Path = "tr\x00ue" }},
			{"NUL in an argument", "exec", "true", syscall.EINVAL, func(c *nsexec.Cmd) { c.Args = []string{"true", "\x00"} }},
			{"NUL in the environment", "exec", "true", syscall.EINVAL, func(c *nsexec.Cmd) { c.Env = []string{"A=\x00"} }},
			{"NUL in the directory", "exec", "true", syscall.EINVAL, func(c *nsexec.Cmd) { c.Dir = "/\x00" }},
			{"NUL in the hostname", "exec", "true", syscall.EINVAL, func(c *nsexec.Cmd) { c.Hostname = "a\x00" }},
			{"hostname too long", "hostname", strings.Repeat("x", 65), syscall.EINVAL, func(c *nsexec.Cmd) { c.Hostname = strings.Repeat("x", 65) }},
			{"unknown limit", "limit", "99", syscall.EINVAL, func(c *nsexec.Cmd) { c.Rlimits = []nsexec.Rlimit{{Resource: 99}} }},
			{"limit upside down", "limit", "7", syscall.EINVAL, func(c *nsexec.Cmd) { c.Rlimits = []nsexec.Rlimit{{unix.RLIMIT_NOFILE, 9, 8}} }},
			{"empty filter", "seccomp", "", syscall.EINVAL, func(c *nsexec.Cmd) { c.Seccomp = []nsexec.Filter{{}} }},
			{"filter too long", "seccomp", "", syscall.EINVAL, func(c *nsexec.Cmd) {
				c.Seccomp = []nsexec.Filter{make(nsexec.Filter, 1<<16+1)} // the kernel would see one instruction
			}},
			{"wrong filter", "seccomp", "", syscall.EINVAL, func(c *nsexec.Cmd) { c.Seccomp = []nsexec.Filter{{{Code: 0xffff}}} }},
			{"ids that are not mapped", "credential", "7:7", syscall.EINVAL, func(c *nsexec.Cmd) {
				c.UIDMap, c.GIDMap = []nsexec.IDMap{{0, uid, 1}}, []nsexec.IDMap{{0, uint32(os.Getgid()), 1}}
				c.Credential = &nsexec.Credential{UID: 7, GID: 7}
			}},
			{"empty id map", "uid map", "0 0 0", syscall.EINVAL, func(c *nsexec.Cmd) { c.UIDMap = []nsexec.IDMap{{0, 0, 0}} }},
			{"id maps that overlap", "uid map", "0 0 10, 5 20 10", syscall.EINVAL, func(c *nsexec.Cmd) {
				c.UIDMap = []nsexec.IDMap{{0, 0, 10}, {5, 20, 10}}
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				leaks(t)
				cmd := nsexec.Command("true")
				cmd.Mounts = base()
				sandbox.Of(cmd).ClassicMounts = classic
				cmd.Env = []string{"PATH=/usr/bin:/bin"}
				c.change(cmd)
				err := cmd.Start()
				if err == nil {
					t.Fatalf("no error; it ended with %v", cmd.Wait())
				}
				wantError(t, err, c.op, c.path, c.cause)
				if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Err == nil {
					t.Error("no cause")
				}
				if cmd.Process != nil || cmd.ProcessState != nil {
					t.Error("there is a process")
				}
				if err := cmd.Wait(); err == nil {
					t.Error("Wait says nothing")
				}
			})
		}
		// And after all of these the next one works.
		good := shell("echo fine")
		sandbox.Of(good).ClassicMounts = classic
		check(t, good, "fine")
	})
}

// TestForeignIDs: an ordinary user cannot map the ids of others.
func TestForeignIDs(t *testing.T) {
	testenv.NeedUser(t)
	leaks(t)
	c := shell("id")
	c.UIDMap = []nsexec.IDMap{{0, 0, 1}}
	wantError(t, c.Run(), "uid map", "0 0 1", fs.ErrPermission)
}

// TestMisuse: mistakes of the caller are errors, not panics.
func TestMisuse(t *testing.T) {
	leaks(t)
	own := errors.New("mine")
	for _, c := range []struct {
		name, text string
		run        func(c *nsexec.Cmd) error
	}{
		{"no command", "exec: no command", func(c *nsexec.Cmd) error { c.Path = ""; return c.Start() }},
		{"twice", "start true: already started", func(c *nsexec.Cmd) error {
			if err := c.Run(); err != nil {
				return err
			}
			return c.Start()
		}},
		{"Wait twice", "wait true: Wait was already called", func(c *nsexec.Cmd) error {
			if err := c.Run(); err != nil {
				return err
			}
			return c.Wait()
		}},
		{"Wait before Start", "wait true: not started", func(c *nsexec.Cmd) error { return c.Wait() }},
		{"Err", "mine", func(c *nsexec.Cmd) error { c.Err = own; return c.Start() }},
		{"Cancel without a context", "start true: a Cmd with Cancel was not made by CommandContext", func(c *nsexec.Cmd) error {
			c.Cancel = func() error { return nil }
			return c.Start()
		}},
		{"Output with Stdout", "start true: Stdout already set", func(c *nsexec.Cmd) error { c.Stdout = os.Stdout; _, err := c.Output(); return err }},
		{"CombinedOutput with Stderr", "start true: Stdout or Stderr already set", func(c *nsexec.Cmd) error { c.Stderr = os.Stderr; _, err := c.CombinedOutput(); return err }},
		{"StdinPipe with Stdin", "start true: Stdin already set", func(c *nsexec.Cmd) error { c.Stdin = os.Stdin; _, err := c.StdinPipe(); return err }},
		{"StdoutPipe with Stdout", "start true: Stdout already set", func(c *nsexec.Cmd) error { c.Stdout = os.Stdout; _, err := c.StdoutPipe(); return err }},
		{"StderrPipe with Stderr", "start true: Stderr already set", func(c *nsexec.Cmd) error { c.Stderr = os.Stdout; _, err := c.StderrPipe(); return err }},
		{"StdinPipe after Start", "start true: Stdin pipe after Start", func(c *nsexec.Cmd) error {
			if err := c.Run(); err != nil {
				return err
			}
			_, err := c.StdinPipe()
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := nsexec.Command("true")
			cmd.Mounts = base()
			if err := c.run(cmd); err == nil || err.Error() != c.text {
				t.Errorf("got %v, want %s", err, c.text)
			}
		})
	}
}

// TestFailedStartClosesPipes: pipes that were made before a Start that fails.
func TestFailedStartClosesPipes(t *testing.T) {
	leaks(t)
	c := nsexec.Command("/no/such/program")
	c.Mounts = base()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var sink strings.Builder
	c.Stderr = &sink
	wantError(t, c.Start(), "exec", "/no/such/program", fs.ErrNotExist)
	if _, err := in.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writing: %v", err)
	}
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading: %v", err)
	}
}

// TestErrorText: known causes are put into words.
func TestErrorText(t *testing.T) {
	for want, e := range map[string]*nsexec.Error{
		"bind /x: no such file or directory": {Op: "bind", Path: "/x", Err: syscall.ENOENT},
		"exec: no command":                   {Op: "exec", Err: errors.New("no command")},
		"clone user namespaces: operation not permitted (the kernel or its configuration does not let this user make namespaces)": {
			Op: "clone", Path: "user namespaces", Err: syscall.EPERM},
		"clone pid namespaces: resource temporarily unavailable (the limit on processes is reached; try: ulimit -u, or pids.max of the cgroup)": {
			Op: "clone", Path: "pid namespaces", Err: syscall.EAGAIN},
		"dev /dev/null: no such file or directory (the host's /dev lacks it, or has something else there)": {
			Op: "dev", Path: "/dev/null", Err: syscall.ENOENT},
		"supervise: device or resource busy (the kernel allows one listener of seccomp_unotify(2) for a process, and a sandbox or container around this one has it; try: run nsrun outside of it)": {
			Op: "supervise", Err: syscall.EBUSY},
		"prepare /: invalid argument (the root file system is an initramfs, which the sandbox's root can only cover, and a command with CAP_SYS_ADMIN could unmount that; try: --cap-drop CAP_SYS_ADMIN)": {
			Op: "prepare", Path: "/", Err: syscall.EINVAL},
		"prepare /..: invalid argument (too many directories are above the root directory; try: run nsrun outside of the chroot)": {
			Op: "prepare", Path: "/..", Err: syscall.EINVAL},
		"remount /x: invalid argument (not a mount point)": {Op: "remount", Path: "/x", Err: syscall.EINVAL},
		"tmpfs /x: too many levels of symbolic links (a symbolic link is there)": {
			Op: "tmpfs", Path: "/x", Err: syscall.ELOOP},
	} {
		if e.Error() != want {
			t.Errorf("got %s, want %s", e, want)
		}
	}
	for _, op := range []nsexec.Step{"prepare", nsexec.StepBind} { // with twice the limit of now
		e := &nsexec.Error{Op: op, Path: "/", Err: syscall.ENOSPC}
		if want := " /: no space left on device (the limit on mounts is reached; try: sysctl fs.mount-max="; !strings.Contains(e.Error(), want) {
			t.Errorf("got %s, want %s", e, want)
		}
	}
}

// TestNamespacesRefused: a kernel, or a filter of a container, that refuses.
func TestNamespacesRefused(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		for _, c := range []struct {
			name   string
			filter nsexec.Filter
			want   string
		}{
			// By the size of its arguments, because threads are made with it too.
			{"clone3 refused", refuse(unix.SYS_CLONE3, unix.EPERM, 64), "nested"}, // clone(2) does
			{"clone3 unknown", refuse(unix.SYS_CLONE3, unix.ENOSYS), "nested"},
			{"unshare refused", refuse(unix.SYS_UNSHARE, unix.EPERM), "clone: operation not permitted"},
			{"our own filter", nsexec.DefaultFilter(), "clone: operation not permitted"},
		} {
			t.Run(c.name, func(t *testing.T) {
				cmd := nested(classic)
				cmd.Seccomp = []nsexec.Filter{c.filter}
				check(t, cmd, c.want)
			})
		}
		t.Run("limit of namespaces", func(t *testing.T) {
			testenv.NeedUser(t) // root's /proc/sys is read-only in a sandbox
			cmd := shell("echo 0 > /proc/sys/user/max_user_namespaces && exec " + exe)
			sandbox.Of(cmd).ClassicMounts = classic
			cmd.Env = append(nsexec.BaseEnv(), helperVars("nested")...)
			cmd.UIDMap = []nsexec.IDMap{{0, uint32(os.Getuid()), 1}}
			cmd.GIDMap = []nsexec.IDMap{{0, uint32(os.Getgid()), 1}}
			cmd.Capabilities = nsexec.AllCapabilities()
			check(t, cmd, "clone: no space left on device")
		})
		t.Run("not refused", func(t *testing.T) {
			check(t, nested(classic), "nested")
		})
	})
}

// nested starts a sandbox in a sandbox. A root that could not give files
// capabilities could not map itself (user_namespaces(7)).
func nested(classic bool) *nsexec.Cmd {
	c := helper("nested")
	sandbox.Of(c).ClassicMounts = classic
	c.Capabilities = 1 << unix.CAP_SETFCAP
	return c
}

// refuse is a filter that refuses one system call, if its second argument is one
// of these, or whatever it is.
func refuse(nr uint32, errno syscall.Errno, second ...uint32) nsexec.Filter {
	f := nsexec.Filter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: nr},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 24},
	}
	for _, v := range second {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: v},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000})
	}
	return append(f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x50000 | uint32(errno)})
}

// TestRepeatedVariables: of several values of a variable a command has the last one alone, as in os/exec. Of two, most
// programs would take the first.
func TestRepeatedVariables(t *testing.T) {
	leaks(t)
	path := "PATH=" + os.Getenv("PATH")
	for _, env := range [][]string{
		{path, "A=1", "A=2"}, {path, "A=1", "B=2", "A="}, {"PATH=/none", path, "A=1"}, {path, "A", "A=1", "A"},
		{path, "", "A=1=2", "A=3"}, {path, "=a", "=b"}, {path}, {},
	} {
		native := exec.Command("/usr/bin/env")
		native.Env = env
		want, err := native.Output()
		if err != nil {
			t.Fatal(err)
		}
		c := nsexec.Command("/usr/bin/env")
		c.Mounts, c.Env = base(), slices.Clone(env)
		if got := output(t, c); got != strings.TrimSuffix(string(want), "\n") {
			t.Errorf("%q: %q, want %q", env, got, want)
		}
		if got := c.Environ(); !slices.Equal(got, native.Environ()) || !slices.Equal(c.Env, env) {
			t.Errorf("%q: Environ returns %q, want %q; Env is %q", env, got, native.Environ(), c.Env)
		}
	}
	// Args without PATH: the last one is where programs are looked for.
	c := nsexec.Command("env")
	c.Mounts, c.Env = base(), []string{"PATH=/none", path}
	check(t, c, path)
}
