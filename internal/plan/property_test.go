//go:build linux

package plan

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// What a path can be for a command.
const (
	read    = "read"
	write   = "written in place"
	apart   = "written apart"
	private = "private"
	hidden  = "hidden"
)

// seen returns how a path is mounted: the last mount at or above it covers the others.
func seen(list mounts.Plan, at string) (state string) {
	for _, m := range list {
		if !paths.Inside(at, m.Target) {
			continue
		}
		switch m.Kind {
		case mounts.KindBlock:
			state = hidden
		case mounts.KindBind:
			if state = write; m.ReadOnly {
				state = read
			}
		case mounts.KindOverlay:
			if state = apart; m.ReadOnly {
				state = read
			}
			if slices.ContainsFunc(m.Hide, func(name string) bool { return paths.Inside(at, path.Join(m.Target, name)) }) {
				state = hidden
			}
		case mounts.KindTmpfs, mounts.KindDev, mounts.KindProc:
			if state = private; Hole(&m) {
				state = hidden
			}
		}
	}
	return state
}

// shownAbove reports whether a read-only folder lies over all that can be written to at a path: not, if one that can be
// lies in it.
func shownAbove(f *Facts, at string) bool {
	roots := slices.Concat(f.Session.Roots, f.Folders.Direct)
	return slices.ContainsFunc(f.Folders.ReadOnly, func(dir string) bool {
		i := slices.IndexFunc(roots, func(root string) bool { return root != dir && paths.Inside(root, dir) })
		above := i < 0 || slices.ContainsFunc(roots[i:], func(root string) bool { return paths.Inside(dir, root) })
		return paths.Inside(at, dir) && (above || !paths.InAny(at, roots[i:]))
	})
}

// showsAbove reports whether a rule shows a directory in which a folder lies that commands write to.
func showsAbove(f *Facts) bool {
	return slices.ContainsFunc(slices.Concat(f.Rules, f.Paths), func(r Rule) bool {
		return r.Access == Show && slices.ContainsFunc(r.Found, func(found Found) bool {
			return slices.ContainsFunc(slices.Concat(f.Session.Roots, f.Folders.Direct), func(dir string) bool { return dir != found.At && paths.Inside(dir, found.At) })
		})
	})
}

// TestRuleAbove: the mount of a directory that a rule shows lies below the writable folders in it, and above what
// earlier rules say about its contents.
func TestRuleAbove(t *testing.T) {
	rule := func(access Access, path string) Rule {
		r := Rule{Access: access, Found: []Found{{At: path}}}
		if access != Block {
			r.Found[0].Bind = mounts.Mount{Kind: mounts.KindBind, Source: path, Target: path, ReadOnly: access == Show}
		}
		return r
	}
	for _, c := range []struct {
		name  string
		rules []Rule
		want  map[string]string
	}{
		{"alone", []Rule{rule(Show, "/srv")}, map[string]string{"/srv/p/f": apart, "/srv/d/f": write, "/srv/x": read, "/srv/secret": hidden, "/srv/p/secret": hidden}},
		{"over others", []Rule{rule(Write, "/srv/w"), rule(Block, "/srv/b"), rule(Block, "/srv/p/b"), rule(Show, "/srv")},
			map[string]string{"/srv/w/f": read, "/srv/b/f": read, "/srv/p/b/f": hidden, "/srv/p/f": apart}},
		{"below others", []Rule{rule(Show, "/srv"), rule(Write, "/srv/w"), rule(Block, "/srv/b")}, map[string]string{"/srv/w/f": write, "/srv/b/f": hidden}},
		{"twice", []Rule{rule(Show, "/srv"), rule(Write, "/srv/w"), rule(Show, "/srv")}, map[string]string{"/srv/w/f": read, "/srv/p/f": apart, "/srv/d/f": write}},
		{"the folder itself", []Rule{rule(Show, "/srv"), rule(Show, "/srv/p")}, map[string]string{"/srv/p/f": read, "/srv/d/f": write}},
		{"hidden before", []Rule{rule(Block, "/srv"), rule(Show, "/srv")}, map[string]string{"/srv/x": read}},
	} {
		f := me()
		f.Session = &Session{Roots: []string{"/srv/p"}, Mounts: mounts.Plan{mounts.Overlay("/srv/p", "/u", "/w", "/srv/p")}}
		f.Folders.Direct, f.InPlace = []string{"/srv/d"}, mounts.Plan{mounts.Bind("/srv/d", "/srv/d")}
		f.Secrets, f.Rules = []string{"/srv/secret", "/srv/p/secret"}, c.rules
		s, _, err := Build(f, Policy{BlockExisting: true})
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range c.want {
			if got := seen(s.Mounts, at); got != want {
				t.Errorf("%s: %s is %s, not %s\n%s", c.name, at, got, want, text(s, nil, nil))
			}
		}
	}
}

