//go:build linux

package host

import (
	"slices"
	"testing"
)

func TestPasswdHome(t *testing.T) {
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
		if got := passwdHome([]byte(passwd), uid); got != want {
			t.Errorf("%d: %q, want %q", uid, got, want)
		}
	}
}

// TestHomes: $HOME adds a home directory, it takes none away.
func TestHomes(t *testing.T) {
	t.Setenv("HOME", "")
	own := Homes()
	for home, want := range map[string][]string{
		"":             own,
		"relative":     own,
		"/other/home/": append(slices.Clip(own), "/other/home"),
	} {
		t.Setenv("HOME", home)
		if got := Homes(); !slices.Equal(got, want) {
			t.Errorf("HOME=%s: %q, want %q", home, got, want)
		}
	}
}
