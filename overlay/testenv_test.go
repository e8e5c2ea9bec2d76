//go:build linux

package overlay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// helperEnv makes the test binary mount a session and run a script in it.
const helperEnv = "NSRUN_OVERLAY_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
	case "serve":
		os.Exit(serve())
	case "full":
		if err := fullDisk(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	default:
		os.Exit(helper())
	}
	if os.Getenv(crashEnv) != "" {
		os.Exit(crashHelper())
	}
	if os.Getenv(sceneEnv) != "" {
		os.Exit(sceneHelper())
	}
	if os.Getenv(atOnceEnv) != "" {
		os.Exit(atOnceHelper())
	}
	unix.Umask(0o022)
	testenv.AllNeedNamespaces()
	testenv.Main(m, nsexec.Shutdown)
}

// helperInput is what the helper reads from standard input.
type helperInput struct {
	Mounts []mounts.Mount
	Script string   // empty: nothing is run
	Roots  []string // what to print when it is done
}

const exitNoMount = 77

func overlayOptions(m mounts.Mount) string {
	o := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(m.Lower, ":"), m.Upper, m.Work)
	if m.Volatile {
		o += ",volatile"
	}
	return o
}

func helper() int {
	fail := func(code int, err error) int {
		fmt.Fprintln(os.Stderr, err)
		return code
	}
	runtime.LockOSThread()
	unix.Umask(0o022)
	var in helperInput
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return fail(1, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fail(exitNoMount, err)
	}
	for _, m := range in.Mounts {
		switch m.Kind {
		case mounts.KindLayer:
			if err := unix.MoveMount(3+m.Layer, "", unix.AT_FDCWD, m.Target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fail(1, fmt.Errorf("attach at %s: %w", m.Target, err))
			}
			continue
		case mounts.KindBind:
			if err := unix.Mount(m.Source, m.Target, "", unix.MS_BIND, ""); err != nil {
				return fail(1, fmt.Errorf("bind at %s: %w", m.Target, err))
			}
			continue
		}
		if err := unix.Mount("overlay", m.Target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, overlayOptions(m)); err != nil {
			return fail(exitNoMount, fmt.Errorf("mount overlay at %s: %w", m.Target, err))
		}
	}
	if in.Script != "" {
		sh := exec.Command("/bin/sh", "-euc", in.Script)
		sh.Dir = in.Roots[0]
		sh.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}
		for i, r := range in.Roots {
			sh.Env = append(sh.Env, fmt.Sprintf("ROOT%d=%s", i+1, r))
		}
		sh.Stderr = os.Stderr
		if err := sh.Run(); err != nil {
			return fail(1, err)
		}
	}
	for _, r := range in.Roots {
		if err := snapshot(os.Stdout, r); err != nil {
			return fail(1, err)
		}
	}
	return 0
}

// sandbox runs a shell script with the session's mounts in place, and returns
// what the roots looked like from inside when it was done.
func sandbox(t testing.TB, s *Session, script string) string {
	t.Helper()
	var roots []string
	for _, r := range s.Roots() {
		roots = append(roots, r.Path)
	}
	saw := runHelper(t, helperInput{s.Mounts(), script, roots}, s.Layers()...)
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return saw
}

// look is what the roots look like without a session. It looks from a user
// namespace as well, where the same ids are seen and nothing is unreadable.
func look(t testing.TB, roots ...string) string {
	t.Helper()
	return runHelper(t, helperInput{Roots: roots})
}

func runHelper(t testing.TB, input helperInput, layers ...*os.File) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	cmd.ExtraFiles = layers
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	cmd.SysProcAttr = userNamespace()
	err = cmd.Run()
	if cmd.ProcessState == nil {
		testenv.Skip(t, string(features.UserNamespaces), err.Error())
	}
	if cmd.ProcessState.ExitCode() == exitNoMount {
		testenv.Skip(t, "overlay", stderr.String())
	}
	if err != nil {
		t.Fatalf("sandbox: %v\n%s", err, stderr.String())
	}
	return stdout.String()
}

// snapshot prints a tree, a line per object: path, type, mode, and for a file
// its content, the number of its names, its modification time and its attributes. (Which
// names belong together an overlay does not show: the inode numbers differ. See view for
// more.)
func snapshot(w io.Writer, root string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, p)
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if err != nil {
			fmt.Fprintf(w, "%q unreadable\n", rel)
			return nil
		}
		fmt.Fprintf(w, "%q %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data := []byte("huge")
			if st.Size < 1<<30 {
				if data, err = os.ReadFile(p); err != nil {
					data = []byte("unreadable")
				}
			}
			sum := sha256.Sum256(data)
			fmt.Fprintf(w, " %d bytes %x", st.Size, sum[:6])
			if st.Nlink > 1 {
				fmt.Fprintf(w, " %d names", st.Nlink)
			}
		case unix.S_IFLNK:
			text, err := os.Readlink(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, " -> %q", text)
		}
		fmt.Fprintf(w, " at %d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
		o := object{Mode: st.Mode}
		if err := o.readXattrs(p); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(o.Xattrs)) {
			fmt.Fprintf(w, " %s=%q", name, o.Xattrs[name])
		}
		fmt.Fprintln(w)
		return nil
	})
}

// tempDir is t.TempDir, removed even where tests made it unreadable.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "overlay-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		parent, err := tree.OpenAbs(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		defer parent.Close()
		if err := tree.RemoveTree(parent, filepath.Base(dir)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return dir
}

// project makes a directory and runs a shell script in it.
func project(t testing.TB, script string) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	outside(t, dir, script)
	return dir
}

// outside runs a shell script in a directory of the host.
func outside(t testing.TB, dir, script string) {
	t.Helper()
	sh := exec.Command("/bin/sh", "-euc", script)
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// create begins a session that ends with the test.
func create(t testing.TB, roots ...string) *Session {
	t.Helper()
	s, err := Create(Options{Roots: roots, Dir: filepath.Join(tempDir(t), "state"), Command: []string{"test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// changes lists the changes as lines.
func changes(t testing.TB, s *Session) []string {
	t.Helper()
	list := []string{}
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c.String())
	}
	return list
}

func wantChanges(t testing.TB, s *Session, want ...string) {
	t.Helper()
	wantSame(t, strings.Join(changes(t, s), "\n"), strings.Join(want, "\n"))
}

func commitAll(t testing.TB, s *Session, paths ...string) {
	t.Helper()
	if err := s.CommitWith(context.Background(), CommitOptions{Paths: paths, AllowSpecial: true}); err != nil {
		t.Fatal(err)
	}
}

func wantSame(t testing.TB, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	if slices.Equal(slices.Sorted(slices.Values(g)), slices.Sorted(slices.Values(w))) {
		t.Errorf("order: got %q, want %q", g, w)
	}
	for _, l := range w {
		if !slices.Contains(g, l) {
			t.Errorf("missing: %s", l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			t.Errorf("extra:   %s", l)
		}
	}
}
