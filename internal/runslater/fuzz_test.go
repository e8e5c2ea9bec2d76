//go:build linux

package runslater

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// gitList is what git makes of a configuration; ok is false where it cannot read it.
func gitList(t testing.TB, dir, text string) (list []entry, ok bool) {
	t.Helper()
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("git", "config", "--no-includes", "--file", file, "--list", "--null")
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := c.Output()
	if err != nil {
		return nil, false
	}
	for item := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if item == "" {
			continue
		}
		key, value, has := strings.Cut(item, "\n")
		list = append(list, entry{key, value, !has})
	}
	return list, true
}

// agree compares what git and this package make of a text. Later versions of git keep tabs
// in values, which others take for spaces.
func agree(t *testing.T, dir, text string) {
	t.Helper()
	want, ok := gitList(t, dir, text)
	got, err := parseConfig(text)
	if ok != (err == nil) {
		t.Fatalf("%q: git can read it: %v; here: %v", text, ok, err)
	}
	if !ok {
		return
	}
	plain := func(list []entry) string {
		var b strings.Builder
		for _, e := range list {
			fmt.Fprintf(&b, "%q %q %v\n", e.key, strings.ReplaceAll(e.value, "\t", " "), e.bare)
		}
		return b.String()
	}
	if plain(got) != plain(want) {
		t.Fatalf("%q:\n got %s\ngit has %s", text, plain(got), plain(want))
	}
}

// pieces are what random configurations are made of.
var pieces = []string{
	"[core]", "[Core ]", "[a.B]", "[a \"B.c\"]", "[a\t\"x\\\"y\\\\\"]", "[a \"]\"]", "[a \"b\" ]", "[a", "[]", "[-]", "[a \"x\ny\"]", "[ a]", "[\"a\"]", "[a \"\"]",
	"fsmonitor", "Key-2", "hooksPath", "-k", "k_", "=", " = ", "= ", "\t=\t", "true", "x y", "x\ty", "  ", "\"", "\"a b\"", "\"a;b\"", "\\n", "\\t", "\\\\", "\\\"", "\\x", "\\\n", "\\\r\n",
	"#c", ";c", " # c", "\n", "\n", "\n", "\r\n", "\r", "\f", "\v", "é", "\xff", "\xef\xbb\xbf", "0", "!cmd", "a=b", "[a]b=c", "[a]b", "\n\t", "\n  k = v\n", "[core]\n\tfsmonitor = x\n",
}

// TestConfigs compares random configurations with git's own reading of them.
func TestConfigs(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	n := 400
	if os.Getenv("NSRUN_LONG") != "" {
		n = 20000
	}
	dir := t.TempDir()
	for range n {
		var b strings.Builder
		for range 1 + rand.IntN(14) {
			b.WriteString(pieces[rand.IntN(len(pieces))])
		}
		agree(t, dir, b.String())
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range pieces {
		f.Add("[core]" + text)
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) { // which ends a text in git
			return
		}
		if _, err := exec.LookPath("git"); err == nil {
			agree(t, dir, text)
		}
	})
}

