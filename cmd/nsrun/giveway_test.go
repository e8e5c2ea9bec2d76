//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestOwnersGiveWay: Linux before 5.19 lays no overlay over idmapped mounts. Then root's command does without changed
// owners, and has its home layer and its session as without them.
func TestOwnersGiveWay(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	base, bin := testenv.Dir(t), installed(t)
	without, most := 0, 3
	if testenv.Long() {
		most = 1 << 10
	}
	for at := 1; without < most; at++ { // the calls that make file systems, of which the last ones make overlays
		p := newStartPlace(t, base, bin, 1)
		c := p.command("--discard", "sh", "-c", "echo w >~/w; grep CapEff /proc/self/status")
		var out, said bytes.Buffer
		c.Stdout, c.Stderr = &out, &said
		r, err := strike.Run(c, strike.Plan{Starts: true, At: at, Do: strike.Fail, Errno: unix.EINVAL, Only: func(c strike.Call) bool { return c.Name == "fsconfig" }})
		if err != nil {
			testenv.Skip(t, "ptrace", err.Error())
		}
		if r.ExitCode != 125 && (r.ExitCode != 0 || !strings.Contains(said.String(), "~/w") || strings.Contains(said.String(), "no home layer")) {
			t.Errorf("call %d: status %d, %s", at, r.ExitCode, said.String())
		}
		if strings.Contains(out.String(), "0000000000000000") {
			without++
		}
		p.drop(t)
		if r.Call.Name == "" {
			break
		}
	}
	if without == 0 {
		testenv.Skip(t, "changed owners", "no command had to do without them")
	}
}
