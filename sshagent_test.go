//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// asking answers questions, and remembers them.
type asking struct {
	answer func(q nsrun.Question) nsrun.Answer
	mu     sync.Mutex
	asked  []nsrun.Question
}

func (a *asking) Approve(_ context.Context, q nsrun.Question) (nsrun.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, q)
	return a.answer(q), nil
}

// sshAgent starts an ssh-agent with the keys "chosen" and "other". It returns the directory that has the key files and
// the agent's socket.
func sshAgent(t *testing.T) (dir string) {
	t.Helper()
	for _, name := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "ssh", err.Error())
		}
	}
	dir = testenv.Dir(t)
	socket := filepath.Join(dir, "agent")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testenv.Eventually(t, "the agent", func() bool { // the socket is there before it listens
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	t.Setenv("SSH_AUTH_SOCK", socket)
	for _, name := range []string{"chosen", "other"} {
		key := filepath.Join(dir, name)
		for _, args := range [][]string{{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key}, {"ssh-add", "-q", key}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
	}
	return dir
}

// signs has a command list the keys, and sign with each.
const signs = `ssh-add -L >all; cut -d" " -f3 all; echo text >f
while read line; do
	echo "$line" >k.pub; rm -f f.sig
	ssh-keygen -q -Y sign -n git -f k.pub f 2>/dev/null && ssh-keygen -q -Y check-novalidate -n git -s f.sig <f >/dev/null && echo signed
done <all`

// TestSSHAgent: a command has the keys that were chosen, and each signature takes a yes.
func TestSSHAgent(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	dir := sshAgent(t)
	fingerprint, err := exec.Command("ssh-keygen", "-lf", filepath.Join(dir, "chosen.pub")).Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Fields(string(fingerprint))[1]
	allow, deny := nsrun.Allow, nsrun.Deny
	for _, c := range []struct {
		name       string
		allow      []string
		key        map[string]nsrun.Answer // about knowing of a key
		sign       nsrun.Answer
		want       string
		keys, sigs int // questions
	}{
		{"by comment", []string{"ssh-agent:chosen"}, nil, allow, "chosen\nsigned\n", 0, 1},
		{"by fingerprint", []string{"ssh-agent:" + id}, nil, allow, "chosen\nsigned\n", 0, 1},
		{"by file", []string{"ssh-agent:" + dir + "/chosen.pub"}, nil, allow, "chosen\nsigned\n", 0, 1},
		{"by private key", []string{"ssh-agent:" + dir + "/chosen"}, nil, allow, "chosen\nsigned\n", 0, 1},
		{"both", []string{"ssh-agent:chosen", "ssh-agent:other"}, nil, allow, "chosen\nother\nsigned\nsigned\n", 0, 2},
		{"no", []string{"ssh-agent:chosen"}, nil, deny, "chosen\n", 0, 1},
		{"asked which", []string{"ssh-agent"}, map[string]nsrun.Answer{"chosen": allow, "other": deny}, allow, "chosen\nsigned\n", 2, 1},
		{"asked, and named", []string{"ssh-agent", "ssh-agent:chosen"}, map[string]nsrun.Answer{"other": deny}, allow, "chosen\nsigned\n", 1, 1},
		{"none", nil, nil, allow, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &asking{answer: func(q nsrun.Question) nsrun.Answer {
				if !q.Running || q.Project == "" || !strings.Contains(q.Command, "ssh-add") {
					t.Errorf("%+v", q)
				}
				if q.Action == nsrun.ActionSign {
					if !q.OneTime || !strings.Contains(q.String(), q.Target) || !strings.Contains(q.String(), "for git") {
						t.Errorf("%+v: %s", q, q)
					}
					return c.sign
				}
				return c.key[strings.Trim(strings.Fields(q.Target)[1], "()")]
			}}
			r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: c.allow, Approver: a})
			res, err := r.Run(t.Context(), nsrun.Request{Command: signs})
			if err != nil || res.Stdout.String() != c.want {
				t.Errorf("%s, %v: want %q", res, err, c.want)
			}
			keys := 0
			for _, q := range a.asked {
				if q.Action == nsrun.ActionKey {
					keys++
				}
			}
			if keys != c.keys || len(a.asked)-keys != c.sigs || len(res.Services) != len(a.asked) {
				t.Errorf("asked %v; noted %v", a.asked, res.Services)
			}
			for _, u := range res.Services {
				if u.Service != nsrun.SSHAgent || u.Target == "" || u.Allowed != (u.About == "" && strings.Contains(u.Target, "chosen") || u.About != "" && c.sign == allow) {
					t.Errorf("%+v", u)
				}
			}
		})
	}
}

// TestSSHAgentRefuses: what cannot be chosen, and where nobody can be asked.
func TestSSHAgentRefuses(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "key.pub: x"), "p")
	dir := sshAgent(t)
	for allow, want := range map[string]string{
		"ssh-agent:":                     "a key is missing after the colon",
		"ssh-agent:nobody":               "no key nobody",
		"ssh-agent:" + p + "/key.pub":    "commands can write to it",
		"ssh-agent:" + dir + "/missing":  "no such file",
		"ssh-agent:" + dir + "/none.pub": "no such file",
	} {
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: []string{allow}, Approver: yes{}})
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v", allow, res, err)
		}
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: []string{"ssh-agent:chosen"}})
	res, err := r.Run(t.Context(), nsrun.Request{Command: signs})
	if err != nil || res.Stdout.String() != "chosen\n" || len(res.Services) != 1 || res.Services[0].Allowed || res.Services[0].Reason == "" {
		t.Errorf("without an Approver: %s, %v, %v", res, err, res.Services)
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	r = runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: []string{"ssh-agent:chosen"}, Approver: yes{}})
	if _, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || !strings.Contains(err.Error(), "SSH_AUTH_SOCK") {
		t.Error(err)
	}
}

