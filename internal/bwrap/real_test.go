//go:build linux

package bwrap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Parse and bubblewrap itself agree on every case: on whether it is refused, on
// the exit status and on standard error. Nothing is run: a
// command line that is accepted is tried without its command.
func TestAgainstBubblewrap(t *testing.T) {
	real := realBubblewrap(t)
	compared := 0
	for _, tc := range parseCases {
		if tc.env != nil || tc.notReal != "" {
			continue
		}
		args := tc.words()
		t.Run(short(tc.args), func(t *testing.T) {
			agree(t, real, args, tc)
			compared++
		})
	}
	t.Logf("%d command lines compared with %s", compared, real)
	if compared < 150 {
		t.Errorf("only %d command lines could be compared", compared)
	}
}

// agree compares one command line.
func agree(t *testing.T, real string, args []string, tc parseCase) {
	env := Env{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
		UserNamespaces: func() bool { return true },
		ReadFD:         tc.readFD(),
	}
	c, err := Parse(args, env)
	if err == nil {
		args = args[:len(args)-len(c.Command)]
		env.ReadFD = tc.readFD()
		c, err = Parse(args, env)
	}
	wantOut, wantErr, wantExit := printed(real, c, err)

	cmd := exec.Command(real, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	for _, contents := range tc.contents() {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		go func() {
			w.WriteString(contents)
			w.Close()
		}()
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	}
	exit := 0
	if err := cmd.Run(); err != nil {
		var status *exec.ExitError
		if !errors.As(err, &status) {
			t.Fatal(err)
		}
		exit = status.ExitCode()
	}
	// The help is in words of our own but for its first line.
	gotOut, gotErr := onlyUsage(stdout.String()), onlyUsage(stderr.String())
	if exit != wantExit || gotOut != wantOut || gotErr != wantErr {
		t.Errorf("bubblewrap: exit %d, stdout %q, stderr %q\nhere: exit %d, stdout %q, stderr %q",
			exit, gotOut, gotErr, wantExit, wantOut, wantErr)
	}
}

// printed is what a program has to print of a result without a command to run.
func printed(name string, c *Config, err error) (stdout, stderr string, exit int) {
	for _, w := range c.Warnings {
		stderr += Message("bwrap", w.LevelPrefix, SeverityWarning, w.Text)
	}
	switch err {
	case StopHelp:
		return onlyUsage(Usage(name, false)), stderr, 0
	case StopVersion:
		return "bubblewrap 0.12.0\n", stderr, 0
	case StopNoCommand:
		return "", stderr + onlyUsage(Usage(name, false)), 1
	}
	return "", stderr + Message("bwrap", c.LevelPrefix, SeverityError, err.Error()), 1
}

// onlyUsage cuts a help text after its first line.
func onlyUsage(s string) string {
	if i := strings.Index(s, "usage: "); i >= 0 {
		if j := strings.IndexByte(s[i:], '\n'); j >= 0 {
			return s[:i+j+1]
		}
	}
	return s
}

// bubblewrap's help names the same options, with as many words after each.
func TestHelpAgainstBubblewrap(t *testing.T) {
	real := realBubblewrap(t)
	out, err := exec.Command(real, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := make(map[string]bool)
	for _, line := range strings.Split(string(out), "\n") {
		// The description is set off by two blanks, or one if there is no room.
		words := strings.Fields(line)
		if len(words) == 0 || !strings.HasPrefix(line, "    --") {
			continue
		}
		n := 1
		for n < len(words) && words[n] == strings.ToUpper(words[n]) && len(words[n]) > 1 {
			n++
		}
		theirs[words[0]] = true
		o := lookup(words[0], false)
		if o == nil {
			t.Errorf("%s is not in the table", words[0])
		} else if o.NArgs() != n-1 {
			t.Errorf("%q: %d words there, %d here", line, n-1, o.NArgs())
		}
	}
	for _, o := range Options(false) {
		if !o.Hidden && !theirs[o.Name] {
			t.Errorf("%s is not bubblewrap's, but not marked as ours", o.Name)
		}
	}
}

// The environment that bubblewrap leaves its command is the one that
// Config.Environment makes, and PWD.
func TestEnvironmentAgainstBubblewrap(t *testing.T) {
	real := realBubblewrap(t)
	env, err := exec.LookPath("env")
	if err != nil {
		testenv.Skip(t, "bubblewrap", err.Error())
	}
	base := []string{"A=1", "PATH=/usr/bin:/bin", "B=2", "PWD=/nowhere", "C=4"}
	if out, err := bubblewrapEnv(real, base, "true"); err != nil {
		testenv.Skip(t, "bubblewrap", fmt.Sprintf("bubblewrap does not work here: %v %s", err, out))
	}
	for _, args := range []string{
		"",
		"--setenv A x",
		"--setenv D x --setenv D y --setenv E ''",
		"--unsetenv A --setenv A x",
		"--unsetenv PWD --setenv A x",
		"--clearenv",
		"--setenv Z x --clearenv --setenv Y z --setenv X z",
		"--unsetenv B --unsetenv B",
	} {
		words := append(strings.Fields("--dev-bind / / --chdir /"), strings.Fields(strings.ReplaceAll(args, "''", "e=e"))...)
		words = append(words, env)
		out, err := bubblewrapEnv(real, base, words...)
		if err != nil {
			t.Errorf("%s: %v %s", args, err, out)
			continue
		}
		c, err := Parse(words, Env{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())})
		if err != nil {
			t.Fatal(err)
		}
		c.Environ = append(c.Environ, EnvOp{Kind: EnvSet, Name: "PWD", Value: "/"})
		want := strings.Join(c.Environment(base), "\n") + "\n"
		if string(out) != want {
			t.Errorf("%s: bubblewrap leaves %q, here it would be %q", args, out, want)
		}
	}
}

func bubblewrapEnv(real string, env []string, words ...string) ([]byte, error) {
	if len(words) == 1 {
		words = append(strings.Fields("--dev-bind / / --chdir /"), words...)
	}
	cmd := &exec.Cmd{Path: real, Args: append([]string{real}, words...), Env: env}
	return cmd.CombinedOutput()
}
