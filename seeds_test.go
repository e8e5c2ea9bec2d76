//go:build linux

package nsrun_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// These tests have the names of the seeds' bullets.

// TestExecString: execute a command string, return stdout, then stderr, then the exit
// code if it is not zero.
func TestExecString(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p")})
	for command, want := range map[string]string{
		"echo out":                   "out\n",
		"echo err >&2; echo out":     "out\nerr\n",
		"printf out; printf err >&2": "out\nerr",
		"exit 7":                     "exit code: 7\n",
		"printf out; false":          "out\nexit code: 1\n",
		"true":                       "",
		"kill -9 $$":                 "exit code: 137 (killed)\n",
		"cd /usr && pwd":             "/usr\n",
		"echo a b | tr ' ' '\\n' | sort -r | head -1": "b\n",
		"no-such-command-here 2>/dev/null":            "exit code: 127\n",
		`printf 'a\tb\r\n\033[31mred\377\rx'`:         "a\tb\n" + `\x1b[31mred\xff\rx`,
		"cat":                                         "", // standard input is /dev/null
	} {
		if got := sh(t, r, command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestErrorFormat: errors are text that starts with ERROR:.
func TestErrorFormat(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "file: x")
	p := filepath.Join(dir, "p")
	for _, c := range []struct {
		config  nsrun.Config
		request nsrun.Request
		want    string
	}{
		{nsrun.Config{Project: p}, nsrun.Request{Command: "true", WorkingDir: "/x"}, "ERROR: Working directory does not exist: /x\n"},
		{nsrun.Config{Project: p}, nsrun.Request{Command: "true", WorkingDir: "/x\x1b[2J"}, `ERROR: Working directory does not exist: /x\x1b[2J` + "\n"},
		{nsrun.Config{Project: p}, nsrun.Request{Command: "true", WorkingDir: p + "/file"}, "ERROR: Working directory is not a directory: " + p + "/file\n"},
		{nsrun.Config{Project: p}, nsrun.Request{}, "ERROR: Run: no command was given\n"},
		{nsrun.Config{Project: p}, nsrun.Request{Command: "a", Args: []string{"a"}}, "ERROR: Run: a request has Command or Args, not both\n"},
		{nsrun.Config{Project: p}, nsrun.Request{Args: []string{"/no-such-program"}}, "ERROR: Exec /no-such-program: no such file or directory\n"},
		{nsrun.Config{Project: p}, nsrun.Request{Command: "true", Network: true}, "ERROR: Network access was denied: the command was not run (there is nobody to ask)\n"},
		{nsrun.Config{Project: "p"}, nsrun.Request{Command: "true"}, "ERROR: Use as project p: path is not absolute\n"},
		{nsrun.Config{Project: p + "/none"}, nsrun.Request{Command: "true"}, "ERROR: Use as project " + p + "/none: no such file or directory\n"},
		{nsrun.Config{Project: p, Shared: []nsrun.Folder{{Path: p}}}, nsrun.Request{Command: "true"}, "ERROR: Use as project " + p + ": it is given twice\n"},
	} {
		r := nsrun.NewRunner(c.config)
		res, err := r.Run(t.Context(), c.request)
		if got := res.String(); got != c.want || err == nil || res.Err != err || res.Started {
			t.Errorf("%+v: %q, %v, want %q", c.request, got, err, c.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := sessions(t); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func sessions(t testing.TB) (n int) {
	for range overlay.List("") {
		n++
	}
	return n
}

// TestSharedFolders: several folders read-write, with an overlay or direct, more
// read-only; free of links, existing, absolute.
func TestSharedFolders(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "over/f: 1", "direct/f: 1", "read/f: 1", "blocked/f: 1", "other/f: 1", "link => over")
	at := func(name string) string { return filepath.Join(dir, name) }
	r := runner(t, nsrun.Config{Project: at("p"), Shared: []nsrun.Folder{
		{Path: at("link")}, {Path: at("direct"), Mode: nsrun.Direct}, {Path: at("read"), Mode: nsrun.ReadOnly},
	}})
	got := sh(t, r, "cd "+dir+"; for d in p over direct read; do (echo 2 >$d/f) 2>/dev/null || echo no $d; done; cat over/f direct/f read/f; ls")
	// What lies in the private /tmp is there only if it was shared.
	if want := "no read\n2\n2\n1direct\nhome\nover\np\nread\n"; strings.HasPrefix(dir, "/tmp/") && got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, want := range map[string]string{"p/f": "-", "over/f": "1", "direct/f": "2\n", "read/f": "1"} {
		if got := content(at(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"p/f": "2\n", "over/f": "2\n", "other/f": "1"} {
		if got := content(at(name)); got != want {
			t.Errorf("after the commit %s: %q, want %q", name, got, want)
		}
	}
	blocked := runner(t, nsrun.Config{Project: at("p"), Shared: []nsrun.Folder{{Path: dir, Mode: nsrun.ReadOnly}, {Path: at("blocked"), Mode: nsrun.Blocked}}})
	if got := sh(t, blocked, "cat "+at("other/f")+"; cat "+at("blocked/f")+" 2>/dev/null"); got != "1\nexit code: 1\n" {
		t.Errorf("blocked: %q", got)
	}
	if _, err := nsrun.NewRunner(nsrun.Config{Shared: []nsrun.Folder{{Path: dir, Mode: nsrun.Direct}, {Path: at("p")}}}).Run(t.Context(), nsrun.Request{Command: "true"}); err == nil {
		t.Error("an overlay in a direct folder was accepted")
	}
}

// TestSystemWritesBlocked: commands that write outside of the project fail, with the error
// in their own output.
func TestSystemWritesBlocked(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p")})
	for _, f := range []string{"/etc/nsrun-was-here", "/usr/bin/nsrun-was-here", "/nsrun-was-here"} {
		if got := sh(t, r, "touch "+f); !strings.Contains(got, "Read-only file system") || !strings.HasSuffix(got, "exit code: 1\n") {
			t.Errorf("%s: %q", f, got)
		}
		if content(f) != "-" {
			t.Errorf("%s was made", f)
		}
	}
}

// TestNestedDetection: a Runner in a sandbox still makes one.
func TestNestedDetection(t *testing.T) {
	if os.Getenv("NSRUN_NESTED") != "" {
		dir := place(t)
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p")})
		if got := sh(t, r, "touch /usr/nsrun-was-here 2>/dev/null || echo read-only; echo x >f; cat f"); got != "read-only\nx\n" {
			t.Fatalf("inside: %q", got)
		}
		if content(dir, "p", "f") != "-" {
			t.Fatal("inside: no overlay")
		}
		return
	}
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Skip(t, "bwrap", err.Error())
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bwrap", "--dev-bind", "/", "/", "--unshare-ipc", "--unshare-net", "--die-with-parent",
		exe, "-test.run=^TestNestedDetection$", "-test.v")
	c.Env = append(os.Environ(), "NSRUN_NESTED=1", "NSRUN_TEST_AS_ROOT=shared")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestNestedDetection") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPlayground: made if missing, at $HOME/playground inside, writable, kept after the
// command, always there, and nothing is left in the home directory.
func TestPlayground(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for name, config := range map[string]nsrun.Config{"project": {}, "direct": {Mode: nsrun.Direct}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			home := filepath.Join(dir, "home")
			if name != "none" {
				config.Project = filepath.Join(dir, "p")
			}
			// Out of the private /tmp, where there may be any directory.
			config.Shared = []nsrun.Folder{{Path: home, Mode: nsrun.ReadOnly}}
			testenv.Tree(t, home, "notes: mine", ".ssh/id: secret")
			r := runner(t, config)
			if got := sh(t, r, `cd && echo x >playground/f && ls && (touch g 2>/dev/null; cat .ssh/id 2>/dev/null) || echo closed`); got != "notes\nplayground\nclosed\n" {
				t.Errorf("got %q", got)
			}
			if got := content(playgroundOf(t, config.Project), "f"); got != "x\n" {
				t.Errorf("outside: %q", got)
			}
			if content(home, "playground/f") != "-" || isThere(home, "playground") {
				t.Error("something is in the home directory")
			}
			got := output(t, r, nsrun.Request{Command: "pwd; cat f; ls $HOME/.local/share/nsrun 2>&1", WorkingDir: "playground"})
			hidden := strings.Contains(got, "No such file") || strings.Contains(got, "Permission denied") // the latter without an overlay
			if !strings.HasPrefix(got, home+"/playground\nx\n") || !hidden {
				t.Errorf("as working directory: %q", got)
			}
		})
	}
}

// playgroundOf is a project's playground on the host.
func playgroundOf(t *testing.T, project string) string {
	t.Helper()
	dir, err := nsrun.ProjectPlayground(project)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPlaygroundMirror: where something is mounted in the home directory, no overlay can be
// laid over it, and what is in it is still there.
func TestPlaygroundMirror(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	home := filepath.Join(dir, "home")
	testenv.Tree(t, home, "mounted/", "notes: mine", ".ssh/id: secret", "link => notes")
	if err := unix.Mount("tmpfs", filepath.Join(home, "mounted"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(filepath.Join(home, "mounted"), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	testenv.Tree(t, home, "mounted/f: below")
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Shared: []nsrun.Folder{{Path: home, Mode: nsrun.ReadOnly}}})
	got := sh(t, r, "cd; cat link mounted/f; echo x >playground/f; cat .ssh/id 2>/dev/null; (touch g mounted/g) 2>/dev/null; ls")
	if want := "minebelowlink\nmounted\nnotes\nplayground\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if isThere(home, "playground") || isThere(home, "g") || content(playgroundOf(t, filepath.Join(dir, "p")), "f") != "x\n" {
		t.Error("the home directory was changed")
	}
}

func isThere(name ...string) bool {
	_, err := os.Lstat(filepath.Join(name...))
	return err == nil
}

// TestPlaygroundPlaces: whatever is at $HOME/playground, and wherever the home directory
// is.
func TestPlaygroundPlaces(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const write = "echo x >~/playground/f; ls -A ~/playground"
	for name, tree := range map[string][]string{
		"directory": {"playground/mine: 1"}, "link": {"playground => /etc"}, "dangling": {"playground => nowhere"}, "file": {"playground: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			home := filepath.Join(dir, "home")
			testenv.Tree(t, home, tree...)
			for _, mode := range []nsrun.Mode{nsrun.ReadOnly, nsrun.Overlay} {
				if mode == nsrun.Overlay || name != "directory" {
					need(t, features.Overlay) // else only a directory is covered, and a copy of the home directory is refused
				}
				if mode == nsrun.Overlay {
					t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "data"))
				}
				r := runner(t, nsrun.Config{Shared: []nsrun.Folder{{Path: home, Mode: mode}}})
				if got := sh(t, r, write); got != "f\n" {
					t.Errorf("%s: %q", mode, got)
				}
				// Of an overlay over the home directory the playground is not a change.
				if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err != nil || len(res.Changes) != 0 {
					t.Errorf("%s: %v, %v", mode, res.Changes, err)
				}
			}
			if content("/etc/f") != "-" || content(home, "playground/f") != "-" {
				t.Error("the existing file was written to")
			}
		})
	}
	t.Run("data directory in the project", func(t *testing.T) {
		need(t, features.Overlay) // a copy of such a project is refused
		dir := place(t)
		p := filepath.Join(dir, "p")
		t.Setenv("XDG_DATA_HOME", filepath.Join(p, "data"))
		r := runner(t, nsrun.Config{Project: p})
		if got := sh(t, r, write+"; ls data/nsrun 2>/dev/null"); got != "f\nexit code: 2\n" {
			t.Errorf("got %q", got)
		}
		if got := content(playgroundOf(t, p), "f"); got != "x\n" {
			t.Errorf("outside: %q", got)
		}
		direct := runner(t, nsrun.Config{Project: p, Mode: nsrun.Direct})
		if res, err := direct.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil {
			t.Errorf("the playground can be moved away: %s", res)
		}
	})
	t.Run("somebody else's", func(t *testing.T) {
		testenv.NeedRoot(t)
		dir := place(t)
		play := playgroundOf(t, filepath.Join(dir, "p"))
		testenv.Tree(t, play, "theirs: x")
		if err := os.Chown(play, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p")})
		res, err := r.Run(t.Context(), nsrun.Request{Command: "true"})
		if err != nil || len(res.Notices) != 1 || res.Notices[0].Kind != nsrun.NoticePlayground || !strings.Contains(res.Notices[0].Text, "it is not yours") {
			t.Errorf("%q, %v", res.Notices, err)
		}
	})
	t.Run("off", func(t *testing.T) {
		dir := place(t)
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), NoPlayground: true})
		if got := sh(t, r, "ls ~/playground 2>/dev/null"); got != "exit code: 2\n" || isThere(dir, "home/.local") {
			t.Errorf("got %q", got)
		}
	})
}

// TestWorkingDir: the project by default, absolute paths, paths relative to the project, and the playground by both of
// its names. The sandbox's directories count, not the host's.
func TestWorkingDir(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "sub/f: 1")
	p, play := filepath.Join(dir, "p"), filepath.Join(dir, "home/playground")
	r := runner(t, nsrun.Config{Project: p})
	for in, want := range map[string]string{
		"": p, p: p, "sub": p + "/sub", "./sub/": p + "/sub", p + "/sub": p + "/sub", "/usr": "/usr", "/": "/",
		"playground": play, play: play, "~/playground": play, "$HOME/playground": play, "${HOME}": filepath.Dir(play),
		"/tmp": "/tmp",
	} {
		if got := output(t, r, nsrun.Request{Command: "pwd", WorkingDir: in}); got != want+"\n" {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	sh(t, r, "mkdir new; rm -r sub")
	if got := output(t, r, nsrun.Request{Command: "pwd", WorkingDir: "new"}); got != p+"/new\n" {
		t.Errorf("in the session: %q", got)
	}
	res, err := r.Run(t.Context(), nsrun.Request{Command: "pwd", WorkingDir: "sub"})
	if got := res.String(); err == nil || got != "ERROR: Working directory does not exist: "+p+"/sub\n" {
		t.Errorf("gone: %q", got)
	}
	// Anywhere, and only folders and the playground can be written to.
	if got := output(t, r, nsrun.Request{Command: "echo x >f", WorkingDir: "/usr"}); !strings.Contains(got, "Read-only") {
		t.Errorf("/usr: %q", got)
	}
}

// asked is an Approver that writes down what it was asked.
type asked struct {
	mu        sync.Mutex
	answer    nsrun.Answer
	questions []nsrun.Question
}

func (a *asked) Approve(_ context.Context, q nsrun.Question) (nsrun.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.questions = append(a.questions, q)
	return a.answer, nil
}

// store is Permissions in memory.
type store map[string]bool

func (s store) Permission(project, action, target string) (allow, found bool, err error) {
	allow, found = s[project+"|"+action+"|"+target]
	return allow, found, nil
}

func (s store) SetPermission(project, action, target string, allow bool) error {
	s[project+"|"+action+"|"+target] = allow
	return nil
}

// TestNetworkApproval: blocked by default; with permission there; denied it is not run;
// never cached; asked once each time, with a target that is unique.
func TestNetworkApproval(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	// A network is there where it is the host's.
	const look = "readlink /proc/self/ns/net"
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []nsrun.Answer{nsrun.Deny, nsrun.DenySession, nsrun.DenyAlways, nsrun.Allow, nsrun.AllowSession, nsrun.AllowAlways} {
		if answer.Allows() {
			need(t, features.LandlockScopes) // else the host's network takes its abstract sockets, too
		}
		a, kept := &asked{answer: answer}, store{}
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Approver: a, Permissions: kept})
		if got := sh(t, r, look); got == host+"\n" || got == "" {
			t.Errorf("not asked for: %q", got)
		}
		for n := range 3 {
			res, err := r.Run(t.Context(), nsrun.Request{Command: look + "; touch ran", Network: true})
			if answer.Allows() {
				if got := res.String(); err != nil || got != host+"\n" {
					t.Errorf("%d: %q, %v", answer, got, err)
				}
			} else if got := res.String(); got != "ERROR: Network access was denied: the command was not run\n" || !res.Denied || res.Started {
				t.Errorf("%d: %q", answer, got)
			}
			if len(a.questions) != n+1 {
				t.Fatalf("%d: asked %d times, want %d", answer, len(a.questions), n+1)
			}
		}
		targets := make(map[string]bool)
		for _, q := range a.questions {
			targets[q.Target] = true
			if !q.OneTime || q.Action != nsrun.ActionNetwork || q.String() != "Run command with network access: "+look+"; touch ran?" {
				t.Errorf("asked %+v", q)
			}
		}
		if len(targets) != 3 || len(kept) != 0 {
			t.Errorf("targets %v, kept %v", targets, kept)
		}
	}
}

