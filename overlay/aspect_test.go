//go:build linux

package overlay

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// details is a change with everything that Changes says of it.
func details(c Change) string {
	s := c.String()
	for i, name := range []string{"content", "mode", "owner", "attributes"} {
		if c.Aspects&(1<<i) != 0 {
			s += " " + name
		}
	}
	if c.Below > 0 {
		s += fmt.Sprintf(" below:%d", c.Below)
	}
	if c.Links > 1 {
		s += fmt.Sprintf(" links:%d", c.Links)
	}
	if c.Sparse {
		s += " sparse"
	}
	if c.Special != "" {
		s += " (" + c.Special + ")"
	}
	return s
}

func TestDetails(t *testing.T) {
	for _, tt := range []struct{ name, before, script, want string }{
		{"content of the same length", `echo a > f`, `echo b > f`, "M f content"},
		{"content of another length", `echo a > f`, `echo bb > f`, "M f content"},
		{"mode", `echo a > f`, `chmod 755 f`, "M f mode"},
		{"mode and content", `echo a > f`, `echo b > f; chmod 755 f`, "M f content mode"},
		{"mode of a directory", `mkdir d; echo a > d/f`, `chmod 700 d`, "M d/ mode"},
		{"link", `ln -s a l`, `ln -sfn b l`, "M l content"},
		{"the same", `echo a > f`, `echo a > g; mv g f`, ""},
		{"a directory is deleted", `mkdir -p d/e/f; touch d/a d/e/b d/e/f/c`, `rm -r d`, "D d/ below:5"},
		{"a directory is replaced", `mkdir -p d/e; touch d/e/b`, `rm -r d; echo a > d`, "T d below:2"},
		{"an opaque directory", `mkdir -p d/e; touch d/e/b d/c`, `rm -r d; mkdir d; touch d/n`, "D d/c|D d/e/ below:1|A d/n"},
		{"another name of an equal file", `echo a > f; echo a > g; ln g h`, `ln -f f g`, "M g content links:2"},
		{"names", ``, `echo a > f; ln f g`, "A f links:2|A g links:2"},
		{"sparse", ``, `truncate -s 1M f`, "A f sparse"},
		{"setuid", ``, `echo a > f; chmod 4755 f; mkdir d; chmod 2755 d`, "A d/|A f (is setuid)"},
		{"setgid", `echo a > f`, `chmod 2755 f`, "M f mode (is setgid)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := create(t, project(t, tt.before))
			sandbox(t, s, tt.script)
			var got []string
			for c, err := range s.Changes() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, details(c))
			}
			if g := strings.Join(got, "|"); g != tt.want {
				t.Errorf("got %q, want %q", g, tt.want)
			}
		})
	}
}

