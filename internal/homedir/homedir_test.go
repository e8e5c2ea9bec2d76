//go:build linux

package homedir

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

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

// TestFind: without HOME, the home directory is that of passwd(5). A relative HOME is an error.
func TestFind(t *testing.T) {
	for _, c := range []struct{ home, want string }{{"/h/", "/h"}, {"", Passwd()}, {"h", ""}} {
		t.Setenv("HOME", c.home)
		if got, err := Find(); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("HOME=%s: %q, %v", c.home, got, err)
		}
	}
}

// TestRemembered: a file that was changed is read again, however it was changed.
func TestRemembered(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwd")
	old := time.Now().Add(-2 * settles)
	write := func(name, home string, when time.Time) {
		t.Helper()
		if err := os.WriteFile(name, []byte("u:x:7:7::"+home+":\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, when, when); err != nil {
			t.Fatal(err)
		}
	}
	var r remembered
	is := func(uid int, want string) {
		t.Helper()
		if got := r.home(name, uid); got != want {
			t.Errorf("%d has %q, want %q", uid, got, want)
		}
	}
	is(7, "")
	write(name, "/a", old)
	is(7, "/a")
	is(8, "")
	is(7, "/a")
	write(name, "/b", old.Add(1))
	is(7, "/b")
	write(name, "/long", old.Add(1))
	is(7, "/long")
	write(name+"2", "/else", old.Add(1))
	if err := os.Rename(name+"2", name); err != nil {
		t.Fatal(err)
	}
	is(7, "/else")
	now := time.Now()
	write(name, "/new1", now)
	is(7, "/new1")
	write(name, "/new2", now) // the same size and time
	is(7, "/new2")
}
