//go:build linux

package store

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// OpenState opens the directory at path that holds sessions, see owndir.Open, and returns
// its path without symbolic links. With create, what is missing is made, mode 0700.
func OpenState(path string, create bool) (real string, h *tree.Handle, err error) {
	fd, real, err := owndir.Open(path, create)
	return real, &tree.Handle{FD: fd}, err
}

// OpenOwned opens a directory that must be the caller's own and writable by
// nobody else.
func OpenOwned(at *tree.Handle, name string) (*tree.Handle, error) {
	h, err := at.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if err := owndir.Check(h.FD); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

const (
	timeLayout = "20060102T150405Z"
	idChars    = 8
)

// NewName returns a session's name: its time of creation and a random part.
func NewName(created time.Time) string {
	return created.UTC().Format(timeLayout) + "-" + RandomText(idChars)
}

// IsName reports whether name could be a session's.
func IsName(name string) bool {
	t, id, ok := strings.Cut(name, "-")
	if !ok || len(id) < 6 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return false
	}
	_, err := time.Parse(timeLayout, t)
	return err == nil
}

// SessionNames lists the sessions in a state directory, the oldest first; those
// of one second in no certain order.
func SessionNames(state *tree.Handle) ([]string, error) {
	all, err := state.Names()
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(n string) bool { return !IsName(n) })
	slices.Sort(names)
	return names, nil
}

// shortest is how many characters of a session's random part mean it.
const shortest = 4

// FindSession returns the name of the session that id means: its name, its
// beginning, its end or the beginning of its random part, both of at least four
// characters, or "last".
func FindSession(state *tree.Handle, id string) (string, error) {
	names, err := SessionNames(state)
	if err != nil {
		return "", err
	}
	if id == "last" {
		return lastSession(state, names)
	}
	var found []string
	for _, n := range names {
		if n == id {
			return n, nil
		}
		_, random, _ := strings.Cut(n, "-")
		long := len(id) >= shortest // what is shorter was meant as something else, such as a path
		if strings.HasPrefix(n, id) || long && (strings.HasPrefix(random, id) || strings.HasSuffix(n, id)) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 0 || id == "":
		return "", fmt.Errorf("no such session: %w", fs.ErrNotExist)
	case len(found) > 1:
		return "", fmt.Errorf("more than one session is meant: %s", ShortList(found))
	}
	return found[0], nil
}

// lastSession returns the newest of names, which are sorted.
func lastSession(state *tree.Handle, names []string) (string, error) {
	if len(names) == 0 {
		return "", fmt.Errorf("no sessions: %w", fs.ErrNotExist)
	}
	last := names[len(names)-1]
	second, _, _ := strings.Cut(last, "-")
	var newest time.Time
	for _, n := range slices.Backward(names) {
		if !strings.HasPrefix(n, second) {
			break
		}
		dir, m, err := OpenMeta(state, n)
		dir.Close()
		if err == nil && m.Created.After(newest) {
			last, newest = n, m.Created
		}
	}
	return last, nil
}
