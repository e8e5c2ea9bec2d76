//go:build linux

package nsrun_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// registry opens the user's own registry, in the home directory that place has made.
func registry(t testing.TB) nsrun.Registry {
	t.Helper()
	g := project.Open(project.Options{})
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return nsrun.Registry{Registry: g}
}

// executions lists what was run, the newest first, as "state exit command".
func executions(t testing.TB, g nsrun.Registry) (list []string) {
	t.Helper()
	for e, err := range g.Registry.Executions(project.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		words := []string{e.State, e.Network, strings.Join(e.Denied, ","), e.Command[len(e.Command)-1]}
		list = append(list, strings.Join(words, "|"))
	}
	return list
}

// TestBackupsAfterTheRunBeforeTheCommit: what a command replaces is backed up from the
// lower side of the overlay, if the file is registered; new files are registered and have
// none; deleted ones are kept as records. What was run is in the log.
func TestBackupsAfterTheRunBeforeTheCommit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "a: old a", "gone: old gone", "d/deep: old deep"), "p")
	g := registry(t)
	if err := g.Registry.Scan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Recorder: g})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo new >a; rm -r gone d; echo fresh >fresh"})
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]string{}
	for _, b := range res.Backups {
		was[strings.TrimPrefix(b.Path, p+"/")] = content(b.Copy)
	}
	if len(was) != 3 || was["a"] != "old a" || was["gone"] != "old gone" || was["d/deep"] != "old deep" {
		t.Errorf("backups %q, %q", was, res.Notices)
	}
	for name, deleted := range map[string]bool{"a": false, "gone": true, "d/deep": true, "fresh": false} {
		f, err := g.Registry.File(filepath.Join(p, name))
		if err != nil || f.ID <= 0 || f.Deleted != deleted || (f.LastApprovedCopyPath == "") != (name == "fresh") {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if got := executions(t, g); len(got) != 1 || got[0] != "committed|none||echo new >a; rm -r gone d; echo fresh >fresh" {
		t.Errorf("%q", got)
	}
	if res.Execution == "" {
		t.Error("the result does not name the execution")
	}
}

// TestLogOfWhatWasNotDone: what was denied, thrown away or left is in the log as that.
func TestLogOfWhatWasNotDone(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "a: old"), "p")
	g := registry(t)
	kept := runner(t, nsrun.Config{Project: p, Recorder: g})
	if _, err := kept.Run(t.Context(), nsrun.Request{Command: "echo net", Network: true}); err == nil {
		t.Error("it was run")
	}
	denied := time.Now().UnixMilli() // ids are in the order of time to the millisecond
	testenv.Eventually(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > denied })
	sh(t, kept, "echo kept >a")
	if err := kept.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	sh(t, kept, "echo discarded >b")
	if err := kept.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Recorder: g}), "echo thrown >c")
	sh(t, runner(t, nsrun.Config{Project: p, Recorder: g}), "echo left >d")
	want := []string{
		"kept|none||echo left >d", "discarded|none||echo thrown >c", "discarded|none||echo discarded >b", "committed|none||echo kept >a",
		"|host|network access was denied: the command was not run (there is nobody to ask)|echo net",
	}
	got := executions(t, g)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
	// What never came to be is forgotten.
	for _, name := range []string{"b", "c"} {
		if f, err := g.Registry.File(filepath.Join(p, name)); err == nil {
			t.Errorf("%+v", f)
		}
	}
}

// TestRegistryStopsNothing: if the registry cannot be used, a notice says so, and the command and its commit are done.
func TestRegistryStopsNothing(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a: old")
	p := filepath.Join(dir, "p")
	g := nsrun.Registry{Registry: project.Open(project.Options{Dir: filepath.Join(dir, "open")})}
	if err := os.Mkdir(filepath.Join(dir, "open"), 0o755); err != nil { // not its own: others may read it
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Recorder: g})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo new >a"})
	if err != nil || content(p, "a") != "new\n" || len(res.Notices) == 0 || res.Notices[0].Kind != nsrun.NoticeRegistry || !strings.HasPrefix(res.Notices[0].Text, "registry: ") {
		t.Errorf("%q, %v", res.Notices, err)
	}
	if err := g.Registry.Close(); err != nil {
		t.Error(err)
	}
}

