//go:build linux

package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// memory is a directory on a tmpfs, or on the disk where there is none that has attributes (before Linux 6.6).
func memory(t testing.TB) string {
	t.Helper()
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		if dir, err := os.MkdirTemp("/dev/shm", "nsrun-crash-"); err == nil {
			t.Cleanup(func() { removeAll(t, dir) })
			if unix.Setxattr(dir, "user.nsrun", nil, 0) == nil {
				return dir
			}
		}
	}
	return tempDir(t)
}

// some is what a partial commit, or a drop, is about.
var some = []string{"1:new", "1:changed", "1:old", "1:becomes-file", "1:alone2", "2:attrs", "2:locked", "2:src", "2:secret"}

var deeds = []struct {
	name    string
	prepare []deed
	deed    deed
	again   []deed
}{
	{"commit", nil, deed{Do: "commit"}, []deed{{Do: "undo"}}},
	{"undo", []deed{{Do: "commit"}}, deed{Do: "undo"}, []deed{{Do: "commit"}}},
	{"discard", nil, deed{Do: "discard"}, nil},
	{"commit a part", nil, deed{Do: "commit", Paths: some, Each: true}, []deed{{Do: "undo"}}},
	{"commit the rest", []deed{{Do: "commit", Paths: some}}, deed{Do: "commit"}, []deed{{Do: "undo"}}},
	{"undo a part", []deed{{Do: "commit", Paths: some}}, deed{Do: "undo", Each: true}, []deed{{Do: "commit", Paths: some}}},
	{"drop", nil, deed{Do: "drop", Paths: some}, nil},
	{"commit plainly", nil, deed{Do: "commit", Plain: true, Each: true}, []deed{{Do: "undo"}}},
	{"undo by force", []deed{{Do: "commit"}, {Do: "owner"}}, deed{Do: "force"}, nil},
	{"undo by force plainly", []deed{{Do: "commit", Plain: true}, {Do: "owner"}}, deed{Do: "force", Plain: true}, nil},
	{"undo plainly", []deed{{Do: "commit"}}, deed{Do: "undo", Plain: true, Each: true}, []deed{{Do: "commit"}}},
}

// TestCrashControl: the tests find what is broken, and nothing else.
func TestCrashControl(t *testing.T) {
	testenv.Leaks(t)
	dir := memory(t)
	tr := &trial{name: "naive", scene: newScene(t, mustMkdir(filepath.Join(dir, "scene")), true), base: dir, state: dir,
		deed: deed{Do: "naive"}, control: true}
	tr.tryAll(t, 30, "kill", "EIO")
}

// TestCommitIsWhatWasSeen: what the trials take for the outcome is right.
func TestCommitIsWhatWasSeen(t *testing.T) {
	testenv.Leaks(t)
	for _, small := range []bool{true, false} {
		dir := memory(t)
		tr := &trial{name: "commit", scene: newScene(t, mustMkdir(filepath.Join(dir, "scene")), small), base: dir, state: dir, deed: deed{Do: "commit"}}
		tr.run(t, false)
		if d := difference(tr.after.project, tr.scene.wantAfter(t, dir)); len(d) > 0 {
			t.Errorf("%d differences:\n%s", len(d), strings.Join(d, "\n"))
		}
	}
}

// crash strikes deeds on a scene, many points of each in each way: projects in base,
// sessions in state.
func crash(t *testing.T, base, state string, small bool, many int, which func(deed string) bool, ways ...string) {
	sc := newScene(t, mustMkdir(filepath.Join(base, "scene")), small)
	for _, d := range deeds {
		if !which(d.name) {
			continue
		}
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			tr := &trial{name: d.name, scene: sc, base: base, state: state, prepare: d.prepare, deed: d.deed, again: d.again, brief: !small, apart: base != state,
				anew: d.deed.Do == "force"}
			tr.tryAll(t, many, ways...)
		})
	}
}

// ownersEdits are what the owner does to projects after a commit, in the places of what was committed.
func ownersEdits(roots []Root) error {
	var errs []error
	for _, r := range roots {
		e := &editor{top: r.Path, at: time.Date(2022, 1, 2, 0, 0, 0, 0, time.UTC)}
		e.file("changed.new", "the owner's\n")
		e.do("changed", func(p string) error { return os.Rename(p+".new", p) })
		e.remove("src/deep/er/changed")
		e.file("gone", "the owner's\n")
		e.remove("new")
		e.file("new", "the owner's\n")
		e.remove("becomes-file")
		e.file("becomes-dir/in/more", "the owner's\n")
		e.remove("link")
		e.link("link", "the owner's")
		for _, path := range []string{"changed", "gone", "new", "becomes-dir/in/more", "link"} {
			e.old(path)
		}
		errs = append(errs, e.err)
	}
	return errors.Join(errs...)
}

func all(string) bool { return true }

// whole are the deeds that have to do with all changes.
func whole(deed string) bool { return deed == "commit" || deed == "undo" || deed == "discard" }

// TestCrashSmall tries few changes, one of each kind.
func TestCrashSmall(t *testing.T) {
	testenv.Leaks(t)
	dir := memory(t)
	crash(t, dir, dir, true, testenv.Fewer(6), all)
}

// TestCrashShut has directories in the project that their owner may not read.
func TestCrashShut(t *testing.T) {
	testenv.Leaks(t)
	withShut = true
	defer func() { withShut = false }()
	for _, apart := range []bool{false, true} {
		dir := memory(t)
		state := dir
		if apart {
			state = tempDir(t)
		}
		crash(t, dir, state, true, testenv.Fewer(12), whole, "kill", "kill after", "ENOSPC", "EIO", "EROFS for good")
	}
}

// TestCrash tries some 300 changes.
func TestCrash(t *testing.T) {
	testenv.Leaks(t)
	dir := memory(t)
	crash(t, dir, dir, false, testenv.Fewer(6), whole, "kill", "kill after", "ENOSPC", "EIO")
}

// TestCrashApart has the sessions on another file system than the projects. Then a backup is a
// copy, which is no further name of a file any more when it is put back.
func TestCrashApart(t *testing.T) {
	testenv.Leaks(t)
	crash(t, memory(t), tempDir(t), true, testenv.Fewer(12), whole, "kill", "EIO")
}

// TestCrashDisk has all of it on the disk.
func TestCrashDisk(t *testing.T) {
	testenv.Leaks(t)
	dir := tempDir(t)
	crash(t, dir, dir, true, testenv.Fewer(4), whole, "kill", "EIO")
}

// TestCrashRecovery strikes what mends.
func TestCrashRecovery(t *testing.T) {
	testenv.Leaks(t)
	dir := memory(t)
	sc := newScene(t, mustMkdir(filepath.Join(dir, "scene")), true)
	for _, d := range deeds {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			tr := &trial{name: d.name, scene: sc, base: dir, state: dir, prepare: d.prepare, deed: d.deed, again: d.again, anew: d.deed.Do == "force"}
			tr.tryRecovery(t, testenv.Fewer(4), testenv.Fewer(4), "kill", "EIO")
		})
	}
}
