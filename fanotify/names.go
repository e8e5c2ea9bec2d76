//go:build linux

package fanotify

import (
	"maps"
	"strings"
)

// A nameSet is the names that a directory has as far as was told, so that those that went while
// events were lost can be told. The zero nameSet is of an empty directory.
type nameSet struct {
	list string              // those of the last listing, each with a zero byte behind it
	come map[string]struct{} // since then
	gone map[string]struct{} // since then, from list
}

func (n *nameSet) add(name string) {
	delete(n.gone, name)
	if n.come == nil {
		n.come = make(map[string]struct{})
	}
	n.come[strings.Clone(name)] = struct{}{} // not the whole path that it was cut from
}

func (n *nameSet) remove(name string) {
	delete(n.come, name)
	if n.list == "" {
		return
	}
	if n.gone == nil {
		n.gone = make(map[string]struct{})
	}
	n.gone[strings.Clone(name)] = struct{}{}
}

func (n *nameSet) set() map[string]struct{} {
	set := make(map[string]struct{})
	for name := range strings.SplitSeq(n.list, "\x00") {
		if _, gone := n.gone[name]; name != "" && !gone {
			set[name] = struct{}{}
		}
	}
	maps.Copy(set, n.come)
	return set
}

// A listing collects the names of a directory, as the list of a nameSet has them.
type listing struct{ strings.Builder }

func (l *listing) add(name string) {
	l.WriteString(name)
	l.WriteByte(0)
}
