//go:build linux

package tree

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Each mode that is widened for a while is reported before, and restored.
func TestBook(t *testing.T) {
	if IsRoot() {
		return // nothing is closed to root
	}
	up := testenv.Dir(t)
	testenv.Tree(t, up, "d/e/f: a")
	for _, p := range []string{"d/e/f 0", "d/e 0100", "d 0"} {
		name, mode, _ := strings.Cut(p, " ")
		m, _ := strconv.ParseUint(mode, 0, 32)
		if err := unix.Chmod(filepath.Join(up, name), uint32(m)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // so that it can be removed
		_ = unix.Chmod(filepath.Join(up, "d"), 0o700)
		_ = unix.Chmod(filepath.Join(up, "d/e"), 0o700)
	})
	h, err := OpenAbs(up, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	var booked []string
	u := &Real{H: h, Upper: true, Unlock: true, Book: func(path string, ino uint64, mode uint32) error {
		booked = append(booked, fmt.Sprintf("%s %o", path, mode))
		return nil
	}}
	defer u.Close()
	d, err := u.At("d/e")
	if err != nil {
		t.Fatal(err)
	}
	st, _, err := d.Lstat("f")
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.File("f", st)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	d.Close()
	if got := strings.Join(booked, "|"); got != "d 0|d/e 100|d/e/f 0" {
		t.Errorf("booked %q", got)
	}
	var after unix.Stat_t
	if err := unix.Lstat(filepath.Join(up, "d"), &after); err != nil || after.Mode&0o777 != 0 {
		t.Errorf("mode %o, %v", after.Mode, err)
	}
}
