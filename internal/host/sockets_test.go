//go:build linux

package host

import (
	"reflect"
	"testing"
)

func TestSocketNames(t *testing.T) {
	const file = "Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12345 /home/me/agent.sock\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12346 /home/me/with space\n" +
		"0000000000000000: 00000003 00000000 00000000 0001 03 12347 /home/me/agent.sock\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12348 /run/user/1000/bus\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12349 @abstract\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12350\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12351 relative\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 12352 /home/me/two\nlines: 00000002\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01     7  leading\n" +
		"ffff8881: 00000002 00000000 00010000 0001 01 12353 /home/me/last\n"
	want := []string{" leading", "/home/me/agent.sock", "/home/me/last", "/home/me/two\nlines: 00000002", "/home/me/with space", "/run/user/1000/bus", "relative"}
	if got := socketNames([]byte(file)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
