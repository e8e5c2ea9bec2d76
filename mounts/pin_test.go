//go:build linux

package mounts

import (
	"slices"
	"strings"
	"testing"
)

// TestFootings: what lies over what, and what has to be pinned before each step. Paths
// that are pinned stand behind the step, "|" comes before what its target lies in.
func TestFootings(t *testing.T) {
	rw := func(dir string) Mount { return Bind(dir, dir) }
	ro := func(dir string) Mount { return ROBind(dir, dir) }
	over := func(dir string) Mount { return Overlay(dir, "/s/u", "/s/w", dir) }
	host := ro("/")
	for name, c := range map[string]struct {
		plan Plan
		want []string // of each step
	}{
		"nothing":                 {Plan{}, nil},
		"nothing can be written":  {Plan{host, Block("/h/a/b"), ro("/h/x/y")}, nil},
		"beside what is written":  {Plan{host, rw("/p"), Block("/h/a/b"), ro("/pp/a")}, nil},
		"before it":               {Plan{host, Block("/p/a/b"), rw("/p")}, nil},
		"the same path":           {Plan{host, rw("/p"), Block("/p")}, nil},
		"directly in it":          {Plan{host, rw("/p"), Block("/p/a")}, []string{"", "", "| /p"}},
		"deep in it":              {Plan{host, rw("/p"), Block("/p/a/b/c")}, []string{"", "", "/p/a /p/a/b | /p"}},
		"read-only in it":         {Plan{host, rw("/p"), ro("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"writable in it":          {Plan{host, rw("/p"), rw("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"a file system in it":     {Plan{host, rw("/p"), Tmpfs("/p/a/b"), Proc("/p/c/d")}, []string{"", "", "/p/a | /p", "/p/c | /p"}},
		"a file in it":            {Plan{host, rw("/p"), Data("/p/a/b", nil)}, []string{"", "", "/p/a | /p"}},
		"an overlay":              {Plan{host, over("/p"), Block("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"one that is gone":        {Plan{host, TmpOverlay("/p", "/p"), Block("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"a read-only overlay":     {Plan{host, ROOverlay("/p", "/p", "/q"), Block("/p/a/b")}, nil},
		"once is enough":          {Plan{host, rw("/p"), Block("/p/a/b"), Block("/p/a/c/d"), Block("/p/a/c/e")}, []string{"", "", "/p/a | /p", "/p/a/c | /p", "| /p"}},
		"covered again":           {Plan{host, rw("/p"), Block("/p/a/b"), rw("/p"), Block("/p/a/b")}, []string{"", "", "/p/a | /p", "", "/p/a | /p"}},
		"covered in part":         {Plan{host, rw("/p"), Block("/p/a/b/c"), rw("/p/a"), Block("/p/a/b/c")}, []string{"", "", "/p/a /p/a/b | /p", "| /p", "/p/a/b | /p/a"}},
		"in a read-only one":      {Plan{host, rw("/p"), ro("/p/a"), Block("/p/a/b/c")}, []string{"", "", "| /p", ""}},
		"writable in a read-only": {Plan{host, rw("/p"), ro("/p/a"), rw("/p/a/b"), Block("/p/a/b/c/d")}, []string{"", "", "| /p", "", "/p/a/b/c | /p/a/b"}},
		"behind what is blocked":  {Plan{host, rw("/p"), Block("/p/a"), Block("/p/a/b/c")}, []string{"", "", "| /p", ""}},
		"roots in roots":          {Plan{host, rw("/p"), over("/p/a/b"), Block("/p/a/b/c/d"), Block("/p/a/x/y")}, []string{"", "", "/p/a | /p", "/p/a/b/c | /p/a/b", "/p/a/x | /p"}},
		"the root itself":         {Plan{rw("/"), Dev("/dev"), Block("/h/m/s")}, []string{"", "| /", "/h /h/m | /"}},
		"made read-only later":    {Plan{host, rw("/p"), Block("/p/a/b"), Remount("/p")}, nil},
		"odd spelling":            {Plan{host, Bind("/p", "//p/."), Block("/p//a/./b/")}, []string{"", "", "/p/a | /p"}},
		// What is in memory is gone afterwards: there it matters what a command cannot write.
		"memory, writable":   {Plan{host, Tmpfs("/t"), over("/t/a/p"), rw("/t/b/q")}, nil},
		"memory, closed":     {Plan{host, Tmpfs("/t"), ro("/t/a/p"), Block("/t/b/q")}, []string{"", "", "/t/a |", "/t/b |"}},
		"memory, below that": {Plan{host, Tmpfs("/t"), over("/t/a/p"), Block("/t/a/p/x/y")}, []string{"", "", "", "/t/a/p/x | /t/a/p"}},
		"memory, above what lasts": {Plan{host, Tmpfs("/t"), rw("/t/a/p"), ro("/t/a/x/y"), Block("/t/a/p/c/d"), Block("/t/a/p/c/e/f")},
			[]string{"", "", "", "/t/a /t/a/x |", "/t/a/p/c | /t/a/p", "/t/a/p/c/e | /t/a/p"}},
		"pinned, then covered": {Plan{host, rw("/p"), Block("/p/a/b/c"), rw("/p"), rw("/p/a"), Block("/p/a/b/c"), Block("/p/a/b/d/e")},
			[]string{"", "", "/p/a /p/a/b | /p", "", "| /p", "/p/a/b | /p/a", "/p/a/b/d | /p/a"}},
		"an own root": {Plan{ro("/usr"), rw("/h/p"), ro("/o/lib"), Block("/h/p/a/b")}, []string{"", "", "/o |", "/h/p/a | /h/p"}},
	} {
		var got []string
		for _, f := range c.plan.footings() {
			s := strings.Join(f.pin, " ")
			if f.base != "" {
				s = strings.TrimSpace(s + " | " + f.base)
			} else if s != "" {
				s += " |"
			}
			got = append(got, s)
		}
		if !slices.Equal(got, c.want) && strings.Join(got, "") != strings.Join(c.want, "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
