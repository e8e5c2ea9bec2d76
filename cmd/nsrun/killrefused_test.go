//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestKillRefused: where a filter refuses the calls that send signals, time limits end commands all the same, or none
// is started. (The control: with nothing refused.)
func TestKillRefused(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/")
	file := filepath.Join(dir, "filter")
	for name, calls := range map[string][]uint32{
		"nothing": nil, "kill": {unix.SYS_KILL}, "pidfd_send_signal": {unix.SYS_PIDFD_SEND_SIGNAL},
		"both": {unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_PIDFD_SEND_SIGNAL},
	} {
		if err := os.WriteFile(file, refuse(unix.EPERM, calls...), 0o644); err != nil {
			t.Fatal(err)
		}
		run := func(backend string) ran {
			c := command("--dev-bind", "/", "/", "--cap-add", "ALL", "--seccomp-file", file, "--", filepath.Join(bin, "nsrun"), "run", "--direct",
				"--home", "none", "--backend", backend, "--timeout", "100ms", "--grace", "50ms", "--", "sh", "-c", "trap '' TERM; sleep 600 & sleep 600; echo slept")
			c.Dir, c.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir)
			return runs(t, bin, "nsrun", c)
		}
		if r := run("native"); r.status != 124 || strings.Contains(r.out, "slept") {
			t.Errorf("%s refused: %d %s", name, r.status, r.out)
		}
		if features.Get(features.LandlockScopes).Status != features.Yes {
			continue
		}
		want := 124
		if slices.Contains(calls, unix.SYS_KILL) {
			want = 125
		}
		if r := run("landlock"); r.status != want || want == 125 && !strings.Contains(r.out, "to send signals, without which nothing could end the command") {
			t.Errorf("%s refused, without namespaces: %d %s", name, r.status, r.out)
		}
	}
}
