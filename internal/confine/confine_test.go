package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/mounts"
)

// host is what is in directories: names that end with a slash are directories.
type host map[string]string

func (h host) list(dir string) (list []Entry, err error) {
	names, ok := h[dir]
	if !ok {
		return nil, fs.ErrNotExist
	}
	for _, name := range strings.Fields(names) {
		base, isDir := strings.CutSuffix(name, "/")
		list = append(list, Entry{base, !isDir})
	}
	return list, nil
}

var machine = host{
	"/": "etc/ home/ usr/ tmp/ vmlinuz", "/etc": "passwd shadow ssl/", "/home": "me/ you/",
	"/home/me": "src/ .ssh/ .profile .config/", "/home/me/src": ".git/ main.go", "/home/me/src/.git": "config index",
}

// text is what is allowed, a line for each rule.
func text(n *Node, at string, b *strings.Builder) {
	at = path.Join(at, n.Name)
	if n.Access != None {
		fmt.Fprintf(b, "%s %s", [...]string{Read: "read", Write: "write", Device: "device"}[n.Access], at)
		if n.Required {
			b.WriteString(" required")
		}
		b.WriteString("\n")
	}
	for i := range n.Nodes {
		text(&n.Nodes[i], at, b)
	}
}

func TestCompile(t *testing.T) {
	for _, c := range []struct {
		name string
		mark func(m *Marks)
		want string // "fixed" lines stand last
	}{
		{"nothing", func(*Marks) {}, ""},
		{"all", func(m *Marks) { m.Cover("/", Read) }, "read /\n"},
		{"a directory", func(m *Marks) { m.Cover("/usr", Read) }, "read /usr\n"},
		{"more in it", func(m *Marks) { m.Cover("/", Read); m.Grant("/home/me/src", Write, mounts.FileID{}) }, "read /\nwrite /home/me/src required\n"},
		{"less in it", func(m *Marks) { m.Cover("/", Read); m.Cover("/etc/shadow", None) },
			"read /home\nread /usr\nread /tmp\nread /vmlinuz\nread /etc/passwd\nread /etc/ssl\n"},
		{"less, and more in that", func(m *Marks) {
			m.Cover("/home/me", Read)
			m.Cover("/home/me/.config", None)
			m.Grant("/home/me/.config/app", Write, mounts.FileID{})
		},
			"read /home/me/src\nread /home/me/.ssh\nread /home/me/.profile\nwrite /home/me/.config/app required\n"},
		{"what is missing stays away", func(m *Marks) { m.Cover("/etc", Read); m.Cover("/etc/later", None) },
			"read /etc/passwd\nread /etc/shadow\nread /etc/ssl\n"},
		{"read-only in what is written", func(m *Marks) { m.Grant("/home/me/src", Write, mounts.FileID{}); m.Cover("/home/me/src/.git", Read) },
			"write /home/me/src/main.go\nread /home/me/src/.git\nfixed /home/me/src\n"},
		{"covered again", func(m *Marks) { m.Cover("/etc/shadow", None); m.Cover("/etc", Read) }, "read /etc\n"},
		{"the same twice", func(m *Marks) { m.Cover("/usr", Read); m.Cover("/usr/bin", Read) }, "read /usr\n"},
		{"a device", func(m *Marks) { m.Cover("/tmp", None); m.Cover("/tmp/null", Device) }, "device /tmp/null\n"},
		{"something that is not listed", func(m *Marks) { m.Cover("/etc", Read); m.Cover("/etc/shadow", None); m.Cover("/etc/link/x", Read) },
			"read /etc/passwd\nread /etc/ssl\n"},
	} {
		var m Marks
		c.mark(&m)
		tree, err := m.Compile(machine.list)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var b strings.Builder
		text(&tree.Root, "", &b)
		for _, dir := range tree.Fixed {
			b.WriteString("fixed " + dir + "\n")
		}
		if got := b.String(); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestCompileHides: no rule is for a directory with something in it that has less: it would be for that too.
func TestCompileHides(t *testing.T) {
	var m Marks
	m.Cover("/", Read)
	hidden := []string{"/etc/shadow", "/home/me/.ssh", "/home/me/src/.git/config", "/tmp"}
	for _, name := range hidden {
		m.Cover(name, None)
	}
	tree, err := m.Compile(machine.list)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	text(&tree.Root, "", &b)
	for line := range strings.Lines(b.String()) {
		_, allowed, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, name := range hidden {
			if name == allowed || strings.HasPrefix(name, strings.TrimSuffix(allowed, "/")+"/") {
				t.Errorf("%s is hidden, and %s is allowed", name, allowed)
			}
		}
	}
	for _, name := range []string{"/usr", "/home/you", "/home/me/src/main.go", "/home/me/src/.git/index"} {
		if !strings.Contains(b.String(), "read "+name+"\n") {
			t.Errorf("%s is not allowed:\n%s", name, b.String())
		}
	}
}

func TestCompileErrors(t *testing.T) {
	var m Marks
	m.Cover("/nowhere", Read)
	m.Cover("/nowhere/x", None)
	if _, err := m.Compile(machine.list); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that cannot be listed: %v", err)
	}
	many := func(string) ([]Entry, error) { return make([]Entry, maxNodes), nil }
	if _, err := m.Compile(many); err == nil {
		t.Error("too many files: no error")
	}
}

func TestAccess(t *testing.T) {
	var m Marks
	m.Cover("/", Read)
	m.Grant("/home/me/src", Write, mounts.FileID{})
	m.Cover("/home/me/src/.git", Read)
	m.Cover("/home/me/.ssh", None)
	for name, want := range map[string]Access{
		"/": Read, "/usr/bin/x": Read, "/home/me": Read, "/home/me/src": Write, "/home/me/src/a/b": Write, "/home/me/src2": Read,
		"/home/me/src/.git/hooks": Read, "/home/me/.ssh/id": None,
	} {
		if got := m.Access(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
