//go:build linux

package cgroups

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestFindManager: what is no manager of this user's, in its cgroup, is refused.
func TestFindManager(t *testing.T) {
	uid := os.Getuid()
	for _, tc := range []struct {
		name   string
		socket string
		uid    int // whose manager is looked for
		want   error
	}{
		{"none", "", uid, fs.ErrNotExist},
		{"another program", "systemd/private", uid, errOtherManager},
		{"another program's bus", "bus", uid, errOtherManager},
		{"another user's", "bus", uid + 1, errOtherManager},
	} {
		runtime := testenv.Dir(t)
		dir := filepath.Join(runtime, strconv.Itoa(tc.uid))
		testenv.Tree(t, dir, "systemd/")
		if tc.socket != "" {
			l, err := net.Listen("unix", filepath.Join(dir, tc.socket))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
		}
		m, err := findManager(runtime, tc.uid)
		if err == nil {
			m.Close()
		}
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