// TestPermissions: others can be allowed once, for the session, always, and denied
// likewise; what is to last is kept.
func TestPermissions(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "other/")
	p, other := filepath.Join(dir, "p"), filepath.Join(dir, "other")
	for answer, want := range map[nsrun.Answer]struct{ asked, again, kept int }{
		nsrun.Deny: {2, 3, 0}, nsrun.Allow: {2, 3, 0}, nsrun.DenySession: {1, 2, 0}, nsrun.AllowSession: {1, 2, 0},
		nsrun.DenyAlways: {1, 1, 1}, nsrun.AllowAlways: {1, 1, 1},
	} {
		a, kept := &asked{answer: answer}, store{}
		q := nsrun.Request{Command: "echo x >" + other + "/f", Paths: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: other}}}
		c := nsrun.Config{Project: p, Approver: a, Permissions: kept}
		try := func(r *nsrun.Runner) {
			t.Helper()
			_ = os.Remove(filepath.Join(other, "f"))
			res, _ := r.Run(t.Context(), q)
			if got := content(other, "f"); (got == "x\n") != answer.Allows() || res.Denied == answer.Allows() {
				t.Errorf("%d: %q, %s", answer, got, res)
			}
		}
		r := runner(t, c)
		try(r)
		try(r)
		if len(a.questions) != want.asked {
			t.Errorf("%d: asked %d times, want %d", answer, len(a.questions), want.asked)
		}
		try(runner(t, c))
		if len(a.questions) != want.again || len(kept) != want.kept {
			t.Errorf("%d: another Runner: asked %d times, kept %v, want %+v", answer, len(a.questions), kept, want)
		}
		if q := a.questions[0]; q.OneTime || q.Target != other || q.Project != p || q.Action != nsrun.ActionWrite {
			t.Errorf("asked %+v", q)
		}
	}
}

