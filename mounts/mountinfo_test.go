//go:build linux

package mounts_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/mounts"
)

func TestParseMountinfo(t *testing.T) {
	const good = `22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /mnt2 ro,noatime,nosuid,nodev,noexec,nodiratime master:1 shared:2 - ext3 /dev/root rw,errors=continue
40 22 0:30 /a\040b /with\040space\011tab\012line\134slash rw,nosymfollow unbindable - tmpfs none rw
41 22 0:31 / /unknown\777\08x rw - fuse.x  rw
`
	got, err := mounts.ParseMountinfo([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []mounts.Info{
		{ID: 22, Parent: 27, Root: "/", Target: "/proc", FSType: "proc", Flags: mounts.FlagRelAtime, Device: "0:21", Super: "rw"},
		{ID: 36, Parent: 35, Root: "/mnt1", Target: "/mnt2", FSType: "ext3", Flags: mounts.FlagReadOnly | mounts.FlagNoAtime |
			mounts.FlagNoSuid | mounts.FlagNoDev | mounts.FlagNoExec | mounts.FlagNoDirAtime, Device: "98:0", Super: "rw,errors=continue"},
		{ID: 40, Parent: 22, Root: "/a b", Target: "/with space\ttab\nline\\slash", FSType: "tmpfs", Flags: mounts.FlagNoSymfollow, Device: "0:30", Super: "rw"},
		{ID: 41, Parent: 22, Root: "/", Target: `/unknown\777\08x`, FSType: "fuse.x", Device: "0:31", Super: "rw"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	for _, bad := range []string{
		"\n", "x", "22 27 0:21 / /proc rw,relatime proc proc rw a b", "22 27 0:21 / /proc rw,relatime -",
		"x 27 0:21 / /proc rw,relatime - proc proc rw", "22 x 0:21 / /proc rw,relatime - proc proc rw",
		"22 27 0:21 / /proc rw - proc", good + "1 2 3",
	} {
		if got, err := mounts.ParseMountinfo([]byte(bad)); err == nil {
			t.Errorf("%q: no error, %+v", bad, got)
		}
	}
	if got, err := mounts.ParseMountinfo(nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

func TestReadMountinfo(t *testing.T) {
	infos, err := mounts.ReadMountinfo()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n != len(infos) {
		t.Errorf("%d lines, %d mounts", n, len(infos))
	}
	if below := mounts.Below(infos, "/proc"); below[0].FSType != "proc" {
		t.Errorf("/proc is %+v", below[0])
	}
}

// table makes a list of mounts from lines "id parent target [ro]".
func table(lines ...string) (infos []mounts.Info) {
	for _, line := range lines {
		f := strings.Fields(line)
		in := mounts.Info{ID: number(f[0]), Parent: number(f[1]), Target: f[2]}
		if len(f) > 3 {
			in.Flags = mounts.FlagReadOnly
		}
		infos = append(infos, in)
	}
	return infos
}

func number(s string) (n int) {
	for _, d := range s {
		n = 10*n + int(d-'0')
	}
	return n
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		dir   string
		want  string // id:path, the first is the mount that holds dir
	}{
		{"nothing below", []string{"1 0 /"}, "/a", "1:"},
		{"all", []string{"1 0 /", "2 1 /a", "3 1 /b", "4 2 /a/c"}, "/", "1: 2:a 4:a/c 3:b"},
		{"dir in a mount", []string{"1 0 /", "2 1 /a", "3 2 /a/b/c"}, "/a/b", "2: 3:c"},
		{"dir is a mount", []string{"1 0 /", "2 1 /a", "3 2 /a/b"}, "/a", "2: 3:b"},
		{"not a sibling with the same beginning", []string{"1 0 /", "2 1 /a", "3 1 /ab", "4 1 /a-b"}, "/a", "2:"},
		{"trailing slash", []string{"1 0 /", "2 1 /a", "3 2 /a/b"}, "/a/", "2: 3:b"},
		{"stacked: the top one", []string{"1 0 /", "2 1 /a", "3 2 /a"}, "/", "1: 3:a"},
		{"stacked, in the other order", []string{"3 2 /a", "2 1 /a", "1 0 /"}, "/", "1: 3:a"},
		{"stacked thrice, dir itself", []string{"1 0 /", "2 1 /a", "4 3 /a", "3 2 /a"}, "/a", "4:"},
		{"covered: below something that is hidden", []string{"1 0 /", "2 1 /a/b", "3 1 /a"}, "/", "1: 3:a"},
		{"covered, and again on the cover", []string{"1 0 /", "2 1 /a/b", "3 1 /a", "4 3 /a/b"}, "/", "1: 3:a 4:a/b"},
		{"below a covered mount", []string{"1 0 /", "2 1 /a", "3 2 /a/b", "4 2 /a"}, "/", "1: 4:a"},
		{"root is stacked", []string{"1 0 /", "2 1 /", "3 1 /hidden", "4 2 /a"}, "/", "2: 4:a"},
		{"parent unknown", []string{"5 4 /", "6 5 /a", "9 8 /other"}, "/", "5: 6:a"},
		{"parents first", []string{"1 0 /", "4 3 /a/b/c", "3 2 /a/b", "2 1 /a"}, "/", "1: 2:a 3:a/b 4:a/b/c"},
		{"a root of its own", []string{"1 1 /", "2 1 /a"}, "/", "1: 2:a"},
		{"made up: a circle", []string{"1 0 /", "2 3 /a", "3 2 /a"}, "/", "1:"},
		{"made up: on itself", []string{"1 0 /", "2 2 /a"}, "/a", "1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, in := range mounts.Below(table(c.lines...), c.dir) {
				got = append(got, string(rune('0'+in.ID))+":"+in.Target)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

func TestBelowKeepsFlags(t *testing.T) {
	below := mounts.Below(table("1 0 /", "2 1 /a ro"), "/")
	if below[0].Flags != 0 || below[1].Flags != mounts.FlagReadOnly {
		t.Errorf("%+v", below)
	}
}
