//go:build linux

package nsrun

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestForeignOwners: the file that a message is about is named, with its group, and with the flag that helps.
func TestForeignOwners(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "f", "d/", "d/in")
	uid, gid := os.Geteuid(), os.Getegid()
	const text = ": Value too large for defined data type\n"
	mine := ownIDs{uid, gid, nil}
	other, member, stranger := ownIDs{uid, gid + 1, nil}, ownIDs{uid, gid + 1, []int{gid}}, ownIDs{uid + 1, gid, nil}
	roots := []string{dir}
	for _, tt := range []struct {
		message      string
		roots        []string
		own          ownIDs
		target, flag string
	}{
		{"sh: 1: cannot create f" + text, roots, other, "f", "--direct"},
		{"sh: 1: cannot create f" + text, roots, member, "f", "--engine copy"},
		{"sh: 1: cannot create f" + text, roots, stranger, "f", ""},
		{"chmod: changing permissions of 'd/in'" + text, roots, other, "d/in", "--direct"},
		{"touch: cannot touch '" + dir + "/d/new'" + text, roots, other, "d", "--direct"},
		{"OSError: [Errno 75] Value too large for defined data type: 'f'\n", roots, other, "f", "--direct"},
		// The controls.
		{"sh: 1: cannot create f" + text, roots, mine, "", ""},
		{"sh: 1: cannot create f" + text, []string{"/nonexistent"}, other, "", ""},
		{"sh: 1: cannot create f: Permission denied\n", roots, other, "", ""},
	} {
		table := refusalTable{dir: dir, names: mostNames}
		table.foreignOwners([]byte(tt.message), tt.roots, tt.own)
		got := ""
		for _, r := range table.list {
			got += r.Target + " " + r.Flag + "\n"
		}
		want := ""
		if tt.target != "" {
			want = filepath.Join(dir, tt.target) + " " + tt.flag + "\n"
		}
		if got != want {
			t.Errorf("%q: %q, not %q", tt.message, got, want)
		}
		if whose := fmt.Sprintf("belongs to group %d", gid); tt.flag != "" && !strings.Contains(table.list[0].String(), whose) {
			t.Errorf("%s", table.list[0])
		}
	}
}
