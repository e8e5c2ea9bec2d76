//go:build linux

package configfile

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay"
)

// Trust is given to the content of a file at a path: nsrun's directory of state, which no command sees, has a file for
// each such path, with the content's SHA-256 and the path.

// A Trusted is a file that is trusted.
type Trusted struct {
	Path string `json:"path"`
	Hash string `json:"sha256"` // of the content
}

// Hash is what a content is known by.
func Hash(content []byte) string { return hex.EncodeToString(githash.SumSHA256(content)) }

func trustDir(create bool) (sys.FD, string, error) {
	sessions, err := overlay.DefaultDir()
	if err != nil {
		return sys.None, "", err
	}
	return owndir.Open(filepath.Join(filepath.Dir(sessions), "trust"), create)
}

func trustName(path string) string { return Hash([]byte(path)) }

// trustOf is the hash of the content that is trusted at a path. Empty: none is.
func trustOf(path string) (string, error) {
	if sessions, err := overlay.DefaultDir(); err == nil && unix.Access(filepath.Join(filepath.Dir(sessions), "trust", trustName(path)), unix.F_OK) == unix.ENOENT {
		return "", nil // most often; what is there is looked up with care
	}
	dir, _, err := trustDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	t, err := readTrust(dir, trustName(path))
	if err != nil || t.Path != path {
		return "", err
	}
	return t.Hash, nil
}

func readTrust(dir sys.FD, name string) (t Trusted, err error) {
	n, err := unix.Openat(int(dir), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	fd := sys.FD(n)
	defer fd.Close()
	text, err := content(fd)
	if err != nil {
		return t, err
	}
	hash, path, ok := strings.Cut(string(text), "\n")
	if !ok {
		return t, nil
	}
	return Trusted{Path: path, Hash: hash}, nil
}

func Trust(path string, content []byte) error {
	dir, _, err := trustDir(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	temporary := trustName(path) + ".new"
	_ = unix.Unlinkat(int(dir), temporary, 0)
	f, err := sys.OwnFile(dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.WriteString(Hash(content) + "\n" + path)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return unix.Renameat(int(dir), temporary, int(dir), trustName(path))
}

// Revoke forgets what is trusted at a path; found is false if nothing was.
func Revoke(path string) (found bool, err error) {
	dir, _, err := trustDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if err = unix.Unlinkat(int(dir), trustName(path), 0); err == unix.ENOENT {
		return false, nil
	}
	return err == nil, err
}

// ListTrusted is all that is trusted, by path.
func ListTrusted() (list []Trusted, err error) {
	dir, path, err := trustDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if t, err := readTrust(dir, e.Name()); err == nil && trustName(t.Path) == e.Name() {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b Trusted) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}