// swapping is an Approver that makes a path lead elsewhere while it is asked.
type swapping struct{ link, to string }

func (s swapping) Approve(_ context.Context, q nsrun.Question) (nsrun.Answer, error) {
	_ = os.RemoveAll(s.link)
	return nsrun.Allow, os.Symlink(s.to, s.link)
}

// TestApprovedPath: an approval holds for the file that a link leads to, and no other file can be put there afterwards.
func TestApprovedPath(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "other/", "secret/", "link => other", "a*/", "ab/")
	at := func(name string) string { return filepath.Join(dir, name) }
	try := func(a nsrun.Approver, path string) (nsrun.Result, error) {
		r := runner(t, nsrun.Config{Project: at("p"), Approver: a})
		return r.Run(t.Context(), nsrun.Request{
			Command: "touch " + at("other/f") + " " + at("secret/f") + " " + at("ab/f"), Paths: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: path}},
		})
	}
	a := &asked{answer: nsrun.Allow}
	if _, err := try(a, at("link")); err != nil || a.questions[0].Target != at("other") || !isThere(dir, "other/f") {
		t.Errorf("%v, %+v", err, a.questions)
	}
	if _, err := try(swapping{at("other"), at("secret")}, at("link")); err == nil || isThere(dir, "secret/f") {
		t.Errorf("the file was written elsewhere: %v", err)
	}
	// No pattern.
	if _, err := try(a, at("a*")); err != nil || isThere(dir, "ab/f") {
		t.Errorf("%v", err)
	}
	for _, path := range []string{"other", at("none"), ""} {
		if res, err := try(a, path); err == nil || res.Started {
			t.Errorf("%q: %s", path, res)
		}
	}
}

