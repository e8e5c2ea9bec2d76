//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// A heap is a state directory with sessions of all sorts in it.
type heap struct {
	dir   string
	label map[string]string // by path of the directory
}

// newHeap makes one. What "old" is was used last 40 days ago, what is "new" just now.
func newHeap(t *testing.T) heap {
	t.Helper()
	root := project(t, "echo 1 > f")
	h := heap{filepath.Join(tempDir(t), "state"), map[string]string{}}
	old := time.Now().Add(-40 * 24 * time.Hour)
	age := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, label := range []string{
		"kept new", "kept old", "committed new", "committed old", "discarded new", "discarded old", "busy old",
		"empty file old", "no file new", "no file old", "no file old with changes", "version 999 old", "private old",
	} {
		s, err := Create(Options{Roots: []string{root}, Dir: h.dir})
		if err != nil {
			t.Fatal(err)
		}
		h.label[s.Dir()] = label
		data := filepath.Join(s.Dir(), store.MetaName)
		has := func(word string) bool { return strings.Contains(label, word) }
		if has("kept") || has("changes") {
			if err := os.WriteFile(filepath.Join(s.Roots()[0].Upper, "f"), []byte("2"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case has("committed"):
			commitAll(t, s)
		case has("discarded"), has("busy"):
			if err := s.Discard(); err != nil {
				t.Fatal(err)
			}
		}
		m := *s.meta
		if has("999") {
			m.Version = 999
		}
		if _, err := store.WriteMeta(s.dir, &m, nil); err != nil {
			t.Fatal(err)
		}
		if has("no file") {
			if err := os.Remove(data); err != nil {
				t.Fatal(err)
			}
		} else if has("empty file") {
			if err := os.Truncate(data, 0); err != nil {
				t.Fatal(err)
			}
		}
		if has("old") && !has("no file") {
			age(data)
		}
		if has("private") { // which an owner would not do
			if err := os.Chmod(s.Dir(), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if has("busy") {
			t.Cleanup(func() { _ = s.Close() })
		} else {
			_ = s.Close()
		}
		if has("old") {
			age(s.Dir())
		}
	}
	for _, label := range []string{"half old", "half new", "half without lock new", "gone old", "gone without lock old"} {
		prefix := store.NewPrefix
		if strings.HasPrefix(label, "gone") {
			prefix = store.GonePrefix
		}
		dir := filepath.Join(h.dir, prefix+store.NewName(time.Now()))
		h.label[dir] = label
		if err := os.MkdirAll(filepath.Join(dir, "upper/overlay1/d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(label, "without") {
			if err := os.WriteFile(filepath.Join(dir, store.LockName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasSuffix(label, "old") {
			age(dir)
		}
	}
	// These do not belong to sessions.
	testenv.Tree(t, h.dir, "notes", ".hidden/x", "20200101T000000Z/")
	return h
}

// clean cleans, and returns the labels of what was removed, sorted.
func (h heap) clean(t *testing.T, o CleanOptions) (removed, failed []string) {
	t.Helper()
	for c, err := range Clean(h.dir, o) {
		label, ok := h.label[c.Dir]
		if !ok {
			t.Errorf("not known: %+v, %v", c, err)
		}
		if err != nil {
			failed = append(failed, label)
			continue
		}
		if strings.Contains(label, "old") != (time.Since(c.Last) > 30*24*time.Hour) {
			t.Errorf("%s: last used %s", label, c.Last)
		}
		var dir unix.Stat_t // btrfs and xfs count no blocks for small directories
		if err := unix.Stat(t.TempDir(), &dir); err != nil || c.Size < 0 || c.Size == 0 && dir.Blocks > 0 || (c.ID == "") != (filepath.Base(c.Dir)[0] == '.') {
			t.Errorf("%s: %+v", label, c)
		}
		removed = append(removed, label)
		if _, err := os.Lstat(c.Dir); (err == nil) != o.DryRun {
			t.Errorf("%s: %v", label, err)
		}
	}
	slices.Sort(removed)
	return removed, failed
}

func TestClean(t *testing.T) {
	testenv.Leaks(t)
	orphans := []string{"empty file old", "gone old", "gone without lock old", "half old", "no file old"}
	unreadable := []string{"no file old with changes", "version 999 old"}
	for _, tt := range []struct {
		name string
		o    CleanOptions
		want []string
	}{
		{"zero", CleanOptions{}, []string{"committed old", "discarded old"}},
		{"dry run", CleanOptions{DryRun: true}, []string{"committed old", "discarded old"}},
		{"committed are kept", CleanOptions{KeepCommitted: true}, []string{"discarded old"}},
		{"after an hour", CleanOptions{Ended: time.Hour}, []string{"committed old", "discarded old"}},
		{"after 50 days", CleanOptions{Ended: 50 * 24 * time.Hour}, nil},
		{"all that ended", CleanOptions{Ended: -1}, []string{"committed new", "committed old", "discarded new", "discarded old"}},
		{"kept ones", CleanOptions{Kept: 30 * 24 * time.Hour}, []string{"committed old", "discarded old", "kept old"}},
		{"young kept ones", CleanOptions{Kept: 50 * 24 * time.Hour}, []string{"committed old", "discarded old"}},
		{"all kept ones", CleanOptions{Kept: -1, Ended: 50 * 24 * time.Hour}, []string{"kept new", "kept old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHeap(t)
			want := slices.Sorted(slices.Values(append(slices.Clone(tt.want), orphans...)))
			before := testenv.Listing(t, h.dir)
			removed, failed := h.clean(t, tt.o)
			slices.Sort(failed)
			if !slices.Equal(removed, want) || !slices.Equal(failed, unreadable) {
				t.Errorf("removed %q, want %q\nfailed %q, want %q", removed, want, failed, unreadable)
			}
			if tt.o.DryRun {
				if d := testenv.Difference(t, h.dir, before); d != "" {
					t.Error(d)
				}
				return
			}
			for dir, label := range h.label {
				if _, err := os.Lstat(dir); (err == nil) == slices.Contains(want, label) {
					t.Errorf("%s: %v", label, err)
				}
			}
			if again, _ := h.clean(t, tt.o); len(again) > 0 {
				t.Errorf("again: %q", again)
			}
		})
	}
}

func TestCleanNamed(t *testing.T) {
	testenv.Leaks(t)
	h := newHeap(t)
	id := func(label string) string {
		for dir, l := range h.label {
			if l == label {
				return filepath.Base(dir)
			}
		}
		t.Fatal(label)
		return ""
	}
	for _, label := range []string{"kept new", "committed new", "no file old with changes", "version 999 old"} {
		if removed, failed := h.clean(t, CleanOptions{Sessions: []string{id(label)}}); !slices.Equal(removed, []string{label}) || failed != nil {
			t.Errorf("%s: %q, %q", label, removed, failed)
		}
	}
	for _, c := range []struct {
		id   string
		want error
	}{{id("busy old"), ErrBusy}, {id("private old"), os.ErrPermission}, {"nonsense", os.ErrNotExist}} {
		for _, err := range Clean(h.dir, CleanOptions{Sessions: []string{c.id}}) {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.id, err)
			}
		}
	}
	// All or nothing of the names.
	for c, err := range Clean(h.dir, CleanOptions{Sessions: []string{id("kept old"), "nonsense"}}) {
		if err == nil {
			t.Errorf("%+v", c)
		}
	}
	if _, err := os.Lstat(filepath.Join(h.dir, id("kept old"))); err != nil {
		t.Error(err)
	}
}

func TestCleanDaily(t *testing.T) {
	testenv.Leaks(t)
	if err := CleanDaily(filepath.Join(tempDir(t), "nothing")); err != nil {
		t.Error(err)
	}
	h := newHeap(t)
	there := func(label string) bool {
		for dir, l := range h.label {
			if l == label {
				_, err := os.Lstat(dir)
				return err == nil
			}
		}
		return false
	}
	// What cannot be removed is an error, and keeps nothing else from being removed.
	if err := CleanDaily(h.dir); err == nil || there("committed old") || there("half old") || !there("kept old") {
		t.Errorf("%v", err)
	}
	if err := CleanDaily(h.dir); err != nil { // not again
		t.Error(err)
	}
	for _, when := range []time.Duration{-25 * time.Hour, 25 * time.Hour} { // or the clock was wrong
		at := time.Now().Add(when)
		if err := os.Chtimes(filepath.Join(h.dir, stampName), at, at); err != nil {
			t.Fatal(err)
		}
		if err := CleanDaily(h.dir); err == nil {
			t.Errorf("not cleaned after %s", when)
		}
	}
}

func TestUsage(t *testing.T) {
	s := create(t, project(t, "true"))
	ctx := t.Context()
	small, err := s.Info().Usage(ctx)
	if err != nil || small <= 0 {
		t.Fatal(small, err)
	}
	up := s.Roots()[0].Upper
	outside(t, up, `head -c 1M /dev/urandom > a; ln a b; mkdir d; ln a d/c; truncate -s 1T hole; ln -s / out`)
	large, err := s.Info().Usage(ctx)
	if grown := large - small; err != nil || grown < 1<<20 || grown > 3<<19 {
		t.Errorf("%d bytes more, %v", grown, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if n, err := s.Info().Usage(ended); !errors.Is(err, context.Canceled) || n > large {
		t.Errorf("%d, %v", n, err)
	}
	// Deeper than a path can be long, and unreadable.
	outside(t, up, `n=$(printf %0200d 0); deep() { mkdir $1; cd $1; for i in 1 2 3 4 5 6 7 8 9 10; do mkdir $n; cd $n; done; }
		top=$PWD; (deep x); (deep y; mv $top/x .); mkdir closed; chmod 0 closed`)
	if n, err := s.Info().Usage(ctx); err != nil || n < large {
		t.Errorf("%d, %v", n, err)
	}
}
