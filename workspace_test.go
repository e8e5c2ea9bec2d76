//go:build linux

package nsrun_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

func names(t *testing.T, dir ...string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir...))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// workspaces runs a test with a workspace that is written to directly, and one with a session.
func workspaces(t *testing.T, f func(t *testing.T, c nsrun.Config, dir string), tree ...string) {
	need(t, features.Overlay)
	for _, mode := range []nsrun.Mode{nsrun.Direct, nsrun.Overlay} {
		t.Run(mode.String(), func(t *testing.T) {
			testenv.Leaks(t, nsexec.Shutdown)
			dir := place(t, tree...)
			f(t, nsrun.Config{Project: filepath.Join(dir, "p"), Mode: mode, Preset: nsrun.WorkspaceRootPreset, After: nsrun.Commit}, dir)
		})
	}
}

// TestWorkspaceIsRoot: the workspace is /, with the host's programs over it, read-only; what is written persists, and
// nothing else is left in it.
func TestWorkspaceIsRoot(t *testing.T) {
	workspaces(t, func(t *testing.T, c nsrun.Config, dir string) {
		r := runner(t, c)
		got := sh(t, r, `pwd; cat /script.py; echo new >/output.txt; mkdir /data && echo x >/data/f; echo y >>/etc/mine; rm /gone; ls /
			for d in /usr /bin /lib /sbin /etc/ssl; do touch $d/x 2>/dev/null && echo $d; done
			(echo x >/etc/hosts) 2>/dev/null; (echo x >/etc/resolv.conf) 2>/dev/null; test -x /usr/bin/env && echo z >/tmp/z && echo >/dev/null && test -d /proc/self && echo done`)
		want := "/\n1bin data dev etc lib output.txt proc sbin script.py sub tmp usr done\n"
		if got := strings.Join(strings.Fields(strings.Replace(got, "lib64\n", "", 1)), " "); got != strings.Join(strings.Fields(want), " ") && !strings.Contains(got, "lib32") {
			t.Errorf("%q", got)
		}
		if got := names(t, dir, "p"); !slices.Equal(got, []string{"data", "etc", "output.txt", "script.py", "sub"}) {
			t.Errorf("the workspace has %q", got)
		}
		if got := names(t, dir, "p", "etc"); !slices.Equal(got, []string{"mine"}) || content(dir, "p/etc/mine") != "1y\n" || content(dir, "p/data/f") != "x\n" {
			t.Errorf("etc of the workspace has %q", got)
		}
		if got := names(t, dir); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, ".nsrun") }) || len(names(t, dir, "state", "nsrun")) == 0 {
			t.Errorf("%q is left", got)
		}
		work := filepath.Join(dir, "state/nsrun/work")
		if isThere(work) && len(names(t, work)) > 0 {
			t.Error("a directory for work is left")
		}
		for _, c := range [][2]string{{"", "/"}, {"sub", "/sub"}, {"/sub", "/sub"}, {"~", "/"}, {"$HOME/sub", "/sub"}} {
			if got := output(t, r, nsrun.Request{Command: "pwd", WorkingDir: c[0]}); got != c[1]+"\n" {
				t.Errorf("working directory %q: %q", c[0], got)
			}
		}
		if got := sh(t, r, `echo $HOME; echo ${PATH%%:*}; cd; pwd`); got != "/\n/.venv/bin\n/\n" {
			t.Errorf("%q", got)
		}
	}, "script.py: 1", "gone: 1", "etc/", "etc/mine: 1", "sub/", "sub/f: 1")
}

// TestWorkspaceStore: a shared store is at its own path, read-only, so that links into it work. Nothing else of the
// host is there.
func TestWorkspaceStore(t *testing.T) {
	workspaces(t, func(t *testing.T, c nsrun.Config, dir string) {
		testenv.Tree(t, dir, "bucket/", "bucket/skills/", "bucket/skills/a: 1", "bucket/key: 1", "bucket/tool: 1", "other: 1")
		for _, name := range []string{".solven", ".ticket"} {
			if err := os.Symlink(filepath.Join(dir, "bucket", "skills"), filepath.Join(dir, "p", name)); err != nil {
				t.Fatal(err)
			}
		}
		c.Rules = []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: filepath.Join(dir, "bucket")}, {Mode: nsrun.Blocked, Pattern: filepath.Join(dir, "bucket/key")}}
		got := sh(t, runner(t, c), `cat /.solven/a /.ticket/a; echo; touch /.solven/x 2>/dev/null || echo read-only; cat `+dir+`/bucket/key 2>/dev/null || echo blocked; test -e `+dir+`/other || echo absent`)
		if got != "11\nread-only\nblocked\nabsent\n" {
			t.Errorf("%q", got)
		}
		if got := names(t, dir, "p"); !slices.Equal(got, []string{".solven", ".ticket"}) {
			t.Errorf("the workspace has %q", got)
		}
	})
}

