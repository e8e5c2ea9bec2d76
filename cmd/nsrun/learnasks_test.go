//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// asking is a place for a command that takes a secret, a socket and a network.
func asking(t *testing.T) (l *learning, words []string) {
	if ok, err := have("curl"); err != nil {
		t.Fatal(err)
	} else if !ok {
		testenv.Skip(t, "curl", "not installed")
	}
	l = newLearning(t)
	l.renew(t)
	socket, err := net.Listen("unix", filepath.Join(l.dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return l, l.words(`sh -c 'cat $H/.ssh/id && curl -sf http://127.0.0.1:$PORT/ && exec perl -MSocket -e "socket(my \$s, PF_UNIX, SOCK_STREAM, 0) or die; connect(\$s, pack_sockaddr_un(q($H/../sock))) or die"'`)
}

// TestLearnAsks: secrets, sockets and the network are opened one by one, after a yes.
func TestLearnAsks(t *testing.T) {
	testenv.Leaks(t, reap)
	l, words := asking(t)
	term := testenv.NewTerminal(t)
	out := filepath.Join(testenv.Dir(t), "out")
	c := exec.Command(filepath.Join(l.bin, "nsrun"), append([]string{"learn", "-o", out, "--"}, words...)...)
	c.Dir, c.Env = filepath.Join(l.dir, "p"), l.env("")
	term.Attach(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for i, question := range []string{"with read access to", "with access to tcp:127.0.0.1:", "with access to " + l.dir + "/sock"} {
		term.Await(question)
		term.AwaitTimes("[y/N] ", i+1)
		term.Type("y\n")
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, term.Screen())
	}
	b, _ := os.ReadFile(out)
	for _, want := range []string{`"~/.ssh/id", # read by cat: `, `"tcp:127.0.0.1:` + l.port + `", # reached by curl: `, `"` + l.dir + `/sock", # connected to by perl: `} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	if r := l.under(t, string(b), words); r.status != 0 {
		t.Errorf("with the learned file: status %d: %s", r.status, r.out)
	}
	for _, line := range elements(string(b)) {
		if r := l.under(t, strings.Replace(string(b), line, "", 1), words); r.status == 0 {
			t.Errorf("without %q it succeeds", line)
		}
	}
}

// TestLearnRefuses: without a yes nothing of that is opened, and what is blocked never is.
func TestLearnRefuses(t *testing.T) {
	testenv.Leaks(t, reap)
	l, words := asking(t)
	for name, c := range map[string]struct {
		flags, words []string
		want         string
		settings     string // in [sandbox]
	}{
		"secret":   {words: words, want: "not allowed: read of " + l.dir + "/home/.ssh/id: ~/.ssh"},
		"disabled": {words: l.words("touch $D/new"), want: "needs a sandbox", settings: "enabled = false\n"},
		"strict":   {flags: l.words("--preset strict"), words: l.words("cat $H/.ssh/id"), want: "(try: --ro " + l.dir + "/home/.ssh/id)"},
		"network":  {words: l.words("curl -s http://127.0.0.1:$PORT/"), want: "the command still fails"},
		"blocked":  {flags: l.words("--ro $D --block $D/in"), words: l.words("cat $D/in/f"), want: "not allowed: read of " + l.dir + "/host/in/f: " + l.dir + "/host/in is blocked"},
		"own":      {words: l.words("false"), want: "as far as nsrun can see, the sandbox is not the reason"},
		"time":     {flags: l.words("--timeout 100ms"), words: l.words("sleep 100"), want: "deadline"},
		"pattern":  {flags: l.words("--ro $D/*"), words: l.words("true"), want: "patterns"},
		"flag":     {flags: l.words("--commit"), words: l.words("true"), want: "takes no --commit"},
	} {
		t.Run(name, func(t *testing.T) {
			l.settings = c.settings
			file, text, r := l.learned(t, c.flags, c.words)
			want := strings.ReplaceAll(c.want, "~/", l.dir+"/home/")
			if _, err := os.Lstat(file); err == nil || r.status == 0 || !strings.Contains(r.out, want) {
				t.Errorf("status %d: %s\n%s", r.status, r.out, text)
			}
		})
	}
}
