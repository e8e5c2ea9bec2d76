//go:build linux

package mounts_test

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/mounts"
)

// render writes a line as the kernel does.
func render(in mounts.Info) string {
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`)
	flags := "rw"
	for _, f := range []struct {
		name string
		flag mounts.MountFlags
	}{
		{"ro", mounts.FlagReadOnly}, {"nosuid", mounts.FlagNoSuid}, {"nodev", mounts.FlagNoDev}, {"noexec", mounts.FlagNoExec},
		{"noatime", mounts.FlagNoAtime}, {"nodiratime", mounts.FlagNoDirAtime}, {"relatime", mounts.FlagRelAtime},
		{"nosymfollow", mounts.FlagNoSymfollow},
	} {
		switch {
		case in.Flags&f.flag == 0:
		case f.name == "ro":
			flags = "ro"
		default:
			flags += "," + f.name
		}
	}
	return fmt.Sprintf("%d %d %s %s %s %s shared:1 - %s none %s\n", in.ID, in.Parent, in.Device,
		escape.Replace(in.Root), escape.Replace(in.Target), flags, escape.Replace(in.FSType), in.Super)
}

// FuzzParseMountinfo: whatever the file holds, parsing ends, and so does looking
// for mounts in what came out. What was understood is understood again when the
// kernel writes it.
func FuzzParseMountinfo(f *testing.F) {
	f.Add([]byte("22 27 0:21 / /proc rw,relatime - proc proc rw\n"), "/proc")
	f.Add([]byte("1 0 0:1 / / rw shared:1 - ext4 x rw\n2 1 0:1 / / rw - ext4 x rw\n3 2 0:1 / /a\\040b ro - ext4 x rw\n"), "/")
	f.Add([]byte("1 2 0:1 / /a rw - x x rw\n2 1 0:1 / /a rw - x x rw"), "/a/b")
	f.Add([]byte(`1 0 0:1 / /\134\0 rw - x x rw`), "relative")
	f.Add([]byte("1 0 0:1 / / rw - x x rw\n2 1 0:1 / /a rw - x x rw\n2 1 0:1 / /a rw - x x rw\n3 2 0:1 / /a/b rw - fuse.a\\040b x rw"), "/")
	f.Fuzz(func(t *testing.T, b []byte, dir string) {
		infos, err := mounts.ParseMountinfo(b)
		if err != nil {
			if infos != nil {
				t.Errorf("an error and %d mounts", len(infos))
			}
			return
		}
		if lines := bytes.Count(append(b, '\n'), []byte("\n")); len(infos) != lines && len(infos) != lines-1 {
			t.Errorf("%d mounts of %d lines", len(infos), lines)
		}
		var text strings.Builder
		for _, in := range infos {
			text.WriteString(render(in))
		}
		again, err := mounts.ParseMountinfo([]byte(text.String()))
		if err != nil || !slices.Equal(infos, again) {
			t.Errorf("%q\nis %+v\nwritten %q\nis %+v %v", b, infos, text.String(), again, err)
		}
		checkBelow(t, infos, dir)
	})
}

// checkBelow says what holds of every answer, of tables that cannot be too.
func checkBelow(t *testing.T, infos []mounts.Info, dir string) {
	t.Helper()
	given := slices.Clone(infos)
	below := mounts.Below(infos, dir)
	if !slices.Equal(infos, given) {
		t.Fatal("the table was changed")
	}
	if len(below) == 0 || below[0].Target != "" {
		t.Fatalf("the first is %+v", below)
	}
	dir = path.Clean(dir)
	// A mount that moves while the table is read can be in it at both places.
	known, moved := make(map[int]string), make(map[int]bool)
	for _, in := range infos {
		if at, ok := known[in.ID]; ok && at != in.Target {
			moved[in.ID] = true
		}
		known[in.ID] = in.Target
	}
	ids, targets := make(map[int]bool), make(map[string]bool)
	for _, in := range below[1:] {
		at := slices.IndexFunc(infos, func(table mounts.Info) bool {
			full := strings.TrimSuffix(dir, "/") + "/" + in.Target
			same := table.Target == full
			table.Target = in.Target
			return same && table == in
		})
		if in.Target == "" || at < 0 {
			t.Errorf("%+v below %q is not in the table", in, dir)
		}
		if ids[in.ID] && !moved[in.ID] || targets[in.Target] {
			t.Errorf("%+v is there twice", in)
		}
		// A parent that comes later.
		for end := range in.Target {
			if in.Target[end] == '/' && !targets[in.Target[:end]] && slices.ContainsFunc(below[1:], func(p mounts.Info) bool {
				return p.Target == in.Target[:end]
			}) {
				t.Errorf("%q comes before its parent %q", in.Target, in.Target[:end])
			}
		}
		ids[in.ID], targets[in.Target] = true, true
	}
}

// FuzzBelow mounts and unmounts in a small tree and remembers what can be seen
// where; Below has to find the same in the table that the kernel would show, in
// whatever order its lines are.
func FuzzBelow(f *testing.F) {
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/a/c", "/ab", "/a-b", "/b", "/b/a", "/b/a/b"}
	f.Add([]byte{1, 2, 3}, uint64(0))
	f.Add([]byte{2, 1, 3, 1}, uint64(5))
	f.Add([]byte{1, 1, 200, 2, 0, 1}, uint64(77))
	f.Add([]byte{9, 8, 7, 0, 9, 8, 7, 255, 255}, uint64(12345))
	f.Fuzz(func(t *testing.T, ops []byte, order uint64) {
		if len(ops) > 40 {
			return
		}
		type state struct {
			infos []mounts.Info
			seen  map[string]int // path: id
		}
		now := state{[]mounts.Info{{ID: 1, Target: "/"}}, map[string]int{"/": 1}}
		var before []state
		holder := func(p string) int {
			for ; ; p = path.Dir(p) {
				if id, ok := now.seen[p]; ok {
					return id
				}
			}
		}
		for i, op := range ops {
			if op >= 128 { // unmount what was mounted last
				if len(before) > 0 {
					now, before = before[len(before)-1], before[:len(before)-1]
				}
				continue
			}
			p := paths[int(op)%len(paths)]
			before = append(before, now)
			seen := make(map[string]int)
			for q, id := range now.seen {
				if !strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") {
					seen[q] = id
				}
			}
			seen[p] = i + 2
			now = state{append(slices.Clone(now.infos), mounts.Info{ID: i + 2, Parent: holder(p), Target: p}), seen}
		}
		for i := len(now.infos) - 1; i > 0; i-- {
			order = order*6364136223846793005 + 1442695040888963407
			j := int(order>>33) % (i + 1)
			now.infos[i], now.infos[j] = now.infos[j], now.infos[i]
		}
		for _, dir := range append(paths, "/c", "/a/b/d", "/a/") {
			checkBelow(t, now.infos, dir)
			below := mounts.Below(now.infos, dir)
			if want := holder(path.Clean(dir)); below[0].ID != want {
				t.Errorf("%+v\n%s is on %d, want %d", now.infos, dir, below[0].ID, want)
			}
			prefix, n := strings.TrimSuffix(dir, "/")+"/", 0
			for p := range now.seen {
				if p != "/" && strings.HasPrefix(p, prefix) {
					n++
				}
			}
			for _, in := range below[1:] {
				if want := now.seen[prefix+in.Target]; want != in.ID {
					t.Errorf("%+v\nbelow %s there is %d at %s, want %d", now.infos, dir, in.ID, in.Target, want)
				}
			}
			if len(below)-1 != n {
				t.Errorf("%+v\nbelow %s there are %+v, want %d", now.infos, dir, below[1:], n)
			}
		}
	})
}
