//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// livesIn has the caller live in a directory that is in no private place of a sandbox, until the test ends.
func livesIn(t *testing.T, dir, home string) {
	t.Helper()
	isAt(t, filepath.Join(dir, "home"), home)
	t.Setenv("HOME", home)
}

// isAt shows a directory at a path, until the test ends.
func isAt(t *testing.T, dir, path string) {
	t.Helper()
	if err := unix.Mount(dir, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestHomeLayers: commands of Runners, in sequence and at the same time, see what earlier commands wrote below the home
// directory. With the zero Config the home directory is read-only.
func TestHomeLayers(t *testing.T) {
	testenv.NeedRoot(t) // the home directory must not be in a private place
	need(t, features.Overlay)
	for _, after := range []nsrun.After{nsrun.Commit, nsrun.Keep, nsrun.Discard} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			testenv.Leaks(t, nsexec.Shutdown)
			dir := place(t, "f: 1")
			livesIn(t, dir, "/srv")
			testenv.Tree(t, "/srv", ".netrc: secret", ".cache/x: 1")
			p := filepath.Join(dir, "p")
			r := runner(t, nsrun.Config{Project: p, After: after, Home: nsrun.HomeLayer})
			sh(t, r, "echo first >~/.tool; echo mine >~/.netrc; echo 2 >~/.cache/x")
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					res, err := r.Run(t.Context(), nsrun.Request{Command: fmt.Sprintf("cat ~/.tool ~/.netrc ~/.cache/x && mkdir -p ~/.many && echo %d >~/.many/%d", i, i)})
					if err != nil || res.String() != "first\nmine\n2\n" {
						t.Errorf("%v: %s", err, res)
					}
				})
			}
			all.Wait()
			if got := sh(t, r, "cat ~/.many/*"); got != "0\n1\n2\n3\n4\n5\n6\n7\n" {
				t.Errorf("eight commands at once left %q", got)
			}
			if got := content("/srv", ".netrc") + content("/srv", ".cache/x") + content("/srv", ".tool"); got != "secret1-" {
				t.Errorf("outside: %q", got)
			}
			res, err := runner(t, nsrun.Config{Project: p, After: nsrun.Discard}).Run(t.Context(), nsrun.Request{Command: "touch ~/.new; cat ~/.tool ~/.netrc ~/.cache/x"})
			if err != nil || res.ExitCode == 0 || strings.Count(res.String(), "No such file") != 2 || !strings.Contains(res.String(), "Read-only") || res.Stdout.String() != "1" {
				t.Errorf("%v: %s", err, res)
			}
			// Strict sandboxes have none.
			strict := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Home: nsrun.HomeLayer, Preset: nsrun.StrictPreset})
			if res, err := strict.Run(t.Context(), nsrun.Request{Command: "ls -A /srv"}); err != nil || strings.Contains(res.Stdout.String(), ".tool") {
				t.Errorf("%v: %s", err, res)
			}
		})
	}
}

// TestHomeInTemp: a home directory below one for temporary files has its layer, and what is hidden elsewhere is hidden
// there. Of the rest of that directory nothing is seen. The control is a folder.
func TestHomeInTemp(t *testing.T) {
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	for _, temp := range []string{"/tmp", "/var/tmp"} {
		dir := place(t)
		top, err := os.MkdirTemp(temp, "nsrun-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(top) })
		home := filepath.Join(top, "home")
		testenv.Tree(t, top, "beside", "home/.netrc: secret", "home/.tool: 1", "home/sub/")
		t.Setenv("HOME", home)
		serveUnix(t, home, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, home+"/socket", "sub/socket")
		dial := insideRequest(t, "dial", home+"/socket", home+"/sub/socket", home+"/none")
		shown := []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: self(t)}}
		folder := nsrun.Config{Shared: []nsrun.Folder{{Path: home, Mode: nsrun.ReadOnly}}, AllowUnix: []string{home + "/socket", home + "/sub/socket"}, Rules: shown}
		if got := output(t, runner(t, folder), dial); strings.Count(got, "reached\n") != 2 {
			t.Fatalf("%s: the control: %s", home, got)
		}
		for name, config := range map[string]nsrun.Config{
			"overlay": {Project: filepath.Join(dir, "p"), After: nsrun.Discard},
			"direct":  {Shared: []nsrun.Folder{{Path: filepath.Join(dir, "p"), Mode: nsrun.Direct}}},
		} {
			t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state", name))
			config.Home, config.Rules = nsrun.HomeLayer, shown
			r := runner(t, config)
			sh(t, r, "echo "+name+" >>~/.tool; echo mine >~/.new")
			if got := sh(t, r, "cat ~/.tool ~/.new; cat ~/.netrc 2>&1 || ls "+top); got != "1"+name+"\nmine\ncat: "+home+"/.netrc: No such file or directory\nhome\n" {
				t.Errorf("%s, %s: %s", home, name, got)
			}
			if got := output(t, r, dial); strings.Contains(got, "reached") {
				t.Errorf("%s, %s: %s", home, name, got)
			}
			if got := content(home, ".tool") + content(home, ".new"); got != "1-" {
				t.Errorf("%s, %s: outside: %q", home, name, got)
			}
		}
	}
}

