//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// testSettings: variables for the Go runtime are not for nsrun's own, which one of them would end. The command has them
// as they are, whether main starts it or the entry point. As a control, this program, which has not the entry point,
// ends.
func testSettings(t *testing.T, early string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"GOGC=y", "GOMAXPROCS=many", "GOMEMLIMIT2=z", "GOMEMLIMIT=x"} // as slices.Sort has them
	for _, c := range []struct {
		bin  string
		args []string
		ends bool
	}{
		{early, []string{"--ro-bind", "/", "/", "env"}, false},
		{early, []string{"--ro-bind", "/", "/", "--tmpfs", "/tmp", "--file", "0", "/tmp/f", "env"}, false},
		{self, []string{"-test.run", "^$"}, true},
	} {
		cmd := exec.Command(c.bin, c.args...)
		cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, want...)
		out, err := cmd.CombinedOutput()
		if c.ends {
			if err == nil || !strings.Contains(string(out), "malformed GOMEMLIMIT") {
				t.Errorf("the control: %v\n%s", err, out)
			}
			continue
		}
		got := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(v string) bool {
			return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "PWD=")
		})
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v\n%q", c.args, err, got)
		}
	}
}
