//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// tree lists all that is in a directory.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		list = append(list, name)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) { // an overlay's, or removed with one meanwhile
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestExplainMakesNothing: Explain leaves the host as it was, even where a run makes directories.
func TestExplainMakesNothing(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for name, rule := range map[string]string{"nothing": "", "the cache directory": "home/.cache"} {
		t.Run(name, func(t *testing.T) {
			dir := place(t, "a")
			testenv.Tree(t, dir, "home/.cache/")
			c := nsrun.Config{Project: filepath.Join(dir, "p")}
			if rule != "" {
				c.Rules = []nsrun.Rule{{Mode: nsrun.Direct, Pattern: filepath.Join(dir, rule)}}
			}
			r := runner(t, c)
			q := nsrun.Request{Command: "true"}
			before := tree(t, dir)
			if err := r.Explain(t.Context(), io.Discard, q); err != nil {
				t.Error(err)
			}
			if _, err := r.View(t.Context(), q); err != nil {
				t.Error(err)
			}
			if after := tree(t, dir); len(after) != len(before) {
				t.Errorf("there was %q, there is %q", before, after)
			}
			if _, err := r.Run(t.Context(), q); err != nil { // the control: it can be run, and makes some
				t.Error(err)
			}
			if after := tree(t, dir); len(after) == len(before) {
				t.Error("the control: a run created nothing")
			}
		})
	}
}

// storing is a Recorder of an embedder's own.
type storing struct{ dir string }

func (s storing) Private() []string                                 { return []string{s.dir} }
func (storing) Record(context.Context, nsrun.Record) error          { return nil }
func (storing) Committed(context.Context, *overlay.Session) error   { return nil }
func (storing) Discarded(ctx context.Context, session string) error { return nil }

// TestPrivateRecorder: a Recorder says which directories commands see nothing of.
func TestPrivateRecorder(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "store/", "store/f")
	store := filepath.Join(dir, "store")
	read := func(rec nsrun.Recorder) int {
		res, err := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Recorder: rec, After: nsrun.Discard,
			Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir}}}).Run(t.Context(), nsrun.Request{Args: []string{"ls", store + "/f"}})
		if err != nil {
			t.Error(err)
		}
		return res.ExitCode
	}
	if read(nil) != 0 {
		t.Error("the control cannot read the store")
	}
	if read(storing{store}) == 0 {
		t.Error("the store can be read")
	}
	if _, err := os.Stat(store); err != nil {
		t.Error(err)
	}
}
