//go:build linux

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// layerNames stand in golden files.
var layerNames = [layerCount]string{
	HostLayer: "host", CacheLayer: "cache", SessionLayer: "session", InPlaceLayer: "in place", ShownLayer: "shown", BuildLayer: "build",
	PlaygroundLayer: "playground", BlockedLayer: "blocked", SecretLayer: "secret", SocketLayer: "socket", RuleLayer: "rule",
	PathLayer: "path", UnixLayer: "unix", NetworkLayer: "network", OwnLayer: "own",
}

// text is a Sandbox for people.
func text(s Sandbox, notices []Notice, err error) string {
	var b strings.Builder
	for i, m := range s.Mounts {
		fmt.Fprintf(&b, "%-10s  %s", layerNames[s.Layers[i]], m.Kind)
		if m.ReadOnly {
			b.WriteString(" read-only")
		}
		b.WriteString(" " + m.Target)
		if m.Kind == mounts.KindBind && m.Source != m.Target {
			b.WriteString(" from " + m.Source)
		}
		for _, list := range []struct {
			name  string
			names []string
		}{{"with", m.Dirs}, {"files", m.Files}, {"without", m.Hide}} {
			if len(list.names) > 0 {
				b.WriteString(" " + list.name + " " + strings.Join(list.names, ", "))
			}
		}
		b.WriteByte('\n')
	}
	if s.Dir != "" {
		fmt.Fprintf(&b, "in %s\n", s.Dir)
	}
	for _, kv := range s.Env {
		fmt.Fprintf(&b, "%s\n", kv)
	}
	for _, n := range notices {
		fmt.Fprintf(&b, "note %d about %q: %s\n", n.Kind, n.Path, n.Text)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %s\n", err)
	}
	return b.String()
}

// me is a caller with a home directory in which nothing is mounted.
func me() Facts {
	return Facts{
		Home: "/home/me", HomeAt: "/home/me", HomePerm: 0o700, VarTmp: true, Run: true, Table: []mounts.Info{{Target: "/"}},
		Playground: Playground{Dir: "/home/me/.local/share/nsrun/playground", At: "/home/me/.local/share/nsrun/playground"},
		Data:       "/home/me/.local/share/nsrun",
		Own:        []Own{{Dir: "/home/me/.local/share/nsrun", At: "/home/me/.local/share/nsrun"}, {Dir: "/home/me/.cache/nsrun", At: "/home/me/.cache/nsrun"}},
		Env:        []string{"PATH=/bin", "HOME=/home/me", "TMPDIR=/x", "API_TOKEN=ab12", "LANG=C"},
		Present:    map[string]bool{"go": true, ".npm": true, ".cargo": true, ".gradle": true, ".bun": true},
	}
}

func session(f Facts, roots ...string) Facts {
	f.Session = &Session{Roots: roots}
	for _, root := range roots {
		f.Session.Mounts = append(f.Session.Mounts, mounts.Overlay(root, "/u", "/w", root))
	}
	f.Folders.Overlay, f.Folders.Project = roots, roots[0]
	return f
}

