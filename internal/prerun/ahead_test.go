//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// testAhead: what a sandbox hides does not depend on the marks that were made in it before the policy was known. The
// control is the program without the entry point, which makes none. nsrun's own directory may be hidden before or after
// it is made.
func testAhead(t *testing.T, early, plain string) {
	testenv.NeedRoot(t) // who can put a home directory where sandboxes show it
	secrets := []string{
		".ssh/id: secret", ".config/gh/hosts.yml: secret", ".config/git/credentials: secret", ".config/other/x: seen", ".m2/settings.xml: secret",
		".m2/other: seen", ".local/share/uv/credentials: secret", ".local/share/other: seen", ".cargo/config.toml: seen", ".netrc: secret",
	}
	user := []int{65534}
	both := append(user, 0)
	for _, c := range []struct {
		name, flags string
		users       []int
		home        []string
		modes       map[string]fs.FileMode
	}{
		{"empty", "--direct", user, nil, nil},
		{"session", "--discard", both, nil, nil},
		{
			"secrets", "--direct", both, secrets,
			map[string]fs.FileMode{".": 0o750, ".config": 0o700, ".config/git": 0o711, ".m2": 0o700, ".local/share": 0o770},
		},
		{"shown", "--direct --ro /srv/.ssh --ro /srv/.config/gh", both, []string{".ssh/id: seen", ".config/gh/hosts.yml: seen", ".config/hub: secret"}, nil},
		{"a file in the way", "--direct", user, []string{".config: seen", ".aws: secret"}, nil},
		{"links in the way", "--direct", user, []string{"c/gh: seen", ".config -> c", ".ssh -> c"}, nil},
		{"no home layer", "--direct --home none", user, []string{".ssh/id: secret", ".config/x: seen"}, nil},
	} {
		for _, user := range c.users {
			t.Run(fmt.Sprint(c.name, " of ", user), func(t *testing.T) {
				a, front := listHome(t, user, early, c.flags, c.home, c.modes)
				for n := 0; front != "m" && n < mostStarts; n++ {
					a, front = listHome(t, user, early, c.flags, c.home, c.modes)
				}
				b, control := listHome(t, user, plain, c.flags, c.home, c.modes)
				if a != b {
					t.Errorf("the command sees\n%s\nand without marks\n%s", a, b)
				}
				if strings.Contains(a, "secret") || !strings.Contains(a, "later/seen") {
					t.Errorf("it sees\n%s", a)
				}
				for name, mode := range c.modes {
					if line := filepath.Join(".", name) + " " + (fs.ModeDir | mode).String(); !strings.Contains(a, line) {
						t.Errorf("there is no %q in\n%s", line, a)
					}
				}
				if front != "m" || control != "h" {
					t.Errorf("the front layer is of %q, without marks of %q", front, control)
				}
			})
		}
	}
}

// listHome runs a user's command that lists a home directory in which secrets appeared. front is the first letter of
// its front layer.
func listHome(t *testing.T, user int, nsrun, flags string, lines []string, modes map[string]fs.FileMode) (list, front string) {
	t.Helper()
	home := testenv.Dir(t)
	// nsrun would make those in .local while it looks.
	testenv.Tree(t, home, append(lines, "p/", ".local/share/", ".local/state/")...)
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(home, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, _ error) error { return os.Lchown(path, user, user) }); err != nil {
		t.Fatal(err)
	}
	const inside = `echo "$(grep -o 'lowerdir=.[0-9]*:/srv[,:]' /proc/self/mountinfo | cut -c10 | head -n 1)"; read x; cd ~
find . -not -path './p*' -not -path './.local/state*' -not -path './.local/share/nsrun*' -printf '%p %M %l ' \( -type f -exec cat {} ';' -o -true \) -printf '\n' | sort`
	script := `mount --bind "$1" /srv && cd /srv/p && exec setpriv --reuid "$4" --regid "$4" --clear-groups env -i HOME=/srv PATH="$PATH" "$2" run -q ` +
		flags + ` -- sh -c "$3"`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", home, nsrun, inside, strconv.Itoa(user))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	front, _ = r.ReadString('\n')
	for _, name := range []string{"later", ".ssh", ".gnupg", ".aws", ".kube", ".netrc", ".pgpass", ".vault-token", ".config/gcloud", ".config/rclone", ".local/share/gopass", ".m2"} {
		text := "secret"
		if name == "later" {
			text = "seen"
		}
		if os.Mkdir(filepath.Join(home, name), 0o755) == nil {
			testenv.Tree(t, home, filepath.Join(name, text)+": "+text)
		}
	}
	_ = in.Close()
	var all strings.Builder
	_, _ = r.WriteTo(&all)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
	return all.String(), strings.TrimSpace(front)
}
