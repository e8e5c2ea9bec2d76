//go:build linux

// Package homedir finds home directories: $HOME, and what /etc/passwd has for the caller. It imports nothing of this
// module, and does not look at the directories.
package homedir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var (
	errRelative = errors.New("$HOME is not an absolute path")
	errNone     = errors.New("$HOME is not set, and /etc/passwd has no home directory")
)

// Find is where programs keep a user's files: $HOME, or, if that is not set or empty, the home directory of the effective
// user id in passwd(5). Daemons and init systems often start programs without HOME.
func Find() (string, error) {
	switch home := os.Getenv("HOME"); {
	case filepath.IsAbs(home):
		return filepath.Clean(home), nil
	case home != "":
		return "", errRelative // in the working directory, which can be the project
	}
	if home := Passwd(); home != "" {
		return home, nil
	}
	return "", errNone
}

// Passwd is the home directory that /etc/passwd has for the effective user id, "" if it has none. It does not use os/user:
// with cgo that would load libraries, and it asks for more than this.
func Passwd() string {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	return in(b, os.Geteuid())
}

// in is the home directory that the content of a passwd(5) file has for a user id, "" if it has none.
func in(passwd []byte, uid int) string {
	id := strconv.Itoa(uid)
	for line := range strings.Lines(string(passwd)) {
		// name, password, uid, gid, comment, home, shell
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) >= 6 && f[2] == id && filepath.IsAbs(f[5]) {
			return filepath.Clean(f[5])
		}
	}
	return ""
}