// TestApproverFails: an error, or an answer with an unknown value, does not count as a yes.
func TestApproverFails(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	for _, a := range []nsrun.Approver{&asked{answer: 77}, failing{}, nil} {
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Approver: a})
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "true", Network: true}); err == nil || !res.Denied || res.Started {
			t.Errorf("%v: %s", a, res)
		}
	}
}

type failing struct{}

func (failing) Approve(context.Context, nsrun.Question) (nsrun.Answer, error) {
	return nsrun.Allow, fmt.Errorf("out of order")
}

// TestSymlinks: links that lead out of the sandbox can be made and lead nowhere that can
// be written to; links inside work, and are changes like others.
func TestSymlinks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: 1", "in => f")
	testenv.Tree(t, dir, "outside/f: 1")
	p, out := filepath.Join(dir, "p"), filepath.Join(dir, "outside")
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Shared: []nsrun.Folder{{Path: out, Mode: nsrun.ReadOnly}}})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "ln -s " + out + "/f out; ln -s f new; ln -s /usr/nsrun-new dangling; echo 2 >in; cat new out; echo 3 >out"})
	if err != nil || !strings.HasPrefix(res.Stdout.String(), "2\n1") || res.ExitCode == 0 || !strings.Contains(res.Stderr.String(), "Read-only") {
		t.Errorf("%s, %v", res, err)
	}
	if got := res.Report(); got != "A dangling\nM f\nA new\nA out\n" {
		t.Errorf("changes %q", got)
	}
	for name, want := range map[string]string{"out": out + "/f", "new": "f", "dangling": "/usr/nsrun-new"} {
		if got, err := os.Readlink(filepath.Join(p, name)); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if content(out, "f") != "1" || content(p, "f") != "2\n" {
		t.Error("the link leads to the wrong file")
	}
}

