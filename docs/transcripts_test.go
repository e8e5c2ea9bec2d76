//go:build linux

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// withTranscripts are the pages that have blocks of the form "console". Those of a page are run one after the other by
// one shell, in a project of its own: the file hello.in and a Makefile that makes hello and out/stamp of it, committed
// to git, in the directory src of a home directory with a key of ssh, which the pages call /home/me. A line that is "…"
// stands for any lines; the names of sessions and the times may be others.
var withTranscripts = []string{"README.md", "docs/policy.md", "docs/sessions.md"}

const makefile = "hello: hello.in\n\t@mkdir -p out; sed s/NAME/world/ hello.in >hello; sha256sum hello >out/sums\n"

func TestTranscripts(t *testing.T) {
	testenv.NeedNamespaces(t)
	for _, page := range withTranscripts {
		t.Run(filepath.Base(page), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(testenv.Programs(), filepath.Base(page)))
			if err != nil {
				t.Fatal(err)
			}
			transcript(t, page, string(b))
		})
	}
}

type step struct {
	line    int
	command string
	want    string
}

// steps are the commands of a page, each with what it prints.
func steps(page string) (list []step) {
	for _, b := range blocks(page) {
		if b.form != "console" {
			continue
		}
		n := b.line
		for line := range strings.Lines(b.text) {
			n++
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, step{line: n, command: command})
			} else {
				list[len(list)-1].want += line
			}
		}
	}
	return list
}

// mark ends what a command prints.
const mark = "==== the next command"

func transcript(t *testing.T, page, text string) {
	home := testenv.Dir(t)
	testenv.Tree(t, home, "src/Makefile: "+makefile, "src/hello.in: Hello, NAME!\n", ".ssh/id_ed25519: a key\n")
	script := `cd "$HOME/src"; git init -q; git config user.name me; git config user.email me@example.org
git add .; git commit -qm begin
`
	all := steps(text)
	if len(all) == 0 {
		t.Fatalf("%s has no transcript", page)
	}
	for _, s := range all {
		// A fifth of a second, in which ls measures otherwise, can be over on a busy machine.
		command := strings.Replace(s.command, "nsrun ls\n", "nsrun ls --size\n", 1)
		script += strings.ReplaceAll(command, "/home/me", home) + "echo '" + mark + "'\n"
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = []string{"HOME=" + home, "PATH=" + testenv.Programs() + ":" + os.Getenv("PATH"), "LC_ALL=C", "TMPDIR=" + os.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the last command: %v", err)
	}
	got := strings.Split(strings.ReplaceAll(string(out), home, "/home/me"), mark+"\n")
	if len(got) != len(all)+1 {
		t.Fatalf("%d commands printed %d times:\n%s", len(all), len(got)-1, out)
	}
	for i, s := range all {
		if !pattern(s.want).MatchString(got[i]) {
			t.Errorf("%s:%d: %sprints\n%swant\n%s", page, s.line, s.command, got[i], s.want)
		}
	}
}

var changing = regexp.MustCompile(`\d{8}T\d{6}Z-[a-z2-7]{8}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d+K\b`)

// pattern is a regular expression for what a page says that a command prints.
func pattern(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(want) {
		if line == "…\n" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		at := 0
		for _, m := range changing.FindAllStringIndex(line, -1) {
			b.WriteString(regexp.QuoteMeta(line[at:m[0]]))
			fmt.Fprintf(&b, "(?:%s)", changing)
			at = m[1]
		}
		b.WriteString(regexp.QuoteMeta(line[at:]))
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}
