//go:build linux

package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/confine"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/mounts"
)

// answers is a host without links, in which each directory has the entries that are named.
func answers(names ...string) Host {
	return Host{
		Real: func(name string) string { return name },
		List: func(dir string) (list []confine.Entry, err error) {
			for _, name := range names {
				rest, in := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
				if !in {
					continue
				}
				name, _, deeper := strings.Cut(rest, "/")
				if !slices.ContainsFunc(list, func(e confine.Entry) bool { return e.Name == name }) {
					list = append(list, confine.Entry{Name: name, File: !deeper})
				}
			}
			return list, nil
		},
	}
}

var files = answers("/etc/passwd", "/etc/shadow", "/home/me/.ssh/id", "/home/me/src/.git/config", "/home/me/src/a.go", "/home/me/.profile",
	"/home/me/.local/share/nsrun/x", "/home/me/.local/state/nsrun/x", "/usr/bin/ls", "/tmp/x", "/run/x", "/dev/null", "/dev/sda", "/proc/1/x", "/var/lib/x", "/var/tmp/x")

// TestConfine: without mounts, commands may do with paths what they may do with mounts, as far as mounts show the
// host's files at their own paths.
func TestConfine(t *testing.T) {
	const temp = "/tmp/TEMP"
	copied := func(f Facts) Facts {
		f.Session = &Session{Roots: []string{"/home/me/src"}, Mounts: mounts.Plan{mounts.Bind("/home/me/.local/state/nsrun/s/u1", "/home/me/src")}}
		f.Folders.Overlay, f.Folders.Project = f.Session.Roots, "/home/me/src"
		f.Own = append(f.Own, Own{Dir: "/home/me/.local/state/nsrun", At: "/home/me/.local/state/nsrun"})
		return f
	}
	direct := func(f Facts) Facts {
		f.Folders.Direct, f.Folders.Project = []string{"/home/me/src"}, "/home/me/src"
		f.InPlace = mounts.Plan{mounts.Bind("/home/me/src", "/home/me/src"), mounts.ROBind("/home/me/src/.git", "/home/me/src/.git")}
		return f
	}
	f := me()
	f.Secrets = []string{"/home/me/.ssh", "/etc/shadow"}
	missing := Rule{Access: Block, Pattern: parse(t, "/etc/later"), Around: &Around{At: "/etc/later", Missing: true, Dir: "/etc", Dirs: map[string]Dir{"/etc": {Perm: 0o755}}}}
	blocked := f
	blocked.Rules = []Rule{missing}
	for _, c := range []struct {
		name string
		f    Facts
		p    Policy
		dir  string
		want string // "r path", "w path", "- path", "d path"
	}{
		{"the host", f, Policy{}, "/", "r /usr/bin/ls, r /etc/passwd, - /etc/shadow, - /home/me/.ssh/id, - /tmp/x, w /tmp/TEMP/x, - /run/x, - /var/tmp/x, d /dev/null, " +
			"- /dev/sda, r /proc/1/x, r /home/me/.profile, - /home/me/.local/share/nsrun/x, r /var/lib/x"},
		{"a session", copied(f), Policy{}, "/home/me/.local/state/nsrun/s/u1", "- /home/me/src/a.go, w /home/me/.local/state/nsrun/s/u1/a.go, - /home/me/.local/state/nsrun/x, - /home/me/.ssh/id"},
		{"in a directory of it", copied(f), Policy{WorkingDir: "/home/me/src/d"}, "/home/me/.local/state/nsrun/s/u1/d", ""},
		{"in place", direct(f), Policy{}, "/home/me/src", "w /home/me/src/a.go, r /home/me/src/.git/config"},
		{"in /tmp", f, Policy{WorkingDir: "/tmp/d"}, "/tmp/TEMP/d", ""},
		{"the playground", f, Policy{Playground: true}, "/home/me/.local/share/nsrun/playground", "w /home/me/.local/share/nsrun/playground/x, - /home/me/.local/share/nsrun/x, - /home/me/playground/x"},
		{"what is missing", blocked, Policy{}, "/", "- /etc/later, r /etc/passwd"},
		{"strict", func() Facts { f := f; f.System = mounts.Plan{mounts.ROBind("/usr", "/usr")}; return f }(), Policy{Strict: true}, "/", "r /usr/bin/ls, - /etc/passwd, - /home/me/.profile, d /dev/null, w /tmp/TEMP/x"},
	} {
		c.p.Temp = temp
		s, _, err := Build(c.f, c.p)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := s.Confine(temp, files)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Dir != c.dir || !slices.Contains(got.Env, "PWD="+c.dir) || !slices.Contains(got.Env, "TMPDIR="+temp) {
			t.Errorf("%s: the command works in %s, with %q", c.name, got.Dir, got.Env)
		}
		for _, want := range strings.Split(c.want, ", ") {
			if want == "" {
				continue
			}
			mark, name, _ := strings.Cut(want, " ")
			if a := got.Marks.Access(name); string("-rwd"[a]) != mark {
				t.Errorf("%s: %s: access %c, want %s", c.name, name, "-rwd"[a], mark)
			}
		}
	}
}