// TestCommandsSeeNoRegistry: commands see neither the user's registry nor another one.
func TestCommandsSeeNoRegistry(t *testing.T) {
	need(t, features.Overlay) // a copy of such a project is refused
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "a: old"), "p")
	g := nsrun.Registry{Registry: project.Open(project.Options{Dir: filepath.Join(p, "reg"), Cache: filepath.Join(p, "copies")})}
	defer g.Registry.Close()
	if err := g.Registry.Scan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Recorder: g})
	sh(t, r, "echo new >a")
	for what, rec := range map[string]nsrun.Recorder{"pointer": &g, "embedded": struct{ nsrun.Registry }{g}} {
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Recorder: rec})
		if got := sh(t, r, "ls -A reg 2>&1; true"); !strings.Contains(got, "ermission denied") {
			t.Errorf("%s: %q", what, got)
		}
	}
	for _, name := range []string{"reg", "copies"} {
		if !isThere(p, name) {
			t.Errorf("%s was not made", name)
		}
		if got := sh(t, r, "ls -A "+name+" 2>&1; true"); !strings.Contains(got, "ermission denied") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestPermissionsAreKeptInTheRegistry: a yes for good is found by another Runner, and one
// to the network never is.
func TestPermissionsAreKeptInTheRegistry(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "other/")
	p, other := filepath.Join(dir, "p"), filepath.Join(dir, "other")
	g := registry(t)
	yes := &asked{answer: nsrun.AllowAlways}
	q := nsrun.Request{Command: "echo x >" + other + "/f", Paths: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: other}}}
	if _, err := runner(t, nsrun.Config{Project: p, Approver: yes, Permissions: g}).Run(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	no := &asked{answer: nsrun.Deny}
	r := runner(t, nsrun.Config{Project: p, Approver: no, Permissions: g})
	if _, err := r.Run(t.Context(), q); err != nil || len(no.questions) > 0 {
		t.Errorf("%v, asked %d times", err, len(no.questions))
	}
	t.Run("network", func(t *testing.T) {
		need(t, features.LandlockScopes)
		net := nsrun.Request{Command: "true", Network: true}
		if _, err := runner(t, nsrun.Config{Project: p, Approver: yes, Permissions: g}).Run(t.Context(), net); err != nil {
			t.Fatal(err)
		}
		if res, _ := r.Run(t.Context(), net); !res.Denied || len(no.questions) != 1 {
			t.Errorf("%s, asked %d times", res, len(no.questions))
		}
	})
	// Without a project a yes would be one for all of them; and a project is one however it
	// is written.
	_ = os.Symlink(p, filepath.Join(dir, "link"))
	for _, c := range []nsrun.Config{{Shared: []nsrun.Folder{{Path: p}}}, {Project: p + "/"}, {Project: filepath.Join(dir, "link")}} {
		c.Approver, c.Permissions = yes, g
		if _, err := runner(t, c).Run(t.Context(), q); err != nil {
			t.Error(err)
		}
	}
	list, err := g.Registry.Permissions()
	if err != nil || len(list) != 1 || list[0].Action != project.Write || list[0].Project != p {
		t.Errorf("%+v, %v", list, err)
	}
}

// interrupted is a Registry whose user gives up.
type interrupted struct{ nsrun.Registry }

func (g interrupted) Record(ctx context.Context, rec nsrun.Record) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return g.Registry.Record(ctx, rec)
}

// TestInterruptedRecord: one sentence reports that a record was interrupted.
func TestInterruptedRecord(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "a: old a"), "p")
	r := runner(t, nsrun.Config{Project: p, Recorder: interrupted{registry(t)}})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo new >a"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, notice := range res.Notices {
		if strings.Contains(notice.Text, "canceled") {
			t.Errorf("%q", notice.Text)
		}
		if strings.HasPrefix(notice.Text, "registry: interrupted; ") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("said %d times: %v", n, res.Notices)
	}
}