// TestHomeInShm: a home directory in memory that each command has of its own is empty at the start, and a notice says
// so.
func TestHomeInShm(t *testing.T) {
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	home, err := os.MkdirTemp("/dev/shm", "nsrun-test-")
	if err != nil {
		testenv.Skip(t, "/dev/shm", err.Error())
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	testenv.Tree(t, home, ".netrc: secret")
	t.Setenv("HOME", home)
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer})
	for range 2 {
		res, err := r.Run(t.Context(), nsrun.Request{Command: "ls -A ~; echo new >~/new"})
		if err != nil || res.String() != "playground\n" || len(res.Notices) != 1 || !strings.Contains(res.Notices[0].Text, "no home layer: each command has an empty "+home) {
			t.Errorf("%v, %q: %s", err, res.Notices, res)
		}
	}
	if content(home, "new") != "-" {
		t.Error("a command wrote to the home directory")
	}
}

// TestOtherHome: if $HOME is not the home directory in /etc/passwd, commands can write to both, each in a layer of its
// own. What is hidden in one is hidden in the other.
func TestOtherHome(t *testing.T) {
	testenv.NeedRoot(t)
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	other := me.HomeDir
	dir := place(t)
	testenv.Tree(t, dir, "other/", "other/.netrc: secret", "other/.cache/nsrun/copy: secret", "other/.local/share/nsrun/playground/f: secret",
		"other/.local/state/nsrun/log: secret", "other/.tool: 1", "other/inner/")
	if err := os.Chmod(filepath.Join(dir, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	livesIn(t, dir, "/srv")
	isAt(t, filepath.Join(dir, "other"), other)
	t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "data")) // for playgrounds
	before := testenv.Listing(t, other)
	secrets := strings.NewReplacer("OTHER", other).Replace("cat OTHER/.netrc OTHER/.cache/nsrun/* OTHER/.local/share/nsrun/*/* OTHER/.local/state/nsrun/* 2>/dev/null; ")
	for i, c := range []struct {
		home string
		set  func(*nsrun.Config)
	}{
		{"/srv", func(*nsrun.Config) {}},
		{"/srv", func(c *nsrun.Config) { c.OwnIDs = true }},
		{"/srv", func(c *nsrun.Config) { c.Limits.Disk = 64 << 20 }},
		{filepath.Join(other, "inner"), func(*nsrun.Config) {}},
		{"/srv/missing", func(*nsrun.Config) {}},
	} {
		t.Setenv("HOME", c.home)
		config := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer}
		c.set(&config)
		r := runner(t, config)
		name := fmt.Sprintf("%s/.made-%d", other, i)
		if got := sh(t, r, secrets+"echo 2 >"+other+"/.tool; echo in >"+name); got != "" {
			t.Errorf("%s: %s", c.home, got)
		}
		if got := sh(t, r, secrets+"cat "+other+"/.tool "+name); got != "2\nin\n" {
			t.Errorf("%s: %s", c.home, got)
		}
		if diff := testenv.Difference(t, other, before); diff != "" {
			t.Errorf("%s: outside: %s", c.home, diff)
		}
	}
	t.Setenv("HOME", "/srv")
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer})
	if v, err := r.View(t.Context(), nsrun.Request{Command: "true"}); err != nil || v.Home != "/srv" || v.OtherHome != other {
		t.Errorf("%v: %q, %q", err, v.Home, v.OtherHome)
	}
	for _, name := range []string{".netrc", ".cache", ".local"} { // nothing is hidden then
		if err := os.RemoveAll(filepath.Join(other, name)); err != nil {
			t.Fatal(err)
		}
	}
	limited := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer, Limits: nsrun.Limits{Disk: 64 << 20}})
	if got := sh(t, limited, "echo 3 >"+other+"/.tool; cat "+other+"/.tool"); got != "3\n" {
		t.Error(got)
	}
	// A home directory of another user does not count, although root could write to it.
	if err := os.Chown(other, 7, 7); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, r, "touch "+other+"/.new"); !strings.Contains(got, "Read-only") && !strings.Contains(got, "denied") {
		t.Errorf("somebody else's: %s", got)
	}
}

