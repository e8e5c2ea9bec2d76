//go:build linux

package fanotify

import (
	"iter"
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

// all yields each name, some of them twice.
func (n *nameSet) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(n.list, "\x00") {
			if _, gone := n.gone[name]; name != "" && !gone && !yield(name) {
				return
			}
		}
		for name := range maps.Keys(n.come) {
			if !yield(name) {
				return
			}
		}
	}
}

// A listing collects the names of a directory.
type listing struct {
	b   strings.Builder
	set map[string]struct{} // nil: not wanted
}

func (l *listing) add(name string) {
	l.b.WriteString(name)
	l.b.WriteByte(0)
	if l.set != nil {
		l.set[name] = struct{}{}
	}
}

// listed makes n what was listed, and calls each for the names that have gone. Without the set
// of l there are none that would be known.
func (n *nameSet) listed(l *listing, each func(name string)) {
	if l.set != nil {
		for name := range n.all() {
			if _, ok := l.set[name]; !ok {
				l.set[name] = struct{}{} // once
				each(name)
			}
		}
	}
	*n = nameSet{list: l.b.String()}
}
