//go:build linux

package nsrun_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestLinksOfStrangers: another user owns a directory that root names, and has put a link to root's own files there,
// before root looks at the path or between two looks. No project, folder, rule or socket follows it. The controls: the
// link leads there, root's own link is followed, and so is the user's link to the user's own files.
func TestLinksOfStrangers(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, nsexec.Shutdown)
	const stranger = 12345
	dir := place(t)
	testenv.Tree(t, dir, "roots/d/f: marker", "theirs/own/d/f: text", "theirs/l => ../roots", "theirs/i => own", "theirs/own/l => ../l/d", "mine => theirs/own", "sticky/l => ../roots")
	for _, name := range []string{"theirs", "theirs/l", "theirs/i", "theirs/own", "theirs/own/d", "theirs/own/d/f", "theirs/own/l", "sticky/l"} {
		if err := os.Lchown(filepath.Join(dir, name), stranger, stranger); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "sticky"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", dir+"/roots/d/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := filepath.Join(dir, "p")
	rule := func(mode nsrun.Mode) func(at string) nsrun.Config {
		return func(at string) nsrun.Config {
			return nsrun.Config{Project: p, Mode: nsrun.Direct, Rules: []nsrun.Rule{{Mode: mode, Pattern: at}}}
		}
	}
	folder := func(mode nsrun.Mode) func(at string) nsrun.Config {
		return func(at string) nsrun.Config {
			return nsrun.Config{Project: p, Mode: nsrun.Direct, Shared: []nsrun.Folder{{Path: at, Mode: mode}}}
		}
	}
	for name, config := range map[string]func(at string) nsrun.Config{
		"project":          func(at string) nsrun.Config { return nsrun.Config{Project: at, Mode: nsrun.Direct} },
		"session":          func(at string) nsrun.Config { return nsrun.Config{Project: at} },
		"folder":           folder(nsrun.Direct),
		"read-only folder": folder(nsrun.ReadOnly),
		"rule":             rule(nsrun.Direct),
		"read-only rule":   rule(nsrun.ReadOnly),
		"blocked":          rule(nsrun.Blocked),
		"socket":           func(at string) nsrun.Config { return nsrun.Config{Project: p, AllowUnix: []string{at + "/s"}} },
	} {
		for _, at := range []string{"theirs/l/d", "theirs/own/l", "mine/l", "sticky/l/d"} {
			at = filepath.Join(dir, at)
			if got := content(at, "f"); got != "marker" {
				t.Fatalf("%s leads to %q", at, got)
			}
			res, err := runner(t, config(at)).Run(t.Context(), nsrun.Request{Command: "echo >>" + at + "/pwned; true"})
			if err == nil || res.Started || !strings.Contains(err.Error(), " is a symbolic link to ") || !strings.Contains(err.Error(), "user 12345") {
				t.Errorf("%s, %s: %v, %v", name, at, err, res)
			}
		}
		if content(dir, "roots/d/pwned") != "-" {
			t.Errorf("%s: the file was written to", name)
		}
		if name == "socket" {
			continue // the other users have none
		}
		for _, at := range []string{"theirs/i/d", "mine/d"} {
			if res, err := runner(t, config(filepath.Join(dir, at))).Run(t.Context(), nsrun.Request{Command: "true"}); err != nil || res.ExitCode != 0 {
				t.Errorf("%s, %s: %v, %v", name, at, err, res)
			}
		}
	}
}
