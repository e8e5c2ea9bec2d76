//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSandboxModes: the effect of the flag and of the files on the mode, with and without a possible sandbox. A
// project's file chooses nothing weaker until it is trusted.
func TestSandboxModes(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	const no, yes, failed = "NO SANDBOX: ", "", "clone user"
	for _, c := range []struct {
		name, user, project, args string
		trusted, sandboxes        bool
		status                    int
		says                      string
	}{
		{name: "default", status: 125, says: failed},
		{name: "flag", args: "--sandbox preferred", says: no},
		{name: "quiet", args: "--sandbox preferred -q", says: no},
		{name: "disabled", args: "--sandbox disabled", says: no},
		{name: "disabled in vain", args: "--sandbox disabled", sandboxes: true, says: no},
		{name: "preferred, and there is one", args: "--sandbox preferred", sandboxes: true, says: yes},
		{name: "file", user: "[sandbox]\nmode = 'preferred'", says: no},
		{name: "file, and there is one", user: "[sandbox]\nmode = 'preferred'", sandboxes: true, says: yes},
		{name: "not enabled", user: "[sandbox]\nenabled = false", sandboxes: true, says: no},
		{name: "the flag wins", user: "[sandbox]\nenabled = false", args: "--sandbox required", sandboxes: true, says: yes},
		{name: "profile", user: "[profile.a]\nmatch = ['/bin/sh -c']\nmode = 'preferred'", says: no},
		{name: "untrusted", project: "[sandbox]\nmode = 'preferred'", status: 125, says: failed},
		{name: "untrusted, and not enabled", project: "[sandbox]\nenabled = false", sandboxes: true, says: "enabled would let commands do more, and is left out"},
		{name: "untrusted, and weaker", user: "[sandbox]\nmode = 'preferred'", project: "[sandbox]\nmode = 'disabled'", sandboxes: true,
			says: "mode would let commands do more, and is left out"},
		{name: "untrusted, and stricter", user: "[sandbox]\nmode = 'preferred'", project: "[sandbox]\nmode = 'required'", status: 125, says: failed},
		{name: "trusted", project: "[sandbox]\nmode = 'preferred'", trusted: true, says: no},
		{name: "a mistake", user: "[sandbox]\nmode = 'preferred'\nro_path = []", status: 125, says: "there is no key ro_path"},
		{name: "another mistake", args: "--sandbox preferred --ro /no/such", status: 125, says: "no such path"},
		{name: "a session", args: "--sandbox preferred --preset workspace-root", status: 125, says: failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "home/.config/nsrun/", "p/.git/objects/", "p/keep: ")
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.user != "" {
				write("home/.config/nsrun/config.toml", c.user+"\n")
			}
			run := func(words []string) (string, int) {
				cmd := exec.Command(filepath.Join(bin, "nsrun"), words...)
				cmd.Dir = filepath.Join(dir, "p")
				cmd.Env = []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
				if !c.sandboxes && words[0] == "run" {
					testenv.WithoutNamespaces(cmd)
				}
				out, err := cmd.CombinedOutput()
				if cmd.ProcessState == nil {
					t.Fatal(err)
				}
				return string(out), cmd.ProcessState.ExitCode()
			}
			if c.project != "" {
				write("p/.nsrun.toml", c.project+"\n")
			}
			if c.trusted {
				if out, status := run([]string{"trust"}); status != 0 {
					t.Fatal(out)
				}
			}
			report := filepath.Join(dir, "report")
			// Landlock takes no namespaces.
			words := append([]string{"run", "--backend", "native", "--discard", "--report", report}, strings.Fields(c.args)...)
			out, status := run(append(words, "--", "/bin/sh", "-c", "echo x >new"))
			_, err := os.Stat(filepath.Join(dir, "p/new"))
			ran, open := status == 0, err == nil
			if status != c.status || open != (c.says == no) || !strings.Contains(out, c.says) || c.says == yes && strings.Contains(out, "SANDBOX") {
				t.Errorf("status %d, written %t, says\n%s", status, open, out)
			}
			var rep struct{ Backend, Unsandboxed string }
			if b, err := os.ReadFile(report); err == nil && len(b) > 0 {
				if err := json.Unmarshal(b, &rep); err != nil {
					t.Error(err)
				}
			}
			if want := map[bool]string{true: "none", false: "native"}[open]; ran && rep.Backend != want || (rep.Unsandboxed != "") != open {
				t.Errorf("the report says %+v", rep)
			}
		})
	}
}
