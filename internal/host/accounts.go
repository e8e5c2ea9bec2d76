//go:build linux

package host

import (
	"bytes"
	"os"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// RootsTexts stand for files of the system that su(1), sudo(8), sshd(8) and the like want to read when root runs them,
// for commands of root that can become other users: the accounts of passwd(5) and group(5), all without a password, and
// the rule that root may do everything. Nothing in them comes from the files that they stand for.
func RootsTexts() []mounts.Text {
	return []mounts.Text{
		{Path: "/etc/shadow", Data: accounts("/etc/passwd", 7, func([]string) string { return ":*:::::::\n" }), Perm: 0o640},
		{Path: "/etc/gshadow", Data: accounts("/etc/group", 4, func(group []string) string { return ":*::" + group[3] + "\n" }), Perm: 0o640},
		{Path: "/etc/sudoers", Data: []byte("root ALL=(ALL:ALL) ALL\n"), Perm: 0o440},
	}
}

// accounts makes a line of each line of a file that has so many fields.
func accounts(name string, fields int, rest func(fields []string) string) (text []byte) {
	const most = 1 << 20
	content, _ := os.ReadFile(name)
	for line := range bytes.Lines(content[:min(len(content), most)]) {
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(f) == fields && f[0] != "" && f[0][0] != '+' && f[0][0] != '-' && f[0][0] != '#' { // not those of NIS
			text = append(text, f[0]+rest(f)...)
		}
	}
	return text
}
