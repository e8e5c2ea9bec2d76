//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/pathrule"
)

// A lessonFile is a configuration file that allows the needs of a Lesson.
type lessonFile struct {
	project string
	command []string
	lesson  nsrunlib.Lesson
}

var lessonKeys = [...]struct {
	kind nsrunlib.RefusalKind
	key  string
}{
	{nsrunlib.RefusedRead, "extra_ro_paths"}, {nsrunlib.RefusedWrite, "extra_rw_paths"},
	{nsrunlib.RefusedConnect, "allow_net"}, {nsrunlib.RefusedUnix, "allow_unix"},
}

// text returns the file's text. It is an error if the file, when read, would not allow every need.
func (f *lessonFile) text() ([]byte, error) {
	var lists []config.List
	for _, k := range lessonKeys {
		list := config.List{Key: k.key}
		for _, n := range f.lesson.Needs {
			if n.Kind == k.kind {
				list.Lines = append(list.Lines, config.Line{Value: f.value(n), Comment: n.Comment()})
			}
		}
		lists = append(lists, list)
	}
	before := []string{"Learned by nsrun: the least that this command needs.", "", "    " + escape.Command(f.command)}
	if len(f.lesson.Needs) == 0 {
		before[0] = "Learned by nsrun: this command needs no further permissions."
	}
	var behind []string
	for _, r := range f.lesson.Without {
		behind = append(behind, r.String())
	}
	if len(behind) > 0 {
		behind = slices.Insert(behind, 0, "It was also refused the following, and does not need it:")
	}
	text := config.Written(before, lists, behind)
	layer, wrong := config.Decode("learned", config.User, text, &config.Facts{Home: host.Home(), Project: f.project})
	if len(wrong) > 0 {
		return nil, fmt.Errorf("learn: the result cannot be written to a file: %w", wrong[0])
	}
	for _, n := range f.lesson.Needs {
		if !layer.Says(f.key(n.Kind), f.parsed(n)) {
			return nil, fmt.Errorf("learn: %s cannot be written to a configuration file", escape.Quote(n.Target))
		}
	}
	return text, nil
}

func (*lessonFile) key(kind nsrunlib.RefusalKind) string {
	for _, k := range lessonKeys {
		if k.kind == kind {
			return k.key
		}
	}
	return ""
}

// parsed returns the value of a need as the file's reader returns it.
func (*lessonFile) parsed(n nsrunlib.Need) string {
	if n.Kind == nsrunlib.RefusedRead || n.Kind == nsrunlib.RefusedWrite {
		return pathrule.Quote(n.Target)
	}
	return n.Target
}

// value returns the value of a need in the file.
func (f *lessonFile) value(n nsrunlib.Need) string {
	text := f.parsed(n)
	if n.Kind == nsrunlib.RefusedConnect {
		return text
	}
	if rest, ok := strings.CutPrefix(n.Target, host.Home()+"/"); ok && host.Home() != "" && host.Home() != "/" {
		if n.Kind != nsrunlib.RefusedUnix {
			rest = pathrule.Quote(rest)
		}
		return "~/" + rest
	}
	return text
}