// TestKeys says of keys whether their values are executed.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       bool
	}{
		{"core.fsmonitor", "x", true}, {"core.fsmonitor", "true", false}, {"core.hookspath", "x", true}, {"core.pager", "less", true}, {"color.pager", "true", false},
		{"pager.log", "false", false}, {"pager.log", "x", true}, {"core.editor", "vi", true}, {"sequence.editor", "x", true}, {"core.sshcommand", "x", true}, {"core.askpass", "x", true},
		{"filter.a.b.clean", "x", true}, {"filter.lfs.required", "true", false}, {"diff.external", "x", true}, {"diff.x.command", "x", true}, {"diff.x.textconv", "x", true}, {"diff.x.binary", "true", false},
		{"merge.x.driver", "x", true}, {"mergetool.x.cmd", "x", true}, {"difftool.x.path", "x", true}, {"alias.x", "status", true}, {"credential.helper", "", false}, {"credential.https://x.helper", "x", true},
		{"gpg.program", "x", true}, {"gpg.ssh.program", "x", true}, {"gpg.ssh.defaultkeycommand", "x", true}, {"gpg.format", "ssh", false}, {"include.path", "x", true}, {"includeif.onbranch:x.path", "x", true},
		{"submodule.x.update", "!x", true}, {"submodule.x.update", "merge", false}, {"submodule.x.url", "../x", false}, {"remote.o.url", "https://x", false}, {"remote.o.url", "ext::sh", true}, {"remote.o.fetch", "+refs/*:refs/*", false},
		{"remote.o.uploadpack", "x", true}, {"remote.o.vcs", "x", true}, {"branch.x.remote", "o", false}, {"branch.x.merge", "refs/heads/x", false}, {"user.name", "x", false}, {"commit.gpgsign", "true", false},
		{"url.ext::x.insteadof", "y", true}, {"url.https://x.insteadof", "y", false}, {"protocol.ext.allow", "always", true}, {"protocol.file.allow", "always", false}, {"protocol.allow", "never", false},
		{"hook.x.command", "x", true}, {"tar.x.command", "x", true}, {"trailer.x.cmd", "x", true}, {"man.x.path", "x", true}, {"web.browser", "x", true}, {"instaweb.httpd", "x", true}, {"imap.tunnel", "x", true},
		{"lfs.customtransfer.x.path", "x", true}, {"lfs.https://x/info/lfs.access", "basic", false}, {"extensions.worktreeconfig", "true", false}, {"core.bare", "true", false}, {"http.sslverify", "0k", true}, {"http.https://x.sslverify", "", true}, {"http.sslverify", "True", false}, {"http.sslcainfo", "x", true}, {"core.worktree", "/x", true},
		{"core.attributesfile", "x", false}, {"core.excludesfile", "x", false}, {"core.autocrlf", "input", false}, {"pull.rebase", "true", false}, {"init.templatedir", "x", true}, {"gc.recentobjectshook", "x", true},
		{"merge.tool", "meld", false}, {"merge.tool", "../x", true}, {"diff.guitool", "/x", true}, {"diff.x.tool", "../x", false}, {"mergetool.vimdiff.layout", "x", true}, {"mergetool.prompt", "false", false},
		{"rebase.instructionformat", "%s%nexec x", true}, {"rebase.autosquash", "true", false}, {"gitflow.path.hooks", "x", true}, {"stgit.alias.add", "!x", true}, {"branch.alias.merge", "refs/heads/alias", false}, {"branch.x.alias.remote", "o", false}, {"http.https://git.alias.org.sslverify", "true", false}, {"remote.o.annex-ssh-options", "-oProxyCommand=x", true},
		{"gui.historybrowser", "x", true}, {"remote.o.tagopt", "--no-tags", false}, {"push.pushoption", "x", false}, {"secrets.providers", "x", true},
		{"branchless.test.alias.default", "x", true}, {"branch.test.alias.merge", "refs/heads/x", false}, {"svn.configdir", "x", true}, {"sendemail.smtpserveroption", "-Cx", true}, {"sendemail.work.smtpserveroption", "-Cx", true},
		{"maintenance.repo", "/x", true}, {"maintenance.auto", "false", false}, {"branch.x.remote", "ext::sh", true}, {"branch.x.pushremote", "ext::sh", true}, {"remote.pushdefault", "ext::sh", true}, {"svn-remote.x.url", "ext::sh", true},
		{"core.sharedrepository", "0666", true}, {"core.sharedrepository", "world", true}, {"core.sharedrepository", "group", true}, {"core.sharedrepository", "umask", false}, {"core.sharedrepository", "0640", false},
		{"format.outputdirectory", "../x", true}, {"format.outputdirectory", "/x", true}, {"format.outputdirectory", ".git/x", true}, {"format.outputdirectory", "outgoing", false}, {"lfs.storage", "/x", true}, {"lfs.storage", "lfs", false},
		{"submodule.x.gitdir", "../x", true}, {"submodule.x.gitdir", "modules/x", false}, {"trace2.eventtarget", "/x", true}, {"trace2.normaltarget", "false", false}, {"http.sslkeytype", "ENG", true}, {"http.sslcerttype", "PEM", false},
		{"core.protectntfs", "false", true}, {"core.protecthfs", "true", false}, {"credential.protectprotocol", "false", true}, {"credential.https://x.sanitizeprompt", "no", true}, {"imap.sslverify", "false", true},
	} {
		e := entry{key: c.key, value: c.value}
		if got := e.executes("/p/.git/config", []string{"/p"}); got != c.want {
			t.Errorf("%s = %s: %v, want %v", c.key, c.value, got, c.want)
		}
	}
}
