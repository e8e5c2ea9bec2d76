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
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

func needLandlock(t testing.TB) {
	t.Helper()
	need(t, features.LandlockScopes, features.SeccompNotification)
}

// TestLandlock: a session without namespaces is one like others.
func TestLandlock(t *testing.T) {
	needLandlock(t)
	dir := place(t, "a: old\n", "d/")
	project := filepath.Join(dir, "p")
	r := runner(t, nsrun.Config{Project: project, Backend: nsrun.LandlockBackend})
	if got := sh(t, r, "cat a; echo new >a; echo x >d/x; printf '#!/bin/sh\\necho run\\n' >s && chmod 700 s && ./s"); got != "old\nrun\n" {
		t.Errorf("the first command: %q", got)
	}
	if got := sh(t, r, "cat a d/x; stat -c %a s; ls"); got != "new\nx\n700\na\nd\ns\n" {
		t.Errorf("the second one: %q", got)
	}
	if got := content(project, "a"); got != "old\n" {
		t.Errorf("before the commit: %q", got)
	}
	if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, x := content(project, "a"), content(project, "d/x"); a != "new\n" || x != "x\n" {
		t.Errorf("after it: %q, %q", a, x)
	}
}

// TestLandlockHome: only a caller who would have a home layer learns that there is none without namespaces, in the one
// notice about the backend.
func TestLandlockHome(t *testing.T) {
	needLandlock(t)
	dir := place(t)
	for _, c := range []struct {
		home nsrun.HomeMode
		want int
	}{{nsrun.HomeLayer, 1}, {nsrun.HomeReadOnly, 0}} {
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Backend: nsrun.LandlockBackend, Home: c.home})
		res, err := r.Run(t.Context(), nsrun.Request{Command: "true"})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%v: %s", err, res)
		}
		said, whole := 0, 0
		for _, n := range res.Notices {
			said += strings.Count(n.Text, "no home layer")
			if n.Kind == nsrun.NoticeBackend && n.Path == "" {
				whole++
			}
			if n.Kind == nsrun.NoticeHome {
				t.Errorf("home %v: a notice of its own: %q", c.home, n.Text)
			}
		}
		if said != c.want || whole != 1 {
			t.Errorf("home %v: the notice came %d times, want %d: %q", c.home, said, c.want, res.Notices)
		}
	}
}

// TestLandlockFlags: with LandlockBackend no flag is suggested that it refuses, or that does not help.
func TestLandlockFlags(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	needLandlock(t)
	dir, c := refusing(t)
	c.Backend, c.Mode = nsrun.LandlockBackend, nsrun.Direct
	sock := filepath.Join(dir, "sock")
	testenv.Tree(t, dir, "work/", "work/.git/", "work/.git/objects/", "work/.git/refs/", "work/.git/HEAD: ref: refs/heads/main\n", "work/f", "plain/", "plain/f",
		"above/", "above/repo/", "far/", "far/d/", "far/d/repo/")
	for _, repo := range []string{"above/repo/", "far/d/repo/"} {
		testenv.Tree(t, filepath.Join(dir, repo), ".git/", ".git/objects/", ".git/refs/", ".git/HEAD: ref: refs/heads/main\n")
	}
	for _, q := range []struct{ command, kind, flag string }{
		{"unshare -U true", "syscall", ""},
		{"rm " + dir + "/work/f", "write", ""},
		{"rm " + dir + "/plain/f", "write", "--rw " + dir + "/plain"},
		{"python3 -c 'import os; os.remove(\"" + dir + "/plain/f\")'", "write", "--rw " + dir + "/plain"},
		{"rm " + dir + "/sock", "unix", ""},
		{"touch " + dir + "/new", "write", ""},       // beside what is hidden
		{"touch " + dir + "/above/new", "write", ""}, // beside a repository
		{"touch " + dir + "/far/new", "write", "--rw " + dir + "/far"},
	} {
		if strings.HasPrefix(q.command, "unshare") && os.Geteuid() == 0 {
			continue // no flag helps root
		}
		res, err := runner(t, c).Run(t.Context(), passing(t, q.command, true))
		if err != nil || res.ExitCode == 0 {
			t.Fatalf("%s: %v, %s", q.command, err, res)
		}
		i := slices.IndexFunc(res.Refusals, func(r nsrun.Refusal) bool { return string(r.Kind) == q.kind })
		if i < 0 || res.Refusals[i].Flag != q.flag || q.flag == "" && !strings.Contains(res.Refusals[i].Why, "--backend native") {
			t.Errorf("%s: %+v, want %q: %s", q.command, res.Refusals, q.flag, res)
		}
	}
	for _, what := range []string{sock, filepath.Join(dir, "work"), "@x"} {
		a, err := runner(t, c).Why(t.Context(), nsrun.Request{Command: "true"}, what)
		for _, r := range a.Denied {
			if r.Kind != nsrun.RefusedRead && r.Flag != "" && !strings.HasPrefix(r.Flag, "--net host") {
				t.Errorf("%s: %+v", what, r)
			}
		}
		if err != nil || len(a.Denied) == 0 {
			t.Errorf("%s: %v, %+v", what, err, a)
		}
	}
	for _, command := range []string{"ls /", "ls /etc"} { // no write is refused where a directory cannot be listed
		res, err := runner(t, c).Run(t.Context(), passing(t, command+" 2>/dev/null; echo \"PermissionError: [Errno 13] Permission denied: '/etc'\" >&2; false", true))
		if err != nil || len(res.Refusals) != 0 {
			t.Errorf("%s: %v, %+v", command, err, res.Refusals)
		}
	}
}

