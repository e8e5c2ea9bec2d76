//go:build linux

package nsrun_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/idmap"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// needOwnIDs skips where a file system here has no idmapped mounts.
func needOwnIDs(t *testing.T, dir string) {
	t.Helper()
	testenv.NeedRoot(t)
	var ns idmap.Namespace
	defer ns.Close()
	f, err := ns.Mount(dir, false)
	if err != nil {
		testenv.Skip(t, "idmapped mounts", err.Error())
		return
	}
	_ = f.Close()
}

// owner is whose a file is.
func owner(t *testing.T, name ...string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(name...), &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// TestOwnIDs: root's commands with ids of their own can do with files of all owners what root can. The files keep their
// owners, also outside and after an undo.
func TestOwnIDs(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "theirs/f: y\n", "theirs/secret: z\n", "moved/f: m\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	p := filepath.Join(dir, "p")
	for _, name := range []string{"theirs", "theirs/f", "theirs/secret"} {
		if err := os.Chown(filepath.Join(p, name), 1234, 1235); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Tree(t, dir, "shown/f: s\n", "written/f: w\n")
	for name, mode := range map[string]os.FileMode{"p/theirs/secret": 0o600, "p/theirs": 0o700, "shown/f": 0o600, "shown": 0o700} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	c := nsrun.Config{OwnIDs: true, Project: p, Home: nsrun.HomeLayer, Rules: []nsrun.Rule{
		{Mode: nsrun.ReadOnly, Pattern: filepath.Join(dir, "shown")}, {Mode: nsrun.Direct, Pattern: filepath.Join(dir, "written")},
	}}
	r := runner(t, c)
	for _, tc := range []struct{ name, script, want string }{
		{"id", "id -u; id -g; head -n 1 /proc/self/uid_map | tr -s ' '", fmt.Sprintf("0\n0\n 0 %d %d\n", idmap.First, idmap.Count)},
		{"read", "cat theirs/secret; stat -c %u:%g theirs theirs/f f", "z\n1234:1235\n1234:1235\n0:0\n"},
		{"write", "echo more >>theirs/secret; echo n >theirs/n; stat -c %u:%g theirs/secret theirs/n", "1234:1235\n0:0\n"},
		{"give away", "echo g >g; chown 1:2 g; chmod 640 g; touch -d @7 g; stat -c '%u:%g %a %Y' g", "1:2 640 7\n"},
		{"archive", "mkdir t; echo a >t/a; chown -R 1234:1235 t; tar cf t.tar t; rm -r t; tar xf t.tar; stat -c %u:%g t t/a", "1234:1235\n1234:1235\n"},
		{"remove", "rm theirs/f; ls theirs", "n\nsecret\n"},
		{"rename a directory", "mv moved there && cat there/f", "m\n"},
		{"somebody else", "setpriv --reuid 1234 --regid 1235 --clear-groups sh -c 'id -u; cat theirs/secret; cat f; echo no >f' 2>&1", "1234\nz\nmore\nx\nsh: 1: cannot create f: Permission denied\n"},
		{"home", "echo h >~/h; chown 1234 ~/h; stat -c %u ~/h ~", "1234\n0\n"},
		{"home again", "cat ~/h; stat -c %u ~/h", "h\n1234\n"},
		{"shown", "cat " + filepath.Join(dir, "shown/f"), "s\n"},
		{"written", "cd " + filepath.Join(dir, "written") + "; echo 1 >n; chown 1:2 n; stat -c %u:%g n f", "1:2\n0:0\n"},
		{"private places", "touch /tmp/f; chown 1:2 /tmp/f; stat -c %u:%g /tmp/f", "1:2\n"},
		{"pipes", "echo a | cat /dev/stdin; echo e >/dev/stdout", "a\ne\n"},
		{"low ports", "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 80)); print(1)'", "1\n"},
	} {
		if got := printed(t, r, tc.script); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := owner(t, dir, "written/n"); got != "1:2" {
		t.Errorf("written in place: %s", got)
	}
	id := r.Session().ID()
	if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"g": "1:2", "t/a": "1234:1235", "theirs/secret": "1234:1235", "theirs/n": "0:0", "theirs": "1234:1235", "there": "0:0", "f": "0:0",
	} {
		if got := owner(t, p, name); got != want {
			t.Errorf("committed %s: %s, want %s", name, got, want)
		}
	}
	s, err := overlay.Open("", id)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Undo(t.Context(), overlay.UndoOptions{}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got := owner(t, p, "theirs/f") + " " + content(p, "theirs/secret") + content(p, "g"); got != "1234:1235 z\n-" {
		t.Errorf("undone: %q", got)
	}
	c.Mode = nsrun.Direct
	if got := printed(t, runner(t, c), "echo d >d; chown 1:2 d; cat theirs/secret; cat ~/h"); got != "z\nh\n" || owner(t, p, "d") != "1:2" {
		t.Errorf("direct: %q, %s", got, owner(t, p, "d"))
	}
}

// TestOwnIDsMounts: mounts in the home directory and the project are shared with other namespaces. Nothing is mounted
// on the host, and the command sees their contents.
func TestOwnIDsMounts(t *testing.T) {
	dir := place(t, "f: x\n", "mounted/")
	needOwnIDs(t, dir)
	home, p := filepath.Join(dir, "home"), filepath.Join(dir, "p")
	testenv.Tree(t, home, "mounted/")
	for _, at := range []string{filepath.Join(home, "mounted"), filepath.Join(p, "mounted")} {
		if err := errors.Join(unix.Mount("tmpfs", at, "tmpfs", 0, ""), unix.Mount("", at, "", unix.MS_SHARED, "")); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Unmount(at, 0); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}()
		testenv.Tree(t, at, "f: below\n", "d/")
	}
	testenv.Leaks(t, nsexec.Shutdown)
	for _, mode := range []nsrun.Mode{nsrun.Direct, nsrun.ReadOnly} {
		c := nsrun.Config{OwnIDs: true, Project: p, Mode: mode, Shared: []nsrun.Folder{{Path: home, Mode: nsrun.ReadOnly}},
			Rules: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: filepath.Join(home, "mounted/d")}}}
		if got := printed(t, runner(t, c), "cat f mounted/f ~/mounted/f; touch ~/mounted/d/n; chown 1 ~/mounted/d/n"); got != "x\nbelow\nbelow\n" {
			t.Errorf("%v: %q", mode, got)
		}
	}
	if got := owner(t, home, "mounted/d/n"); got != "1:0" {
		t.Errorf("written in place: %s", got)
	}
}