func TestAttributesAspect(t *testing.T) {
	root := project(t, `echo a > f; echo a > g; mkdir d`)
	for _, f := range []string{"f", "g"} {
		if err := unix.Setxattr(filepath.Join(root, f), "user.x", []byte("1"), 0); err == unix.EOPNOTSUPP {
			t.Log("no attributes here")
			return
		}
	}
	s := create(t, root)
	sandbox(t, s, `echo bb > f; touch g d`)
	up := s.Roots()[0].Upper
	for _, err := range []error{
		unix.Removexattr(filepath.Join(up, "f"), "user.x"),
		unix.Setxattr(filepath.Join(up, "g"), "user.x", []byte("2"), 0),
		unix.Setxattr(filepath.Join(up, "d"), "user.y", []byte("2"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for c := range s.Changes() {
		got = append(got, details(c))
	}
	if g := strings.Join(got, "|"); g != "M d/ attributes|M f content attributes|M g attributes" {
		t.Error(g)
	}
}

// TestHolesAspect: holes that a command makes where there are zeros are a change, and committed. A file that the
// overlay has only copied, with its holes and with space that is kept for it, is none.
func TestHolesAspect(t *testing.T) {
	const size = 256 << 10
	root := project(t, ``)
	write := func(name string, holes, kept int64) {
		t.Helper()
		f, err := os.Create(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		zeros := make([]byte, size-holes-kept)
		zeros[len(zeros)-1] = 1
		if _, err = f.WriteAt(zeros, holes); err == nil && kept > 0 {
			err = unix.Fallocate(int(f.Fd()), 0, size-kept, kept)
		}
		if err != nil && err != unix.EOPNOTSUPP {
			t.Fatal(err)
		}
	}
	write("f", 0, 0)
	write("full", 0, 0)
	write("sparse", size/2, 0)
	write("kept", 0, size/2)
	s := create(t, root)
	sandbox(t, s, `touch f full sparse kept`)
	wantChanges(t, s)
	f, err := os.OpenFile(filepath.Join(s.Roots()[0].Upper, "f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 64<<10, 128<<10); err {
	case nil:
	case unix.EOPNOTSUPP:
		t.Log("no holes here")
		return
	default:
		t.Fatal(err)
	}
	wantChanges(t, s, "M f")
	commitAll(t, s)
	if info, err := os.Stat(filepath.Join(root, "f")); err != nil || info.Sys().(*syscall.Stat_t).Blocks*512 >= size {
		t.Errorf("committed: %v, error %v", info, err)
	}
}

// A capability is seen wherever it is, and shown before anybody tries to commit it.
func TestCapabilitySeen(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can make one
	}
	s := create(t, project(t, `echo a > f`))
	sandbox(t, s, `echo b > f; echo c > g`)
	value := []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, f := range []string{"f", "g"} {
		if err := unix.Setxattr(filepath.Join(s.Roots()[0].Upper, f), tree.CapabilityXattr, value, 0); err != nil {
			t.Fatal(err)
		}
	}
	for c, err := range s.Changes() {
		if err != nil || c.Special != "has capabilities" {
			t.Errorf("%s, error %v", details(c), err)
		}
	}
}

// What only a commit wants to know: times, and what the project lost or got meanwhile.
func TestTimesOriginsAndLateObjects(t *testing.T) {
	root := project(t, `mkdir d e gone; echo a > f; echo a > d/x; touch -d @1 f e; echo a > gone/x; echo a > lost; ln -s a l`)
	s := create(t, root)
	sandbox(t, s, `touch f; touch -h l; echo b > d/y; rm -r gone; chmod 600 lost; echo n > new`)
	outside(t, root, `rm lost; echo late > gone/late; touch -d @5 .`)
	var got []string
	for n, err := range s.nodes(walkOptions{times: true}) {
		if err != nil {
			t.Fatal(err)
		}
		line := n.String()
		if n.TimeOnly {
			line += " time"
		}
		if n.Origin {
			line += " origin"
		}
		for _, l := range n.Late {
			line += " late:" + l.Path
		}
		got = append(got, line)
	}
	want := "M ./ time|M d/ time|A d/y|M f time|D gone/ late:gone/late|M l time|A lost origin|A new"
	if g := strings.Join(got, "|"); g != want {
		t.Errorf("got  %q\nwant %q", g, want)
	}
	wantChanges(t, s, "A d/y", "D gone/", "A lost", "A new")
}

// A whiteout may be an empty file with an attribute, in a directory that says so.
func TestAttributeWhiteout(t *testing.T) {
	s := create(t, project(t, `mkdir d; echo a > d/f; echo a > d/g; echo a > f`))
	up := s.Roots()[0].Upper
	outside(t, up, `mkdir d; : > d/f; : > d/g; : > f`)
	for path, name := range map[string]string{"d": "opaque", "d/f": "whiteout", "f": "whiteout"} {
		if err := unix.Setxattr(filepath.Join(up, path), tree.OverlayPrefix+name, []byte("x"), 0); err == unix.EOPNOTSUPP {
			t.Log("no attributes here")
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	wantChanges(t, s, "D d/f", "M d/g", "M f")
}

// TestFarTimes: times that no 64 bits hold in nanoseconds (after 2262) are committed, and taken back.
func TestFarTimes(t *testing.T) {
	root := project(t, `mkdir d; echo a > f; echo a > g; touch -d 2300-01-01T00:00:00.000000003 f g d`)
	times := func(dir string) (list []unix.Timespec) {
		for _, name := range []string{"f", "g", "d"} {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil {
				t.Fatal(err)
			}
			list = append(list, st.Mtim)
		}
		return list
	}
	before := times(root)
	s := create(t, root)
	sandbox(t, s, `touch -d 2400-01-01T00:00:00.000000001 f; echo b > g; touch -d 2410-01-01 g; echo b > d/x; touch -d 2420-01-01 d`)
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	native := testenv.Dir(t) // what the file system holds of them
	outside(t, native, `mkdir d; touch -d 2400-01-01T00:00:00.000000001 f; touch -d 2410-01-01 g; touch -d 2420-01-01 d`)
	got, want := times(root), times(native)
	if !slices.Equal(got, want) {
		t.Errorf("after the commit: %v, want %v", got, want)
	}
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := times(root); !slices.Equal(got, before) {
		t.Errorf("after undo: %v, want %v", got, before)
	}
}

// TestWithoutAttributes: a project's file system without users' attributes gets none from a session, as from cp(1): the
// commit does not fail for that.
func TestWithoutAttributes(t *testing.T) {
	if !tree.IsRoot() {
		return // only root mounts here
	}
	if _, err := exec.LookPath("setfattr"); err != nil {
		testenv.Skip(t, "setfattr", err.Error())
	}
	dir := tempDir(t)
	testenv.Tree(t, dir, "plain/")
	if err := unix.Mount("plain", dir+"/plain", "ramfs", 0, ""); err != nil {
		testenv.Skip(t, "ramfs", err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(dir+"/plain", unix.MNT_DETACH) })
	testenv.Tree(t, dir, "plain/p/", "plain/p/f: a", "plain/p/d/f: a")
	root := dir + "/plain/p"
	if err := unix.Setxattr(root+"/f", "user.a", []byte("b"), 0); err != unix.EOPNOTSUPP {
		t.Fatalf("%v", err)
	}
	was := look(t, root)
	for _, engine := range enginesHere(t) {
		s := createWith(t, engine, root)
		saw := sandbox(t, s, `echo b >f; mkdir n; echo n >n/n; chmod 700 d
			setfattr -n user.a -v b f; setfattr -n user.a -v b n; setfattr -n user.a -v b n/n; setfattr -n user.a -v b d`)
		commitAll(t, s)
		if now := look(t, root); withoutTimes(now) == withoutTimes(was) || strings.Contains(now, "user.a") || !strings.Contains(saw, "user.a") {
			t.Errorf("%s: committed:\n%s", engine, now)
		}
		if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
			t.Errorf("%s: %v", engine, err)
		}
		wantSame(t, look(t, root), was)
	}
}
