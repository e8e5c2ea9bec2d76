//go:build linux

package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Where the kernel does not copy by itself, the result is the same.
func TestCopyBlocks(t *testing.T) {
	testenv.Leaks(t)
	dir, data := testenv.Dir(t), make([]byte, 700000)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a"), data, 0o600), os.WriteFile(filepath.Join(dir, "b"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	d, err := OpenAbs(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := d.Open("a", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := d.Open("b", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := CopyBlocks(context.Background(), b, a, 0, 700000); err != nil {
		t.Fatal(err)
	}
	if same, err := SameData(a, b, 700000); !same || err != nil {
		t.Errorf("%v, %v", same, err)
	}
	if _, err := unix.Pwrite(int(b.FD), []byte("x"), 699999); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Pwrite(int(a.FD), []byte("x"), 0); err == nil {
		t.Error("the source is writable")
	}
	if err := CopyBlocks(context.Background(), b, a, 0, 700001); !errors.Is(err, ErrMoved) {
		t.Errorf("short source: %v", err)
	}
	if same, err := SameData(a, b, 700001); same || !errors.Is(err, ErrMoved) {
		t.Errorf("%v, %v", same, err)
	}
}

// TestLinkShownApart: where each name of a file is shown as a file of its own, a further name is made all the same.
func TestLinkShownApart(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "a: text")
	d, err := OpenAbs(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	st, err := d.Lstat("a")
	if err != nil {
		t.Fatal(err)
	}
	id := Inode{st.Dev, st.Ino}
	k := Copier{Links: map[Inode]Copied{id: {d, "a", st.Ino + 1, 2}}}
	made, ok, err := k.Link(id, d, "b")
	if !ok || err != nil || made.Ino != st.Ino {
		t.Errorf("%v, %v, %v", made, ok, err)
	}
}
