//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hush is in every secret of these tests.
const hush = "hush"

// secretFiles are a home directory's, with settings that have some.
var secretFiles = []string{
	"notes: public", ".ssh/id: " + hush, ".netrc: machine a login b password " + hush, ".config/gh/hosts.yml: " + hush, ".gnupg/private: " + hush,
	".npmrc: registry=https://npm.example.org/\n//npm.example.org/:_authToken=" + hush, ".yarnrc.yml: npmAuthToken: " + hush,
	".config/pip/pip.conf: [global]\nindex-url = https://pypi.example.org/simple\nextra-index-url = https://me:" + hush + "@pypi.example.org/simple",
	".m2/settings.xml: <settings><servers><server><password>" + hush + "</password></server></servers><mirrors><mirror><url>https://maven.example.org/</url></mirror></mirrors></settings>",
	".gradle/gradle.properties: signingPassword=" + hush, ".cache/huggingface/token: " + hush, ".cache/other: cached",
}

// TestAbsent: what is hidden below the home directory does not exist for commands, because programs fail if a file
// exists that they cannot open. Of settings files with secrets, commands get copies without the secrets.
func TestAbsent(t *testing.T) {
	lodgers(t, secretFiles, func(l *lodger) {
		for _, flags := range [][]string{nil, {"--direct"}} {
			for _, name := range []string{".ssh", ".ssh/id", ".netrc", ".config/gh/hosts.yml", ".gnupg", ".yarnrc.yml", ".gradle/gradle.properties", ".cache/huggingface/token"} {
				status, out := l.in("p", append(append([]string{"run", "-q"}, flags...), "--", "cat", filepath.Join(l.home, name))...)
				if status != 1 || !strings.Contains(out, "No such file or directory") {
					l.t.Errorf("%s: status %d\n%s", name, status, out)
				}
			}
			l.want(l.sh("cd; ls -d .netrc .ssh .gnupg .yarnrc.yml .config/* .cache/* 2>/dev/null || true", flags...), ".cache/huggingface\n.cache/other\n.config/pip")
			l.want(l.sh("cd; cat .npmrc .config/pip/pip.conf .m2/settings.xml", flags...), "registry=https://npm.example.org/\n[global]\nindex-url = https://pypi.example.org/simple\n"+
				"<settings>\n<mirrors>\n<mirror>\n<url>https://maven.example.org/</url>\n</mirror>\n</mirrors>\n</settings>")
			if out := l.sh("grep -rs "+hush+" $HOME || true", flags...); out != "" {
				l.t.Errorf("the secret is visible with %q:\n%s", flags, out)
			}
		}
		// Control: outside, and with a rule, it is there.
		b, err := l.command(".", "grep", "-rsl", hush, ".").Output() // and the journal, which has the commands
		if n := strings.Count(string(b), "\n"); n != 11 {
			l.t.Errorf("%d files have secrets: %s, %v", n, b, err)
		}
		l.want(l.sh("cat ~/.ssh/id ~/.netrc; ls -A ~/.ssh", "--ro", "~/.ssh", "--ro", "~/.netrc"), "hushmachine a login b password hushid")
		// It is reported.
		if _, out := l.in("p", "why", filepath.Join(l.home, ".netrc")); !strings.Contains(out, "/.netrc is a place of secrets, and hidden") || !strings.Contains(out, "--ro") {
			l.t.Error(out)
		}
		if _, out := l.in("p", "policy"); !strings.Contains(out, "~/.netrc") || !strings.Contains(out, "~/.local/state/nsrun") {
			l.t.Error(out)
		}
		if _, out := l.in("p", "run", "-q", "--why", "--report", "report", "--", "cat", filepath.Join(l.home, ".netrc")); out == "" {
			l.t.Error(out)
		}
		if b, err := os.ReadFile(filepath.Join(l.home, "p/report")); !strings.Contains(string(b), "place of secrets") {
			l.t.Errorf("%s, %v", b, err)
		}
		// It stays so while the host replaces it, and where the command moves what is around it.
		goOn, end := l.wait("p", "echo; echo; read x; cat ~/.netrc ~/.ssh/id 2>/dev/null; mv ~/.config ~/moved; rm -rf ~/.cache; mkdir ~/.cache; grep -rs "+hush+" ~; ls ~/moved/gh 2>/dev/null; true")
		for _, name := range []string{".netrc", ".ssh/id"} {
			file := filepath.Join(l.home, name)
			if err := errors.Join(os.WriteFile(file+".new", []byte(hush+" again"), 0o644), os.Rename(file+".new", file)); err != nil {
				l.t.Fatal(err)
			}
		}
		goOn()
		if got := end(); strings.Contains(got, hush) {
			l.t.Error(got)
		}
		l.want(l.sh("grep -rs "+hush+" ~; ls ~/moved", "--discard"), "pip")
		// Where no overlay can be laid over it, the copy is mounted in its place.
		if _, out := l.in(".", "run", "-q", "--ro", "~", "-C", l.home, "--project", filepath.Join(l.home, "p"), "--", "cat", ".npmrc"); strings.Contains(out, hush) {
			l.t.Error(out)
		}
	})
}
