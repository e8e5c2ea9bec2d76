//go:build linux

package tree

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestParseDirty(t *testing.T) {
	for _, test := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"MemTotal:       24681528 kB\nDirty:               100 kB\nWriteback:            20 kB\nWritebackTmp:         7 kB\n", 120 << 10, true},
		{"Dirty: 0 kB\nWriteback: 0 kB\n", 0, true},
		{"Dirty: 0 kB\n", 0, false},
		{"Writeback: 0 kB\nDirty: many kB\n", 0, false},
		{"Dirty: 18014398509481985 kB\nWriteback: 0 kB\n", 0, false},
		{"", 0, false},
	} {
		if got, ok := parseDirty(test.text); got != test.want || ok != test.ok {
			t.Errorf("parseDirty(%q) = %d, %v, want %d, %v", test.text, got, ok, test.want, test.ok)
		}
	}
	if _, ok := dirty(); !ok {
		t.Error("this system does not report how much is not yet on disk")
	}
}

// TestFlusherBound: however much there is to flush, few descriptors are open.
func TestFlusherBound(t *testing.T) {
	testenv.Leaks(t)
	dir, err := OpenAbs(testenv.Dir(t), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var f Flusher
	defer f.Close()
	for i := range 3 * FsyncMost {
		h, err := dir.Create(strconv.Itoa(i))
		if err == nil {
			err = f.AddFile(h)
		}
		if err == nil {
			err = f.AddDir(dir, ".")
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(f.Files) + len(f.Dirs); n >= FsyncMost {
			t.Fatalf("%d are open", n)
		}
	}
	if err := f.Wait(); err != nil || len(f.Files)+len(f.Dirs) > 0 {
		t.Fatalf("%d are open, %v", len(f.Files)+len(f.Dirs), err)
	}
}