// TestSSHAgentFlood: a user who is asked too often, and says no, is not asked again.
func TestSSHAgentFlood(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	sshAgent(t)
	a := &asking{answer: func(nsrun.Question) nsrun.Answer { return nsrun.Deny }}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: []string{"ssh-agent:chosen"}, Approver: a})
	res, err := r.Run(t.Context(), nsrun.Request{Command: `ssh-add -L >k.pub; echo >f
for i in $(seq 20); do ssh-keygen -q -Y sign -n git -f k.pub f 2>/dev/null & done; wait; ls`})
	if err != nil || len(a.asked) != 3 || len(res.Services) != 20 || res.Stdout.String() != "f\nk.pub\n" {
		t.Errorf("%s, %v: %d questions, %d uses", res, err, len(a.asked), len(res.Services))
	}
}

// TestSSHAgentAlone: only their own sandbox reaches the sockets of the agent and the proxy. A sandbox of another
// project cannot, while the first one runs, whatever it shows of the host. The controls are the host, where the agent
// answers, and the first sandbox.
func TestSSHAgentAlone(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	base := place(t)
	dir := sshAgent(t)
	testenv.Tree(t, base, "q/")
	x, err := runner(t, nsrun.Config{Project: filepath.Join(base, "p"), After: nsrun.Discard, AllowUnix: []string{"ssh-agent:chosen"}, Approver: yes{}}).
		Start(t.Context(), nsrun.Request{Command: "ssh-add -l; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = x.Wait() }()
	defer func() { _ = x.Signal(os.Kill) }()
	if left, err := filepath.Glob(filepath.Join(base, "state/nsrun/sockets/*")); err != nil || len(left) > 0 {
		t.Errorf("the proxy's socket has a name on the host: %q, %v", left, err)
	}
	if out, err := exec.Command("ssh-add", "-l").CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 2 {
		t.Errorf("the control: %s, %v", out, err)
	}
	search := `ls /run/nsrun 2>/dev/null; echo "SOCK=$SSH_AUTH_SOCK"
for s in ` + dir + `/agent ` + base + `/state/nsrun/sockets/* /run/nsrun/ssh-agent /proc/*/root/run/nsrun/ssh-agent; do SSH_AUTH_SOCK=$s ssh-add -l 2>/dev/null; done; true`
	for name, c := range map[string]nsrun.Config{
		"plain":    {},
		"shown":    {Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir}}},
		"writable": {Rules: []nsrun.Rule{{Mode: nsrun.Direct, Pattern: dir}}},
	} {
		c.Project, c.After = filepath.Join(base, "q"), nsrun.Discard
		if got := sh(t, runner(t, c), search); got != "SOCK=\n" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// The first one sees the proxy's, and not the agent's.
	c := nsrun.Config{Project: filepath.Join(base, "q"), After: nsrun.Discard, AllowUnix: []string{"ssh-agent:chosen"}, Approver: yes{},
		Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: dir}}}
	if got := sh(t, runner(t, c), search); !strings.Contains(got, "chosen") || strings.Contains(got, "other") {
		t.Errorf("with the proxy: %s", got)
	}
	spec := nsrun.Spec{Mounts: append(nsrun.BaseMounts(), mounts.ROBind(dir, dir)), Env: append(os.Environ(), "SSH_AUTH_SOCK="+dir+"/agent")}
	if out, err := spec.Command("ssh-add", "-l").CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 2 {
		t.Errorf("the control, a sandbox that hides no sockets: %s, %v", out, err)
	}
}

// TestSSHAgentAnywhere: the proxy is there in all kinds of sandboxes, and ends with the command.
func TestSSHAgentAnywhere(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	sshAgent(t)
	for name, c := range map[string]nsrun.Config{
		"strict":    {Preset: nsrun.StrictPreset},
		"workspace": {Preset: nsrun.WorkspaceRootPreset},
		"direct":    {Mode: nsrun.Direct},
		"network":   {Net: netpolicy.MustParse("192.0.2.1"), Enforcer: nsrun.BrokerEnforcer},
		"clear":     {ClearEnv: true, Env: []string{"SSH_AUTH_SOCK"}},
		"refusals":  {Why: true},
	} {
		t.Run(name, func(t *testing.T) {
			needFor(t, c)
			c.Project, c.After, c.AllowUnix, c.Approver = p, nsrun.Discard, []string{"ssh-agent:chosen"}, yes{}
			r := runner(t, c)
			for range 2 {
				if got := sh(t, r, "ssh-add -L | cut -d' ' -f3"); got != "chosen\n" {
					t.Error(got)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &asking{answer: func(nsrun.Question) nsrun.Answer { cancel(); return nsrun.Allow }}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, AllowUnix: []string{"ssh-agent:chosen"}, Approver: a})
	if _, err := r.Run(ctx, nsrun.Request{Command: signs + "; sleep 1000"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
