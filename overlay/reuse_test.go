//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestReused removes a file from the project just before a new one of the session is staged, and
// gives that the inode number of the old one, as file systems do that give out numbers again at once.
func TestReused(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f; printf 1 > g`)
	s := create(t, root)
	sandbox(t, s, `printf 22 > f; printf 22 > g`)
	var c *commit
	c = newCommit(s, CommitOptions{Progress: func(Progress) {
		for i := range c.tx.Journal.Nodes {
			if n := &c.tx.Journal.Nodes[i]; n.Path == "g" && n.New.Ino != 0 {
				n.Old.Ino = n.New.Ino
			}
		}
	}})
	defer c.close()
	if err := c.beginTurn(); err != nil {
		t.Fatal(err)
	}
	if err := c.find(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "g")); err != nil {
		t.Fatal(err)
	}
	before := look(t, root)
	if err := public(c.run(context.Background())); !errors.As(err, new(*ConflictError)) {
		t.Errorf("got %v", err)
	}
	wantSame(t, noDirTimes(look(t, root)), noDirTimes(before))
}
