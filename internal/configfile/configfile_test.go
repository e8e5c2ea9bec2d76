//go:build linux

package configfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// place is a directory with a user's file and a project; what XDG_STATE_HOME says is in it.
func place(t *testing.T, tree ...string) (dir string, q Query) {
	t.Helper()
	testenv.Leaks(t)
	dir = filepath.Join(testenv.Dir(t), "d")
	testenv.Tree(t, dir, append([]string{"home/.config/nsrun/", "p/", "state/"}, tree...)...)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	q = Query{Places: Places{System: filepath.Join(dir, "none/config.toml"), User: filepath.Join(dir, "home/.config/nsrun/config.toml")}, Projects: []string{filepath.Join(dir, "p")}}
	return dir, q
}

const (
	user    = "home/.config/nsrun/config.toml"
	project = "p/.nsrun.toml"
	one     = ": [sandbox]\nclear_env = true\n"
)

// TestFiles: different things lie at the path of a user's or a project's file; each is read, ignored or refused.
func TestFiles(t *testing.T) {
	link := func(to, name string) func(string) error {
		return func(dir string) error {
			return os.Symlink(strings.ReplaceAll(to, "DIR", dir), filepath.Join(dir, name))
		}
	}
	for _, c := range []struct {
		name string
		tree []string
		make func(dir string) error
		want string // of the error; empty: it is read; "-": there is no file
	}{
		{name: "nothing", want: "-"},
		{name: "user", tree: []string{user + one}},
		{name: "project", tree: []string{project + one}},
		{name: "empty", tree: []string{user + ": "}},
		{name: "as large as can be", tree: []string{user + ": #" + strings.Repeat("x", config.MaxSize-1)}},
		{name: "too large", tree: []string{user + ": #" + strings.Repeat("x", config.MaxSize)}, want: ":1:1: the file has more than 64 KiB"},
		{name: "a project's that is too large", tree: []string{project + ": #" + strings.Repeat("x", 10<<20)}, want: ":1:1: the file has more than 64 KiB"},
		{name: "sparse, and endless", tree: []string{project + ": "}, make: func(dir string) error { return os.Truncate(filepath.Join(dir, project), 1<<40) }, want: "more than 64 KiB"},
		{name: "no UTF-8", tree: []string{user + ": \xff"}, want: ":1:1: "},
		{name: "NUL", tree: []string{project + ": a = \x00"}, want: ":1:"},
		{name: "deep", tree: []string{project + ": a = " + strings.Repeat("[", 50000)}, want: ":1:"},
		{name: "user's is a directory", tree: []string{user + "/"}, want: "not a regular file"},
		{name: "user's is a FIFO", make: func(dir string) error { return unix.Mkfifo(filepath.Join(dir, user), 0o600) }, want: "not a regular file"},
		{name: "user's is for all", tree: []string{user + one}, make: func(dir string) error { return os.Chmod(filepath.Join(dir, user), 0o666) }, want: "others can write to it (try: chmod go-w "},
		{name: "user's directory is for all", tree: []string{user + one}, make: func(dir string) error { return os.Chmod(filepath.Join(dir, filepath.Dir(user)), 0o777) }, want: "everybody can write to it (try: chmod go-w "},
		{name: "user's is a link", tree: []string{"home/dotfiles/nsrun.toml" + one}, make: link("DIR/home/dotfiles/nsrun.toml", user)},
		{name: "user's directory is a link", tree: []string{"home/dotfiles/nsrun/config.toml" + one}, make: func(dir string) error {
			if err := os.Remove(filepath.Join(dir, filepath.Dir(user))); err != nil {
				return err
			}
			return link("../dotfiles/nsrun", filepath.Dir(user))(dir)
		}},
		{name: "user's leads nowhere", make: link("DIR/none", user), want: "-"},
		{name: "user's leads to itself", make: link("config.toml", user), want: "too many levels of symbolic links"},
		{name: "user's leads into the project", tree: []string{"p/mine.toml" + one}, make: link("DIR/p/mine.toml", user), want: "which a command in a sandbox could have written"},
		{name: "user's leads to a device", make: link("/dev/zero", user), want: "/dev/zero: others can write to it"},
		{name: "user's leads to what is for all", tree: []string{"home/dotfiles/nsrun.toml" + one}, make: func(dir string) error {
			if err := os.Chmod(filepath.Join(dir, "home/dotfiles/nsrun.toml"), 0o666); err != nil {
				return err
			}
			return link("DIR/home/dotfiles/nsrun.toml", user)(dir)
		}, want: "others can write to it"},
		{name: "project's is a directory", tree: []string{project + "/"}, want: "not a regular file"},
		{name: "project's is a FIFO", make: func(dir string) error { return unix.Mkfifo(filepath.Join(dir, project), 0o600) }, want: "not a regular file"},
		{name: "project's is a socket", make: func(dir string) error { return unix.Mknod(filepath.Join(dir, project), unix.S_IFSOCK|0o600, 0) }, want: "no such device or address"},
		{name: "project's is a link", tree: []string{"p/other.toml" + one}, make: link("other.toml", project), want: "it is a symbolic link, but must be a regular file"},
		{name: "project's is a link to nothing", make: link("none", project), want: "it is a symbolic link, but must be a regular file"},
		{name: "project's leads to a process", make: link("/proc/self/fd/0", project), want: "it is a symbolic link, but must be a regular file"},
		{name: "project's is for all", tree: []string{project + one}, make: func(dir string) error { return os.Chmod(filepath.Join(dir, project), 0o666) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, q := place(t, c.tree...)
			if c.make != nil {
				if err := c.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			files, err := Files(filepath.Join(dir, "home"), q)
			if err != nil {
				t.Fatal(err)
			}
			got := "-"
			for _, file := range files {
				if got = ""; len(file.Errors) > 0 {
					got = file.Errors[0].Error()
				}
			}
			if len(files) > 1 || got != c.want && (c.want == "" || c.want == "-" || !strings.Contains(got, c.want)) {
				t.Errorf("%d files, %s; want %s", len(files), got, c.want)
			}
		})
	}
}

// TestSystemFile: the file of the system is root's alone.
func TestSystemFile(t *testing.T) {
	dir, q := place(t, "etc/config.toml"+one)
	q.Places.System = filepath.Join(dir, "etc/config.toml")
	files, err := Files(dir, q)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if wrong := len(files[0].Errors) > 0; wrong == testenv.Root() {
		t.Error(files[0].Errors)
	}
}

// TestTrust: what is trusted is a content at a path, and nothing else.
func TestTrust(t *testing.T) {
	dir, q := place(t, project+": [sandbox]\nrw_paths = ['/x']\n", "q/.nsrun.toml: [sandbox]\nrw_paths = ['/x']\n")
	file := filepath.Join(dir, project)
	state := func(q Query) string {
		p, notes, err := Load(dir, q)
		if err != nil {
			return err.Error()
		}
		if list, _ := p.Rules(func(string) (int, int) { return 1, 1 }); len(list) == 2 && len(notes) == 0 { // the file itself is protected
			return "trusted"
		}
		return strings.Join(notes, "; ")
	}
	expect := func(step, want string) {
		t.Helper()
		if got := state(q); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	expect("at first", "the file is not trusted (try: nsrun trust "+file)
	content, err := ReadProject(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Trust(file, content); err != nil {
		t.Fatal(err)
	}
	expect("trusted", "trusted")
	other := q
	other.Projects = []string{filepath.Join(dir, "q")}
	if got := state(other); !strings.Contains(got, "the file is not trusted") {
		t.Errorf("the same content at another path: %s", got)
	}
	if err := os.WriteFile(file, append(content, '#'), 0o644); err != nil {
		t.Fatal(err)
	}
	expect("changed", "the file changed since it was trusted")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	expect("as it was", "trusted")
	if list, err := ListTrusted(); err != nil || len(list) != 1 || list[0] != (Trusted{file, Hash(content)}) {
		t.Error(list, err)
	}
	// What keeps it is nobody else's.
	store := filepath.Join(dir, "state/nsrun/trust")
	if err := os.Chmod(store, 0o777); err != nil {
		t.Fatal(err)
	}
	expect("a store for all", "everybody can write to it")
	if err := os.Chmod(store, 0o700); err != nil {
		t.Fatal(err)
	}
	// An entry that is about another path, no entry at all, and a link trust nothing.
	entry := filepath.Join(store, trustName(file))
	for text, want := range map[string]string{
		Hash(content) + "\n/other": "not trusted", Hash(content): "not trusted", "": "not trusted", "\n" + file: "not trusted",
		"0\n" + file: "changed since", Hash(content) + "\n" + file: "trusted",
	} {
		if err := os.WriteFile(entry, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		expect("entry "+text, want)
	}
	if err := os.Rename(entry, filepath.Join(dir, "entry")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "entry"), entry); err != nil {
		t.Fatal(err)
	}
	expect("a link as entry", "too many levels of symbolic links")
	if found, err := Revoke(file); !found || err != nil {
		t.Error(found, err)
	}
	expect("revoked", "the file is not trusted")
	if found, err := Revoke(file); found || err != nil {
		t.Error(found, err)
	}
}

// TestAbove: the files of directories above a project count, but only those that belong to the caller, and only what is
// stricter. Relative paths in them lie below the directory of the file.
func TestAbove(t *testing.T) {
	dir, q := place(t, ".nsrun.toml: [sandbox]\nblocked_paths = [\"x\"]\nenv = [\"A=B\"]", project+": [sandbox]\nblocked_paths = [\"y\"]\n", "p/q/r/.nsrun.toml: [sandbox]\nblocked_paths = [\"z\"]\n", "p/q/.nsrun.toml/",
		"p/s/.nsrun.toml: [sandbox]\nblocked_paths = [\"v\"]\nenv = [\"A=B\"]", "p/s/t/.nsrun.toml: [sandbox]\nblocked_paths = [\"w\"]\n", "p/s/t/u/")
	blocked := func(projects ...string) (list []string) {
		q.Projects = nil
		for _, name := range projects {
			q.Projects = append(q.Projects, filepath.Join(dir, name))
		}
		p, notes, err := Load(filepath.Join(dir, "home"), q)
		if err != nil || len(notes) > 0 || p == nil || len(p.Env()) > 0 {
			t.Fatalf("%q: %v, %q", projects, err, notes)
		}
		rules, last := p.Rules(func(string) (least, most int) { return 0, 0 })
		for _, r := range append(rules, last...) {
			if name, err := filepath.Rel(dir, r.Pattern); err == nil && r.Kind == "block" {
				list = append(list, name)
			}
		}
		return list
	}
	for _, c := range []struct{ projects, want string }{
		{"p", "x p/y"}, {"home", "x"}, {"p/other", "x p/y"}, {"p home", "x p/y"}, {"home p", "x home/y"},
	} {
		if got := strings.Join(blocked(strings.Fields(c.projects)...), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.projects, got, c.want)
		}
	}
	// In the project, they count around the working directory.
	for at, want := range map[string]string{"p": "x p/y", "p/s": "x p/y p/s/v", "p/s/t/u": "x p/y p/s/v p/s/t/w", "home": "x p/y", "p/none": "x p/y"} {
		q.WorkDir = filepath.Join(dir, at)
		if got := strings.Join(blocked("p"), " "); got != want {
			t.Errorf("in %s: %s, want %s", at, got, want)
		}
	}
	q.WorkDir = ""
	// What is wrong there is wrong for all commands below it.
	q.Projects = []string{filepath.Join(dir, "p/q/r")}
	if _, _, err := Load(filepath.Join(dir, "home"), q); err == nil || !strings.Contains(err.Error(), "p/q/.nsrun.toml: not a regular file") {
		t.Error(err)
	}
	// The control is above: the file counts.
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Lchown(filepath.Join(dir, ".nsrun.toml"), 1, 1); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(blocked("p"), " "); got != "p/y" {
		t.Errorf("a file of another user counts: %s", got)
	}
}

// TestUnreadable: if nsrun may not look for a file, it says what to do.
func TestUnreadable(t *testing.T) {
	if testenv.Root() {
		return // who may read everything
	}
	dir, q := place(t, user+one)
	config := filepath.Dir(filepath.Join(dir, user))
	if err := os.Chmod(config, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(config, 0o700)
	files, err := Files(filepath.Join(dir, "home"), q)
	if err != nil || len(files) != 1 || len(files[0].Errors) != 1 || !strings.Contains(files[0].Errors[0].Error(), "permission denied (try: export XDG_CONFIG_HOME=") {
		t.Errorf("%v, %v", files, err)
	}
}