// TestWorkspacePaths: paths are mapped both ways.
func TestWorkspacePaths(t *testing.T) {
	dir := place(t)
	p, store := filepath.Join(dir, "p"), filepath.Join(dir, "store")
	testenv.Tree(t, dir, "store/")
	c := nsrun.Config{Project: p, Preset: nsrun.WorkspaceRootPreset, Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: store}}}
	for sandbox, host := range map[string]string{
		"": p, "/": p, "script.py": p + "/script.py", "/script.py": p + "/script.py", "/data/../../x": p + "/x", "../x": p + "/x",
		"/usr/bin/env": "/usr/bin/env", "/etc/hosts": "/etc/hosts", "/etc/mine": p + "/etc/mine", store + "/f": store + "/f", "/tmp/x": "-", "/proc/1": "-", "/dev/null": "-",
	} {
		got, err := c.HostPath(sandbox)
		if host == "-" && err == nil || host != "-" && (got != host || err != nil) {
			t.Errorf("HostPath(%q): %q, %v", sandbox, got, err)
		}
	}
	for host, sandbox := range map[string]string{
		p: "/", p + "/script.py": "/script.py", p + "/./a/../b": "/b", "/usr/bin/env": "/usr/bin/env", store + "/f": store + "/f",
		p + "/usr/bin/x": "-", p + "/tmp/x": "-", dir + "/other": "-", "/root": "-", "rel": "-", p + "x": "-",
	} {
		got, err := c.SandboxPath(host)
		if sandbox == "-" && err == nil || sandbox != "-" && (got != sandbox || err != nil) {
			t.Errorf("SandboxPath(%q): %q, %v", host, got, err)
		}
	}
	c = nsrun.Config{Project: p}
	if got, err := c.HostPath("x"); got != p+"/x" && err == nil {
		t.Errorf("without the preset: %q, %v", got, err)
	}
}

// TestWorkspaceReview: with a session the changes of the workspace are reviewed, committed and undone.
func TestWorkspaceReview(t *testing.T) {
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "old: 1"), "p")
	r := runner(t, nsrun.Config{Project: p, Preset: nsrun.WorkspaceRootPreset, After: nsrun.Commit})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo 2 >/old; mkdir /etc; echo 3 >/etc/new"})
	if err != nil || res.Report() != "A etc/\nA etc/new\nM old\n" && res.Report() != "A etc/new\nM old\n" {
		t.Fatalf("%s, %v: %q", res, err, res.Report())
	}
	if content(p, "old") != "2\n" || !slices.Equal(names(t, p, "etc"), []string{"new"}) {
		t.Errorf("the workspace has %q, %q", content(p, "old"), names(t, p, "etc"))
	}
	s, err := overlay.Open("", res.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Undo(t.Context(), overlay.UndoOptions{}); err != nil || !slices.Equal(names(t, p), []string{"old"}) || content(p, "old") != "1" {
		t.Errorf("%v, %q", err, names(t, p))
	}
}

// TestWorkspaceErrors: what cannot be the root is refused.
func TestWorkspaceErrors(t *testing.T) {
	p := filepath.Join(place(t, "usr: a file"), "p")
	for name, c := range map[string]nsrun.Config{
		"no project": {Preset: nsrun.WorkspaceRootPreset},
		"strict":     {Project: p, Presets: []nsrun.Preset{nsrun.WorkspaceRootPreset, nsrun.StrictPreset}},
		"a copy":     {Project: p, Preset: nsrun.WorkspaceRootPreset, Engine: overlay.EngineCopy},
	} {
		if res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || res.Started {
			t.Errorf("%s: %s", name, res)
		}
	}
}

// agent has a workspace with a virtual environment, as programs do that write files on the host and run commands in the
// sandbox.
type agent struct {
	t *testing.T
	c nsrun.Config
	r *nsrun.Runner
}

func newAgent(t *testing.T, c nsrun.Config) *agent {
	if out, err := exec.Command("/usr/bin/python3", "-m", "venv", "--without-pip", filepath.Join(c.Project, ".venv")).CombinedOutput(); err != nil {
		testenv.Skip(t, "python3 -m venv", strings.TrimSpace(err.Error()+" "+string(out)))
	}
	return &agent{t, c, runner(t, c)}
}

func (a *agent) path(name string) string {
	at, err := a.c.HostPath(name)
	if err != nil {
		a.t.Fatal(err)
	}
	return at
}