// wanted is what it has to be: the lines stand as in the table of layers, the topmost first, and the first one that is
// about the path says it.
func wanted(f *Facts, at string) string {
	in := func(list []string) bool { return paths.InAny(at, list) }
	shown := func(p mounts.Plan) string { return seen(p, at) }
	var own, sockets []string
	for _, o := range f.Own {
		own = append(own, o.Dir)
	}
	for _, s := range f.Sockets {
		if !paths.InAny(s, f.Session.Roots) && (!Private(s) || paths.InAny(s, f.Folders.Direct) || paths.InAny(s, f.Folders.ReadOnly)) {
			sockets = append(sockets, s)
		}
	}
	rules := func(list []Rule) string {
		for _, r := range slices.Backward(list) {
			if s := shown(r.Git); s != "" {
				return s
			}
			for _, found := range slices.Backward(r.Found) {
				switch {
				case found.Hidden || !paths.Inside(at, found.At):
				case r.Access == Block:
					return hidden
				case slices.ContainsFunc(slices.Concat(f.Secrets, f.Sockets), func(s string) bool {
					return s != found.At && paths.Inside(s, found.At) && paths.Inside(at, s)
				}):
					return hidden
				default:
					return shown(mounts.Plan{found.Bind})
				}
			}
		}
		return ""
	}
	for _, line := range []struct {
		about bool
		state string
	}{
		{in(own), hidden},
		{shown(f.Unix) != "", read},
		{rules(f.Paths) != "", rules(f.Paths)},
		{rules(f.Rules) != "", rules(f.Rules)},
		{in(sockets), hidden},
		{in(f.Secrets), hidden},
		{in(f.Folders.Blocked), hidden},
		{paths.Inside(at, "/home/me/playground"), write},
		{shownAbove(f, at), read},
		{shown(f.InPlace) != "", shown(f.InPlace)},
		{in(f.Session.Roots), apart},
		{shown(f.Caches) != "", apart},
		{Private(at + "/"), private},
	} {
		if line.about {
			return line.state
		}
	}
	return read
}

// world makes facts at random: few names, so that much lies in one another.
type world struct{ *rand.Rand }

func (w world) path() string {
	tops := []string{"/home/me", "/home/me", "/srv", "/run", "/tmp", "/etc"}
	p := tops[w.IntN(len(tops))]
	for range w.IntN(4) {
		p = path.Join(p, []string{"a", "b", "c"}[w.IntN(3)])
	}
	return p
}

func (w world) paths(most int) (list []string) {
	for range w.IntN(most + 1) {
		list = append(list, w.path())
	}
	return list
}

func (w world) rules(secrets []string) (list []Rule) {
	for range w.IntN(4) {
		r := Rule{Access: Access(1 + w.IntN(3))}
		for range 1 + w.IntN(2) {
			found := Found{At: w.path()}
			found.Bind = mounts.Mount{Kind: mounts.KindBind, Source: found.At, Target: found.At, ReadOnly: r.Access == Show}
			found.Hidden = r.Access != Block && paths.InAny(found.At, secrets) && w.IntN(2) == 0
			if r.Access == Block {
				found.Bind = mounts.Mount{}
			}
			r.Found = append(r.Found, found)
		}
		if r.Access == Write {
			git := path.Join(r.Found[0].At, "c")
			if !r.Found[0].Hidden {
				r.Git = mounts.Plan{mounts.ROBind(git, git)}
			}
		}
		list = append(list, r)
	}
	return list
}

