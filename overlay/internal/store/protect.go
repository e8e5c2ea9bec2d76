//go:build linux

package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/internal/pathrule"
)

// ParseProtected reads a pattern of files whose changes are held back. It has neither variables nor exceptions.
func ParseProtected(text string) (pathrule.Pattern, error) {
	p, err := pathrule.Parse(text, func(string) string { return "" })
	if err == nil && p.Except {
		err = errors.New("there are no exceptions")
	}
	if err != nil {
		err = fmt.Errorf("protect %q: %w", text, err)
	}
	return p, err
}

func (m *Meta) AddProtected(patterns []string) error {
	for _, text := range patterns {
		if _, err := ParseProtected(text); err != nil {
			return err
		}
		if !slices.Contains(m.Protect, Text(text)) {
			m.Protect = append(slices.Clip(m.Protect), Text(text))
		}
	}
	return nil
}