// TestConfineCaches: caches that are not writable are elsewhere, and those that are stay where they are.
func TestConfineCaches(t *testing.T) {
	f := me()
	f.Builds = mounts.Plan{mounts.Bind("/home/me/.cache/go-build", "/home/me/.cache/go-build")}
	s, _, err := Build(f, Policy{Temp: "/tmp/TEMP"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"XDG_CACHE_HOME=/tmp/TEMP/.cache", "GOCACHE=/home/me/.cache/go-build", "npm_config_cache=/tmp/TEMP/.npm", "TMPDIR=/tmp/TEMP"} {
		if !slices.Contains(s.Env, want) {
			t.Errorf("%s is not in %q", want, s.Env)
		}
	}
	f.Builds = nil
	if s, _, err = Build(f, Policy{Temp: "/tmp/TEMP"}); err != nil || slices.ContainsFunc(s.Env, func(kv string) bool { return strings.HasPrefix(kv, "GOCACHE=") }) {
		t.Errorf("without a cache for builds: %v, %q", err, s.Env)
	}
}

// TestConfineHome: a home directory in /tmp is one in the directory for temporary files; another one stays where it is.
func TestConfineHome(t *testing.T) {
	for home, want := range map[string]string{"/home/me": "", "/tmp/me": "/tmp/TEMP/me", "/tmp": "/tmp/TEMP", "/var/tmp/a/b": "/tmp/TEMP/a/b"} {
		f := me()
		f.Home, f.HomeAt, f.Env = home, home, []string{"HOME=" + home}
		s, _, err := Build(f, Policy{Temp: "/tmp/TEMP"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Confine("/tmp/TEMP", files)
		if err != nil {
			t.Fatal(err)
		}
		in := want
		if in == "" {
			in = home
		}
		if got.Home != want || !slices.Contains(got.Env, "HOME="+in) {
			t.Errorf("%s: %q, %q", home, got.Home, got.Env)
		}
	}
}

// TestConfineRefuses: what only mounts can do is an error, in words.
func TestConfineRefuses(t *testing.T) {
	copied := Sandbox{Mounts: mounts.Plan{mounts.ROBind("/", "/"), mounts.Bind("/s/u1", "/src")}}
	for _, c := range []struct {
		name string
		more mounts.Mount
		want error
	}{
		{"hidden in a copy", mounts.Block("/src/.env"), errCopied},
		{"read-only in a copy", mounts.ROBind("/src/a", "/src/a"), errCopied},
		{"an overlay", mounts.Overlay("/home/me", "/u", "/w", "/home/me"), errOverlay},
		{"several layers", mounts.ROOverlay("/home/me", "/a", "/b"), errOverlay},
	} {
		s := copied
		s.Mounts = append(slices.Clone(copied.Mounts), c.more)
		_, err := s.Confine("/tmp/TEMP", files)
		if e, ok := err.(*Error); !ok || e.Err != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if c, err := copied.Confine("/tmp/TEMP", files); err != nil || c.Notice() != "" {
		t.Errorf("without them: %v, %q", err, c.Notice())
	}
}

func parse(t *testing.T, text string) pathrule.Pattern {
	t.Helper()
	p, err := pathrule.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
