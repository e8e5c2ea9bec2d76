//go:build linux

package diff

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/overlay"
)

// typeName names the type of an object with a mode.
func typeName(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeNamedPipe:
		return "named pipe"
	case fs.ModeSocket:
		return "socket"
	}
	return "device node"
}

// words says what differs apart from contents.
func (d *diffWriter) words(c overlay.Change) (list []string, err error) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch c.Kind {
	case overlay.TypeChanged:
		add("%s → %s", typeName(c.OldMode), typeName(c.Mode))
	default:
		if m := c.Mode.Type(); m != 0 && m != fs.ModeDir {
			add("%s", typeName(c.Mode))
		}
	}
	switch {
	case isLink(c.Mode):
	case c.Kind == overlay.Added || c.Kind == overlay.TypeChanged:
		if c.Mode.IsRegular() && jsonform.Octal(c.Mode) != "0644" || c.Mode.IsDir() && jsonform.Octal(c.Mode) != "0755" {
			add("mode %s", jsonform.Octal(c.Mode))
		}
	case c.Kind == overlay.Modified && jsonform.Octal(c.Mode) != jsonform.Octal(c.OldMode):
		add("mode %s → %s", jsonform.Octal(c.OldMode), jsonform.Octal(c.Mode))
	}
	if c.Below > 0 {
		add("%s in it", console.Plural(c.Below, "object"))
	} else if c.Mode.IsDir() && c.Kind != overlay.Modified {
		side := overlay.After
		if c.Kind == overlay.Deleted {
			side = overlay.Before
		}
		names, err := d.s.Names(c, side)
		if err != nil {
			return list, err
		}
		if len(names) == 0 {
			add("empty")
		}
	}
	if c.Special != "" {
		add("%s", c.Special)
	}
	if c.Runs != "" {
		add("%s", c.Later())
	}
	if c.Links > 1 {
		add("%s by hard links", console.Plural(int(c.Links), "name"))
	}
	if c.Sparse {
		add("has holes")
	}
	if c.Kind == overlay.Modified && c.Aspects&(overlay.Owner|overlay.Attributes) != 0 {
		before, err := d.s.Access(c, overlay.Before)
		if err != nil {
			return list, err
		}
		after, err := d.s.Access(c, overlay.After)
		if err != nil {
			return list, err
		}
		if before.UID != after.UID || before.GID != after.GID {
			add("owner %d:%d → %d:%d", before.UID, before.GID, after.UID, after.GID)
		}
		list = append(list, attributeWords(before.Attributes, after.Attributes)...)
	}
	return list, nil
}

// attributeWords lists the extended attributes that differ.
func attributeWords(before, after map[string]string) (list []string) {
	all := maps.Clone(after)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		old, hadIt := before[name]
		new, hasIt := after[name]
		switch {
		case !hadIt:
			list = append(list, "attribute "+escape.Quote(name)+" added")
		case !hasIt:
			list = append(list, "attribute "+escape.Quote(name)+" removed")
		case old != new:
			list = append(list, "attribute "+escape.Quote(name)+" changed")
		}
	}
	return list
}
