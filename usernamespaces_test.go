//go:build linux

package nsrun_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// nested runs a script as root of a user namespace of its own, with mounts of its own.
func nested(script string) string { return "unshare -UrmC sh -c '" + script + "' 2>&1" }

// TestUserNamespaces: with Config.UserNamespaces, or a preset, a command can have namespaces of its own, and gains
// nothing by them. Package nsexec's test of this name tries more, with controls.
func TestUserNamespaces(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("unshare"); err != nil {
		testenv.Skip(t, "unshare", err.Error())
	}
	dir := place(t, "f: x\n", "hidden/f: secret\n", "sub/g: y\n")
	p := filepath.Join(dir, "p")
	c := nsrun.Config{Project: p, UserNamespaces: true, After: nsrun.Discard, Rules: []nsrun.Rule{
		{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "hidden/f")}, {Mode: nsrun.ReadOnly, Pattern: filepath.Join(p, "sub")},
	}}
	if testenv.Root() {
		if _, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || !strings.Contains(err.Error(), "as an ordinary user") {
			t.Errorf("as root: %v", err)
		}
		return
	}
	need(t, features.LockedLayers)
	r := runner(t, c)
	for _, tc := range []struct{ script, want string }{
		{"id -u; mount -t tmpfs t /tmp; echo made >/tmp/f; cat /tmp/f", "0\nmade\n"},
		{"cat f; echo more >>f; cat f", "x\nx\nmore\n"},
		{"umount -l hidden/f; cat hidden/f", ""},
		{"mount --bind hidden /tmp; cat /tmp/f", ""},
		{"mount -o remount,bind,rw sub; echo w >sub/g; cat sub/g", "y\n"},
		{"mount -t overlay o -o lowerdir=$PWD:/tmp,userxattr /tmp; cat /tmp/hidden/f", ""},
		{"mount -t cgroup2 c /tmp; for f in /tmp/cgroup.procs /tmp/*/cgroup.procs /tmp/cgroup.kill; do echo 0 >$f && echo won; done", ""},
	} {
		got := sh(t, r, nested(tc.script))
		if tc.want != "" && !strings.Contains(got, tc.want) || strings.Contains(got, "secret") || strings.Contains(got, "won") {
			t.Errorf("%s: %q", tc.script, got)
		}
	}
	preset := nsrun.Config{Project: p, Preset: nsrun.BrowserPreset, After: nsrun.Discard}
	if got := sh(t, runner(t, preset), "unshare -Ur id -u"); got != "0\n" {
		t.Errorf("preset: %q", got)
	}
	// With limits of its own cgroup a command cannot mount that, and so not lift them.
	c.Limits = nsrun.Limits{PIDs: 50}
	if res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "unshare -UrmC true"}); err == nil && res.ExitCode == 0 {
		t.Error("a command with a limit can make cgroup namespaces")
	}
	// Nor can one that writes in place make set-user-id files by openat2(2).
	if _, err := exec.LookPath("python3"); err == nil {
		const openat2 = `python3 -c "import ctypes; l=ctypes.CDLL(None,use_errno=True); h=(ctypes.c_uint64*3)(0o101,0o4755,0)
print(l.syscall(437,-100,b'made',h,24), ctypes.get_errno())"`
		for mode, want := range map[nsrun.Mode]string{nsrun.Direct: "-1 38\n", nsrun.Overlay: "3 0\n"} {
			d := nsrun.Config{Project: p, UserNamespaces: true, Mode: mode, After: nsrun.Discard}
			if got := sh(t, runner(t, d), openat2); got != want {
				t.Errorf("%v: %q", mode, got)
			}
		}
	}
	c.Limits, c.Backend = nsrun.Limits{}, nsrun.LandlockBackend
	if _, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "true"}); err == nil {
		t.Error("the backend landlock accepts UserNamespaces")
	}
	// By default it is refused, and the flag is named.
	res, err := runner(t, nsrun.Config{Project: p}).Run(t.Context(), nsrun.Request{Command: "unshare -Ur true"})
	if err != nil || res.ExitCode == 0 || len(res.FileRefusals()) != 1 {
		t.Fatalf("%v, %+v", err, res.Refusals)
	}
	const want = "system call unshare: commands in a sandbox may not make namespaces (try: --allow-userns)"
	if got := res.FileRefusals()[0].String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
