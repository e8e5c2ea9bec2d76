//go:build linux

package nsrun_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestPlantedLinks: where one command has put a link, no rule, socket or folder of the next
// one follows it. That the same Config works without the link, and that the link leads to
// the secret, is the control.
func TestPlantedLinks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	rules := func(mode nsrun.Mode, patterns ...string) func(p string) nsrun.Config {
		return func(p string) (c nsrun.Config) {
			for _, pattern := range patterns {
				c.Rules = append(c.Rules, nsrun.Rule{Mode: mode, Pattern: filepath.Join(p, pattern)})
			}
			return c
		}
	}
	for name, c := range map[string]struct {
		plant  string // by the first command
		config func(p string) nsrun.Config
		ask    []nsrun.Rule // relative to the project
	}{
		"pattern":          {"rm -r a/dist; ln -s $SECRET a/dist", rules(nsrun.Direct, "*/dist"), nil},
		"directory of one": {"mv a b; ln -s $SECRET a; mkdir -p $PWD/x", rules(nsrun.ReadOnly, "a/*"), nil},
		"rule":             {"rm -r a/dist; ln -s $SECRET a/dist", rules(nsrun.Direct, "a/dist"), nil},
		"read-only rule":   {"rm -r a/dist; ln -s $SECRET a/dist", rules(nsrun.ReadOnly, "a/dist"), nil},
		"relative link":    {"rm -r a; ln -s ../home/.ssh a", rules(nsrun.ReadOnly, "a/key"), nil},
		"links to links":   {"rm -r a; ln -s b a; ln -s ../home b", rules(nsrun.Direct, "a/.ssh"), nil},
		"rule in a rule":   {"rm -r a/dist; ln -s $SECRET a/dist", rules(nsrun.Direct, "a", "a/dist"), nil},
		"blocked":          {"rm -r a/dist; mkdir d; ln -s ../d a/dist", rules(nsrun.Blocked, "a/dist"), nil},
		"request":          {"rm -r a/dist; ln -s $SECRET a/dist", func(string) nsrun.Config { return nsrun.Config{} }, []nsrun.Rule{{Mode: nsrun.Direct, Pattern: "a/dist"}}},
		"folder": {"rm -r a/dist; ln -s $SECRET a/dist", func(p string) nsrun.Config {
			return nsrun.Config{Shared: []nsrun.Folder{{Path: p + "/a/dist", Mode: nsrun.Direct}}}
		}, nil},
		"folder, overlay": {"rm -r q; ln -s ../home q", func(p string) nsrun.Config { return nsrun.Config{Shared: []nsrun.Folder{{Path: p + "/q/dir"}}} }, nil},
		"read-only folder": {"rm -r a/dist; ln -s $SECRET a/dist", func(p string) nsrun.Config {
			return nsrun.Config{Shared: []nsrun.Folder{{Path: p + "/a/dist", Mode: nsrun.ReadOnly}}}
		}, nil},
		"blocked folder": {"rm -r a/dist; ln -s ../q a/dist", func(p string) nsrun.Config {
			return nsrun.Config{Shared: []nsrun.Folder{{Path: p + "/a/dist", Mode: nsrun.Blocked}}}
		}, nil},
		"another project":     {"rm -r a; ln -s ../home a", func(p string) nsrun.Config { return nsrun.Config{Project: p + "/a/dist", Mode: nsrun.Direct} }, nil},
		"socket":              {"ln -s ../home/s s", func(p string) nsrun.Config { return nsrun.Config{AllowUnix: []string{p + "/s"}} }, nil},
		"directory of theirs": {"ln -s ../home t", func(p string) nsrun.Config { return nsrun.Config{AllowUnix: []string{p + "/t/s"}} }, nil},
	} {
		for _, first := range []nsrun.Config{{Mode: nsrun.Direct}, {After: nsrun.Commit}} {
			dir := place(t, "a/dist/f: x", "a/key: x", "a/.ssh/", "q/dir/")
			p, secret := filepath.Join(dir, "p"), filepath.Join(dir, "home/.ssh")
			testenv.Tree(t, dir, "home/.ssh/key: marker", "home/dir/", "home/dist/")
			l, err := net.Listen("unix", dir+"/home/s")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if config := c.config(p); config.Project != "" && first.Mode == nsrun.Direct {
				testenv.Tree(t, p, ".git/") // how else should anybody know that commands wrote there?
			}
			config := c.config(p)
			if config.Project == "" {
				config.Project = p
				config.Mode = first.Mode
			}
			if first.Mode == nsrun.Direct { // a root in it must not be written to in two ways
				for i := range config.Shared {
					if config.Shared[i].Mode == nsrun.Overlay {
						config.Shared[i].Mode = nsrun.Direct
					}
				}
			}
			config.Approver, config.BlockExisting = &asked{answer: nsrun.Allow}, true
			q := nsrun.Request{Command: "cat " + secret + "/key " + p + "/a/dist/key " + p + "/a/key 2>/dev/null; echo >>" + p + "/a/dist/pwned; echo >>" + secret + "/pwned; true"}
			for _, rule := range c.ask {
				rule.Pattern = filepath.Join(p, rule.Pattern)
				q.Paths = append(q.Paths, rule)
			}
			if config.Project == p && config.AllowUnix == nil && !strings.HasPrefix(name, "folder, overlay") { // which is in the other then
				if _, err := runner(t, config).Run(t.Context(), q); err != nil && len(config.Shared) == 0 {
					t.Fatalf("%s: without the link: %v", name, err)
				}
			}
			first.Project, first.Env = p, []string{"SECRET=" + secret}
			if got := output(t, runner(t, first), nsrun.Request{Command: "cd " + p + " && " + c.plant, WorkingDir: "/"}); got != "" {
				t.Errorf("%s: %s", name, got)
			}
			res, err := runner(t, config).Run(t.Context(), q)
			if err == nil || res.Started || !strings.Contains(err.Error(), " is a symbolic link to ") {
				t.Errorf("%s: %v, %v", name, err, res)
			}
			if strings.Contains(res.String(), "marker") || content(secret, "pwned") != "-" {
				t.Errorf("%s: the secret was shown or written to: %q", name, res.String())
			}
			if config.Project == p {
				if err := runner(t, config).Explain(t.Context(), discard{}, q); err == nil {
					t.Errorf("%s: Explain succeeds", name)
				}
			}
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestOtherLinks: links in places where no command can have made them are followed, but not to hidden files. A pattern
// does not show a hidden file behind such a link. A rule that names the file does.
func TestOtherLinks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x")
	testenv.Tree(t, dir, "real/home/.ssh/key: marker", "real/home/dir/f: text", "real/home/.aws: marker", "link => real", "keys => real/home/.ssh", "real/home/d2 => dir")
	p, home := filepath.Join(dir, "p"), filepath.Join(dir, "link/home")
	t.Setenv("HOME", home)
	read := "cat " + dir + "/real/home/.ssh/key " + dir + "/real/home/.aws 2>/dev/null; cat " + dir + "/real/home/dir/f; true"
	for name, c := range map[string]struct {
		rules []nsrun.Rule
		want  string // in the output; "": an error
	}{
		"through a link":            {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: home + "/dir"}}, "text"},
		"link to a link":            {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: home + "/d2"}}, "text"},
		"all of it":                 {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: home}}, "text"},
		"pattern":                   {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir + "/real/home/*"}}, "text"},
		"pattern through a link":    {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir + "/real/home/.ss[h]"}, {Mode: nsrun.ReadOnly, Pattern: home + "/dir"}}, "text"},
		"link to what is hidden":    {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir + "/keys"}}, ""},
		"link to what is in it":     {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir + "/keys/key"}}, ""},
		"it is named":               {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: home + "/.ssh"}, {Mode: nsrun.ReadOnly, Pattern: home + "/dir"}}, "marker"},
		"it is named without links": {[]nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir + "/real/home/.ssh/key"}, {Mode: nsrun.ReadOnly, Pattern: home + "/dir"}}, "marker"},
	} {
		res, err := runner(t, nsrun.Config{Project: p, Rules: c.rules}).Run(t.Context(), nsrun.Request{Command: read})
		got := res.String()
		switch {
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), "to a hidden path")), c.want != "" && (err != nil || !strings.Contains(got, c.want)):
			t.Errorf("%s: %v, %q", name, err, got)
		case c.want != "marker" && strings.Contains(got, "marker"):
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestSecretsThroughLinks: what is hidden where a link leads to stays so, though a command
// removes the link; else nothing is run.
func TestSecretsThroughLinks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, c := range []nsrun.Config{{}, {Engine: overlay.EngineCopy}, {Mode: nsrun.Direct}} {
		dir := place(t)
		testenv.Tree(t, dir, "home/.config/sub/f: x", "home/.config/gh => ../dot/gh", "home/dot/gh/token: marker", "home/dot/aws: marker", "home/.aws => dot/aws")
		home := filepath.Join(dir, "home")
		c.Project = home + "/.config"
		t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "configuration")) // else it is not to be written to
		r := runner(t, c)
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || !strings.Contains(err.Error(), "(try: --block "+home+"/dot/gh)") {
			t.Errorf("%+v: %v, %v", c, res, err)
		}
		c.Rules = []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: home + "/dot/gh"}, {Mode: nsrun.ReadOnly, Pattern: home + "/dot"}, {Mode: nsrun.Blocked, Pattern: home + "/dot/gh"}}
		r = runner(t, c)
		for range 2 {
			if got := sh(t, r, "cat ~/.config/gh/token ~/dot/gh/token ~/.aws ~/dot/aws 2>/dev/null; rm -f ~/.config/gh; echo end"); got != "end\n" {
				t.Errorf("%+v: %q", c, got)
			}
		}
	}
}
