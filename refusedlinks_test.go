//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestRefusedLinks: where a link leads through a directory that commands do not see, nsrun names that directory, for a
// file as for a program, and the command works with the flag.
func TestRefusedLinks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "bin/", "bin/text: true\n", "ways/", "bin/tool => ../ways/tool", "ways/tool => ../bin/real", "bin/link => ../ways/text", "ways/text => ../bin/text")
	if err := os.WriteFile(filepath.Join(dir, "bin/real"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	t.Setenv("PATH", os.Getenv("PATH")+":"+bin)
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Presets: []nsrun.Preset{nsrun.StrictPreset}}
	c = allowed(t, c, "--ro "+bin)
	want := "--ro " + filepath.Join(dir, "ways")
	for _, q := range []nsrun.Request{
		{Args: []string{"tool"}}, {Args: []string{filepath.Join(bin, "tool")}}, {Command: "tool"}, {Command: filepath.Join(bin, "tool")},
		{Command: "bash -c tool"}, {Command: "env tool"}, {Command: "cat " + filepath.Join(bin, "link")},
	} {
		for _, c.Why = range []bool{false, true} {
			needFor(t, c)
			res, _ := runner(t, c).Run(t.Context(), q)
			if c.Why && q.Command != "" { // the others did no harm
				res.Refusals = slices.DeleteFunc(res.Refusals, func(r nsrun.Refusal) bool { return !r.Failed })
			}
			if len(res.Refusals) != 1 || res.Refusals[0].Kind != nsrun.RefusedRead || res.Refusals[0].Flag != want {
				t.Errorf("%+v, why %t: %+v: %s", q, c.Why, res.Refusals, res)
			}
		}
		if res, err := runner(t, allowed(t, c, want)).Run(t.Context(), q); err != nil || res.ExitCode != 0 {
			t.Errorf("%+v with %s: %v, %s", q, want, err, res)
		}
	}
	c.Why = false
	f, err := runner(t, c).Why(t.Context(), nsrun.Request{Command: "true"}, filepath.Join(bin, "link"))
	if err != nil || f.Read || len(f.Denied) != 1 || f.Denied[0].Flag != want {
		t.Errorf("why: %v, %+v", err, f)
	}
	for _, q := range []nsrun.Request{{Command: "no-such-tool"}, {Args: []string{"no-such-tool"}}, {Command: "cat no-such-file"}, {Command: "echo no such file: sh; false"}} {
		if res, _ := runner(t, c).Run(t.Context(), q); len(res.Refusals) > 0 {
			t.Errorf("%+v: %+v", q, res.Refusals)
		}
	}
}

// TestWhyAsCommands: Why says of a path what a command then can do: through links that it does not see, and if the
// permissions of a file are in the way.
func TestWhyAsCommands(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "ways/", "ways/new => ../p/new", "ways/f => ../p/f", "seen/", "seen/new => ../p/new", "seen/f => ../p/f", "p/f: text", "p/kept: text", "p/closed: text")
	for name, mode := range map[string]os.FileMode{"p/kept": 0o444, "p/closed": 0o200} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, BlockExisting: true, Rules: []nsrun.Rule{
		{Mode: nsrun.ReadOnly, Pattern: dir}, {Mode: nsrun.Blocked, Pattern: filepath.Join(dir, "ways")},
	}}
	for _, name := range []string{"ways/new", "ways/f", "seen/new", "seen/f", "p/new", "p/f", "p/kept", "p/closed"} {
		name = filepath.Join(dir, name)
		f, err := runner(t, c).Why(t.Context(), nsrun.Request{Command: "true"}, name)
		if err != nil {
			t.Fatal(err)
		}
		for try, said := range map[string]bool{"cat": f.Read, "echo >>": f.Write != "no"} {
			res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: try + " " + name})
			if err != nil || (res.ExitCode == 0) != said {
				t.Errorf("%s %s: %v, %+v: %s", try, name, err, f, res)
			}
		}
	}
}

