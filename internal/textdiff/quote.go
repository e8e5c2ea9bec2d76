package textdiff

import (
	"fmt"
	"slices"
	"strings"
)

// Quote returns a path as git writes it: as it is, or quoted with C escapes if it contains control characters, quotes,
// backslashes or bytes above 0x7f.
func Quote(name string) string {
	if !strange(name) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		c := name[i]
		if k := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); k >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[k])
		} else if strangeByte(c) {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func strange(name string) bool {
	return slices.ContainsFunc([]byte(name), strangeByte)
}

func strangeByte(c byte) bool { return c < 0x20 || c >= 0x7f || c == '"' || c == '\\' }

// GitRefuses returns why git, with default settings, would not apply a patch to this path, or "". It also refuses names
// that only other file systems take for .git.
func GitRefuses(path string, mode uint32) string {
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "not a path below the top"
		case isGitDir(part):
			return "git does not touch what is called .git"
		case mode&typeMask == Symlink && isGitModules(part):
			return "git takes no symbolic link called .gitmodules"
		}
		// Some file systems take a backslash for a separator.
		for _, rest := range strings.Split(part, `\`)[1:] {
			if isGitDir(rest) {
				return "git does not touch what is called .git"
			}
			if mode&typeMask == Symlink && isGitModules(rest) {
				return "git takes no symbolic link called .gitmodules"
			}
		}
	}
	return ""
}

// isGitDir reports whether some file system takes the name for .git.
func isGitDir(name string) bool {
	name, _, _ = strings.Cut(strings.ToLower(name), ":")
	name, _, _ = strings.Cut(name, `\`)
	name = strings.TrimRight(name, ". ")
	return name == ".git" || name == "git~1"
}

// isGitModules is the same for .gitmodules. It matches more than git does: short names with any number or hash.
func isGitModules(name string) bool {
	name, _, _ = strings.Cut(strings.ToLower(name), ":")
	name = strings.TrimRight(name, ". ")
	short, number, ok := strings.Cut(name, "~")
	return name == ".gitmodules" ||
		ok && number != "" && strings.Trim(number, "0123456789") == "" && (strings.HasPrefix(short, "gitmod") || strings.HasPrefix(short, "gi7e"))
}
