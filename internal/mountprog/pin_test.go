//go:build linux

package mountprog

import (
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/mounts"
)

// TestFootings: a table of which mounts lie over which others, and which paths have to be pinned before each step.
// Pinned paths follow the step; the path in which its target lies follows "|".
func TestFootings(t *testing.T) {
	rw := func(dir string) mounts.Mount { return mounts.Bind(dir, dir) }
	ro := func(dir string) mounts.Mount { return mounts.ROBind(dir, dir) }
	over := func(dir string) mounts.Mount { return mounts.Overlay(dir, "/s/u", "/s/w", dir) }
	host := ro("/")
	for name, c := range map[string]struct {
		plan mounts.Plan
		want []string // of each step
	}{
		"nothing":                 {mounts.Plan{}, nil},
		"nothing can be written":  {mounts.Plan{host, mounts.Block("/h/a/b"), ro("/h/x/y")}, nil},
		"beside what is written":  {mounts.Plan{host, rw("/p"), mounts.Block("/h/a/b"), ro("/pp/a")}, nil},
		"before it":               {mounts.Plan{host, mounts.Block("/p/a/b"), rw("/p")}, nil},
		"the same path":           {mounts.Plan{host, rw("/p"), mounts.Block("/p")}, nil},
		"directly in it":          {mounts.Plan{host, rw("/p"), mounts.Block("/p/a")}, []string{"", "", "| /p"}},
		"deep in it":              {mounts.Plan{host, rw("/p"), mounts.Block("/p/a/b/c")}, []string{"", "", "/p/a /p/a/b | /p"}},
		"read-only in it":         {mounts.Plan{host, rw("/p"), ro("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"writable in it":          {mounts.Plan{host, rw("/p"), rw("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"a file system in it":     {mounts.Plan{host, rw("/p"), mounts.Tmpfs("/p/a/b"), mounts.Proc("/p/c/d")}, []string{"", "", "/p/a | /p", "/p/c | /p"}},
		"a file in it":            {mounts.Plan{host, rw("/p"), mounts.Data("/p/a/b", nil)}, []string{"", "", "/p/a | /p"}},
		"an overlay":              {mounts.Plan{host, over("/p"), mounts.Block("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"one that is gone":        {mounts.Plan{host, mounts.TmpOverlay("/p", "/p"), mounts.Block("/p/a/b")}, []string{"", "", "/p/a | /p"}},
		"a read-only overlay":     {mounts.Plan{host, mounts.ROOverlay("/p", "/p", "/q"), mounts.Block("/p/a/b")}, nil},
		"once is enough":          {mounts.Plan{host, rw("/p"), mounts.Block("/p/a/b"), mounts.Block("/p/a/c/d"), mounts.Block("/p/a/c/e")}, []string{"", "", "/p/a | /p", "/p/a/c | /p", "| /p"}},
		"covered again":           {mounts.Plan{host, rw("/p"), mounts.Block("/p/a/b"), rw("/p"), mounts.Block("/p/a/b")}, []string{"", "", "/p/a | /p", "", "/p/a | /p"}},
		"covered in part":         {mounts.Plan{host, rw("/p"), mounts.Block("/p/a/b/c"), rw("/p/a"), mounts.Block("/p/a/b/c")}, []string{"", "", "/p/a /p/a/b | /p", "| /p", "/p/a/b | /p/a"}},
		"in a read-only one":      {mounts.Plan{host, rw("/p"), ro("/p/a"), mounts.Block("/p/a/b/c")}, []string{"", "", "| /p", ""}},
		"writable in a read-only": {mounts.Plan{host, rw("/p"), ro("/p/a"), rw("/p/a/b"), mounts.Block("/p/a/b/c/d")}, []string{"", "", "| /p", "", "/p/a/b/c | /p/a/b"}},
		"behind what is blocked":  {mounts.Plan{host, rw("/p"), mounts.Block("/p/a"), mounts.Block("/p/a/b/c")}, []string{"", "", "| /p", ""}},
		"roots in roots":          {mounts.Plan{host, rw("/p"), over("/p/a/b"), mounts.Block("/p/a/b/c/d"), mounts.Block("/p/a/x/y")}, []string{"", "", "/p/a | /p", "/p/a/b/c | /p/a/b", "/p/a/x | /p"}},
		"the root itself":         {mounts.Plan{rw("/"), mounts.Dev("/dev"), mounts.Block("/h/m/s")}, []string{"", "| /", "/h /h/m | /"}},
		"made read-only later":    {mounts.Plan{host, rw("/p"), mounts.Block("/p/a/b"), mounts.Remount("/p")}, nil},
		"odd spelling":            {mounts.Plan{host, mounts.Bind("/p", "//p/."), mounts.Block("/p//a/./b/")}, []string{"", "", "/p/a | /p"}},
		// What is in memory is gone afterwards: there it matters what a command cannot write.
		"memory, writable":   {mounts.Plan{host, mounts.Tmpfs("/t"), over("/t/a/p"), rw("/t/b/q")}, nil},
		"memory, closed":     {mounts.Plan{host, mounts.Tmpfs("/t"), ro("/t/a/p"), mounts.Block("/t/b/q")}, []string{"", "", "/t/a |", "/t/b |"}},
		"memory, below that": {mounts.Plan{host, mounts.Tmpfs("/t"), over("/t/a/p"), mounts.Block("/t/a/p/x/y")}, []string{"", "", "", "/t/a/p/x | /t/a/p"}},
		"memory, above what lasts": {mounts.Plan{host, mounts.Tmpfs("/t"), rw("/t/a/p"), ro("/t/a/x/y"), mounts.Block("/t/a/p/c/d"), mounts.Block("/t/a/p/c/e/f")},
			[]string{"", "", "", "/t/a /t/a/x |", "/t/a/p/c | /t/a/p", "/t/a/p/c/e | /t/a/p"}},
		"pinned, then covered": {mounts.Plan{host, rw("/p"), mounts.Block("/p/a/b/c"), rw("/p"), rw("/p/a"), mounts.Block("/p/a/b/c"), mounts.Block("/p/a/b/d/e")},
			[]string{"", "", "/p/a /p/a/b | /p", "", "| /p", "/p/a/b | /p/a", "/p/a/b/d | /p/a"}},
		"an own root": {mounts.Plan{ro("/usr"), rw("/h/p"), ro("/o/lib"), mounts.Block("/h/p/a/b")}, []string{"", "", "/o |", "/h/p/a | /h/p"}},
	} {
		var got []string
		for _, f := range footings(c.plan) {
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
