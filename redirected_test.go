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

// TestRefusedByShells: a shell's own messages are looked at, too, which it writes to descriptor 1 while that leads to
// standard error. The control: what it writes to standard output is no message.
func TestRefusedByShells(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	hidden := filepath.Join(dir, "hidden/f")
	const look = `[ -e $H ] || { echo "x: $H: No such file or directory" >&2; exit 1; }`
	for name, text := range map[string]string{
		"says": "#!/bin/sh\n" + look + "\n", "by-env": "#!/usr/bin/env bash\n" + look + "\n", "plain": look + "\n",
		"stderr": "#!/bin/sh\n" + strings.ReplaceAll(look, ">&2", ">/dev/stderr"), "tells": "#!/bin/sh\n" + strings.ReplaceAll(look, ">&2", ""),
	} {
		if err := os.WriteFile(filepath.Join(c.Project, name), []byte(strings.ReplaceAll(text, "$H", hidden)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct {
		args  []string
		named bool
	}{
		{[]string{"sh", "-c", look}, true}, {[]string{"bash", "-c", look}, true},
		{[]string{"sh", "-c", strings.ReplaceAll(look, ">&2", "1>& 2")}, true},
		{[]string{"sh", "-c", "ls $H 2>&1 | cat >&2; exit 1"}, true},
		{[]string{"./says"}, true}, {[]string{"./by-env"}, true}, {[]string{"./stderr"}, true}, {[]string{"sh", "-u", "plain"}, true},
		{[]string{"sh", "-c", "true && ./says"}, true},
		{[]string{"./tells"}, false}, {[]string{"sh", "-c", strings.ReplaceAll(look, ">&2", "")}, false},
		{[]string{"sh", "-c", strings.ReplaceAll(look, "x: $H:", "x: $H/none:")}, false},
		{[]string{"sh", "-c", look + " 2>/dev/null"}, false},
	} {
		var args []string
		for _, arg := range q.args {
			args = append(args, strings.ReplaceAll(arg, "$H", hidden))
		}
		out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		request := passing(t, "", true)
		if request.Command, request.Args = "", args; request.Passthrough {
			request.Stdout = out
		}
		res, err := runner(t, c).Run(t.Context(), request)
		named := len(res.Refusals) == 1 && res.Refusals[0].Target == hidden && res.Refusals[0].Kind == nsrun.RefusedRead
		if err != nil || res.ExitCode != 1 || named != q.named || !named && len(res.Refusals) > 0 {
			t.Errorf("%q: %v, %+v: %s", q.args, err, res.Refusals, res)
		}
	}
}

// TestRefusedOfOthers: outside a sandbox root writes to files of other users. Where a command cannot,
// nsrun names the flags with which it can: what is written in place takes root's rights away, without ids of its own.
func TestRefusedOfOthers(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	needOwnIDs(t, dir)
	testenv.Tree(t, dir, "theirs/f: x", "theirs/run: true\n")
	for name, mode := range map[string]os.FileMode{"theirs": 0o755, "theirs/f": 0o644, "theirs/run": 0o644} {
		if err := errors.Join(os.Chown(filepath.Join(dir, name), 1234, 1234), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct{ command, flag string }{
		{"echo x >>$D/theirs/f", "--own-ids --rw $D/theirs/f"},
		{"touch $D/theirs/new", "--own-ids --rw $D/theirs"},
		{"rm $D/theirs/new", "--own-ids --rw $D/theirs"},
		{"$D/theirs/run", ""},
		{"true && $D/theirs/run", ""},
		{"cat $D/theirs/none", ""},
	} {
		command, flag := strings.ReplaceAll(q.command, "$D", dir), strings.ReplaceAll(q.flag, "$D", dir)
		if strings.HasPrefix(command, "rm ") {
			testenv.Tree(t, dir, "theirs/new: ")
		}
		for _, c.Why = range []bool{false, true} {
			needFor(t, c)
			res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
			named := slices.ContainsFunc(res.Refusals, func(r nsrun.Refusal) bool {
				return r.Failed == c.Why && (r.Flag == flag || c.Why && r.Flag != "" && strings.HasPrefix(r.Flag, "--own-ids "))
			})
			if err != nil || res.ExitCode == 0 || named != (flag != "") || flag == "" && len(res.Refusals) > 0 {
				t.Errorf("%s, why %t: %v, %+v: %s", q.command, c.Why, err, res.Refusals, res)
			}
		}
		if flag == "" {
			continue
		}
		c.Why = false
		if res, err := runner(t, allowed(t, c, flag)).Run(t.Context(), nsrun.Request{Command: command}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s with %s: %v, %s", q.command, flag, err, res)
		}
	}
}