// TestReadOnlyAccessToAllFiles: what is on the host can be read at its own path.
func TestReadOnlyAccessToAllFiles(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p")})
	for _, name := range []string{"/etc/passwd", "/etc/hosts"} {
		if got, want := sh(t, r, "cat "+name+" | wc -c"), strconv.Itoa(len(content(name)))+"\n"; got != want {
			t.Errorf("%s: %q bytes, want %q", name, got, want)
		}
	}
	if got := sh(t, r, "test -x /usr/bin/env && ls / | grep -c usr"); got != "1\n" {
		t.Errorf("%q", got)
	}
}

// TestWritesGoToTheOverlay: writes to the project are in the upper directory, and the original is unchanged. The final
// state lists modified, new and deleted files.
func TestWritesGoToTheOverlay(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "old: 1", "gone: 1", "same: 1"), "p")
	r := runner(t, nsrun.Config{Project: p})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo 2 >old; echo 3 >new; rm gone; echo -n 1 >same; cat old new; ls"})
	if err != nil || res.String() != "2\n3\nnew\nold\nsame\n" {
		t.Errorf("%s, %v", res, err)
	}
	if content(p, "old") != "1" || content(p, "gone") != "1" || isThere(p, "new") {
		t.Error("the project was changed")
	}
	if got := res.Report(); got != "D gone\nA new\nM old\n" {
		t.Errorf("%q", got)
	}
	need(t, features.Overlay)
	if got := content(r.Session().Roots()[0].Upper, "new"); got != "3\n" {
		t.Errorf("the upper directory has %q", got)
	}
}

