//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNoOrphan: the clone that the entry point makes ends if the start fails, also without close_range(2). Either of
// two events ends it: the signal at its parent's death, and the end of its socket to the parent. The second never comes
// if the clone keeps the other end open, too. An orphan becomes a child of the test.
func TestNoOrphan(t *testing.T) {
	testenv.NeedCheckout(t)
	testenv.NeedNamespaces(t)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	testenv.Leaks(t, testenv.Reap)
	dir := testenv.Dir(t)
	early, filter := filepath.Join(dir, "early"), filepath.Join(dir, "filter")
	build(t, early, runtime.GOARCH, "-ldflags=-E nsrun_early")
	testenv.Tree(t, dir, "p/")
	for _, f := range []struct {
		name    string
		program []byte
	}{{"usual", allowing(-1)}, {"no close_range", allowing(unix.SYS_CLOSE_RANGE)}} {
		t.Run(f.name, func(t *testing.T) {
			if err := os.WriteFile(filter, f.program, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				args   string
				status int
			}{
				{"run --direct -- true", 0},
				{"run --direct -- ./absent", 127},
				{"run --direct --ro /absent -- true", 125},
				{"run --engine nonsense -- true", 125},
				{"run --direct --nonsense -- true", 125},
			} {
				t.Run(c.args, func(t *testing.T) {
					testenv.Leaks(t, testenv.Reap)
					args := []string{"--dev-bind", "/", "/", "--seccomp-file", filter, "--", early}
					if !testenv.Root() {
						args = append([]string{"--unshare-user", "--cap-add", "ALL"}, args...)
					}
					cmd := exec.Command(early, append(args, strings.Fields(c.args)...)...)
					cmd.Dir, cmd.Env = filepath.Join(dir, "p"), []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
					stderr, err := os.Create(filepath.Join(dir, "stderr")) // a pipe would be waited for
					if err != nil {
						t.Fatal(err)
					}
					defer stderr.Close()
					cmd.Stderr = stderr
					err = cmd.Run()
					if got := cmd.ProcessState.ExitCode(); got != c.status {
						text, _ := os.ReadFile(stderr.Name())
						t.Errorf("status %d, want %d: %v\n%s", got, c.status, err, text)
					}
				})
			}
		})
	}
}

// allowing is a filter that refuses one system call, as kernels do that do not have it.
func allowing(but int) (b []byte) {
	for _, i := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(but)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		b = append(binary.NativeEndian.AppendUint16(b, i.Code), i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}
