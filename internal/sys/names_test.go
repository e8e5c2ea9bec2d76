//go:build linux

package sys

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEachName: it reads no more of a directory than was asked for, and all of it with a buffer that is used meanwhile.
func TestEachName(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 1000 {
		name := "file-" + strconv.Itoa(i)
		want = append(want, name)
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 4096)
	for names, err := range EachName(int(f.Fd()), buf) {
		if err != nil || len(names) == 0 || len(names) >= len(want) {
			t.Fatalf("%d names, %v", len(names), err)
		}
		break
	}
	if n, err := unix.ReadDirent(int(f.Fd()), buf); n == 0 || err != nil {
		t.Errorf("nothing was left to read: %d, %v", n, err)
	}
	var got []string
	for names, err := range EachName(int(f.Fd()), buf) {
		if err != nil {
			t.Fatal(err)
		}
		clear(buf)
		got = append(got, names...)
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%d names of %d", len(got), len(want))
	}
}
