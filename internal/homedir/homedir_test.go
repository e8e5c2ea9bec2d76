//go:build linux

package homedir

import "testing"

func TestPasswd(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\n" +
		"short:x:7\n" +
		"+::::::\n" +
		"empty:x:8:8:::\n" +
		"relative:x:9:9::home:\n" +
		"first:x:1000:1000:A,,,:/home/first/:/bin/sh\n" +
		"second:x:1000:1000::/home/second:/bin/sh\n" +
		"last:x:1001:1001::/home/last:"
	for uid, want := range map[int]string{
		0: "/root", 7: "", 8: "", 9: "", 100: "", 1000: "/home/first", 1001: "/home/last",
	} {
		if got := in([]byte(passwd), uid); got != want {
			t.Errorf("%d: %q, want %q", uid, got, want)
		}
	}
}

// TestFind: who has no HOME has that of passwd(5); one that is relative is a mistake.
func TestFind(t *testing.T) {
	for _, c := range []struct{ home, want string }{{"/h/", "/h"}, {"", Passwd()}, {"h", ""}} {
		t.Setenv("HOME", c.home)
		if got, err := Find(); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("HOME=%s: %q, %v", c.home, got, err)
		}
	}
}