// TestHomeSize: what makes a layer too large is removed when the command has ended, and a notice says so.
func TestHomeSize(t *testing.T) {
	testenv.NeedRoot(t)
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	livesIn(t, dir, "/srv")
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer, HomeSize: 4 << 20}
	r := runner(t, c)
	res, err := r.Run(t.Context(), nsrun.Request{Command: "mkdir -p ~/.npm ~/.config; head -c 8M /dev/zero >~/.npm/f; echo 1 >~/.config/tool"})
	if err != nil || len(res.Notices) != 1 || res.Notices[0].Kind != nsrun.NoticeHome || !strings.Contains(res.Notices[0].Text, "the caches in ~/.npm") {
		t.Errorf("%v, %q: %s", err, res.Notices, res)
	}
	if got := sh(t, r, "cat ~/.config/tool; ls -A ~/.npm"); got != "1\n" {
		t.Errorf("%q", got)
	}
	// Written to the session and the layer together.
	c.Limits.Disk, c.HomeSize = 4<<20, 0
	res, err = runner(t, c).Run(t.Context(), nsrun.Request{Command: "head -c 16M /dev/zero >~/.big; sleep 1000"})
	if err != nil || len(res.Limits) != 1 || !res.Limits[0].Killed {
		t.Errorf("%v, %+v: %s", err, res.Limits, res)
	}
}

// TestHomeOf: if a layer cannot be used, a notice says so, and the home directory is read-only.
func TestHomeOf(t *testing.T) {
	testenv.NeedRoot(t)
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	livesIn(t, dir, "/srv")
	homes := filepath.Join(dir, "state/nsrun/homes")
	if err := os.MkdirAll(homes, 0o700); err != nil {
		t.Fatal(err)
	}
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: nsrun.HomeLayer}
	try := func(want string) {
		t.Helper()
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "touch ~/.new"})
		if err != nil || res.ExitCode == 0 || len(res.Notices) != 1 || res.Notices[0].Kind != nsrun.NoticeHome || !strings.Contains(res.Notices[0].Text, want) {
			t.Errorf("%v, %q: %s", err, res.Notices, res)
		}
	}
	if err := unix.Mount("ramfs", homes, "ramfs", 0, "mode=700"); err != nil {
		t.Fatal(err)
	}
	try("this file system cannot hold the changes of an overlay (try: export XDG_STATE_HOME=DIR, with a directory on another file system, such as ext4)")
	if err := unix.Unmount(homes, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(homes, 0o777); err != nil {
		t.Fatal(err)
	}
	try("everybody can write to it")
	if err := os.Chmod(homes, 0o700); err != nil {
		t.Fatal(err)
	}
	res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "touch ~/.new"})
	if err != nil || res.ExitCode != 0 || len(res.Notices) != 0 {
		t.Errorf("%v, %q: %s", err, res.Notices, res)
	}
}

// TestRootCaches: user root's commands see what is in yarn's cache, which is not below the home directory. What they
// write there is gone afterwards.
func TestRootCaches(t *testing.T) {
	testenv.NeedRoot(t)
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "share/.cache/yarn/f: 1", "share/other: 1")
	if err := os.Chmod(filepath.Join(dir, "share"), 0o755); err != nil {
		t.Fatal(err)
	}
	const share = "/usr/local/share"
	isAt(t, filepath.Join(dir, "share"), share)
	before := testenv.Listing(t, share)
	for name, c := range map[string]nsrun.Config{
		"session, home layer": {After: nsrun.Discard, Home: nsrun.HomeLayer}, "session": {After: nsrun.Discard},
		"in place, home layer": {Mode: nsrun.Direct, Home: nsrun.HomeLayer}, "in place": {Mode: nsrun.Direct},
	} {
		c.Project = filepath.Join(dir, "p")
		r := runner(t, c)
		for range 2 {
			const command = "cd /usr/local/share; cat .cache/yarn/*; echo 2 >.cache/yarn/f; mv .cache/yarn .cache/new; cat .cache/new/f; (: >other) 2>/dev/null || echo refused"
			if got := sh(t, r, command); got != "12\nrefused\n" {
				t.Errorf("%s: %q", name, got)
			}
		}
		if diff := testenv.Difference(t, share, before); diff != "" {
			t.Errorf("%s: outside: %s", name, diff)
		}
	}
}

// TestWhyCaches: Why says what happens to writes to a cache where there is no home layer, whichever engine keeps the
// changes of the project.
func TestWhyCaches(t *testing.T) {
	testenv.NeedRoot(t) // the home directory must not be in a private place
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	testenv.Tree(t, dir, "home/", "home/.cache/", "home/.cache/f: x")
	livesIn(t, dir, "/srv")
	for _, engine := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineCopy} {
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Engine: engine, After: nsrun.Discard})
		res, err := r.Run(t.Context(), nsrun.Request{Command: "echo >/srv/.cache/f"})
		if err != nil {
			t.Fatal(err)
		}
		why, err := r.Why(t.Context(), nsrun.Request{Command: "true"}, "/srv/.cache/f")
		want := map[bool]string{true: "temporary", false: "no"}[res.ExitCode == 0]
		if err != nil || why.Write != want || (res.ExitCode == 0) != (engine == overlay.EngineOverlay) {
			t.Errorf("%v: %v, %+v, want %q", engine, err, why, want)
		}
	}
}
