//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// stoodName is a file in the directory of a session that others were begun on.
const stoodName = "stood"

// maxStack bounds how many sessions stand on each other: overlayfs takes no more layers
// than fit into its options.
const maxStack = 32

// A base is a session below another one, whose changes are not in the project.
type base struct {
	id   string
	path string // of the session's directory
	dir  *tree.Handle
	meta *meta
}

func closeBases(list []base) {
	for _, b := range list {
		b.dir.Close()
	}
}

// bases opens the sessions that the session with the data m stands on, the nearest
// first. Where one was committed, the project is what is below.
func bases(state *tree.Handle, statePath string, m *meta) (list []base, err error) {
	defer func() {
		if err != nil {
			closeBases(list)
			list = nil
		}
	}()
	for on := m.On; on != ""; {
		if len(list) == maxStack {
			return list, errors.New("too many sessions stand on each other")
		}
		b := base{id: on, path: filepath.Join(statePath, on)}
		b.dir, b.meta, err = openMeta(state, on)
		if err == errGone {
			err = fmt.Errorf("the session that it stands on, %s, is gone: %w", on, fs.ErrNotExist)
		} else if err != nil {
			err = fmt.Errorf("session %s, which it stands on: %w", on, err)
		}
		list = append(list, b)
		if err != nil {
			return list, err
		}
		last := &list[len(list)-1]
		switch last.meta.State {
		case stateCommitted:
			b.dir.Close()
			return list[:len(list)-1], nil
		case stateDiscarded:
			return list, fmt.Errorf("the session that it stands on, %s, was discarded", on)
		}
		on = last.meta.On
	}
	return list, nil
}

// dependents is Dependents for the session id with the directory dir.
func dependents(state, dir *tree.Handle, id string) ([]string, error) {
	if _, stood, err := dir.LstatIf(stoodName); err != nil || !stood {
		return nil, err
	}
	names, err := sessionNames(state)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		d, m, err := openMeta(state, name)
		d.Close()
		// Else it is gone, or somebody else's.
		if err == nil && m.On == id && m.State == stateKept {
			list = append(list, name)
		}
	}
	return list, nil
}
