//go:build linux

package sandbox

import (
	"os"
	"testing"
)

func TestUnsentIsRead(t *testing.T) {
	var u Unsent
	u.addTable([]byte("Ip: Forwarding OutNoRoutes InDelivers\nIp: 2 6 1\nIcmp: InMsgs\nIcmp: 9\nUdp: InDatagrams NoPorts\nUdp: 7 2\nUdpLite: NoPorts\nUdpLite: 8\n"))
	u.addList([]byte("Ip6InNoRoutes\t8\nIp6OutNoRoutes                  \t3\nUdp6NoPorts\t4\nodd line here\n"))
	if u != (Unsent{NoRoute: 9, NoPort: 6}) {
		t.Errorf("%+v", u)
	}
	for _, text := range []string{"", "Ip:\n", "Ip: OutNoRoutes\n", "Ip: OutNoRoutes\nUdp: 1\n", "Ip: OutNoRoutes\nIp: x\n", "Ip: OutNoRoutes\nIp: 1 2\n"} {
		u = Unsent{}
		if u.addTable([]byte(text)); u != (Unsent{}) {
			t.Errorf("%q: %+v", text, u)
		}
	}
}

// TestCountersOfOthers: there are no counters for our own network namespace, nor for a process that does not exist.
func TestCountersOfOthers(t *testing.T) {
	if c, early := countersOf("/proc/self"); c != nil || !early {
		t.Errorf("our own: %v, %v", c, early)
	}
	if c, early := countersOf("/proc/0"); c != nil || early {
		t.Errorf("of nobody: %v, %v", c, early)
	}
	before, _ := os.ReadDir("/proc/self/fd")
	for range 10 {
		_, _ = countersOf("/proc/self")
	}
	if after, _ := os.ReadDir("/proc/self/fd"); len(after) > len(before)+5 {
		t.Errorf("%d descriptors, %d before", len(after), len(before))
	}
}
