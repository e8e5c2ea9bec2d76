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