// TestPrivateDirectories: /tmp, /dev and /proc are there, and the command's own.
func TestPrivateDirectories(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p")})
	const command = `echo x >/tmp/nsrun-was-here && cat /tmp/nsrun-was-here && echo y >/dev/null && head -c 3 /dev/zero | wc -c && test -d /proc/self/fd && ls -d /proc/[0-9]* | wc -l`
	got := strings.Fields(sh(t, r, command))
	if len(got) != 3 || got[0] != "x" || got[1] != "3" || len(got[2]) > 1 {
		t.Errorf("%q", got)
	}
	if isThere("/tmp/nsrun-was-here") {
		t.Error("the host's /tmp was written to")
	}
}

// TestEnvironmentIsPreserved: what commands need is as in the caller's environment, secrets
// are not, and more can be added.
func TestEnvironmentIsPreserved(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("MY_SETTING", "kept")
	t.Setenv("GITHUB_TOKEN", "secret")
	const command = `echo "$LANG $MY_SETTING $HOME $GITHUB_TOKEN $MORE"; test -n "$PATH"`
	r := runner(t, nsrun.Config{Project: p, Env: []string{"MORE=from the config"}})
	if got, want := sh(t, r, command), "C.UTF-8 kept "+os.Getenv("HOME")+"  from the config\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := output(t, r, nsrun.Request{Command: "echo $MORE", Env: []string{"MORE=from the request"}}); got != "from the request\n" {
		t.Errorf("%q", got)
	}
	clear := runner(t, nsrun.Config{Project: p, ClearEnv: true})
	if got := sh(t, clear, `echo "$MY_SETTING$LANG"`); got != "\n" {
		t.Errorf("%q", got)
	}
}

