//go:build linux

package runslater

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/paths"
)

// ownQ is a host where nsrun's own directories are /q, to which /u/l leads, too, and one in the project.
func ownQ(p string) (real string, in bool) {
	if rest, ok := strings.CutPrefix(p+"/", "/u/l/"); ok {
		p = path.Join("/q", rest)
	}
	return p, paths.Inside(p, "/q") || paths.Inside(p, "/p/.x/nsrun")
}

// TestRemotes: git push executes the hooks of a repository on this host, so a remote must not be one outside of the
// roots, where a command may have made one.
func TestRemotes(t *testing.T) {
	old := at(repository, "l: =>/q", "in: =>lib.git", "lib.git/HEAD: ref: refs/heads/main", "f: gitdir: /q/evil.git", "f2: x", "g.git: =>/q", "u: =>/u/l", "d/x: x")
	for text, held := range map[string]bool{
		"[remote \"o\"]\nurl = /q/evil.git":          true,
		"[remote \"o\"]\nurl = ../q":                 true,
		"[remote \"o\"]\npushurl = /q":               true,
		"[remote \"o\"]\nurl = file:///q":            true,
		"[remote \"o\"]\nurl = file://q/evil.git":    true, // git takes it for /q/evil.git
		"[remote \"o\"]\nurl = file:///p/%2e%2e/q":   true,
		"[remote \"o\"]\nurl = ~/evil.git":           true,
		"[remote \"o\"]\nurl = l/evil.git":           true,
		"[remote \"o\"]\nurl = ./f":                  true,
		"[remote \"o\"]\nurl = g":                    true, // git finds g.git
		"[remote]\npushDefault = /q/evil.git":        true,
		"[branch \"main\"]\nremote = /q/evil.git":    true,
		"[branch \"main\"]\npushRemote = ../q":       true,
		"[url \"/q/\"]\ninsteadOf = https://x/":      true,
		"[url \"\"]\npushInsteadOf = x:":             true, // of x:/q
		"[url \"fi\"]\ninsteadOf = ssh+":             true, // of ssh+le:///q
		"[url \"file://\"]\ninsteadOf = x:":          true,
		"[svn-remote \"s\"]\nurl = file:///q":        true,
		"[submodule \"s\"]\nurl = /q":                true,
		"[remote \"o\"]\nurl = .x/nsrun/y/evil.git":  true, // if the project is the home directory
		"[remote \"o\"]\nurl = l/../evil.git":        true,
		"[remote \"o\"]\nurl = in/../x":              true,
		"[remote \"o\"]\nurl = /u/l/evil.git":        true,
		"[remote \"o\"]\nurl = /u/l/../x":            true,
		"[remote \"o\"]\nurl = u/evil.git":           true,
		"[remote \"o\"]\nurl = u/../evil.git":        true,
		"[remote \"o\"]\nurl = /u/evil.git":          false,
		"[remote \"o\"]\nurl = /p/../u/evil.git":     false,
		"[remote \"o\"]\nurl = /u/x/../evil.git":     false,
		"[remote \"o\"]\nurl = ../evil.git":          false,
		"[remote \"o\"]\nurl = d/../lib":             false,
		"[branch \"main\"]\nremote = ../u":           false,
		"[remote \"o\"]\nurl = https://x/y.git":      false,
		"[remote \"o\"]\nurl = git@x:y.git":          false,
		"[remote \"o\"]\nurl = ssh://git@x:22/y.git": false,
		"[remote \"o\"]\nurl = /p/lib.git":           false,
		"[remote \"o\"]\nurl = ./other":              false,
		"[remote \"o\"]\nurl = in":                   false,
		"[remote \"o\"]\nurl = f2":                   false, // as of a bundle
		"[remote \"o\"]\nurl = file:///p/lib.git":    false,
		"[branch \"main\"]\nremote = .":              false,
		"[branch \"main\"]\nremote = origin":         false,
		"[url \"git@x:\"]\ninsteadOf = https://x/":   false,
		"[url \"https://\"]\ninsteadOf = git://":     false,
		"[submodule \"s\"]\nurl = ../lib.git/../lib": false,
	} {
		now := maps.Clone(old)
		now["/p/.git/config"] = plainConfig + text
		if got := reasons(old, now); (got[".git/config"] != "") != held {
			t.Errorf("%q: %q", text, got)
		}
		// What was there before is the user's.
		if got := reasons(now, at(now, ".git/config: "+plainConfig+text+"\n[user]\nname = x\n")); len(got) > 0 {
			t.Errorf("%q, which was there: %q", text, got)
		}
	}
	many := plainConfig
	for i := range 2 * mostRemotes {
		many += fmt.Sprintf("[remote \"%d\"]\nurl = /p/%d\n", i, i)
	}
	if got := reasons(old, at(old, ".git/config: "+many)); len(got) != 1 {
		t.Errorf("many: %q", got)
	}
}

// TestPlacesOfRemotes: nothing is put into the place of a remote, but what is in it may change.
func TestPlacesOfRemotes(t *testing.T) {
	for name, c := range map[string]struct {
		old, new, want []string
	}{
		"link":                {new: []string{"lib: =>/q"}, want: []string{"lib"}},
		"link with an ending": {new: []string{"lib.git: =>/q"}, want: []string{"lib.git"}},
		"file":                {new: []string{"lib: gitdir: /q"}, want: []string{"lib"}},
		"another file":        {new: []string{"lib: x"}},
		"link above":          {old: []string{".git/config: [remote \"o\"]\nurl = d/e/lib"}, new: []string{"d: =>/q"}, want: []string{"d"}},
		"link on the way":     {old: []string{"lib: =>d/e", "d/e/HEAD: ref: refs/heads/x"}, new: []string{"d/e: =>/q"}, want: []string{"d/e"}},
		"content":             {old: []string{"lib/HEAD: ref: refs/heads/x", "lib/objects/x: ", "lib/refs/x: "}, new: []string{"lib/objects/y: y", "lib/refs/y: y"}},
		"old spelling":        {new: []string{".git/remotes/o: URL: /q", ".git/branches/o: /q", "branches/x: y"}, want: []string{".git/branches/o", ".git/remotes/o"}},
		"jujutsu":             {new: []string{".jj/repo/store/git_target: /q", "a/.jj/repo/store/git_target: git"}, want: []string{".jj/repo/store/git_target"}},
		"mercurial":           {new: []string{".hg/hgrc: [paths]\ndefault = /q", "a/.hg/hgrc: [paths]\ndefault = ../b"}, want: []string{".hg/hgrc"}},
	} {
		old := at(repository, append([]string{".git/config: [remote \"o\"]\nurl = ./lib"}, c.old...)...)
		got := reasons(old, at(old, c.new...))
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		// Plain does not hide it.
		for name := range got {
			p := "/p/" + name
			now := at(old, c.new...)
			cl := Classifier{Roots: []string{"/p"}, Old: old, New: now}
			if now.Kind(p) == File && cl.Plain("/p", strings.TrimPrefix(p, "/p/")) {
				t.Errorf("%s is plain", name)
			}
		}
	}
}
