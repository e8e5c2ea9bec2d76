//go:build linux

package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.MainWithPrograms(m, func(dir string) error {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "./...")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
		return nil
	})
}

// tests are the arguments of each program, which runs in a project that has the file notes with "draft\n", and the
// output to expect: standard output, then standard error, then a status that is not zero.
var tests = []struct {
	name  string
	stdin string
	args  []string // PROJECT is the project's directory, which is the working directory
	want  string   // a regular expression for all of it
	notes string   // what the file has then
	files string   // what is in the project then
}{
	{
		name: "embed", args: []string{"PROJECT"}, stdin: "echo final >notes\ncat notes; touch new; exit 3\ntest -e /nowhere\n",
		want: `\$ echo final >notes
changed: M notes
\$ cat notes; touch new; exit 3
final
exit code: 3
changed: A new
\$ test -e /nowhere
exit code: 1
`,
		notes: "final\n", files: "new notes",
	},
	{
		name: "agent", args: []string{"cat notes; echo final >notes; exit 3"},
		want:  "draft\nexit code: 3\nM notes\n",
		notes: "draft\n", files: "notes",
	},
	{
		name: "stream", args: []string{"--", "sh", "-c", "echo one; printf two; test -w notes"},
		want:  "out +\\d+\\.\\d\\ds  \"one\"\nout +\\d+\\.\\d\\ds  \"two\"\nexit status 1\n",
		notes: "draft\n", files: "notes",
	},
	{
		name: "stream", args: []string{"no-such-program"},
		want:  `stream: .*no-such-program: no such file or directory\nexit status 1\n`,
		notes: "draft\n", files: "notes",
	},
	{
		name: "review", args: []string{"PROJECT", "echo final >notes; touch new"}, stdin: "y\n",
		want:  `A new\nM notes  6 → 6 bytes\ncommit\? \[y/n/keep\] `,
		notes: "final\n", files: "new notes",
	},
	{
		name: "review", args: []string{"PROJECT", "echo final >notes; mkdir -p .git/hooks; touch .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"}, stdin: "n\n",
		want:  `(?s)A \.git/\n.*A \.git/hooks/pre-commit  would run later: git hook\nM notes.*commit\? \[y/n/keep\] `,
		notes: "draft\n", files: "notes",
	},
	{
		name: "review", args: []string{"PROJECT", "rm notes"},
		want:  `D notes\ncommit\? \[y/n/keep\] kept: nsrun review \S+\n`,
		notes: "draft\n", files: "notes",
	},
	{
		name: "review", args: []string{"PROJECT", "echo $PWD"},
		want:  "PROJECT\nnothing changed\n",
		notes: "draft\n", files: "notes",
	},
	{
		name: "network",
		args: []string{`exec 3<>/dev/tcp/127.0.0.1/${URL##*:}; printf 'GET / HTTP/1.0\r\n\r\n' >&3; tail -n 1 <&3; : <>/dev/tcp/203.0.113.1/443`},
		want: `hello from the server
(?:allowed: tcp 127\.0\.0\.1:\d+
)?denied: tcp 203\.0\.113\.1:443; nsrun would allow it with --allow-net tcp:203\.0\.113\.1:443
`,
		notes: "draft\n", files: "notes",
	},
	{
		name: "watch", args: []string{"mkdir build; touch build/program; rm notes; exit 3"},
		want:  `(?s)created +"build"\n.*created +"build/program"\n.*removed +"notes"\n.*exit code 3, 3 changes\n`,
		notes: "draft\n", files: "notes",
	},
	{
		name: "bwrap", args: []string{"sh", "-c", "cat; test ! -w /usr; echo final >notes; exit 3"}, stdin: "in\n",
		want:  "in\nexit status 3\n",
		notes: "final\n", files: "notes",
	},
	{
		name: "bwrap", args: []string{"no-such-program"},
		want:  `bwrap: .*no-such-program: no such file or directory\nexit status 1\n`,
		notes: "draft\n", files: "notes",
	},
}

func TestPrograms(t *testing.T) {
	testenv.NeedNamespaces(t)
	tested := map[string]bool{}
	for _, c := range tests {
		tested[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "p/notes: draft\n", "home/", "state/", "data/")
			project := filepath.Join(dir, "p")
			cmd := exec.Command(filepath.Join(testenv.Programs(), c.name))
			for _, a := range c.args {
				cmd.Args = append(cmd.Args, strings.ReplaceAll(a, "PROJECT", project))
			}
			cmd.Dir = project
			cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "LC_ALL=C",
				"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_DATA_HOME="+filepath.Join(dir, "data"))
			cmd.Stdin = strings.NewReader(c.stdin)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			got := stdout.String() + stderr.String()
			if err != nil {
				got += err.Error() + "\n"
			}
			want := "^" + strings.ReplaceAll(c.want, "PROJECT", regexp.QuoteMeta(project)) + "$"
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("it printed\n%s\nwant\n%s", got, want)
			}
			if b, err := os.ReadFile(filepath.Join(project, "notes")); string(b) != c.notes {
				t.Errorf("notes: %q, %v, want %q", b, err, c.notes)
			}
			entries, err := os.ReadDir(project)
			if err != nil {
				t.Fatal(err)
			}
			var files []string
			for _, e := range entries {
				files = append(files, e.Name())
			}
			if strings.Join(files, " ") != c.files {
				t.Errorf("the project has %q, want %s", files, c.files)
			}
		})
	}
	entries, err := os.ReadDir(testenv.Programs())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !tested[e.Name()] {
			t.Errorf("%s is not run by this test", e.Name())
		}
	}
}
