//go:build linux

package runslater

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
)

// reached is where a path leads, with as many links as the kernel follows. ok: it follows all of them.
func reached(v View, done, p string) (end string, ok bool) {
	rest, links := strings.Split(p, "/"), 0
	for len(rest) > 0 {
		at := path.Join(done, rest[0])
		rest = rest[1:]
		if v.Kind(at) != Link {
			done = at
			continue
		}
		if links++; links > maxLinks {
			return "", false
		}
		to := v.Target(at)
		if path.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done, true
}

// TestLinks: what the kernel reaches through links is found, in whatever order they are followed, and all links on the
// way are visited.
func TestLinks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	far := 0
	for range 300 {
		old := tree{}
		n := 2 + random.IntN(150)
		for i := range n {
			to := fmt.Sprintf("l%d", min(i+1+random.IntN(3), n))
			switch random.IntN(12) {
			case 0:
				to = fmt.Sprintf("l%d", random.IntN(n)) // perhaps a loop
			case 1:
				to = "/p/" + to
			case 2:
				to += "/../" + to
			case 3:
				to += "/below"
			}
			old[fmt.Sprintf("/p/l%d", i)] = "=>" + to
		}
		l := &links{view: old}
		visited := map[string]bool{}
		for _, i := range random.Perm(n) {
			name := fmt.Sprintf("l%d", i)
			end := resolveIn(l, "/p", name, func(at string) { visited[at] = true })
			want, ok := reached(old, "/p", name)
			if ok && end != want {
				t.Fatalf("%s leads to %s, not %s: %v", name, end, want, old)
			}
			if !visited["/p/"+name] {
				t.Fatalf("%s is not visited", name)
			}
			if !ok {
				far++
			}
		}
	}
	if far == 0 {
		t.Error("no link led too far")
	}
}