func (w world) facts() Facts {
	f := me()
	f.Session = &Session{}
	f.Own = nil
	for range w.IntN(3) {
		dir := w.path()
		f.Own = append(f.Own, Own{Dir: dir, At: dir})
	}
	f.Own = append(f.Own, Own{Dir: f.Data, At: f.Data})
	f.Secrets, f.Sockets = w.paths(3), w.paths(3)
	f.Folders.Blocked, f.Folders.ReadOnly, f.Folders.Direct = w.paths(1), w.paths(2), w.paths(1)
	for _, dir := range f.Folders.ReadOnly {
		f.Shown = append(f.Shown, mounts.ROBind(dir, dir))
	}
	for _, dir := range f.Folders.Direct {
		git := path.Join(dir, "b")
		f.InPlace = append(f.InPlace, mounts.Bind(dir, dir), mounts.ROBind(git, git))
	}
	for _, root := range w.paths(2) {
		f.Session.Roots = append(f.Session.Roots, root)
		f.Session.Mounts = append(f.Session.Mounts, mounts.Overlay(root, "/u", "/w", root))
	}
	for _, dir := range w.paths(1) {
		f.Caches = append(f.Caches, mounts.Overlay(dir, "/u", "/w", dir))
	}
	for _, s := range w.paths(1) {
		f.Unix = append(f.Unix, mounts.ROBind(s, s))
	}
	f.Rules, f.Paths = w.rules(f.Secrets), w.rules(f.Secrets)
	f.Playground.Point = Point(w.IntN(2))
	return f
}

// TestWhatLiesOverWhat compares what is mounted with the table, for every path of random worlds. What is refused has to
// be: a directory of nsrun's own would be writable.
func TestWhatLiesOverWhat(t *testing.T) {
	w := world{rand.New(rand.NewPCG(17, 4))}
	built, refused := 0, 0
	for round := range testenv.Rounds(3000, 100_000) {
		f := w.facts()
		s, notices, err := Build(f, Policy{Playground: true})
		if err != nil {
			refused++
			if s := err.Error(); !strings.Contains(s, "would be writable, and so would nsrun's directory") && !strings.Contains(s, "lies in it, and the rule would cover it") {
				t.Fatalf("round %d: %v", round, err)
			}
			continue
		}
		if len(notices) > 0 {
			continue // no playground
		}
		if showsAbove(&f) {
			continue // see TestRuleAbove
		}
		built++
		if !slices.IsSorted(slices.DeleteFunc(slices.Clone(s.Layers), func(l Layer) bool {
			return l == PlaygroundLayer || l == ShownLayer || l == RuleLayer || l == PathLayer
		})) {
			t.Fatalf("round %d: layers %v", round, s.Layers)
		}
		for range 50 {
			at := w.path()
			if w.IntN(8) == 0 {
				at = path.Join("/home/me/playground", path.Base(at))
			}
			if got, want := seen(s.Mounts, at), wanted(&f, at); got != want {
				t.Fatalf("round %d: %s is %s, not %s\n%s\n%+v", round, at, got, want, text(s, nil, nil), f)
			}
		}
		for _, own := range f.Own {
			for i, m := range s.Mounts {
				if m.Kind == mounts.KindBind && !m.ReadOnly && s.Layers[i] != PlaygroundLayer && paths.Inside(own.At, m.Target) {
					t.Fatalf("round %d: %s is writable with %s", round, m.Target, own.Dir)
				}
			}
		}
	}
	if built < 100 || refused < 100 {
		t.Errorf("%d were built, %d refused", built, refused)
	}
}

// TestModelTells is the control: where two layers change places, some world tells.
func TestModelTells(t *testing.T) {
	for a := range layerCount - 1 {
		if a == BuildLayer || a+1 == BuildLayer || a == NetworkLayer || a+1 == NetworkLayer || a == HostLayer {
			continue // of which the worlds have nothing, or without which there is nothing
		}
		t.Run(fmt.Sprintf("%s over %s", layerNames[a], layerNames[a+1]), func(t *testing.T) {
			w := world{rand.New(rand.NewPCG(17, 4))}
			for range 20_000 {
				f := w.facts()
				s, notices, err := Build(f, Policy{Playground: true})
				if err != nil || len(notices) > 0 {
					continue
				}
				var swapped mounts.Plan
				first := func(l Layer) Layer {
					switch l {
					case a:
						return a + 1
					case a + 1:
						return a
					}
					return l
				}
				for l := range layerCount {
					for i, m := range s.Mounts {
						if first(s.Layers[i]) == l {
							swapped = append(swapped, m)
						}
					}
				}
				for range 20 {
					if at := w.path(); seen(swapped, at) != wanted(&f, at) {
						return
					}
				}
			}
			t.Error("nothing tells")
		})
	}
}
