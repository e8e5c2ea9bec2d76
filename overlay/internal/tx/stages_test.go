//go:build linux

package tx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// apartTx is a transaction on a project that is on another file system, with a move of each of these paths.
func apartTx(t *testing.T, project string, paths ...string) *Tx {
	t.Helper()
	state := testenv.Dir(t)
	open := func(name string) *tree.Handle {
		h, err := tree.OpenAbs(name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		return h
	}
	dir := open(state)
	s := &Log{Dir: dir, Path: state, Roots: []string{project}, Book: &store.Book{State: dir, Dir: dir, ID: "s"}, Far: true}
	for _, name := range []string{Name, ObjectsName} {
		if err := dir.Mkdir(name); err != nil {
			t.Fatal(err)
		}
	}
	tx := &Tx{s: s, dir: dir, Objects: dir, low: []*tree.Handle{open(project)}, Journal: &Journal{}}
	tx.Doors = Doors{s: s, low: tx.low}
	for i, p := range paths {
		tx.Journal.Nodes = append(tx.Journal.Nodes, Node{Path: store.Text(p)})
		tx.Journal.Moves = append(tx.Journal.Moves, Move{First: i, End: i + 1})
	}
	t.Cleanup(func() { _ = tx.Doors.Relock() })
	return tx
}

// TestStagesFail: if a directory in which a stage is to be is gone, no stage is made, and none is left to be removed.
func TestStagesFail(t *testing.T) {
	testenv.Leaks(t)
	project := testenv.Dir(t)
	testenv.Tree(t, project, "a/")
	tx := apartTx(t, project, "a/f", "gone/f")
	err := tx.makeStages(map[store.Place]bool{{Path: "a"}: true, {Path: "gone"}: true})
	if !errors.Is(err, unix.ENOENT) {
		t.Fatalf("a directory that is gone: %v", err)
	}
	if err := tx.DropStages(); err != nil {
		t.Errorf("without stages: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(project, "a")); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestDropStageFails: a stage that cannot be looked at is an error, and holds no descriptor.
func TestDropStageFails(t *testing.T) {
	testenv.Leaks(t)
	tx := apartTx(t, testenv.Dir(t))
	tx.staged = []Stage{{Dir: ".", Name: StageMark + strings.Repeat("x", 300)}}
	tx.stages = []*tree.Handle{nil}
	if err := tx.DropStages(); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("a name that is too long: %v", err)
	}
}

// TestNearest: what was in a directory that is gone may be kept in the lowest one above it.
func TestNearest(t *testing.T) {
	testenv.Leaks(t)
	project := testenv.Dir(t)
	testenv.Tree(t, project, "a/b/", "a/file", "a/link => b")
	tx := apartTx(t, project)
	for path, want := range map[string]string{
		"a/b": "a/b", "a/b/gone": "a/b", "a/gone/too": "a", "gone/too": ".", ".": ".", "a/file/x": "a", "a/link/x": "a",
	} {
		if got := tx.nearest(store.Place{Path: path}); got.Path != want {
			t.Errorf("%s: %s, want %s", path, got.Path, want)
		}
	}
}