// TestGolden shows what is decided in common cases: the files in testdata are for reviewers.
func TestGolden(t *testing.T) {
	full := session(me(), "/home/me/src")
	full.Secrets, full.Sockets = []string{"/home/me/.ssh", "/etc/shadow"}, []string{"/srv/db.sock", "/home/me/src/dev.sock", "/run/host.sock"}
	full.Absent = []Absent{{".netrc", 6}, {".config/gh", 7}, {".cache/huggingface/token", 18}}
	full.Caches = mounts.Plan{mounts.Overlay("/home/me/.cache", "/u", "/w", "/home/me/.cache")}
	full.Folders.Blocked = []string{"/srv/private"}
	full.Rules = []Rule{
		{Access: Write, Found: []Found{{At: "/srv", Bind: mounts.Bind("/srv", "/srv")}}, Git: mounts.Plan{mounts.ROBind("/srv/r/.git", "/srv/r/.git")}},
		{Access: Block, Found: []Found{{At: "/opt"}}},
	}
	full.Paths = []Rule{{Access: Show, Found: []Found{{At: "/opt/a", Bind: mounts.ROBind("/opt/a", "/opt/a")}}}}
	full.Unix = mounts.Plan{mounts.ROBind("/run/agent.sock", "/run/agent.sock")}
	full.Network = mounts.Plan{mounts.Data("/etc/resolv.conf", nil).RO()}

	inPlace := me()
	inPlace.Folders = Folders{Direct: []string{"/home/me/src"}, Project: "/home/me/src"}
	inPlace.InPlace = mounts.Plan{mounts.Bind("/home/me/src", "/home/me/src"), mounts.ROBind("/home/me/src/.git", "/home/me/src/.git")}
	inPlace.Unguarded = []string{"why"}
	inPlace.Others = []Other{{"/home/me/src", 7}}
	inPlace.Sockets = []string{"/home/me/src/dev.sock", "/tmp/x.sock"}

	strict := session(me(), "/home/me/src")
	strict.System = mounts.Plan{mounts.ROBind("/usr", "/usr"), mounts.Symlink("usr/bin", "/bin"), mounts.ROBind("/etc/passwd", "/etc/passwd").Try()}
	strict.Secrets, strict.Sockets = []string{"/home/me/.ssh", "/home/me/src/.netrc", "/etc/shadow"}, []string{"/usr/lib/x.sock", "/srv/db.sock"}
	strict.Rules = []Rule{
		{Access: Block, Found: []Found{{At: "/home/me"}, {At: "/srv"}, {At: "/usr/share"}}},
		{Access: Show, Found: []Found{{At: "/home/me/.config", Bind: mounts.ROBind("/home/me/.config", "/home/me/.config")}}},
	}
	strict.Network, strict.Present = mounts.Plan{mounts.File("/run/systemd/resolve/stub-resolv.conf", []byte("nameserver 127.0.0.1\n"))}, nil

	root := session(me(), "/home/me/src")
	root.System = mounts.Plan{mounts.ROBind("/usr", "/usr"), mounts.ROBind("/usr/bin", "/bin"), mounts.ROBind("/etc/hosts", "/etc/hosts")}
	root.Secrets, root.Sockets = []string{"/home/me/.ssh", "/home/me/src/.netrc", "/etc/ssl/private"}, []string{"/usr/lib/x.sock", "/srv/db.sock"}
	root.Rules = []Rule{
		{Access: Show, Found: []Found{{At: "/home/me", Bind: mounts.ROBind("/home/me", "/home/me")}, {At: "/srv/file", Bind: mounts.ROBind("/srv/file", "/srv/file")}}},
		{Access: Block, Found: []Found{{At: "/home/me/src/sub"}, {At: "/opt"}}},
	}
	root.NoDirs = map[string]bool{"/etc/hosts": true, "/srv/file": true}

	rootInPlace := me()
	rootInPlace.Folders = Folders{Direct: []string{"/home/me/src"}, Project: "/home/me/src"}
	rootInPlace.InPlace, rootInPlace.Work = mounts.Plan{mounts.Bind("/home/me/src", "/home/me/src"), mounts.ROBind("/home/me/src/.git", "/home/me/src/.git")}, "/work"
	rootInPlace.Sockets = []string{"/home/me/src/dev.sock"}

	mirrored := me()
	mirrored.Playground.Mirror = mounts.Plan{
		mounts.Tmpfs("/home/me"), mounts.ROBind("/home/me/src", "/home/me/src").Try(),
		mounts.Bind(mirrored.Playground.Dir, "/home/me/playground"), mounts.Remount("/home/me"),
	}

	stored := me()
	stored.Env = []string{"PATH=/run/wrappers/bin:/run/current-system/sw/bin"}

	for name, c := range map[string]struct {
		f Facts
		p Policy
	}{
		"nothing":     {Facts{}, Policy{}},
		"home":        {me(), Policy{Playground: true}},
		"full":        {full, Policy{Playground: true, WorkingDir: "sub", Env: []string{"A=1", "LANG", "API_TOKEN"}}},
		"in-place":    {inPlace, Policy{Playground: true, HostNetwork: true, ClearEnv: true}},
		"strict":      {strict, Policy{Strict: true}},
		"root":        {root, Policy{Root: true, WorkingDir: "sub"}},
		"root-direct": {rootInPlace, Policy{Root: true}},
		"stored":      {stored, Policy{}},
		"mirrored":    {mirrored, Policy{Playground: true, NoHomeOverlay: true}},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Golden(t, name+".txt", []byte(text(Build(c.f, c.p))))
		})
	}
}

