//go:build linux

package homelayer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestKeepHostile: when a directory of the layer is kept, nothing that a command left there leads a program outside to
// another place, or fills the disk.
func TestKeepHostile(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	home := filepath.Dir(filepath.Dir(path))
	victim := filepath.Join(testenv.Dir(t), "victim")
	testenv.Tree(t, victim, "f: mine")
	inside := map[string]string{"c/in": "d/f", "c/d/up": "../in", "c/d/self": "./.", "c/d/e/top": "../../in", "c/x": ".", "c/none": "later"}
	outside := map[string]string{
		"c/all": victim, "c/f": filepath.Join(victim, "f"), "c/d/over": "../..", "c/d/e/over": "../../../victim/f", "c/back": "x/..",
		"c/root": "/", "c/twice": "d/e/top/../../..", "c/dots": "./..",
	}
	l := take(t, path)
	testenv.Tree(t, l.Upper(), "c/d/e/f: 1", "c/d/f: 2")
	for _, list := range []map[string]string{inside, outside} {
		for name, target := range list {
			if err := os.Symlink(target, filepath.Join(l.Upper(), name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const size = 8 << 40 // more than the disk has
	if err := os.WriteFile(l.Upper()+"/c/holes", []byte("begin"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(l.Upper()+"/c/holes", size); err != nil {
		testenv.Skip(t, "large files", "the file system has no files of 8 TiB: "+err.Error())
	}
	release(t, l)

	list, err := Keep(path, home, "c", KeepOptions{Held: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if _, out := outside[one.Path]; out != (one.Held != "") || one.Err != nil {
			t.Errorf("%+v", one)
		}
	}
	for name := range outside {
		if _, err := os.Lstat(filepath.Join(home, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, target := range inside {
		if text, err := os.Readlink(filepath.Join(home, name)); text != target {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(home+"/c/holes", &st); err != nil || st.Size != size || st.Blocks > 1024 {
		t.Errorf("%d bytes, %d blocks, %v", st.Size, st.Blocks, err)
	}

	// The control: the same links, all copied, do lead a program to the victim. A link that is named itself is
	// reported.
	for _, o := range []struct {
		name string
		KeepOptions
	}{{"c", KeepOptions{Replace: true}}, {"c/f", KeepOptions{Held: func(string) string { return "" }}}} {
		if err := os.RemoveAll(home + "/c"); err != nil {
			t.Fatal(err)
		}
		list, err = Keep(path, home, o.name, o.KeepOptions)
		if err != nil || o.name == "c/f" && (len(list) != 1 || list[0].Link != outside["c/f"]) {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := os.WriteFile(home+"/c/f", []byte(o.name), 0o644); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(victim + "/f"); string(b) != o.name {
			t.Errorf("the control: %q, %v", b, err)
		}
	}
}

// TestKeepTimes: what is kept has its times, to the nanosecond.
func TestKeepTimes(t *testing.T) {
	path := place(t)
	home := filepath.Dir(filepath.Dir(path))
	l := take(t, path)
	testenv.Tree(t, l.Upper(), "c/f: 1")
	want := []unix.Timespec{{Sec: 1_000_000_000, Nsec: 123_456_789}, {Sec: 1_000_000_001, Nsec: 987_654_321}}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(l.Upper(), "c/f"), want, 0); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	if _, err := Keep(path, home, "c", KeepOptions{Held: func(string) string { return "" }}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(home, "c/f"), &st); err != nil || st.Atim != want[0] || st.Mtim != want[1] {
		t.Errorf("%v %v, want %v, %v", st.Atim, st.Mtim, want, err)
	}
}
