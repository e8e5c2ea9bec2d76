//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestAccounts: root's command that can become other users sees the host's accounts without anything that is in the
// files with the passwords. (Control: that is seen if a rule shows it.)
func TestAccounts(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "files/shadow: root:$6$secret:20000:0:99999:7:::\n", "files/gshadow: root:secret::\n", "files/sudoers: Defaults secret\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	p := filepath.Join(dir, "p")
	for _, name := range []string{"shadow", "gshadow", "sudoers"} {
		at := "/etc/" + name
		if _, err := os.Stat(at); err != nil {
			testenv.Skip(t, at, err.Error())
			return
		}
		isAt(t, filepath.Join(p, "files", name), at)
	}
	const look = "stat -c '%u %a' /etc/shadow; head -n 1 /etc/shadow; grep -c . /etc/gshadow >/dev/null && echo groups; cat /etc/sudoers; grep -h secret /etc/shadow /etc/gshadow /etc/sudoers"
	const accounts = "0 640\nroot:*:::::::\ngroups\nroot ALL=(ALL:ALL) ALL\n"
	rule := func(m nsrun.Mode) []nsrun.Rule { return []nsrun.Rule{{Mode: m, Pattern: "/etc/shadow"}} }
	for _, tc := range []struct {
		name string
		c    nsrun.Config
		want string // what the output begins with
		has  bool   // the secret is in it
	}{
		{"a session", nsrun.Config{After: nsrun.Discard}, accounts, false},
		{"own ids", nsrun.Config{After: nsrun.Discard, OwnIDs: true}, accounts, false},
		{"in place", nsrun.Config{Mode: nsrun.Direct}, "", false},
		{"blocked", nsrun.Config{After: nsrun.Discard, Rules: rule(nsrun.Blocked)}, "", false},
		{"shown", nsrun.Config{After: nsrun.Discard, Rules: rule(nsrun.ReadOnly)}, "", true},
	} {
		tc.c.Project = p
		tc.c.Rules = append(tc.c.Rules, nsrun.Rule{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "files")})
		got := printed(t, runner(t, tc.c), look)
		if !strings.HasPrefix(got, tc.want) || strings.Contains(got, "secret") != tc.has || tc.want == "" && strings.Contains(got, "root:*") {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}
