//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// gpgHome is a GNUPGHOME with the keys chosen@example.org and other@example.org, which have no passphrase.
func gpgHome(t *testing.T) {
	t.Helper()
	for _, name := range []string{"gpg", "gpgconf", "gpg-agent"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "gpg", err.Error())
		}
	}
	home := testenv.Dir(t)
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	for _, name := range []string{"chosen", "other"} {
		out, err := exec.Command("gpg", "--batch", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "", "--quick-gen-key", name+"@example.org", "future-default", "default").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, name := range []string{"chosen", "other"} {
		cmd := exec.Command("gpg", "--batch", "--no-tty", "--trust-model", "always", "-o", filepath.Join(home, name+".gpg"), "-e", "-r", name+"@example.org")
		cmd.Stdin = strings.NewReader("decrypted")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// talk sends lines to the agent, and prints how each answer ends.
const talk = `import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["GNUPGHOME"] + "/S.gpg-agent")
f = s.makefile("rwb"); f.readline()
for line in sys.stdin.buffer:
    f.write(line); f.flush()
    while True:
        a = f.readline()
        if a.startswith(b"INQUIRE"): f.write(b"CAN\n"); f.flush()
        if not a or a.startswith((b"OK", b"ERR")): break
    print(line.split()[0].decode() if line.split() else "-", a.split()[0].decode() if a else "closed")
`

// TestGPGAgent: a command signs with the chosen key after a yes, and does nothing else with the agent.
func TestGPGAgent(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	gpgHome(t)
	command := `gpg --batch --list-secret-keys --with-colons 2>/dev/null | grep -c ^sec
for u in chosen other; do echo text | gpg --batch -u $u@example.org -a -s 2>/dev/null | gpg --batch -d 2>/dev/null || echo not signed; done`
	for _, c := range []struct {
		name   string
		answer nsrun.Answer
		want   string
		config nsrun.Config
	}{
		{"yes", nsrun.Allow, "1\ntext\nnot signed\n", nsrun.Config{}},
		{"no", nsrun.Deny, "1\nnot signed\nnot signed\n", nsrun.Config{}},
		{"strict", nsrun.Allow, "1\ntext\nnot signed\n", nsrun.Config{Preset: nsrun.StrictPreset}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &asking{answer: func(q nsrun.Question) nsrun.Answer {
				if q.Action != nsrun.ActionSign || !q.OneTime || !q.Running || !strings.Contains(q.String(), "chosen@example.org") {
					t.Errorf("%+v: %s", q, q)
				}
				return c.answer
			}}
			config := c.config
			config.Project, config.After, config.Approver, config.AllowUnix = p, nsrun.Discard, a, []string{"gpg-agent:chosen@example.org"}
			res, err := runner(t, config).Run(t.Context(), nsrun.Request{Command: command})
			if err != nil || res.Stdout.String() != c.want {
				t.Errorf("%s, %v", res, err)
			}
			if len(a.asked) != 1 || len(res.Services) != 1 || res.Services[0].Service != nsrun.GPGAgent || res.Services[0].Allowed != (c.answer == nsrun.Allow) {
				t.Errorf("asked %v, noted %v", a.asked, res.Services)
			}
		})
	}
}

// TestGPGAgentOnly: the agent's only function for a command is signing. The control is the agent itself.
func TestGPGAgentOnly(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("python3"); err != nil {
		testenv.Skip(t, "python3", err.Error())
	}
	p := filepath.Join(place(t), "p")
	gpgHome(t)
	home := os.Getenv("GNUPGHOME")
	list, err := exec.Command("gpg", "--batch", "--with-colons", "--with-keygrip", "--list-secret-keys").Output()
	if err != nil {
		t.Fatal(err)
	}
	var grips []string // sign, encrypt of chosen; sign, encrypt of other
	for line := range strings.Lines(string(list)) {
		if f := strings.Split(line, ":"); f[0] == "grp" {
			grips = append(grips, f[9])
		}
	}
	if len(grips) != 4 {
		t.Fatalf("%q", grips)
	}
	hash := strings.Repeat("AB", 32)
	lines := []string{
		"HAVEKEY " + grips[2], "KEYINFO " + grips[2], "SIGKEY " + grips[2], "SIGKEY " + grips[1], "READKEY " + grips[2],
		"SETKEY " + grips[1], "KEYWRAP_KEY --export", "EXPORT_KEY " + grips[0],
		"GET_CONFIRMATION a", "GETINFO pid", "GETINFO socket_name", "LISTTRUSTED",
		"PRESET_PASSPHRASE " + grips[0] + " -1 00", "CLEAR_PASSPHRASE x", "DELETE_KEY --force " + grips[3], "RELOADAGENT", "KILLAGENT",
	}
	input := strings.Join(lines, "\n") + "\n"
	c := nsrun.Config{Project: p, After: nsrun.Discard, Approver: yes{}, AllowUnix: []string{"gpg-agent:chosen@example.org"}}
	res, err := runner(t, c).Run(t.Context(), nsrun.Request{Args: []string{"python3", "-c", talk}, Stdin: strings.NewReader(input)})
	if err != nil || strings.Count(res.Stdout.String(), " ERR\n") != len(lines) {
		t.Errorf("%s, %v", res, err)
	}
	// A hash is signed once for each yes, and only what is one.
	a := &asking{answer: func(nsrun.Question) nsrun.Answer { return nsrun.Allow }}
	c.Approver = a
	signing := fmt.Sprintf("SIGKEY %s\nSETHASH 8 %s\nPKSIGN\nPKSIGN\nSETHASH 8 AB\nPKSIGN\nSETHASH 8 %s x\nPKSIGN\nSETHASH --inquire\nPKSIGN\nRESET\nPKSIGN\n", grips[0], hash, hash)
	res, err = runner(t, c).Run(t.Context(), nsrun.Request{Args: []string{"python3", "-c", talk}, Stdin: strings.NewReader(signing)})
	if err != nil || strings.Count(res.Stdout.String(), "PKSIGN OK\n") != 1 || len(a.asked) != 1 {
		t.Errorf("%s, %v, %v", res, err, a.asked)
	}
	// What is too long ends the connection, and what is passed on is no line of the client's.
	long := "SETKEYDESC " + strings.Repeat("a", 5000) + "\nNOP\n"
	res, err = runner(t, c).Run(t.Context(), nsrun.Request{Args: []string{"python3", "-c", talk}, Stdin: strings.NewReader(long)})
	if err != nil || strings.Contains(res.Stdout.String(), "NOP OK") {
		t.Errorf("%s, %v", res, err)
	}
	// Decrypting takes what the proxy does not pass on.
	config := c
	config.Rules = []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: filepath.Join(home, "chosen.gpg")}}
	decrypt := "gpg --batch -d " + home + "/chosen.gpg 2>/dev/null; true"
	if got := sh(t, runner(t, config), decrypt); got != "" {
		t.Errorf("it decrypts: %s", got)
	}
	if out, err := exec.Command("sh", "-c", decrypt).Output(); err != nil || string(out) != "decrypted" {
		t.Errorf("the control: %s, %v", out, err)
	}
	control := exec.Command("python3", "-c", talk)
	control.Stdin = strings.NewReader(input)
	if out, err := control.Output(); err != nil || strings.Count(string(out), " OK\n") < 12 {
		t.Errorf("the control: %s, %v", out, err)
	}
}

// TestGPGAgentRefuses: what cannot be chosen.
func TestGPGAgentRefuses(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	gpgHome(t)
	for allow, want := range map[string]string{
		"gpg-agent": "a key is missing", "gpg-agent:": "a key is missing", "gpg-agent:nobody@example.org": "no secret key nobody@example.org",
		"gpg-agent:--version": "no secret key --version",
	} {
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: []string{allow}, Approver: yes{}})
		if _, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", allow, err)
		}
	}
}
