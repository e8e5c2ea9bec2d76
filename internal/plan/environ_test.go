//go:build linux

package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/mounts"
)

// TestStores: pnpm has its store below the home directory if it has it there outside, which is so if project and home
// directory are in one mount.
func TestStores(t *testing.T) {
	table := []mounts.Info{{ID: 1, Target: "/"}, {ID: 2, Target: "/home"}, {ID: 3, Target: "/home/me/disk"}, {ID: 4, Target: "/home/me/diskette"}}
	for _, c := range []struct {
		project, env, want string
		bare               bool // without a layer
		folder             bool // it is not the project, but the first of the folders
	}{
		{project: "/home/me/p", want: "/home/me/.local/share/pnpm/store"},
		{project: "/home/other", want: "/home/me/.local/share/pnpm/store"},
		{project: "/home/me/disks", want: "/home/me/.local/share/pnpm/store"},
		{project: "/srv/p"},
		{project: "/home/me/disk/p"},
		{project: "/home/me/p", bare: true},
		{project: "/home/me/p", folder: true, want: "/home/me/.local/share/pnpm/store"},
		{},
		{project: "/home/me/p", env: "XDG_DATA_HOME=/home/me/data", want: "/home/me/data/pnpm/store"},
		{project: "/home/me/p", env: "PNPM_HOME=/home/me/pn", want: "/home/me/pn/store"},
		{project: "/home/me/p", env: "PNPM_HOME=/srv/pnpm"},
		{project: "/home/me/p", env: "pnpm_config_store_dir=/home/me/s", want: "/home/me/s"},
		{project: "/home/me/p", env: "PNPM_CONFIG_STORE_DIR=/home/me/s"},
	} {
		f := me()
		f.Table, f.Layer = table, &HomeLayer{Upper: "/u", Work: "/w"}
		f.Folders, f.Env = Folders{Project: c.project}, append(f.Env, c.env)
		if c.folder {
			f.Folders = Folders{Direct: []string{c.project}}
		}
		if c.bare {
			f.Layer = nil
		}
		s, _, err := Build(f, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if at := slices.IndexFunc(s.Env, func(kv string) bool { return strings.HasPrefix(kv, "pnpm_config_store_dir=") }); at >= 0 {
			_, got, _ = strings.Cut(s.Env[at], "=")
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestHiddenCaches: where a rule hides a cache, or makes it read-only, programs get another place for it.
func TestHiddenCaches(t *testing.T) {
	rule := func(access Access, at string) Rule {
		r := Rule{Access: access, Found: []Found{{At: at}}}
		if access == Show {
			r.Found[0].Bind = mounts.ROBind(at, at)
		}
		return r
	}
	caches := mounts.Plan{mounts.TmpOverlay("/home/me/.cache", "/home/me/.cache"), mounts.Bind("/home/me/.npm/_cacache", "/home/me/.npm/_cacache")}
	for _, c := range []struct {
		rule Rule
		want string // the variables that name another place
	}{
		{Rule{}, ""},
		{rule(Block, "/home/me/.cache"), "XDG_CACHE_HOME=/tmp/.cache"},
		{rule(Show, "/home/me/.cache"), "XDG_CACHE_HOME=/tmp/.cache"},
		{rule(Block, "/home/me/.npm"), "npm_config_cache=/tmp/.npm"},
		{rule(Block, "/home/me/go"), "GOPATH=/tmp/go"},
		{rule(Show, "/home/me/go"), ""},
		{rule(Block, "/home/me"), "XDG_CACHE_HOME=/tmp/.cache npm_config_cache=/tmp/.npm GOPATH=/tmp/go CARGO_HOME=/tmp/.cargo GRADLE_USER_HOME=/tmp/.gradle BUN_INSTALL_CACHE_DIR=/tmp/.bun"},
	} {
		f := me()
		f.Caches, f.Own, f.Rules = caches, nil, []Rule{c.rule}
		s, _, err := Build(f, Policy{BlockExisting: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, kv := range s.Env {
			if _, value, _ := strings.Cut(kv, "="); strings.HasPrefix(value, "/tmp/") {
				got = append(got, kv)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.rule.Found, got, c.want)
		}
	}
}

// TestTemporary: a directory for temporary files is the caller's if commands can make some in it, because it is in the
// project.
func TestTemporary(t *testing.T) {
	for value, want := range map[string]bool{
		"/home/me/src/tmp": true, "/home/me/src": true, "/home/me/src/./tmp/": true,
		"": false, "tmp": false, "/home/me/src/../tmp": false, "/home/me/srctmp": false, "/home/me": false, "/tmp": false, "/x": false,
		"/home/me/src/closed/tmp": false, "/home/me/src/read/tmp": false,
	} {
		f := session(me(), "/home/me/src")
		f.Env = []string{"PATH=/bin", "TMPDIR=" + value, "TMP=" + value, "PWD=/home/me/src", "OLDPWD=/home/me/src"}
		f.Rules = []Rule{
			{Access: Block, Found: []Found{{At: "/home/me/src/closed"}}},
			{Access: Show, Found: []Found{{At: "/home/me/src/read", Bind: mounts.ROBind("/home/me/src/read", "/home/me/src/read")}}},
		}
		s, _, err := Build(f, Policy{BlockExisting: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range []string{"TMPDIR=" + value, "TMP=" + value} {
			if got := slices.Contains(s.Env, kv); got != want {
				t.Errorf("%s stays: %v", kv, got)
			}
		}
		if slices.Contains(s.Env, "OLDPWD=/home/me/src") {
			t.Error("OLDPWD stays")
		}
	}
}