func printed(t *testing.T, r *nsrun.Runner, script string) string {
	t.Helper()
	res, err := r.Run(t.Context(), nsrun.Request{Command: "exec 2>&1; " + script})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(res.Stdout.Bytes())
}

// TestOwnIDsGainNothing: what own ids give does not reach beyond them. Each attempt succeeds for root outside.
func TestOwnIDsGainNothing(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "sub/hidden: secret\n")
	needOwnIDs(t, dir)
	p := filepath.Join(dir, "p")
	livesIn(t, dir, "/srv")
	testenv.Tree(t, dir, "home/.local/state/nsrun/sessions/")
	c := nsrun.Config{OwnIDs: true, Project: p, After: nsrun.Discard, Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "sub/hidden")}}}
	python := func(text string) string { return "python3 -c '" + text + "; print(\"won\")'" }
	for _, tc := range []struct{ name, script string }{
		// The host has them on every Debian.
		{"root's own files", "cat /etc/.pwd.lock && echo won"},
		{"root's own directories", "ls /var/lib/private && echo won"},
		{"others' directories", "ls /var/cache/apt/archives/partial && echo won"},
		{"others' directories, as another user", "setpriv --reuid 42 --regid 65534 --clear-groups ls /var/cache/apt/archives/partial && echo won"},
		{"owners of the host's files", "chown 0:0 /etc/passwd && echo won"},
		{"modes of the host's files", "chmod 644 /etc/passwd && echo won"},
		{"owners of devices", "chown 0:0 /dev/null && echo won"},
		{"modes of devices", "chmod 666 /dev/null && echo won"},
		{"modes in /proc", "chmod 444 /proc/loadavg && echo won"},
		{"owners in /proc", "chown 0:0 /proc/loadavg && echo won"},
		{"sysctl", "v=$(cat /proc/sys/vm/swappiness); echo $v >/proc/sys/vm/swappiness && echo won"},
		{"mounts", "unshare -m mount -t tmpfs t /mnt && echo won"},
		{"user namespaces", "unshare -Ur true && echo won"},
		{"device nodes", "mknod node b 7 0 && rm node && echo won"},
		{"set-user-id", "cp /bin/true s && chmod 4755 s && test -u s && rm s && echo won"},
		{"trusted attributes", python("import os; os.setxattr(\"f\", \"trusted.n\", b\"v\")")},
		{"security attributes", python("import os; os.setxattr(\"f\", \"security.capability\", bytes.fromhex(\"0000000200200000000000000000000000000000\"))")},
		{"raw sockets", python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")},
		{"handles", python("import ctypes, os; l = ctypes.CDLL(None); h = (ctypes.c_uint*34)(128); m = ctypes.c_int(); " +
			"assert l.name_to_handle_at(-100, b\"/\", h, ctypes.byref(m), 0) == 0; assert l.open_by_handle_at(os.open(\"/\", 0), h, 0) >= 0")},
		{"priority", "nice -n -1 true 2>&1 | grep -q . || echo won"},
		{"what is blocked", "grep secret sub/hidden && echo won"},
		{"what is blocked, renamed", "mv sub moved && grep secret moved/hidden && mv moved sub && echo won"},
		{"sessions", "ls /srv/.local/state/nsrun/sessions && echo won"},
	} {
		control, err := exec.Command("sh", "-c", "cd "+p+"; exec 2>&1; "+tc.script).Output()
		if !strings.HasSuffix(string(control), "won\n") {
			testenv.Skip(t, tc.name+" outside", fmt.Sprintf("%v, %s", err, control))
			continue
		}
		if got := printed(t, runner(t, c), tc.script); strings.Contains(got, "won") || strings.Contains(got, "secret\n") {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
	if got := printed(t, runner(t, c), "ls /proc/1/root/ && echo won; cat /proc/1/environ && echo won; kill -9 1; echo alive"); strings.Contains(got, "won") || !strings.HasSuffix(got, "alive\n") {
		t.Errorf("PID 1: %s", got)
	}
	// What lies below a folder that is written to directly stays as it is too.
	if out, err := exec.Command("git", "init", "-q", p).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Mode, c.Rules = nsrun.Direct, nil
	if got := printed(t, runner(t, c), "echo x >.git/hooks/pre-commit && echo won; chown 1 .git/config && echo won"); strings.Contains(got, "won") {
		t.Errorf("git's hooks: %s", got)
	}
	// Nobody gets a group of the host by executing what a command leaves there.
	group := "chmod 777 .; setpriv --regid 6 --clear-groups sh -c 'cp /bin/true s; chmod g+s s; test -g s && echo won'; rm -f s"
	if control, err := exec.Command("sh", "-c", "cd "+p+"; "+group).Output(); string(control) != "won\n" {
		testenv.Skip(t, "another group outside", fmt.Sprintf("%v, %s", err, control))
	} else if got := printed(t, runner(t, c), group); strings.Contains(got, "won") {
		t.Errorf("set-group-id: %s", got)
	}
	testenv.Tree(t, dir, "named/")
	c.Mode, c.Playground = nsrun.Overlay, filepath.Join(dir, "named")
	if got := printed(t, runner(t, c), "cd ~/playground; "+group); strings.Contains(got, "won") {
		t.Errorf("set-group-id in a playground: %s", got)
	}
	c.Mode, c.Playground = nsrun.Direct, ""
	// A log that the caller handed over stays the caller's. Without own ids root owns it.
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, own := range []bool{false, true} {
		c.OwnIDs = own
		x, err := runner(t, c).Start(t.Context(), nsrun.Request{Command: "chmod 640 /proc/self/fd/1", Passthrough: true, Stdout: log})
		if err == nil {
			_, err = x.Wait()
		}
		st, err2 := log.Stat()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got := st.Mode().Perm() == 0o640; got == own {
			t.Errorf("own ids %t: mode %v", own, st.Mode())
		}
		_ = log.Chmod(0o600)
	}
}

// TestOwnIDsWhy: nsrun reports what commands with ids of their own are refused, although nsrun itself may use it. It
// does not report what they may use.
func TestOwnIDsWhy(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "theirs/f: y\n", "hidden/f: z\n", "secret: s\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	p := filepath.Join(dir, "p")
	for _, name := range []string{"theirs", "theirs/f"} {
		if err := errors.Join(os.Chown(filepath.Join(p, name), 1234, 1235), os.Chmod(filepath.Join(p, name), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Tree(t, dir, "host/closed: c\n", "host/open: o\n")
	if err := errors.Join(os.Chmod(filepath.Join(dir, "host/closed"), 0o600), unix.Mount(filepath.Join(dir, "host"), "/mnt", "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount("/mnt", unix.MNT_DETACH)
	c := nsrun.Config{OwnIDs: true, Why: true, Project: p, After: nsrun.Discard, Rules: []nsrun.Rule{
		{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "hidden")}, {Mode: nsrun.Blocked, Pattern: filepath.Join(p, "secret")},
	}}
	for _, tc := range []struct{ command, kind, target, rule string }{
		{"cat secret", "read", p + "/secret", "blocked"},
		{"ls hidden", "read", p + "/hidden", "blocked"},
		{"cat hidden/f", "read", p + "/hidden/f", "blocked"},
		{"cat /mnt/open && cat /mnt/closed", "read", "/mnt/closed", "ids"},
		{"cat theirs/f none", "", "", ""},
		{"echo x >>theirs/f; ls theirs; cat none", "", "", ""},
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: tc.command})
		if err != nil || res.ExitCode == 0 {
			t.Errorf("%s: %v, %s", tc.command, err, res)
			continue
		}
		var r nsrun.Refusal
		if len(res.Refusals) > 0 {
			r = res.Refusals[0]
		}
		if string(r.Kind) != tc.kind || r.Target != tc.target || r.Rule != tc.rule || r.Failed != (tc.kind != "") || (r.Flag == "") != (tc.kind == "") {
			t.Errorf("%s: %+v: %s", tc.command, res.Refusals, res)
		}
	}
}

// TestOwnIDsRefused: where own ids are not available, nothing runs.
func TestOwnIDsRefused(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	p := filepath.Join(dir, "p")
	refused := func(c nsrun.Config, want string) {
		t.Helper()
		c.OwnIDs, c.After = true, nsrun.Discard
		if res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || res.Started || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if !testenv.Root() {
		refused(nsrun.Config{Project: p}, "own ids: the kernel allows them for root only")
		return
	}
	refused(nsrun.Config{Project: p, Backend: nsrun.LandlockBackend}, "namespaces are needed")
	needOwnIDs(t, dir)
	// Each is sent to the sandbox as a descriptor.
	for i := range 201 {
		testenv.Tree(t, dir, fmt.Sprintf("many/%d: x\n", i))
	}
	refused(nsrun.Config{Project: p, Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: filepath.Join(dir, "many/*")}}}, "name directories")
	// An overlay has no idmapped mounts.
	testenv.Tree(t, dir, "merged/", "layers/upper/", "layers/work/")
	merged := filepath.Join(dir, "merged")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%[2]s/upper,workdir=%[2]s/work", p, filepath.Join(dir, "layers"))
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		testenv.Skip(t, "an overlay as root", err.Error())
		return
	}
	defer func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	}()
	refused(nsrun.Config{Project: merged, Engine: overlay.EngineCopy, Mode: nsrun.Direct}, "own ids "+merged)
}
