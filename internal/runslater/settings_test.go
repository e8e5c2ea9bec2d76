//go:build linux

package runslater

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestHostileSettings: a file of the largest size that is read costs no more time and memory than a few times its size,
// whatever is in it. Each line could begin a setting whose value was the rest of the file, and each word of a line was
// compared with all of the line before it.
func TestHostileSettings(t *testing.T) {
	size := int(MaxFile("/p/.npmrc"))
	fill := func(begin, piece string) string { return begin + strings.Repeat(piece, (size-len(begin))/len(piece)) }
	for name, text := range map[string]string{
		"brackets":          fill("", "git [\n"),
		"quotes":            fill("", "git '''\n"),
		"indented":          fill("git\n", " git\n"),
		"items":             fill("", "git:\n"),
		"long indentation":  fill(strings.Repeat(" ", size/2)+"git [\n", "x\n"),
		"words":             fill("a"+strings.Repeat(";", size/2), "git;"),
		"words in brackets": fill(strings.Repeat("[", size/2)+"x", "(git"),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := processorTime(t)
			old := tree{"/p/.npmrc": "x"}
			c := Classifier{Roots: []string{"/p"}, Old: old, New: tree{"/p/.npmrc": text}}
			reason := c.Reason(Change{Path: "/p/.npmrc", Kind: File, Content: true})
			used := processorTime(t) - begin
			runtime.ReadMemStats(&after)
			if most := uint64(256 << 20); after.TotalAlloc-before.TotalAlloc > most {
				t.Errorf("it takes %d MiB, not %d", (after.TotalAlloc-before.TotalAlloc)>>20, most>>20)
			}
			if most := 20 * time.Second; used > most {
				t.Errorf("it takes %v of processor time, not %v", used, most)
			}
			if reason == "" && !strings.HasPrefix(name, "words") {
				t.Error("it does not run later")
			}
		})
	}
}

// TestManyNames: a command can make thousands of names for one large file. What is not looked at runs later.
func TestManyNames(t *testing.T) {
	for name, text := range map[string]string{
		".npmrc":     strings.Repeat("git:\n", int(MaxFile("x"))/5),
		".gitconfig": "[a]\n" + strings.Repeat("b = c\n", int(MaxFile("x"))/6-1),
		"config":     "[a]\n" + strings.Repeat("b = c\n", int(MaxFile("x"))/6-1),
	} {
		t.Run(name, func(t *testing.T) {
			const count = 1000
			now := tree{}
			for i := range count {
				now[fmt.Sprintf("/p/%d/%s", i, name)] = text
			}
			begin := processorTime(t)
			c := Classifier{Roots: []string{"/p"}, Old: tree{}, New: many{now}}
			last := ""
			for i := range count {
				last = c.Reason(Change{Path: fmt.Sprintf("/p/%d/%s", i, name), Kind: File, Content: true})
			}
			if last == "" {
				t.Error("the last one does not run later, though nobody looked at it")
			}
			if used, most := processorTime(t)-begin, 60*time.Second; used > most {
				t.Errorf("it takes %v of processor time, not %v", used, most)
			}
		})
	}
}

// many is a tree of files only, in which it takes no time to find one.
type many struct{ tree }

func (m many) Kind(p string) Kind {
	if _, ok := m.tree[p]; ok {
		return File
	}
	return Missing
}
