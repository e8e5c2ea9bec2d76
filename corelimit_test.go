//go:build linux

package nsrun_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// insideCore tries to have another limit of core dumps, and prints what it has then.
func insideCore([]string) int {
	var now unix.Rlimit
	for _, to := range []uint64{0, 1 << 20, unix.RLIM_INFINITY} {
		want := unix.Rlimit{Cur: to, Max: to}
		err := unix.Prlimit(0, unix.RLIMIT_CORE, &want, nil)
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
			fmt.Println(err)
		}
		fmt.Println(err, now)
		if to == 0 && now.Max == 0 {
			return 0 // there is no way back
		}
	}
	// Others are not touched.
	files := unix.Rlimit{Cur: 100, Max: 100}
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &now)
	fmt.Println(err, now)
	return 0
}

// TestNoCoreDumps: what crashes is not dumped, to a file or (by the limit of one byte, core(5)) to a program, and the
// command cannot have it otherwise. The controls are a Spec with a limit of its own, and one without a filter.
func TestNoCoreDumps(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		t.Fatal(err)
	}
	if now.Max < 1<<20 {
		testenv.Skip(t, "core", "the limit of core dumps is too low for the test")
	}
	dir := place(t)
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(dir, "p"), Shared: []nsrun.Folder{{Path: dir + "/state", Mode: nsrun.ReadOnly}}, After: nsrun.Discard}))
	if got, want := output(t, r, insideRequest(t, "core")), strings.Repeat("<nil> {1 1}\n", 3)+"<nil> {100 100}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := sh(t, r, "ulimit -c; ulimit -c 0; echo $?; sh -c 'kill -SEGV $$'; echo $?; ls"); strings.Contains(got, "core") || !strings.Contains(got, "139") {
		t.Errorf("a crash: %q", got)
	}
	spec := nsrun.Spec{Mounts: append(nsrun.DefaultMounts(), shownMount(t)), Env: []string{insideEnv + "=core"},
		Rlimits: []nsexec.Rlimit{{Resource: unix.RLIMIT_CORE, Soft: 1 << 20, Hard: 1 << 20}}}
	out, err := spec.Command(self(t)).Output()
	if want := strings.Repeat("<nil> {1048576 1048576}\n", 3) + "<nil> {100 100}\n"; err != nil || string(out) != want {
		t.Errorf("with a limit: %q, %v", out, err)
	}
	spec.Rlimits, spec.Seccomp = nil, []nsexec.Filter{}
	if out, err := spec.Command(self(t)).Output(); err != nil || string(out) != "<nil> {0 0}\n" {
		t.Errorf("without a filter: %q, %v", out, err)
	}
}
