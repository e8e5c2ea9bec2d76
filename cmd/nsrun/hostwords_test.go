//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

// readOnlyProc makes /proc read-only.
const readOnlyProc = "mount --bind /proc /proc && mount -o remount,bind,ro /proc && exec "

// closedDev is a /dev of which nothing can be opened.
const closedDev = "mount --bind /dev /dev && mount -o remount,bind,nodev /dev && exec "

// TestDoctorFails: where no command runs, doctor says so, with what to do, and fails. As controls, it does not where
// commands run: here, and without namespaces.
func TestDoctorFails(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		testenv.Skip(t, "unshare", err.Error())
	}
	doctor := filepath.Join(bin, "nsrun") + " doctor"
	for _, c := range []struct {
		name, script, want string
		status             int
	}{
		{"no /proc", "umount -l /proc && exec ", "try: mount -t proc proc /proc\n", 1},
		{"a bare /dev", "mount -t tmpfs none /dev && exec ", "try: mount -t devtmpfs dev /dev\n", 1},
		{"a /dev with nodev", closedDev, "it needs a /dev with null, zero, full, random, urandom and tty\n         try: mount -o remount,bind,dev /dev\n", 1},
		{"it is opened", closedDev[:len(closedDev)-len("exec ")] + "mount -o remount,bind,dev /dev && exec ", "yes      devices ", 0},
		{"a read-only /proc", readOnlyProc, "For namespaces: mount -o remount,rw /proc\n", 0},
		{"the control", "exec ", "yes      devices ", 0},
	} {
		if c.status == 0 && c.name != "the control" && !features.Has(features.LandlockScopes) {
			c.status = 1 // nor is there the other backend
			c.want = "try: mount -o remount,rw /proc\n"
		}
		cmd := command("-m", "/bin/sh", "-c", c.script+doctor)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir)
		if got := runs(t, bin, unshare, cmd); got.status != c.status || !strings.Contains(got.out, c.want) ||
			strings.Contains(got.out, "no       user namespaces") != strings.Contains(c.script, readOnlyProc) {
			t.Errorf("%s: status %d, want %q\n%s", c.name, got.status, c.want, got.out)
		}
	}
}

// TestDoctorHome: where the directory of sessions can neither be made nor written to, doctor fails with the hint of
// `nsrun run`. As a control, it does not where the directory can be made, and does not make it.
func TestDoctorHome(t *testing.T) {
	testenv.Leaks(t, reap)
	testenv.NeedNamespaces(t)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "state/nsrun/", "file")
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		testenv.Skip(t, "unshare", err.Error())
	}
	const readOnly = "mount --bind $XDG_STATE_HOME $XDG_STATE_HOME && mount -o remount,bind,ro $XDG_STATE_HOME && exec "
	nsrun := func(state, script, args string) ran {
		cmd := command("-U", "--map-root-user", "-m", "/bin/sh", "-c", script+filepath.Join(bin, "nsrun")+args)
		cmd.Dir, cmd.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+state)
		return runs(t, bin, unshare, cmd)
	}
	for state, script := range map[string]string{
		filepath.Join(dir, "file"): "exec ", filepath.Join(dir, "state"): readOnly,
	} {
		for _, args := range []string{" run --discard -- true", " doctor"} {
			if got := nsrun(state, script, args); got.status != 125 || !strings.Contains(got.out, "try: export XDG_STATE_HOME=DIR") {
				t.Errorf("%s:%s: status %d\n%s", state, args, got.status, got.out)
			}
		}
	}
	state := filepath.Join(dir, "new/state")
	got := nsrun(state, "exec ", " doctor")
	if _, err := os.Lstat(filepath.Dir(state)); got.status != 0 || err == nil {
		t.Errorf("the control: status %d, %v\n%s", got.status, err, got.out)
	}
}

