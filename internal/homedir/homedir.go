//go:build linux

// Package homedir finds home directories: $HOME, and what /etc/passwd has for the caller. It imports nothing of this
// module, and does not look at the directories.
package homedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errRelative = errors.New("$HOME is not an absolute path")
	errNone     = errors.New("$HOME is not set, and /etc/passwd has no home directory")
)

// Find is where programs keep a user's files: $HOME, or, if that is not set or empty, the home directory of the
// effective user id in passwd(5). Daemons and init systems often start programs without HOME.
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

// Elsewhere adds to err, about a directory whose place a variable names, what to do if nothing can be written there, or
// there is none. An empty variable adds nothing.
func Elsewhere(err error, variable string) error {
	if variable == "" {
		return err
	}
	for _, why := range [...]error{errRelative, errNone, fs.ErrPermission, fs.ErrNotExist, syscall.EROFS, syscall.ENOTDIR, syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, why) {
			return fmt.Errorf("%w (try: export %s=DIR, with a directory that only you can write to)", err, variable)
		}
	}
	return err
}

// OnAnother adds to err, about a file system that cannot hold what a directory is for, how to have that directory on
// another one. An empty variable, which would name its place, adds nothing.
func OnAnother(err error, variable string) error {
	if variable == "" {
		return err
	}
	return fmt.Errorf("%w (try: export %s=DIR, with a directory on another file system, such as ext4)", err, variable)
}

// Passwd is the home directory that /etc/passwd has for the effective user id, "" if it has none. It does not use
// os/user: with cgo that would load libraries, and it asks for more than this.
func Passwd() string { return passwd.home("/etc/passwd", os.Geteuid()) }

// passwd remembers what was found in a file, as long as the file does not change: programs ask at each start.
var passwd remembered

type remembered struct{ last atomic.Pointer[found] }

type found struct {
	file os.FileInfo
	uid  int
	home string
}

// settles is how old a file must be to be remembered: what has just been written can be written once more without
// another time.
const settles = time.Minute

func (r *remembered) home(name string, uid int) string {
	fi, err := os.Stat(name)
	if err != nil {
		return ""
	}
	if l := r.last.Load(); l != nil && l.uid == uid && os.SameFile(l.file, fi) && l.file.ModTime().Equal(fi.ModTime()) && l.file.Size() == fi.Size() {
		return l.home
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	home := in(b, uid)
	if time.Since(fi.ModTime()) > settles {
		r.last.Store(&found{fi, uid, home})
	}
	return home
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
