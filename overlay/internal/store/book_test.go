//go:build linux

package store

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestBookOfSession: a session is on the list of those to recover as long as a mode is changed, in the project or in
// its own directory.
func TestBookOfSession(t *testing.T) {
	for _, upper := range []bool{false, true} {
		state, err := tree.OpenAbs(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		defer state.Close()
		b := &Book{State: state, Dir: state, ID: "s"}
		if err := b.Note(BookEntry{Upper: upper, Path: "f"}); err != nil {
			t.Fatal(err)
		}
		if !Pending(state, "s") {
			t.Errorf("upper %t: it is not on the list", upper)
		}
		if b.Unnote(1); Pending(state, "s") {
			t.Errorf("upper %t: it stays on the list", upper)
		}
	}
}

// TestBookAfterFailure: a session of which an entry could not be noted, and that left the list since, is on the list
// again with the next entry.
func TestBookAfterFailure(t *testing.T) {
	state, err := tree.OpenAbs(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	b := &Book{State: state, Dir: state, ID: "s"}
	if err := state.Mkdir(BookName); err != nil { // in the place of the file
		t.Fatal(err)
	}
	if err := b.Note(BookEntry{Path: "f"}); err != unix.EISDIR {
		t.Fatalf("it was noted: %v", err)
	}
	if err := b.Unmark(); err != nil || Pending(state, "s") {
		t.Fatalf("it stays on the list: %v", err)
	}
	if err := state.Unlink(BookName, unix.AT_REMOVEDIR); err != nil {
		t.Fatal(err)
	}
	if err := b.Note(BookEntry{Path: "f"}); err != nil || !Pending(state, "s") {
		t.Errorf("it is not on the list: %v", err)
	}
	if b.Unnote(1); Pending(state, "s") {
		t.Error("it stays on the list")
	}
}