// TestRulesAboutDev: a rule shows a file of the host's shared memory, which a refusal says. No rule shows devices:
// without the option for devices of --device they could not be opened, and the command's own would be hidden.
func TestRulesAboutDev(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard}
	dir, err := os.MkdirTemp("/dev/shm", "nsrun-test-")
	if err != nil {
		testenv.Skip(t, "shared memory", err.Error())
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	testenv.Tree(t, dir, "f")
	q := nsrun.Request{Command: "cat " + dir + "/f"}
	res, err := runner(t, c).Run(t.Context(), q)
	if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Flag != "--ro "+dir+"/f" {
		t.Fatalf("%v, %+v: %s", err, res.Refusals, res)
	}
	if res, err := runner(t, allowed(t, c, res.Refusals[0].Flag)).Run(t.Context(), q); err != nil || res.ExitCode != 0 {
		t.Errorf("with the flag: %v, %s", err, res)
	}
	for _, mode := range []string{"--ro ", "--rw "} {
		for _, name := range []string{"/dev", "/dev/null", "/dev/tty", "/dev/shm/../null"} {
			_, err := runner(t, allowed(t, c, mode+name)).Run(t.Context(), nsrun.Request{Command: "true"})
			if _, ok := errors.AsType[*nsrun.RuleError](err); !ok {
				t.Errorf("%s%s: %v", mode, name, err)
			}
		}
		if res, err := runner(t, allowed(t, c, mode+dir)).Run(t.Context(), q); err != nil || res.ExitCode != 0 {
			t.Errorf("%s%s: %v, %s", mode, dir, err, res)
		}
	}
	c = allowed(t, c, "--rw /dev/null")
	c.Rules[0].Mode = nsrun.Blocked
	if res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "! cat /dev/null"}); err != nil || res.ExitCode != 0 {
		t.Errorf("blocked: %v, %s", err, res)
	}
}

// TestRefusedAcross: nsrun names the two mounts of which a message says that nothing could be renamed or linked from
// one to the other, and a trash that is in another mount than the file. It names nothing if outside it would be the
// same.
func TestRefusedAcross(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a: x")
	testenv.Tree(t, dir, "w/", "w/u/", "w/v/")
	p, w := filepath.Join(dir, "p"), filepath.Join(dir, "w")
	if err := os.Link(p+"/a", w+"/a"); err != nil { // the control
		t.Fatal(err)
	}
	const noFlag = "because they are different mounts, and no flag makes them one: copy instead"
	c := nsrun.Config{Project: p, After: nsrun.Discard, Home: nsrun.HomeLayer}
	c = allowed(t, c, "--rw "+w+"/u")
	c = allowed(t, c, "--rw "+w+"/v")
	for q, want := range map[string]struct{ target, why, flag string }{
		"ln a " + w + "/u/a": {w + "/u", "from " + p + " to it, " + noFlag, ""},
		"echo \"OSError: [Errno 18] Invalid cross-device link: 'a' -> '" + w + "/u/a'\" >&2; false":                    {w + "/u", "from " + p + " to it, " + noFlag, ""},
		"echo \"Error: EXDEV: cross-device link not permitted, rename '" + w + "/v/a' -> '" + w + "/u/a'\" >&2; false": {w + "/u", "different mounts", "--rw " + w},
		"echo '2026/01/01 00:00:00 rename " + p + "/a " + dir + "/home/a: invalid cross-device link' >&2; false":       {dir + "/home", noFlag, ""},
		"echo 'Invalid cross-device link' >&2; false " + w + "/u/a":                                                    {w + "/u", noFlag, ""},
		"echo 'gio: file://" + p + "/a%20b: Trashing on system internal mounts is not supported' >&2; exit 1":          {dir + "/home/.local/share/Trash", "remove it instead, which nsrun undo can take back", ""},
		"echo \"ln: failed to create hard link '" + p + "/b' => '" + p + "/a': Invalid cross-device link\" >&2; false": {},
		"echo \"ln: failed to create hard link '/dev/shm/b' => '" + p + "/a': Invalid cross-device link\" >&2; false":  {},
		"echo 'gio: file://" + dir + "/home/a: Trashing on system internal mounts is not supported' >&2; false":        {},
		"echo 'rename a: cross-device link' >&2; false":                                                                {},
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: q})
		if err != nil || res.ExitCode != 1 {
			t.Errorf("%s: %v, %s", q, err, res)
		}
		switch {
		case want.target == "" && len(res.Refusals) > 0:
			t.Errorf("%s: %+v", q, res.Refusals)
		case want.target != "" && (len(res.Refusals) != 1 || res.Refusals[0].Rule != "mount" || res.Refusals[0].Target != want.target ||
			!strings.Contains(res.Refusals[0].Why, want.why) || res.Refusals[0].Flag != want.flag):
			t.Errorf("%s: %+v, want %+v", q, res.Refusals, want)
		}
	}
	t.Run("why", func(t *testing.T) { // no call is refused: the program looks where the files are
		c.Why = true
		needFor(t, c)
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "echo 'gio: file://" + p + "/a: Trashing on system internal mounts is not supported' >&2; exit 1"})
		if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Target != dir+"/home/.local/share/Trash" {
			t.Errorf("%v, %+v", err, res.Refusals)
		}
	})
}
