//go:build linux

package nsrun_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// watched runs a command and returns the events, one "op path" for each, without
// repetitions one after the other.
func watched(t *testing.T, c nsrun.Config, command string) (list []string, res nsrun.Result) {
	t.Helper()
	c.Watch = true
	r := runner(t, c)
	x, err := r.Start(t.Context(), nsrun.Request{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	events := x.Events()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range events {
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			line := ev.Op.String() + " " + ev.Path
			if ev.Op == fanotify.Renamed {
				line = ev.Op.String() + " " + ev.From + " " + ev.Path
			}
			if ev.Root != c.Project {
				t.Errorf("%s: in %s", line, ev.Root)
			}
			if len(list) == 0 || list[len(list)-1] != line {
				list = append(list, line)
			}
		}
	}()
	if res, err = x.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	if c.After == nsrun.Hold && x.Session() != nil {
		if err := x.Collect(t.Context()); err != nil {
			t.Error(err)
		}
		res, _ = x.Wait()
		defer x.Session().Close()
	}
	<-done
	return list, res
}

// TestLiveChanges: while a command runs, its changes are reported as changes of the project, whatever becomes of them
// later.
func TestLiveChanges(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const command = `echo 2 >old; mkdir -p new/deep; echo x >new/deep/f; rm gone; mv new/deep/f new/g; rm new/g; echo last >end`
	for _, c := range []nsrun.Config{
		{After: nsrun.Commit},
		{After: nsrun.Discard},
		{After: nsrun.Keep},
		{Mode: nsrun.Direct},
		{After: nsrun.Commit, Engine: overlay.EngineCopy},
	} {
		p := filepath.Join(place(t, "old: 1", "gone: 1"), "p")
		c.Project = p
		got, _ := watched(t, c, command)
		name := c.Mode.String() + " " + c.Engine.String()
		// In this order, with others between them: all that is there in the end. What is gone
		// again may have been too quick for inotify.
		at := -1
		for _, want := range []string{"written old", "created new", "removed gone", "created end"} {
			i := slices.Index(got, want)
			if i <= at {
				t.Errorf("%s, after %d: %q at %d of %q", name, c.After, want, i, got)
			}
			at = max(at, i)
		}
		if slices.Contains(got, "created old") || slices.Contains(got, "created gone") || !slices.Contains(got, "created new/deep") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLiveChangesOfCopy: a copy of the project that was made a moment ago is no change.
func TestLiveChangesOfCopy(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "old: 1", "d/e/f: 1", "d/g: 1"), "p")
	for range 3 {
		got, _ := watched(t, nsrun.Config{Project: p, After: nsrun.Discard, Engine: overlay.EngineCopy}, "echo 2 >d/g; echo 3 >new")
		for _, line := range got {
			if !slices.Contains([]string{"created new", "written new", "written d/g"}, line) {
				t.Errorf("%s, of %q", line, got)
			}
		}
		if !slices.Contains(got, "written d/g") || !slices.Contains(got, "created new") {
			t.Errorf("%q", got)
		}
	}
}

// TestEventsWithoutWait: the iteration ends by itself, also if Wait is called after it only.
func TestEventsWithoutWait(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, engine := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineTmpfs} {
		p := filepath.Join(place(t), "p")
		c := nsrun.Config{Project: p, After: nsrun.Commit, Watch: true, Engine: engine}
		needFor(t, c)
		x, err := runner(t, c).Start(t.Context(), nsrun.Request{Command: "sleep 0.1; echo >new"})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for ev, err := range x.Events() {
			if err != nil {
				t.Error(err)
			}
			found = found || ev.Path == "new"
		}
		if res, err := x.Wait(); err != nil || !found || len(res.Changes) != 1 {
			t.Errorf("%s: %v, %v, %+v", engine, err, found, res.Changes)
		}
		if _, err := os.Stat(filepath.Join(p, "new")); err != nil {
			t.Error(err)
		}
	}
}

// TestLiveChangesAfterwards: if nothing can be seen before the end, changes are reported then. A caller who asks too
// late gets them, too.
func TestLiveChangesAfterwards(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, after := range []nsrun.After{nsrun.Commit, nsrun.Hold} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			c := nsrun.Config{Project: filepath.Join(place(t, "old: 1", "gone: 1"), "p"), Engine: overlay.EngineTmpfs, After: after}
			needFor(t, c)
			got, _ := watched(t, c, "echo 2 >old; echo >new; rm gone")
			if want := []string{"removed gone", "created new", "written old"}; !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
		})
	}
	p := filepath.Join(place(t, "old: 1"), "p")
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Watch: true})
	x, err := r.Start(t.Context(), nsrun.Request{Command: "echo 2 >old"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Wait(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for ev, err := range x.Events() {
		if n++; err != nil || ev.Op != fanotify.Written || ev.Path != "old" || ev.Root != p {
			t.Errorf("%v, %v", ev, err)
		}
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

// TestListsOfWrittenPaths: a Runner that watches lists what was written, even if it was removed again. It also takes in
// events that arrive after the command's end.
func TestListsOfWrittenPaths(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "old: 1"), "p")
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Watch: true})
	res, err := r.Run(t.Context(), nsrun.Request{Command: `echo 2 >old; echo >tmp; rm tmp; for i in $(seq 300); do echo >n$i; done; mkdir d; echo >d/last`})
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 1 + 300 + 2; len(res.Touched) != want || res.TouchedMore != 0 {
		t.Errorf("%d paths, not %d: %q", len(res.Touched), want, res.Touched)
	}
	for _, name := range []string{"old", "tmp", "n1", "n300", "d", "d/last"} {
		if !slices.Contains(res.Touched, filepath.Join(p, name)) {
			t.Errorf("%s was not seen", name)
		}
	}
	if len(res.Changes) != 303 {
		t.Errorf("%d changes", len(res.Changes))
	}
	if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err != nil || len(res.Touched) > 0 {
		t.Errorf("%q, %v", res.Touched, err)
	}
}

// TestWatchedAlone: a command in a new session is watched by an engine that reports nothing of others. So many commands
// at once cost as much as one after the other.
func TestWatchedAlone(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	groups := func() (n int) {
		fds, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); to == "anon_inode:[fanotify]" {
				n++
			}
		}
		return n
	}
	before := groups()
	p := filepath.Join(place(t), "p")
	for range 3 {
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Watch: true})
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		x, err := r.Start(t.Context(), nsrun.Request{Command: "echo >f; read end", Stdin: read})
		if err != nil {
			t.Fatal(err)
		}
		next, stop := iter.Pull2(x.Events())
		ev, err, ok := next()
		if err != nil || !ok || ev.Path != "f" {
			t.Errorf("%v, %v", ev, err)
		}
		if n := groups() - before; n != 0 {
			t.Errorf("%d fanotify groups are left, and each reports events of the whole file system", n)
		}
		stop()
		write.Close()
		if _, err := x.Wait(); err != nil {
			t.Error(err)
		}
	}
}
