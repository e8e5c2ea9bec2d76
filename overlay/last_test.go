//go:build linux

package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/overlay/internal/store"
)

// The command that a session was resumed with last is shown, by its holder and by others.
func TestLastCommand(t *testing.T) {
	s := create(t, project(t, ``))
	file := filepath.Join(s.Dir(), store.LastName)
	long := []string{"long", strings.Repeat("x", 5000), "\xff\x00\n\"", ""}
	meta, err := os.ReadFile(filepath.Join(s.Dir(), store.MetaName))
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, want ...string) {
		t.Helper()
		if got := s.Info().Command; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		for other, err := range List(filepath.Dir(s.Dir())) {
			if err != nil || !slices.Equal(other.Command, want) {
				t.Errorf("%s: the list has %q, %v, want %q", what, other.Command, err, want)
			}
		}
	}
	resume := func(command ...string) {
		t.Helper()
		if err := s.Resume(command); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("made", "test")
	resume()
	want("resumed without a command", "test")
	resume(long...)
	want("resumed", long...)
	resume("short")
	want("resumed with a shorter one", "short")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	resume()
	want("resumed without a command again", "short")
	if st, err := os.Stat(file); err != nil || time.Since(st.ModTime()) > time.Minute {
		t.Errorf("after another use, the time is %v, %v", st.ModTime(), err)
	}
	resume("long", strings.Repeat("\x01", store.CommandMost))
	want("a command that is too long to be kept", "long", "…")
	resume(strings.Repeat("\x01", store.CommandMost-1))
	want("one that is just short enough", strings.Repeat("\x01", store.CommandMost-1))
	for _, text := range []string{"", "\n", `["cut`, `["cut"]`, "[1]\n", "{}\n", "\x00\x00\x00\x00\x00\n", strings.Repeat("\n", 3*store.LastMost)} {
		write(text)
		want("damaged: "+text[:min(len(text), 10)], "test")
	}
	resume("again")
	want("written over what was damaged", "again")
	if now, err := os.ReadFile(filepath.Join(s.Dir(), store.MetaName)); err != nil || string(now) != string(meta) {
		t.Errorf("Resume changed the session's data: %v", err)
	}

	// If something else is there, it is neither followed nor waited for.
	for _, make := range []func() error{
		func() error { return os.Symlink("/etc/passwd", file) },
		func() error { return os.Mkdir(file, 0o700) },
	} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if err := s.Resume([]string{"x"}); err == nil {
			t.Error("Resume succeeds although something else is in the file's place")
		}
		want("something else", "test")
	}
}

// A session that was used lately is not old, whenever its data was written.
func TestLastUse(t *testing.T) {
	s := create(t, project(t, ``))
	state := filepath.Dir(s.Dir())
	if err := os.WriteFile(filepath.Join(s.Roots()[0].Upper, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume([]string{"again"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clean := func() (n int) {
		for _, err := range Clean(state, CleanOptions{Kept: 24 * time.Hour}) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		return n
	}
	old := time.Now().Add(-48 * time.Hour)
	for i, name := range []string{store.MetaName, store.LastName} {
		if err := os.Chtimes(filepath.Join(s.Dir(), name), old, old); err != nil {
			t.Fatal(err)
		}
		if n := clean(); n != i {
			t.Errorf("%s is old: %d sessions cleaned, want %d", name, n, i)
		}
	}
}
