//go:build linux

package testenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Pair are two names in a directory of an attacker's.
type Pair struct{ A, B string }

// Swap exchanges the names of each pair until the test's end. Between two rounds it sleeps for less than what it takes
// to start a sandbox: often enough to be in between a look and a use, and the machine has time for others.
func Swap(t testing.TB, pairs ...Pair) {
	t.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); wg.Wait() })
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, p := range pairs {
				if err := unix.Renameat2(unix.AT_FDCWD, p.A, unix.AT_FDCWD, p.B, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil)
		}
	})
}

// RaceTime is how long a race goes on until all that can happen was seen: on a busy machine, or one with a single
// processor, the two sides seldom meet.
const RaceTime = Patience

// Fooled is the control of a race: whoever looks first and then uses what he saw is fooled by Swap. use is called where
// look was content, and says whether it got something else.
func Fooled(t testing.TB, look, use func() bool) {
	t.Helper()
	end := time.Now().Add(RaceTime)
	for n := 1; time.Now().Before(end); n++ {
		if look() && use() {
			t.Logf("the exchange fooled the control in try %d", n)
			return
		}
	}
	t.Error("the exchange never fooled the control: it is too slow")
}

// Listing is all that is in a directory: names, modes, contents, texts of links.
func Listing(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			text, err = os.Readlink(p)
		case fi.Mode().IsRegular():
			var b []byte
			b, err = os.ReadFile(p)
			text = string(b)
		}
		list = append(list, fmt.Sprintf("%s %v %q", p, fi.Mode(), text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Difference is what in a directory is not as it was listed, "" if nothing.
func Difference(t testing.TB, dir string, before []string) string {
	t.Helper()
	after := Listing(t, dir)
	var d strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintf(&d, "gone: %s\n", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			fmt.Fprintf(&d, "new: %s\n", line)
		}
	}
	return d.String()
}

// Unchanged fails the test at its end if something in dir is not as it is now.
func Unchanged(t testing.TB, dir string) {
	t.Helper()
	before := Listing(t, dir)
	t.Cleanup(func() {
		if d := Difference(t, dir, before); d != "" {
			t.Errorf("changed: %s", d)
		}
	})
}
