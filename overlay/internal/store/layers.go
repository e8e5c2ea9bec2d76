//go:build linux

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// StoodName is a file in the directory of a session that others were begun on.
const StoodName = "stood"

// MaxStack is how many sessions can stand on each other: the number of layers of an overlay
// is limited by the length of its options.
const MaxStack = 32

// A Base is a session below another one, whose changes are not in the project.
type Base struct {
	ID   string
	Path string // of the session's directory
	Dir  *tree.Handle
	Meta *Meta
}

func CloseBases(list []Base) {
	for _, b := range list {
		b.Dir.Close()
	}
}

// Bases opens the sessions that the session with the data m stands on, the nearest
// first. A committed one ends the list, because the project has its changes.
func Bases(state *tree.Handle, statePath string, m *Meta) (list []Base, err error) {
	defer func() {
		if err != nil {
			CloseBases(list)
			list = nil
		}
	}()
	for on := m.On; on != ""; {
		if len(list) == MaxStack {
			return list, errors.New("too many sessions build on each other")
		}
		b := Base{ID: on, Path: filepath.Join(statePath, on)}
		b.Dir, b.Meta, err = OpenMeta(state, on)
		if err == ErrGone {
			err = fmt.Errorf("it builds on session %s, which is gone: %w", on, fs.ErrNotExist)
		} else if err != nil {
			err = fmt.Errorf("it builds on session %s: %w", on, err)
		}
		list = append(list, b)
		if err != nil {
			return list, err
		}
		last := &list[len(list)-1]
		switch last.Meta.State {
		case Committed:
			b.Dir.Close()
			return list[:len(list)-1], nil
		case Discarded:
			return list, fmt.Errorf("it builds on session %s, which was discarded", on)
		}
		on = last.Meta.On
	}
	return list, nil
}

// Dependents is Dependents for the session id with the directory dir.
func Dependents(state, dir *tree.Handle, id string) ([]string, error) {
	if _, stood, err := dir.LstatIf(StoodName); err != nil || !stood {
		return nil, err
	}
	names, err := SessionNames(state)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		d, m, err := OpenMeta(state, name)
		d.Close()
		// Else it is gone, or somebody else's.
		if err == nil && m.On == id && m.State == Kept {
			list = append(list, name)
		}
	}
	return list, nil
}