// TestOverlayOfSeveralRoots: each root has a directory of its own below upper, overlay1,
// overlay2 and so on, in a session that has the time in its name; changes are told at their
// paths in the projects.
func TestOverlayOfSeveralRoots(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: 1")
	testenv.Tree(t, dir, "second/f: 1", "third/f: 1")
	at := func(name string) string { return filepath.Join(dir, name) }
	r := runner(t, nsrun.Config{Project: at("p"), Shared: []nsrun.Folder{{Path: at("second")}, {Path: at("third")}}})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo 2 >f; echo 2 >" + at("second/f") + "; echo 2 >" + at("third/n")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.Report(), "M "+at("p/f")+"\nM "+at("second/f")+"\nA "+at("third/n")+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := time.Parse("20060102T150405Z", strings.Split(res.Session, "-")[0]); err != nil {
		t.Error(err)
	}
	for i, root := range r.Session().Roots() {
		want := filepath.Join(at("state"), "nsrun/sessions", res.Session, "upper/overlay"+strconv.Itoa(i+1))
		if root.Upper != want || root.Path != at([]string{"p", "second", "third"}[i]) {
			t.Errorf("%+v, want %s", root, want)
		}
	}
	if content(at("p/f")) != "1" || content(at("second/f")) != "1" || isThere(at("third/n")) {
		t.Error("a project was changed")
	}
	other := runner(t, nsrun.Config{Project: at("p")})
	if res2, err := other.Run(t.Context(), nsrun.Request{Command: "cat f"}); err != nil || res2.String() != "1" || res2.Session == res.Session {
		t.Errorf("%q in %s, %v", res2, res2.Session, err)
	}
}

// TestProjectFileDetection: the project is the git work tree around a directory, the
// innermost one; without one it is the directory.
func TestProjectFileDetection(t *testing.T) {
	dir := place(t, ".git/HEAD", "a/b/", "inner/.git/HEAD", "inner/c/", "module/.git: gitdir: elsewhere", "module/d/")
	p := filepath.Join(dir, "p")
	for from, want := range map[string]string{
		p: p, filepath.Join(p, "a/b"): p, filepath.Join(p, "inner/c"): filepath.Join(p, "inner"),
		filepath.Join(p, "module/d"): filepath.Join(p, "module"), filepath.Join(dir, "home"): filepath.Join(dir, "home"),
	} {
		if got := nsrun.FindProject(from); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}

// TestReportOfChanges: the model can be told what changed, in a line each in which nothing
// acts on a terminal.
func TestReportOfChanges(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "a: 1", "d/x: 1"), "p")
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard})
	res, err := r.Run(t.Context(), nsrun.Request{Command: `rm -r d; mkdir n; echo >n/f; chmod 711 a; touch "$(printf 'x\033[2J')"`})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.Report(), "M a\nD d/\nA n/\nA n/f\nA "+`"x\x1b[2J"`+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if res.State != overlay.Discarded || isThere(p, "n") {
		t.Errorf("%v", res.State)
	}
}