func (a *agent) write(name, text string) {
	if err := os.WriteFile(a.path(name), []byte(text), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) execute(command string) string { return sh(a.t, a.r, command) }

// TestWorkspaceVerification: write and execute a script, use the working directory, list files, run programs of the
// system and of the virtual environment, and use the network.
func TestWorkspaceVerification(t *testing.T) {
	workspaces(t, func(t *testing.T, c nsrun.Config, dir string) {
		c.Approver = &asked{answer: nsrun.Allow}
		a := newAgent(t, c)
		a.write("/test.py", "print('Hello from /')")
		if got := a.execute("python /test.py"); !strings.Contains(got, "Hello from /") {
			t.Errorf("script: %q", got)
		}
		if got := a.execute("pwd"); strings.TrimSpace(got) != "/" {
			t.Errorf("pwd: %q", got)
		}
		if got := names(t, a.path("/")); !slices.Contains(got, "test.py") {
			t.Errorf("files: %q", got)
		}
		if got := a.execute("which python"); !strings.Contains(got, "/.venv/bin/python") {
			t.Errorf("which: %q", got)
		}
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		got := output(t, a.r, nsrun.Request{Command: "python -c 'import sys, urllib.request, urllib.error\ntry: urllib.request.urlopen(sys.argv[1])\nexcept urllib.error.HTTPError as e: print(e.code)' " + server.URL, Network: true})
		if got != "404\n" {
			t.Errorf("network: %q", got)
		}
	})
}

// TestWorkspaceAgent: a script is written, data is made in a directory of the root, the script runs in the virtual
// environment, and its result is read. Without pandas, a stand-in does what the script needs of it.
func TestWorkspaceAgent(t *testing.T) {
	const pandas = `
class Column(list):
    def __mul__(self, n): return Column(v * n for v in self)
class Frame(dict):
    def to_csv(self, path, index):
        with open(path, 'w') as f:
            f.write(','.join(self) + '\n')
            for row in zip(*self.values()): f.write(','.join(map(str, row)) + '\n')
def read_csv(path):
    head, *rows = open(path).read().split('\n')
    return Frame({head: Column(int(r) for r in rows if r)})
`
	workspaces(t, func(t *testing.T, c nsrun.Config, dir string) {
		a := newAgent(t, c)
		if res, err := a.r.Run(t.Context(), nsrun.Request{Command: "python -c 'import pandas'"}); err != nil || res.ExitCode != 0 {
			site, err := filepath.Glob(a.path("/.venv/lib/python3*/site-packages"))
			if err != nil || len(site) != 1 {
				t.Fatal(site, err)
			}
			if err := os.WriteFile(filepath.Join(site[0], "pandas.py"), []byte(pandas), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		a.write("/analyze.py", "import pandas as pd\n\n# Read data\ndf = pd.read_csv('/data/input.csv')\n\n# Process\ndf['processed'] = df['value'] * 2\n\n# Write result\ndf.to_csv('/data/output.csv', index=False)\n\nprint('Analysis complete!')\n")
		a.execute("mkdir /data")
		a.write("/data/input.csv", "value\n10\n20\n30")
		if got := output(t, a.r, nsrun.Request{Args: []string{"/bin/bash", "-c", "source /.venv/bin/activate && python /analyze.py"}}); got != "Analysis complete!\n" && !strings.Contains(got, "activate") {
			t.Errorf("%q", got)
		}
		if got := a.execute("python /analyze.py"); got != "Analysis complete!\n" {
			t.Errorf("%q", got)
		}
		if got := content(a.path("/data/output.csv")); strings.TrimSpace(got) != "value,processed\n10,20\n20,40\n30,60" {
			t.Errorf("%q", got)
		}
		if got := names(t, a.path("/")); !slices.Equal(got, []string{".venv", "analyze.py", "data"}) {
			t.Errorf("files: %q", got)
		}
	})
}

// TestWorkspaceIsolation: the system is read-only, the host's processes are invisible, the terminal is not the
// caller's, and nothing outlives the command.
func TestWorkspaceIsolation(t *testing.T) {
	workspaces(t, func(t *testing.T, c nsrun.Config, dir string) {
		r := runner(t, c)
		if got := sh(t, r, "ls -d /proc/[0-9]* | wc -l; (exec 3<>/dev/tty) 2>/dev/null && echo a terminal; sleep 1000 >/dev/null 2>&1 & true"); len(strings.Fields(got)) != 1 || len(strings.TrimSpace(got)) > 1 {
			t.Errorf("%q", got)
		}
		res, err := r.Run(t.Context(), nsrun.Request{Command: "rm -rf --no-preserve-root /usr/bin /bin /etc/ssl"})
		if err != nil || res.ExitCode == 0 {
			t.Errorf("%s, %v", res, err)
		}
		if _, err := os.Stat("/usr/bin/env"); errors.Is(err, os.ErrNotExist) {
			t.Fatal("the host's programs are gone")
		}
	})
}
