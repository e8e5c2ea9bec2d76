//go:build linux

package nsrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
)

// The caller's own git finds a credential for git, outside the sandbox, after the Approver has said yes.

// fillTime is how long git's helpers may take. They may ask the user.
const fillTime = 2 * time.Minute

type gitCredential struct {
	x         *Execution
	rule      credential.Rule
	git, path string // the program, and where it looks for helpers

	turn   chan struct{} // has room for the one who asks
	done   bool
	secret string
	err    error
}

// newGitCredential finds git, in a place where no command can have put it.
func newGitCredential(x *Execution, rule credential.Rule, suspect func(dir string) bool) (*gitCredential, error) {
	g := &gitCredential{x: x, rule: rule, turn: make(chan struct{}, 1)}
	var err error
	g.git, g.path, err = host.Program("git", suspect)
	return g, err
}

// get asks the Approver, and makes git find the password, once for each command: not only for the client who comes
// first. The others wait for the answer until ctx ends.
func (g *gitCredential) get(ctx context.Context) (string, error) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if g.done {
		return g.secret, g.err
	}
	g.done = true
	q := Question{Action: ActionCredential, Target: g.rule.Name(), About: "with what git's credential helpers have for it"}
	if !g.x.use(g.x.services.ctx, credentialName, q) {
		g.err = errors.New("the use of the credential was not approved")
	} else if g.secret, g.err = g.fill(g.x.services.ctx); g.err != nil {
		g.err = fmt.Errorf("git credential fill: %w", g.err)
	}
	return g.secret, g.err
}

// fill makes git find the password. git runs in the root directory, so that no project's configuration names a helper.
func (g *gitCredential) fill(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.git, "credential", "fill")
	cmd.Dir = "/"
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "PATH", "PWD", "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_EXEC_PATH", "GIT_TERMINAL_PROMPT":
		default:
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+g.path, "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES=/")
	cmd.Stdin = strings.NewReader("protocol=https\nhost=" + g.rule.Name() + "\n\n")
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); text != "" {
			err = errors.New(escape.Printable(text))
		}
		return "", err
	}
	values := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		values[name] = value
	}
	switch {
	case values["protocol"] != "https" || values["host"] != g.rule.Name():
		return "", errors.New("it is for another host")
	case values["password"] == "" || strings.Contains(values["username"], ":"):
		return "", errors.New("there is no user with a password")
	}
	return values["username"] + ":" + values["password"], nil
}

// gitSettings are variables that make git in the sandbox use the gateways; they come after the configuration that is in
// the environment already.
func (s *services) gitSettings(env []string) (set []string) {
	count := 0
	if i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "GIT_CONFIG_COUNT=") }); i >= 0 {
		_, n, _ := strings.Cut(env[i], "=")
		count, _ = strconv.Atoi(n)
	}
	add := func(key, value string) {
		set = append(set, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value))
		count++
	}
	for _, r := range s.routes {
		if r.rule.Git {
			url := "http://" + r.at.String() + "/"
			add("url."+url+".insteadOf", "https://"+r.rule.Name()+"/")
			add("http."+url+".proxy", "")
		}
	}
	if set != nil {
		set = append(set, "GIT_CONFIG_COUNT="+strconv.Itoa(count))
	}
	return set
}
