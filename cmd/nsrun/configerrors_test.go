//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/testenv"
)

// oddValues are values that most keys do not take.
var oddValues = []string{
	"1", "-1", "1.5", "nan", "inf", "true", "0x10", "1_000", "9223372036854775808", "1e400", "1979-05-27", "07:32:00", "{}", "{a=1}", "[]", "[[]]", "[1]", "[true]", "[{}]",
	"''", "'x'", `"\u0000"`, `"a\nb"`, `"\u202e"`, "'1X'", "'99999999P'", "'-1s'", "'1.5G'", "['']", "['x']", "['/']", "['.']", "['..']", "['../..']", "['~']", "['~root']", "['**']",
	"['[a']", "['$NOPE']", "['${HOME']", "['!x']", "['!.']", `["a\u0000b"]`, `["\u001b[2J"]`, "['/proc']", "['/sys']", "['/proc/sys/kernel']", "['/sys/fs/cgroup']", "['/proc/self']",
	"['/dev']", "['/dev/null']", "['/dev/mem']", "['/nonexistent/x']", "['docker']", "['ssh-agent']", "['ssh-agent:']", "['@']", "['@x']", "['a:70000']", "['10.0.0.0/33']",
	"['*.*']", "['=env:X']", "['h=env:NOPE']", "[80]", "[0]", "[65536]", "[-1]", "['strict','workspace-root']", "'kernel'", "'landlock'", "'overlay'",
}

// placeless are settings that end in an error which is about no place in the file.
var placeless = regexp.MustCompile(`^nsrun: (exec sh: |working directory )`)

// TestConfigErrors: whatever a file says for a key, the command runs, or there is one line about it that begins with
// the place in the file, and nothing runs.
func TestConfigErrors(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/.config/nsrun/", "p/f")
	file, project := filepath.Join(dir, "home/.config/nsrun/config.toml"), filepath.Join(dir, "p")
	env := []string{"HOME=" + filepath.Join(dir, "home"), "LC_ALL=C.UTF-8"}
	line := regexp.MustCompile(`^nsrun: ` + regexp.QuoteMeta(file) + `:\d+:\d+: [^\n]+\n$`)
	check := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, out := nsrunIn(t, project, env, "run", "-q", "--direct", "--", "sh", "-c", "touch ran; touch f")
		ran := os.Remove(filepath.Join(project, "ran")) == nil
		switch {
		case status == console.ExitFailed && (ran || !line.MatchString(out) && !placeless.MatchString(out)):
			t.Errorf("%s: ran: %t\n%s", text, ran, out)
		case strings.ContainsAny(out, "\x00\x1b\u202e"):
			t.Errorf("%s: %q", text, out)
		}
	}
	n := 0
	for i, key := range config.Keys {
		for j, value := range oddValues {
			if !testenv.Long() && (i+j)%7 != 0 && !strings.Contains(named[key.Name], value) {
				continue
			}
			if key.Name == "enabled" || key.Name == "mode" && value == "'disabled'" {
				continue // then nothing of it matters
			}
			text := fmt.Sprintf("[%s]\n%s = %s\n", key.Table, key.Name, value)
			if value == "'kernel'" {
				text += "allow_net = ['a.example']\n"
			}
			if testenv.Turn(n) {
				check(text)
			}
			n++
		}
	}
	if n < 300 {
		t.Errorf("%d files", n)
	}
}

// named are values that a short test does not leave out.
var named = map[string]string{
	"blocked_paths": "['.'] ['..']", "allow_unix": "['docker']", "publish": "[80]", "net_by": "'kernel'", "rw_paths": "['/proc'] ['/sys'] ['/sys/fs/cgroup'] ['/dev']",
	"extra_rw_paths": "['/proc/sys/kernel']", "ro_paths": "['/dev'] ['/dev/null']", "devices": "['/dev/mem']",
}
