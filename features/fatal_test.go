//go:build linux

package features

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestEnded: a filter that ends processes at the calls of probes does not end the process that asks: what takes these
// calls is missing, and the cause and what to do are named.
func TestEnded(t *testing.T) {
	testenv.Leaks(t)
	checkEnded(t, harmed(t, "end"))
}

// TestEndedAndRefused: the same if it refuses openat2(2), which the process that makes the calls could do otherwise.
func TestEndedAndRefused(t *testing.T) {
	testenv.Leaks(t)
	found := harmed(t, "end, and refuse openat2")
	if got := found[Openat2]; got.Status != No || strings.Contains(got.Why, "ends processes") {
		t.Errorf("%s is %s: %s", got.Name, got.Status, got.Why)
	}
	delete(found, Openat2)
	checkEnded(t, found)
}

func checkEnded(t *testing.T, found map[Name]Feature) {
	t.Helper()
	for _, name := range toldBy {
		got, ok := found[name]
		if !ok {
			continue
		}
		end := "ends processes that call "
		if name == UserNamespaces {
			end = reexec.ErrFiltered.Error()
		}
		switch alive := name == CloseRange || name == PidfdOpen || name == Clone3; {
		case alive && got.Status != Yes:
			t.Errorf("%s, which the filter allows, is %s: %s", name, got.Status, got.Why)
		case !alive && (got.Status != No || !strings.Contains(got.Why, end) || got.Remedy != FilterRemedy()):
			t.Errorf("%s is %s: %s; try: %s", name, got.Status, got.Why, got.Remedy)
		}
	}
	if got := found[SeccompFilters]; got.Status != Yes {
		t.Errorf("%s is %s, and prctl(2) installs them: %s", got.Name, got.Status, got.Why)
	}
	if got := found[FileCalls]; got.Status != Yes {
		t.Errorf("%s is %s: %s", got.Name, got.Status, got.Why)
	}
}

// TestProbed: a process that makes calls in advance makes all of those that probes make.
func TestProbed(t *testing.T) {
	for i := range table {
		for _, c := range table[i].calls {
			if !slices.Contains(reexec.Probed[:], uintptr(c.number)) {
				t.Errorf("%s: %s is not among them", table[i].Name, c.name)
			}
		}
	}
	if err := attempt([]systemCall{{"capset", unix.SYS_CAPSET}}); err != nil {
		t.Errorf("without a filter: %v", err)
	}
}

// TestFilterError: the error is about the filter, not about the machine.
func TestFilterError(t *testing.T) {
	err := Lacks(Capset, fatalError{"capset"})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.HasPrefix(err.Error(), "a seccomp filter ends processes that call capset(2), instead of refusing it (") {
		t.Error(err)
	}
}

// TestServiceOf: a unit is named only if this process is in it itself.
func TestServiceOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/runner.service\n":                                      "runner.service",
		"1:name=systemd:/system.slice/a.service\n0::/system.slice/b@1.service\n": "b@1.service",
		"0::/\n": "",
		"0::/user.slice/user-1000.slice/session-2.scope\n":                          "",
		"0::/system.slice/docker-0123.scope\n":                                      "",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n": "",
		"12:memory:/system.slice/a.service\n0::/system.slice/a.service/payload\n":   "",
		"0::/system.slice/a\\x2db.service\n":                                        "",
		"0::/system.slice/a;b.service\n":                                            "",
		"":                                                                          "",
	} {
		if got := serviceOf(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

// TestEmulator: an emulator that answers for /proc/self is found in /proc/thread-self. Where it cannot be read, or is
// the same, there is none.
func TestEmulator(t *testing.T) {
	for _, c := range []struct{ self, thread, want string }{
		{"/usr/bin/nsrun", "/usr/bin/qemu-aarch64-static", "qemu-aarch64-static"},
		{"/usr/bin/nsrun", "/opt/proot", "proot"},
		{"/usr/bin/nsrun", "/usr/bin/nsrun", ""},
		{"/usr/bin/nsrun (deleted)", "/usr/bin/nsrun (deleted)", ""},
		{"/usr/bin/nsrun", "", ""},
		{"", "/usr/bin/proot", ""},
	} {
		got := emulator(func(name string) (string, error) {
			target := map[string]string{"/proc/self/exe": c.self, "/proc/thread-self/exe": c.thread}[name]
			if target == "" {
				return "", unix.ENOENT
			}
			return target, nil
		})
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if f := Get(DirectCalls); f.Status != Yes {
		t.Errorf("here: %s", f.Why)
	}
	err := Lacks(DirectCalls, emulatedError{"proot executes nsrun"}).Error()
	if !strings.HasPrefix(err, "proot executes nsrun (it needs to be executed by the kernel, ") {
		t.Error(err)
	}
}
