//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// relative makes a project with a file that a rule hides, d/f, a directory that is read-only, ro, and another hidden
// file in a directory of the host beside it.
func relative(t *testing.T) (dir string, c nsrun.Config) {
	dir = place(t, "hid", "ro/", "ro/f", "d/", "d/hid", "d/f", "sub/", "sub/x")
	testenv.Tree(t, dir, "other/", "other/repo/")
	return dir, nsrun.Config{
		Project: filepath.Join(dir, "p"), After: nsrun.Discard,
		Rules: []nsrun.Rule{
			{Mode: nsrun.Blocked, Pattern: filepath.Join(dir, "p/hid")}, {Mode: nsrun.Blocked, Pattern: filepath.Join(dir, "p/d/f")},
			{Mode: nsrun.ReadOnly, Pattern: filepath.Join(dir, "p/ro")},
		},
	}
}

// TestRelativeRefusals: messages name paths as the command line does, often relative to the working directory.
func TestRelativeRefusals(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := relative(t)
	for i, q := range []struct{ in, command, target string }{
		{"", "cat hid", "p/hid"}, {"", "cat ./hid", "p/hid"}, {"", "cat d/f", "p/d/f"}, {"d", "cat ../hid", "p/hid"}, {"d", "cat f", "p/d/f"},
		{"", "python3 -c 'open(\"hid\")'", "p/hid"}, {"", "echo 'Error: EACCES: permission denied, open hid' >&2; false", "p/hid"},
		{"", "echo 'cannot open hid: Permission denied' >&2; false", "p/hid"}, {"", "cp hid new", "p/hid"}, {"", ". ./hid", "p/hid"},
		{"ro", "touch new", "p/ro/new"}, {"ro", "echo x >f", "p/ro/f"}, {"ro", "mkdir 'two words'", "p/ro/two words"}, {"ro", "python3 -c 'open(\"new\", \"w\")'", "p/ro/new"},
		{"", "cat ../other/repo", "other/repo"}, {"d", "ls ../../other", "other"}, {"", "echo \"fatal: '../other/repo' does not appear to be a git repository\" >&2; exit 128", "other/repo"},
		{"", "echo \"fatal: repository '../other/repo' does not exist\" >&2; exit 128", "other/repo"},
		{"", "printf 'file INSTALL cannot copy file \"%s\" to \"ro/new\":\\n  Read-only file system.\\n' $PWD/sub/x >&2; false", "p/ro/new"},
		// These have reasons of their own, or it is not known where they are.
		{"", "cat none", ""}, {"", "cat ../other/none", ""}, {"", "cd sub && cat hid", ""}, {"", "cd sub && cat ../d/hid; cat none", ""}, {"", "env -C sub cat hid", ""},
		{"", "echo 'a word: Permission denied' >&2; false", ""}, {"ro", "echo 'cannot do it: Read-only file system' >&2; false", ""},
		{"", "chmod 0 sub/x; cat sub/x; echo 'sub: Permission denied' >&2; false", ""}, {"", "cat hid; true", ""},
	} {
		t.Run(q.command, func(t *testing.T) {
			t.Parallel()
			request := passing(t, q.command, i%2 == 0 && !strings.Contains(q.command, ">&2"))
			request.WorkingDir = filepath.Join(c.Project, q.in)
			res, err := runner(t, c).Run(t.Context(), request)
			want := ""
			if q.target != "" {
				want = filepath.Join(dir, q.target)
			}
			got := ""
			for _, r := range res.Refusals {
				got += r.Target
			}
			if err != nil || got != want {
				t.Errorf("%v, %q, want %q: %s", err, got, want, res)
			}
		})
	}
}

// TestReportedRefusals: test runners say on standard output why a test failed. Of other programs this is not a message.
func TestReportedRefusals(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	if err := os.WriteFile(filepath.Join(c.Project, "report"), []byte(`#!/bin/sh
echo "============ FAILURES ============"
cat "$1" 2>&1 | sed "s/^/E   /"
echo "FAILED test_a.py::test_f"
exit 1
`), 0o755); err != nil {
		t.Fatal(err)
	}
	for command, named := range map[string]bool{
		"cp report pytest; ./pytest $D/hidden/f": true, "cp report x; bash -c './x $D/hidden/f # pytest'": true, "cp report pytest; ./pytest $D/none": false,
		"./report $D/hidden/f": false, "mkdir d; cp report d/test; d/test $D/hidden/f": true, "cp report pytest; ./pytest $D/hidden/f; true": false,
		"cat $D/hidden/f 2>&1; false # pytest": false, "head -c 40000 /dev/zero | tr '\\0' x; ./report $D/hidden/f; false; # check": true,
		"printf 'all:\n\t@./report $D/hidden/f\n' >Makefile; make": false, "printf 'check:\n\t@./report $D/hidden/f\n' >Makefile; make check": true,
		"cp report run-tests.sh; ./run-tests.sh $D/hidden/f": true, "./report $D/hidden/f # test:unit": true,
		"printf 'all:\n\t@echo 1 test failed; false\n' >Makefile; make": false, "./report $D/hidden/f # test.log attest": false,
	} {
		command = strings.ReplaceAll(command, "$D", dir)
		for _, through := range []bool{false, true} {
			q := passing(t, command, through)
			if through && features.Has(features.KillableCalls) {
				f, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				q.Stdout = f
			}
			res, err := runner(t, c).Run(t.Context(), q)
			if err != nil || (len(res.Refusals) == 1) != named || named && res.Refusals[0].Target != filepath.Join(dir, "hidden") && res.Refusals[0].Target != filepath.Join(dir, "hidden/f") {
				t.Errorf("%s, through %t: %v, %+v: %s", command, through, err, res.Refusals, res)
			}
		}
	}
}
