//go:build linux

package testenv

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Lookups compares a lookup with openat2(2), for some thousand paths in a tree with links of all kinds: both open the
// same file, or fail with the same error. resolve are the sets of flags that open knows.
func Lookups(t *testing.T, open func(dir int, name string, how unix.OpenHow) (int, error), resolve ...uint64) {
	t.Helper()
	top := Dir(t)
	Tree(t, top, "outside", "in/", "in/d/", "in/d/e/", "in/d/e/f", "in/d/f", "in/l => d", "in/d/up => ..", "in/d/abs => /d/e",
		"in/d/out => ../../outside", "in/d/loop => loop", "in/d/long => e/../e/./f", "in/top", "in/dangling => nowhere", "in/d/e/top => ../../top")
	at, err := unix.Open(filepath.Join(top, "in"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	parts := []string{"", ".", "..", "d", "e", "f", "l", "up", "abs", "out", "loop", "long", "top", "dangling", "nowhere"}
	var names []string
	for _, a := range parts {
		names = append(names, a, "/"+a, a+"/")
		for _, b := range parts {
			names = append(names, a+"/"+b, a+"/"+b+"/")
			for i, c := range parts {
				if (len(names)+i)%5 == 0 {
					names = append(names, a+"/"+b+"/"+c)
				}
			}
		}
	}
	names = append(names, "d/e/f/", "d/e/f/.", "d/up/d/up/d/up/l/e/f", "l/abs/../f", "d/abs/top", "/d//e///f", strings.Repeat("d/up/", 12)+"top",
		strings.Repeat("d/up/", 12)+"d/abs/f", strings.Repeat("d/../", 300)+"top", strings.Repeat("x", 300))
	same, wrong := 0, 0
	for _, flags := range [...]uint64{
		unix.O_PATH, unix.O_PATH | unix.O_NOFOLLOW, unix.O_PATH | unix.O_DIRECTORY, unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW,
		unix.O_RDONLY, unix.O_RDONLY | unix.O_NOFOLLOW,
	} {
		for _, r := range resolve {
			for _, name := range names {
				how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: r}
				want, got := found(certain(at, name, &how)), found(open(at, name, how))
				switch {
				case want == got:
					same++
				case flags&unix.O_NOFOLLOW != 0 && strings.HasSuffix(strings.TrimRight(name, "."), "/") && !strings.HasPrefix(got, "inode"):
					// A slash behind a link that is not to be followed: openat2(2) follows it, this
					// need not.
				default:
					if wrong++; wrong < 30 {
						t.Errorf("%.200q with %#x and %#x: %s, and openat2(2) says %s", name, flags, r, got, want)
					}
				}
			}
		}
	}
	t.Logf("%d lookups are the same", same)
	if same < 1000 {
		t.Error("hardly any lookup is the same")
	}
	// A name that leads out of it is what this is about: a link, "..", another mount.
	for name, r := range map[string]uint64{"d/out": unix.RESOLVE_BENEATH, "..": unix.RESOLVE_BENEATH, "/": unix.RESOLVE_BENEATH} {
		if got := found(open(at, name, unix.OpenHow{Flags: unix.O_PATH, Resolve: r})); got != unix.EXDEV.Error() {
			t.Errorf("%q: %s", name, got)
		}
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV}
	if got := found(open(root, "proc/version", how)); got != unix.EXDEV.Error() {
		t.Errorf("another mount: %s", got)
	}
	if got := found(open(root, "proc/version", unix.OpenHow{Flags: how.Flags, Resolve: unix.RESOLVE_BENEATH})); !strings.HasPrefix(got, "inode") {
		t.Errorf("another mount, which may be: %s", got)
	}
}

// certain is openat2(2), repeated while somebody renames somewhere.
func certain(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	for range 100000 {
		if fd, err = unix.Openat2(dir, name, how); err != unix.EAGAIN {
			break
		}
	}
	return fd, err
}

// found says what a lookup has found, which it closes.
func found(fd int, err error) string {
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprint("inode ", st.Dev, ":", st.Ino)
}

// SwapLookups has an attacker exchange a directory with a link that leads out of the tree, while open looks for a file
// behind it with RESOLVE_BENEATH and RESOLVE_IN_ROOT: it never gets the one outside. The control is that openat(2)
// does.
func SwapLookups(t *testing.T, open func(dir int, name string, how unix.OpenHow) (int, error)) {
	t.Helper()
	top := Dir(t)
	Tree(t, top, "out/", "out/e/", "out/e/f", "in/", "in/d/", "in/d/e/", "in/d/e/f", "in/x => ../out", "in/d/e/g => ../../d/e/f")
	at, err := unix.Open(filepath.Join(top, "in"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(top, "out/e/f"), &st); err != nil {
		t.Fatal(err)
	}
	outside := fmt.Sprint("inode ", st.Dev, ":", st.Ino)
	Swap(t, Pair{filepath.Join(top, "in/d"), filepath.Join(top, "in/x")})
	Fooled(t, func() bool { return true }, func() bool {
		return found(unix.Openat(at, "d/e/f", unix.O_PATH|unix.O_CLOEXEC, 0)) == outside
	})
	inside := 0
	for range Rounds(500, 20000) {
		for _, name := range [...]string{"d/e/f", "d/e/g", "d/e/../e/f"} {
			for _, r := range [...]uint64{unix.RESOLVE_BENEATH, unix.RESOLVE_IN_ROOT} {
				got := found(open(at, name, unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: r}))
				if got == outside {
					t.Fatalf("%s leads outside", name)
				}
				if strings.HasPrefix(got, "inode") {
					inside++
				}
			}
		}
	}
	if inside == 0 {
		t.Error("no lookup found anything")
	}
}