// TestHostWords: on hosts where a sandbox cannot be made, or a session not be kept, one line says why and what to do.
func TestHostWords(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "home/")
	nsrun := filepath.Join(bin, "nsrun") + " run --backend native --discard -- true"
	for _, c := range []struct {
		name, script, want string
		root               bool // it takes root to make such a host
	}{
		{"no home", "unset HOME XDG_STATE_HOME; exec " + nsrun, "", false},
		{"a home that is not there", "unset XDG_STATE_HOME; HOME=/proc/none exec " + nsrun, "try: export XDG_STATE_HOME=DIR", false},
		{"no namespaces", "echo 0 >/proc/sys/user/max_user_namespaces && exec " + nsrun, "try: sysctl user.max_user_namespaces=10000)", false},
		{"no namespaces in a sandbox", "echo 1 >/proc/sys/user/max_user_namespaces && exec unshare -U --map-root-user " + nsrun,
			"try: run nsrun outside of the container or sandbox that it is in", false},
		{"no mount namespaces", "echo 0 >/proc/sys/user/max_mnt_namespaces && exec " + nsrun, "try: sysctl user.max_mnt_namespaces=10000)", false},
		{"one mount namespace", "echo 1 >/proc/sys/user/max_mnt_namespaces && exec " + nsrun, "try: sysctl user.max_mnt_namespaces=10000)", false},
		{"no PID namespaces", "echo 0 >/proc/sys/user/max_pid_namespaces && exec " + nsrun, "try: sysctl user.max_pid_namespaces=10000)", false},
		{"no network namespaces", "echo 0 >/proc/sys/user/max_net_namespaces && exec " + nsrun, "try: sysctl user.max_net_namespaces=10000)", false},
		{"no /proc", "umount -l /proc && exec " + nsrun, "try: mount -t proc proc /proc)", true},
		{"no /proc, with bubblewrap's options", "umount -l /proc; " + filepath.Join(bin, "nsrun") + " --unshare-user --ro-bind / / true; [ $? = 1 ] && exit 125", "try: mount -t proc proc /proc", true},
		{"a bare /dev", "mount -t tmpfs none /dev && exec " + nsrun, "try: mount -t devtmpfs dev /dev)", true},
		{"a file at /dev/null", "mount -t tmpfs none /dev && : >/dev/null && for d in 'zero c 1 5' 'full c 1 7' 'random c 1 8' 'urandom c 1 9' 'tty c 5 0'; do mknod -m 666 /dev/$d; done; exec " + nsrun,
			"try: rm -r /dev/null && mknod -m 666 /dev/null c 1 3)", true},
		{"a read-only /proc", readOnlyProc + nsrun, "try: mount -o remount,rw /proc)", true},
		{"a home that everybody can write to", "unset XDG_STATE_HOME; mkdir -m 777 $HOME/all && chmod 777 $HOME/all && HOME=$HOME/all exec " + nsrun, "try: chmod o-w ", false},
		{"another /proc", "exec unshare -pf " + nsrun, "mount -t proc proc /proc", true},
		{"a root in itself", "mkdir -p $HOME/up/root && mount --rbind / $HOME/up/root && exec chroot $HOME/up/root /bin/sh -c 'cd $HOME/../project && exec \"$0\" run -q --backend landlock --ro $HOME/up --discard -- true' " +
			filepath.Join(bin, "nsrun"), "run nsrun outside of the chroot", true},
		{"root without capabilities", "exec setpriv --bounding-set -all --inh-caps -all " + nsrun, "or run it as an ordinary user", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				testenv.NeedRoot(t)
			}
			args := []string{"-m", "/bin/sh", "-c", c.script}
			if strings.Contains(c.script, "/sys/user/") { // in a user namespace of its own
				args = append([]string{"-U", "--map-root-user"}, args...)
			} else if !c.root {
				args = args[1:]
			}
			unshare, err := exec.LookPath("unshare")
			if err != nil {
				testenv.Skip(t, "unshare", err.Error())
			}
			if args[0] == "/bin/sh" {
				unshare, args = args[0], args[1:]
			}
			cmd := command(args...)
			cmd.Dir, cmd.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+dir)
			got := runs(t, bin, unshare, cmd)
			if c.want == "" { // it works, or names the variable
				if got.status != 0 && !strings.Contains(got.out, "try: export ") {
					t.Errorf("status %d\n%s", got.status, got.out)
				}
				return
			}
			lines := 0
			for line := range strings.Lines(got.out) {
				if !strings.HasPrefix(line, "==") { // the race detector misses /proc, too
					lines++
				}
			}
			if got.status != 125 || !strings.Contains(got.out, c.want) || lines != 1 {
				t.Errorf("status %d, want %q\n%s", got.status, c.want, got.out)
			}
		})
	}
}

// TestDoctorInside: if it is a sandbox around nsrun that allows no user namespaces, doctor names no setting that cannot
// be changed from there.
func TestDoctorInside(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	const setting, outside = "try: sysctl user.max_user_namespaces=10000\n", "try: run nsrun outside of the container or sandbox that it is in"
	for limit, want := range map[string]string{
		"echo 0 >/proc/sys/user/max_user_namespaces && exec ":                               setting,
		"echo 1 >/proc/sys/user/max_user_namespaces && exec unshare -U --map-root-user -- ": outside,
	} {
		unshare, err := exec.LookPath("unshare")
		if err != nil {
			testenv.Skip(t, "unshare", err.Error())
			return
		}
		cmd := command("-U", "--map-root-user", "/bin/sh", "-c", limit+filepath.Join(bin, "nsrun")+" doctor")
		cmd.Env = append(os.Environ(), "HOME="+testenv.Dir(t))
		if got := runs(t, bin, unshare, cmd); !strings.Contains(got.out, want) || strings.Contains(got.out, setting) != (want == setting) {
			t.Errorf("%s: want %q\n%s", limit, want, got.out)
		}
	}
}