// TestPlayground: where the mount point is missing, and what covers it, decides how the playground is shown.
func TestPlayground(t *testing.T) {
	const point = "/home/me/playground"
	for _, c := range []struct {
		name string
		edit func(*Facts, *Policy)
		want string // of the mounts of that layer: kind and target; or the notice
	}{
		{"missing", func(*Facts, *Policy) {}, "overlay /home/me, bind " + point},
		{"there, and nothing to hide", func(f *Facts, p *Policy) { f.Playground.Point, f.Own = DirPoint, nil }, "bind " + point},
		{"there, and a secret may come", func(f *Facts, p *Policy) { f.Playground.Point = DirPoint; f.Absent = []Absent{{".netrc", 6}} }, "overlay /home/me, bind " + point},
		{"in a session", func(f *Facts, p *Policy) { *f = session(*f, "/home") }, "bind " + point},
		{"no overlay, a file is there", func(f *Facts, p *Policy) { f.Playground.Point = OtherPoint; p.NoHomeOverlay = true }, "no playground: " + point + " is not a directory"},
		{"no overlay, no mirror", func(f *Facts, p *Policy) { f.Playground.MirrorErr = errors.New("why"); p.NoHomeOverlay = true }, "no playground: why"},
		{"another file system in the home directory", func(f *Facts, p *Policy) {
			f.Table = []mounts.Info{{ID: 1, Target: "/"}, {ID: 2, Parent: 1, Target: "/home/me/nfs"}}
			f.Playground.Mirror = mounts.Plan{mounts.Tmpfs("/home/me"), mounts.Bind("/x", point)}
		}, "tmpfs /home/me, bind " + point},
		{"home below a folder that is written to", func(f *Facts, p *Policy) {
			f.InPlace, f.Own = mounts.Plan{mounts.Bind("/home", "/home")}, nil
		}, "no playground: " + point + " is missing, and would have to be made in a directory that commands write to"},
		{"home is /", func(f *Facts, p *Policy) { f.HomeAt = "/" }, "no playground: the home directory is / (try: export HOME=DIR, with a directory that only you can write to)"},
		{"no home", func(f *Facts, p *Policy) { f.Home = "" }, "no playground: there is no home directory"},
		{"no such home", func(f *Facts, p *Policy) { f.HomeAt, f.HomeErr = "", errors.New("no such file") }, "no playground: no such file (try: export HOME=DIR, with a directory that only you can write to)"},
		{"it cannot be opened", func(f *Facts, p *Policy) { f.Playground.Err = errors.New("it is not yours") }, "no playground: it is not yours"},
		{"not wanted", func(f *Facts, p *Policy) { p.Playground = false }, ""},
	} {
		f, p := me(), Policy{Playground: true}
		c.edit(&f, &p)
		s, notices, err := Build(f, p)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for i, m := range s.Mounts {
			if s.Layers[i] == PlaygroundLayer {
				got = append(got, m.Kind.String()+" "+m.Target)
			}
		}
		for _, n := range notices {
			got = append(got, n.Text)
			if n.Kind != NoticePlayground {
				t.Errorf("%s: kind %d", c.name, n.Kind)
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestRefused: a request that would open nsrun's own directories, or something hidden, is an error.
func TestRefused(t *testing.T) {
	write := func(path string) Rule {
		return Rule{Access: Write, Found: []Found{{At: path, Bind: mounts.Bind(path, path)}}}
	}
	link := Link{"/home/me/.netrc", []Step{{"/home/me/.netrc", "/home/me/dot/link"}, {"/home/me/dot/link", "/home/me/dot/netrc"}}}
	for _, c := range []struct {
		name string
		edit func(*Facts, *Policy)
		want string
	}{
		{"nothing", func(*Facts, *Policy) {}, ""},
		{"a rule above", func(f *Facts, p *Policy) { f.Rules = []Rule{write("/home/me/.local")} }, "rule 1: /home/me/.local would be writable, and so would nsrun's directory /home/me/.local/share/nsrun"},
		{"a rule for it", func(f *Facts, p *Policy) { f.Paths = []Rule{write("/home/me/.cache/nsrun")} }, "rule 1: /home/me/.cache/nsrun would be writable, and so would nsrun's directory /home/me/.cache/nsrun"},
		{"a file of the settings", func(f *Facts, p *Policy) {
			f.Kept, f.Rules = []Own{{Dir: "/home/me/.config/nsrun", At: "/home/me/.config/nsrun"}}, []Rule{write("/home/me/.config/nsrun/config.toml")}
		}, "rule 1: /home/me/.config/nsrun/config.toml in /home/me/.config/nsrun would be writable, and nsrun reads its settings there"},
		{"above the settings", func(f *Facts, p *Policy) {
			f.Kept, f.Rules = []Own{{Dir: "/home/me/.config/nsrun", At: "/home/me/.config/nsrun"}}, []Rule{write("/home/me/.config")}
		}, "rule 1: /home/me/.config would be writable, and so would nsrun's directory /home/me/.config/nsrun"},
		{"a rule beside it", func(f *Facts, p *Policy) { f.Rules = []Rule{write("/home/me/.cache/nsrun2")} }, ""},
		{"a rule where it really is", func(f *Facts, p *Policy) { f.Own[0].At, f.Rules = "/data/nsrun", []Rule{write("/data")} }, "rule 1: /data would be writable, and so would nsrun's directory /home/me/.local/share/nsrun"},
		{"the cache directory", func(f *Facts, p *Policy) { f.Rules = []Rule{write("/home/me/.cache")} }, "rule 1: /home/me/.cache would be writable, and so would nsrun's directory /home/me/.cache/nsrun"},
		{"the cache directory, with copies that are there", func(f *Facts, p *Policy) {
			f.Rules, f.Own[1].Copies = []Rule{write("/home/me/.cache")}, true
		}, ""},
		{"above the cache directory", func(f *Facts, p *Policy) {
			f.Rules, f.Own[1].Copies, f.Own[0].Dir, f.Own[0].At = []Rule{write("/home/me")}, true, "/d", "/d"
		}, "rule 1: /home/me would be writable, and so would nsrun's directory /home/me/.cache/nsrun"},
		{"a folder that is called playground", func(f *Facts, p *Policy) {
			m := mounts.Bind("/elsewhere", "/srv/playground")
			f.InPlace, f.Own[0].At = mounts.Plan{m}, "/srv/playground/nsrun"
		}, "/srv/playground would be writable, and so would nsrun's directory /home/me/.local/share/nsrun"},
		{"a playground with it", func(f *Facts, p *Policy) { f.Playground.At = "/home/me/.local" }, "the playground /home/me/.local would contain the directory /home/me/.local/share/nsrun"},
		{"a playground elsewhere", func(f *Facts, p *Policy) { f.Playground.Dir, f.Playground.At = "/srv/play", "/srv/play" }, ""},
		{"a playground elsewhere, writable", func(f *Facts, p *Policy) {
			f.Playground.Dir, f.Playground.At, f.Rules = "/srv/play", "/srv/play", []Rule{write("/srv")}
		}, "rule 1: /srv would be writable, and so would nsrun's directory /srv/play"},
		{"a link to what is hidden", func(f *Facts, p *Policy) {
			f.Paths = []Rule{{}, {Access: Show, Found: []Found{{At: "/home/me/.ssh/id", Linked: true, Hidden: true}}}}
		}, "rule 2: " + ErrHidden.Error()},
		{"one of many that is hidden", func(f *Facts, p *Policy) {
			f.Rules = []Rule{{Access: Show, Found: []Found{{At: "/home/me/.ssh", Hidden: true}}}}
		}, ""},
		{"a linked secret, in a root", func(f *Facts, p *Policy) { *f = session(*f, "/home/me/dot"); f.Linked = []Link{link} },
			"hide /home/me/.netrc: /home/me/dot/link is a symbolic link in a directory that commands write to (try: --block /home/me/dot/netrc)"},
		{"a linked secret, in a rule, that is blocked", func(f *Facts, p *Policy) {
			f.Linked, f.Rules = []Link{link}, []Rule{write("/home/me/dot"), {Access: Block, Found: []Found{{At: "/home/me/dot/netrc"}}}}
		}, ""},
		{"a linked secret, elsewhere", func(f *Facts, p *Policy) { f.Linked = []Link{link} }, ""},
	} {
		f, p := me(), Policy{Playground: true}
		c.edit(&f, &p)
		got := ""
		if _, _, err := Build(f, p); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFolders(t *testing.T) {
	for _, c := range []struct {
		f        Folders
		session  string
		discards bool
		want     string
	}{
		{Folders{Overlay: []string{"/a"}, Direct: []string{"/b"}}, "", true, ""},
		{Folders{Overlay: []string{"/b/a"}, Direct: []string{"/b"}}, "", false, "use as project /b/a: it lies in /b, which commands write to directly"},
		{Folders{Overlay: []string{"/a"}}, "id", false, "use as project /a: a continued session already has its roots"},
		{Folders{}, "id", true, "use as project id: discarding would also discard earlier changes of the session"},
		{Folders{}, "id", false, ""},
	} {
		got := ""
		if err := c.f.Check(c.session, c.discards); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
	for _, c := range []struct{ root, at, want string }{
		{"/", "/s", "the whole file system cannot be a root"}, {"/s", "/s/x", "it contains the state directory named"}, {"/t", "/s", ""},
	} {
		got := ""
		if _, err := (&Folders{Overlay: []string{c.root}}).Hold("named", c.at); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if err := Whole([]string{"/a", "/b"}, []mounts.Info{{ID: 1, Target: "/"}, {ID: 2, Parent: 1, Target: "/b/c"}}); err == nil || !strings.Contains(err.Error(), "mounted at /b/c") {
		t.Errorf("%v", err)
	}
}

func TestWorkingDir(t *testing.T) {
	for _, c := range []struct {
		name, project string
		playground    bool
		want          string
	}{
		{"", "/p", true, "/p"}, {"", "", true, "/h/playground"}, {"", "", false, "/"}, {"playground", "/p", false, "/h/playground"},
		{"~", "/p", true, "/h"}, {"~/a", "/p", true, "/h/a"}, {"$HOME/a", "/p", true, "/h/a"}, {"${HOME}", "/p", true, "/h"}, {"~a", "/p", true, "/p/~a"},
		{"a/b", "/p", true, "/p/a/b"}, {"a", "", true, "/a"}, {"/a", "/p", true, "/a"},
	} {
		if got := WorkingDir(c.name, c.project, "/h", c.playground); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestLinkedDir: a working directory is named as the shell has it, unless a link in that name is not visible.
func TestLinkedDir(t *testing.T) {
	for _, c := range []struct{ link, want string }{
		{"/srv/link", "/srv/link/sub"},
		{"/tmp/link", "/home/me/src/sub"},          // /tmp is the command's own
		{"/home/me/.ssh/link", "/home/me/src/sub"}, // hidden
	} {
		f := session(me(), "/home/me/src")
		f.Secrets = append(f.Secrets, "/home/me/.ssh")
		f.DirWay, f.DirAt = []Step{{c.link, "/home/me/src"}}, "/home/me/src/sub"
		s, _, err := Build(f, Policy{WorkingDir: c.link + "/sub"})
		if err != nil || s.Dir != c.want {
			t.Errorf("%s: %s, %v", c.link, s.Dir, err)
		}
	}
}

// TestLinkedHome: the home directory is named as the caller names it, unless a link in that name is not visible.
func TestLinkedHome(t *testing.T) {
	for link, want := range map[string]string{
		"/srv/link": "/srv/link",
		"/tmp/link": "/home/me", // /tmp is the command's own
	} {
		f := session(me(), "/home/me/src")
		f.Home, f.HomeWay = link, []Step{{link, f.HomeAt}}
		s, _, err := Build(f, Policy{WorkingDir: "~/sub"})
		if home, _ := lookup(s.Env, "HOME"); err != nil || home != want || s.Dir != want+"/sub" {
			t.Errorf("%s: %s, in %s, %v", link, home, s.Dir, err)
		}
	}
}

// TestSecretTwice: a secret that is found in two ways is absent, like any other: /root/.ssh is a secret of the system,
// and of root's home directory.
func TestSecretTwice(t *testing.T) {
	f := session(me(), "/home/me/src")
	f.Secrets = []string{"/home/me/.ssh", "/etc/shadow"}
	once := text(Build(f, Policy{Playground: true}))
	f.Secrets = append(f.Secrets, "/home/me/.ssh")
	if twice := text(Build(f, Policy{Playground: true})); twice != once {
		t.Errorf("%s\nis not\n%s", twice, once)
	}
	if strings.Contains(once, "block /home/me/.ssh") || !strings.Contains(once, ".ssh") {
		t.Errorf("the control: %s", once)
	}
}

// TestSameFacts: Build changes nothing that it was given, so that the same facts can be used again.
func TestSameFacts(t *testing.T) {
	f := session(me(), "/home")
	f.Absent = []Absent{{".netrc", 6}}
	first := text(Build(f, Policy{Playground: true}))
	if again := text(Build(f, Policy{Playground: true})); again != first {
		t.Errorf("%s\nthen\n%s", first, again)
	}
	if i := slices.IndexFunc(f.Session.Mounts, func(m mounts.Mount) bool { return len(m.Dirs)+len(m.Hide) > 0 }); i >= 0 {
		t.Errorf("%+v", f.Session.Mounts[i])
	}
}
