//go:build linux

package nsexec

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestLowest: the lowest limits are raised, to what is more than now; if all are equal, all are raised. What cannot be
// read is left alone.
func TestLowest(t *testing.T) {
	for _, c := range []struct {
		limits map[string]int
		others int // -1: they cannot be read
		want   string
	}{
		{map[string]int{"mnt": 1}, 500, "user.max_mnt_namespaces=10000"},
		{map[string]int{"mnt": 1, "net": 1}, 500, "user.max_mnt_namespaces=10000 user.max_net_namespaces=10000"},
		{map[string]int{"pid": 20000}, 60000, "user.max_pid_namespaces=40000"},
		{nil, 0, "user.max_user_namespaces=10000 user.max_mnt_namespaces=10000 user.max_pid_namespaces=10000 user.max_net_namespaces=10000 " +
			"user.max_ipc_namespaces=10000 user.max_uts_namespaces=10000 user.max_cgroup_namespaces=10000"},
		{map[string]int{"cgroup": 7}, -1, "user.max_cgroup_namespaces=10000"},
		{nil, math.MaxInt32, ""},
		{map[string]int{"net": math.MaxInt32 - 1}, math.MaxInt32, "user.max_net_namespaces=2147483647"},
	} {
		got := lowest(func(name string) (int, bool) {
			kind := strings.TrimSuffix(strings.TrimPrefix(name, "user/max_"), "_namespaces")
			if !slices.Contains(namespaceKinds[:], kind) {
				t.Errorf("reads %s", name)
			}
			if n, ok := c.limits[kind]; ok {
				return n, true
			}
			return c.others, c.others >= 0
		})
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v, others %d: %q", c.limits, c.others, got)
		}
	}
}
