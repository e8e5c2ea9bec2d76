//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