// TestLandlockMessages: Landlock returns the same error for what is hidden and what is read-only. nsrun's messages tell
// which it is, and the flag.
func TestLandlockMessages(t *testing.T) {
	needLandlock(t)
	dir, c := refusing(t)
	c.Backend, c.Mode = nsrun.LandlockBackend, nsrun.Direct // else the command works in a copy, elsewhere
	small := c
	small.Presets = []nsrun.Preset{nsrun.StrictPreset}
	res, err := runner(t, small).Run(t.Context(), passing(t, "cat /etc/hosts", true))
	if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Kind != nsrun.RefusedRead || res.Refusals[0].Flag != "--ro /etc/hosts" {
		t.Errorf("strict: %v, %+v: %s", err, res.Refusals, res)
	}
	testenv.Tree(t, dir, "ro/", "ro/f", "ro/d/")
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(os.Mkdir(closed, 0), os.WriteFile(filepath.Join(dir, "own"), nil, 0)); err != nil {
		t.Fatal(err)
	}
	root := os.Geteuid() == 0 // whose command has no privileges: that is the policy's doing
	for i, q := range []struct{ command, kind, flag string }{
		{"cat ~/.ssh/id", "read", "--ro $H/.ssh/id"}, {"cat $D/hidden/f", "read", "--ro $D/hidden/f"},
		{"touch $D/ro/new", "write", "--rw $D/ro"}, {"touch ../host/ro/new", "write", "--rw $D/ro"}, {"rm $D/ro/f", "write", "--rw $D/ro"},
		{"echo x >>$D/ro/f", "write", "--rw $D/ro/f"}, {"mkdir ../host/ro/new", "write", "--rw $D/ro"}, {"rmdir ../host/ro/d", "write", "--rw $D/ro"},
		{"cat a; false", "", ""}, {"touch a/b", "", ""}, {"mkdir d; chmod 0 d; touch d/x; ls d; false", "", ""}, {"./a", "", ""}, {"cat $D/none", "", ""},
		{"ls $D/closed", "", ""}, {"cat ../host/own", "", ""}, {"touch $D/ro/new 2>/dev/null; false", "", ""},
	} {
		if root && (strings.Contains(q.command, "own") || strings.Contains(q.command, "closed") || strings.Contains(q.command, "chmod")) {
			continue
		}
		command := strings.NewReplacer("$D", dir, "$H", filepath.Join(filepath.Dir(dir), "home")).Replace(q.command)
		flag := strings.NewReplacer("$D", dir, "$H", filepath.Join(filepath.Dir(dir), "home")).Replace(q.flag)
		res, err := runner(t, c).Run(t.Context(), passing(t, command, i%3 != 1))
		if err != nil || res.ExitCode == 0 {
			t.Fatalf("%s: %v, %s", command, err, res)
		}
		var got nsrun.Refusal
		if len(res.Refusals) > 0 {
			got = res.Refusals[0]
		}
		if len(res.Refusals) > 1 || string(got.Kind) != q.kind || got.Flag != flag {
			t.Errorf("%s: %+v, want %s %s", command, res.Refusals, q.kind, flag)
		}
	}
}
