//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is copied and compared is told, one object after the other, and can be stopped from there.
func TestWithProgress(t *testing.T) {
	root, state := project(t, `echo abc > a; mkdir d; echo de > d/f; ln -s a l`), filepath.Join(tempDir(t), "state")
	want := []Progress{{1, 0, 4}, {2, 0, 4}, {3, 0, 4}, {4, 0, 7}, {4, 4, 7}}
	var got []Progress
	ctx := WithProgress(t.Context(), func(p Progress) { got = append(got, p) })
	s, err := CreateContext(ctx, Options{Roots: []string{root}, Dir: state, Engine: EngineCopy})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("copied: %v, want %v", got, want)
	}
	got = nil
	if err := s.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("compared: %v, want %v", got, want)
	}
	got = nil
	if err := s.ResumeContext(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("copied again: %v, want %v", got, want)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = CreateContext(WithProgress(ctx, func(p Progress) {
		if p.Done == 2 {
			cancel()
		}
	}), Options{Roots: []string{root}, Dir: state, Engine: EngineCopy})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(state, "*")); err != nil || slices.ContainsFunc(left, func(name string) bool {
		_, err := os.Stat(filepath.Join(name, "upper"))
		return err == nil
	}) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
