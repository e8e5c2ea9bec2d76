//go:build linux

package store

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// SessionNames lists the sessions in a state directory, the oldest first; those of one second in no certain order.
func SessionNames(state *tree.Handle) ([]string, error) {
	all, err := state.Names()
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(n string) bool { return !IsName(n) })
	slices.Sort(names)
	return names, nil
}

// noSession is an fs.ErrNotExist that says what does not exist.
type noSession string

func (e noSession) Error() string { return string(e) }

func (noSession) Is(target error) bool { return target == fs.ErrNotExist }

// ErrNoSession says that a session does not exist.
const ErrNoSession = noSession("no such session")

// shortest is how many characters of a session's random part mean it.
const shortest = 4

// FindSession returns the name of the session that id means: its name, its beginning, its end or the beginning of its
// random part, both of at least four characters, or "last".
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
		return "", ErrNoSession
	case len(found) > 1:
		return "", fmt.Errorf("more than one session begins like this: %s", ShortList(found))
	}
	return found[0], nil
}

// lastSession returns the newest of names, which are sorted.
func lastSession(state *tree.Handle, names []string) (string, error) {
	if len(names) == 0 {
		return "", noSession("no sessions")
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

// OpenMeta opens the session name, without locking it, and reads its data.
func OpenMeta(state *tree.Handle, name string) (dir *tree.Handle, m *Meta, err error) {
	if dir, err = OpenSession(state, name); err != nil {
		return nil, nil, err
	}
	m, err = ReadMeta(dir)
	// What is not a session any more may be another one that is being made.
	if err = OrGone(state, name, dir, err); err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, m, nil
}
