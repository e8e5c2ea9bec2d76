//go:build linux

package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLinkSize: a further name of a file has the file's size, also where a file system of FUSE answers link(2) with
// another one, which the kernel keeps for a while: gocryptfs with that on its disk. The control is a plain directory.
func TestLinkSize(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "plain/", "cipher/", "clear/", "pass: word")
	at := func(name string) string { return filepath.Join(dir, name) }
	sizes := func(name string) {
		top, err := OpenAbs(at(name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Close()
		if err := os.WriteFile(at(name+"/a"), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		st, ok, err := LinkIn(top, "a", top, "b")
		if one, oneErr := top.Lstat("a"); err != nil || oneErr != nil || !ok || st.Size != 2 || one.Size != 2 {
			t.Errorf("%s: %d and %d bytes, %v, %v, %v", name, st.Size, one.Size, ok, err, oneErr)
		}
	}
	sizes("plain")
	for _, args := range [][]string{{"-init", "-scryptn", "10", at("cipher")}, {at("cipher"), at("clear")}} {
		if out, err := exec.Command("gocryptfs", append([]string{"-q", "-passfile", at("pass")}, args...)...).CombinedOutput(); err != nil {
			testenv.Skip(t, "gocryptfs", err.Error()+": "+string(out))
		}
	}
	defer func() {
		if out, err := exec.Command("fusermount", "-u", at("clear")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}()
	sizes("clear")
}
