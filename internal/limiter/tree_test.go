//go:build linux

package limiter

import "testing"

func TestHides(t *testing.T) {
	const root, shown = "1 0 8:1 / / rw - ext4 /dev/x rw\n", "2 1 0:4 / /proc rw,nosuid - proc proc rw\n"
	const ptraceable = "3 1 0:5 / /proc rw - proc proc rw,hidepid=ptraceable\n"
	for table, want := range map[string]bool{
		root: false, root + shown: false, root + ptraceable: true, root + ptraceable + shown: false, root + shown + ptraceable: true,
		root + "2 1 0:4 / /proc rw - proc proc rw,gid=4,hidepid=invisible\n": true,
		root + "2 1 0:4 / /proc rw - proc proc rw,hidepid=2\n":               true,
		root + "2 1 0:4 / /proc rw - proc proc rw,hidepid=off\n":             false,
		root + "2 1 0:4 / /x/proc rw - proc proc rw,hidepid=2\n":             false,
	} {
		if got := hides(table); got != want {
			t.Errorf("%t: %s", got, table)
		}
	}
}
