//go:build linux

package nsrun_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/credential/gateway"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/project"
)

// theToken is the secret; it must be nowhere but in requests to the host.
const theToken = "very-secret-t0ken-4711"

// secretHost is an HTTPS server that reports whether requests have the secret. A process that loads its trusted
// certificates for the first time trusts it.
func secretHost(t *testing.T) (at netip.AddrPort) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+theToken {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintln(w, "served", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(os.TempDir(), "nsrun-test-ca.pem")
	trusted.Do(func() {
		b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(file)
		defer os.Setenv("SSL_CERT_FILE", os.Getenv("SSL_CERT_FILE"))
		os.Setenv("SSL_CERT_FILE", file)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	})
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

var trusted sync.Once

func withToken(t *testing.T, c nsrun.Config, at netip.AddrPort) nsrun.Config {
	t.Helper()
	t.Setenv("MY_SETTING", theToken)
	t.Setenv("OTHER_SETTING", "with the "+theToken)
	rule, err := credential.Parse(at.String() + "=env:MY_SETTING,url=BASE/v1")
	if err != nil {
		t.Fatal(err)
	}
	c.Credentials, c.Gateway = []credential.Rule{rule}, gateway.Gateway{}
	return c
}

// getBase fetches with nothing but a shell.
const getBase = `address=${BASE#http://}; address=${address%%/*}
exec 3<>/dev/tcp/${address%:*}/${address#*:} && printf 'GET /v1/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n' >&3 && cat <&3 | tr -d '\r' | sed -n '1p;$p'`

func bash(command string) nsrun.Request { return nsrun.Request{Args: []string{"bash", "-c", command}} }

// TestCredential: a command uses a secret that it does not have, without any other network.
func TestCredential(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	at := secretHost(t)
	for name, c := range map[string]nsrun.Config{
		"plain":     {},
		"rules":     {Net: netpolicy.MustParse("192.0.2.1")},
		"publish":   {Publish: []uint16{61801}},
		"refusals":  {Why: true},
		"strict":    {Preset: nsrun.StrictPreset},
		"workspace": {Preset: nsrun.WorkspaceRootPreset},
		"direct":    {Mode: nsrun.Direct},
		"clear":     {ClearEnv: true},
	} {
		t.Run(name, func(t *testing.T) {
			needFor(t, c)
			c.Project, c.After = filepath.Join(place(t), "p"), nsrun.Discard
			r := runner(t, withToken(t, c, at))
			for range 2 {
				res, err := r.Run(t.Context(), bash(getBase))
				if err != nil || res.Stdout.String() != "HTTP/1.1 200 OK\nserved /v1/x\n" {
					t.Errorf("%s, %v", res, err)
				}
				if len(res.Services) != 1 || res.Services[0].Target != at.String() || !res.Services[0].Allowed {
					t.Errorf("%+v", res.Services)
				}
			}
			// The control: without the gateway the host is not reached.
			if res, err := r.Run(t.Context(), bash("BASE=http://"+at.String()+"; "+getBase)); err != nil || strings.Contains(res.Stdout.String(), "served") {
				t.Errorf("%s, %v", res, err)
			}
		})
	}
}

// search looks for the secret in all that a command can look at: environments, memory, arguments and files.
const search = `printenv | grep -c "very-secret-t0ken-471[1]"; grep -al very-secret-t0ken-471[1] /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null
for p in /proc/[0-9]*; do
	[ "${p#/proc/}" = $$ ] && continue
	while read -r range perms rest; do
		from=$((0x${range%-*})) to=$((0x${range#*-}))
		case $perms in r*) dd if=$p/mem bs=4096 skip=$((from/4096)) count=$(((to-from)/4096)) 2>/dev/null | grep -ac very-secret-t0ken-471[1] | grep -v '^0$' ;; esac
	done <$p/maps 2>/dev/null
done
grep -arl very-secret-t0ken-471[1] "$PWD" "$HOME" /tmp /run /dev/shm 2>/dev/null; true`

// TestCredentialUnseen: the secret is in no place where the command looks, nor in what nsrun stores of the command. The
// control is a command that is given the variable.
func TestCredentialUnseen(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	at := secretHost(t)
	dir := place(t)
	registry := project.Open(project.Options{})
	defer registry.Close()
	c := withToken(t, nsrun.Config{Project: filepath.Join(dir, "p"), Recorder: nsrun.Registry{Registry: registry}}, at)
	t.Setenv("MY_SETTING", theToken+" ") // which the header does not have, nor the other variable
	res, err := runner(t, c).Run(t.Context(), bash(getBase+"; sleep 100 & "+search))
	if err != nil || res.Stdout.String() != "HTTP/1.1 200 OK\nserved /v1/x\n0\n" {
		t.Errorf("%s, %v", res, err)
	}
	if out, _ := exec.Command("grep", "-arl", theToken, dir).Output(); len(out) > 0 {
		t.Errorf("the secret is kept: %s", out)
	}
	control := nsrun.Config{Project: c.Project, Env: []string{"MY_SETTING"}}
	res, err = runner(t, control).Run(t.Context(), bash("sleep 100 & "+search))
	if err != nil || strings.Count(res.Stdout.String(), "\n") < 3 || !strings.Contains(res.Stdout.String(), "environ") {
		t.Errorf("the control: %s, %v", res, err)
	}
}

// TestCredentialFile: a secret in a file is hidden even if a rule shows the directory around it. The control is a run
// without the credential.
func TestCredentialFile(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	at := secretHost(t)
	dir := place(t)
	testenv.Tree(t, dir, "keys/token: "+theToken+"\n", "keys/other: x")
	file := filepath.Join(dir, "keys/token")
	rule := credential.Rule{Host: at.Addr().String(), Port: at.Port(), File: file, URL: "BASE"}
	show := []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: filepath.Join(dir, "keys")}}
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Rules: show}
	command := "cat " + file + " 2>/dev/null; cat " + dir + "/keys/other"
	if got := sh(t, runner(t, c), command); got != theToken+"\nx" {
		t.Errorf("the control: %q", got)
	}
	c.Credentials, c.Gateway = []credential.Rule{rule}, gateway.Gateway{}
	res, err := runner(t, c).Run(t.Context(), bash(command+"; echo; "+getBase))
	if err != nil || res.Stdout.String() != "x\nHTTP/1.1 200 OK\nserved /v1/x\n" {
		t.Errorf("%s, %v", res, err)
	}
	c.Rules = []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: file}}
	if _, err := runner(t, c).Run(t.Context(), bash("true")); err == nil || !strings.Contains(err.Error(), "could read it") {
		t.Error(err)
	}
	c.Rules = []nsrun.Rule{{Mode: nsrun.Direct, Pattern: filepath.Join(dir, "keys")}}
	if _, err := runner(t, c).Run(t.Context(), bash("true")); err == nil || !strings.Contains(err.Error(), "commands can write to it") {
		t.Error(err)
	}
}

// TestCredentialAlone: the gateway can be reached from its own sandbox only: not from the host, and not from another
// sandbox.
func TestCredentialAlone(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	at := secretHost(t)
	dir := place(t)
	x, err := runner(t, withToken(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard}, at)).
		Start(t.Context(), nsrun.Request{Args: []string{"bash", "-c", getBase + "; >/tmp/ready; sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = x.Wait() }()
	defer func() { _ = x.Signal(os.Kill) }()
	if c, err := net.Dial("tcp4", "127.0.0.1:61801"); err == nil {
		c.Close()
		t.Error("the host reaches the gateway")
	}
	for name, c := range map[string]nsrun.Config{
		"none":  {},
		"rules": {Net: netpolicy.MustParse("127.0.0.1:61801"), Enforcer: nsrun.BrokerEnforcer},
	} {
		t.Run(name, func(t *testing.T) {
			needFor(t, c)
			c.After = nsrun.Discard
			res, err := runner(t, c).Run(t.Context(), bash("BASE=http://127.0.0.1:61801; "+getBase))
			if err != nil || strings.Contains(res.Stdout.String(), "served") {
				t.Errorf("%s, %v", res, err)
			}
		})
	}
}

// TestCredentialRefuses: what would make the secret known, or could be used by others, is no start.
func TestCredentialRefuses(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	at := netip.MustParseAddrPort("192.0.2.1:443")
	base := withToken(t, nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Approver: yes{}}, at)
	for want, change := range map[string]func(c *nsrun.Config, q *nsrun.Request){
		"other programs of this host":    func(_ *nsrun.Config, q *nsrun.Request) { q.Network = true },
		"passed on by name":              func(c *nsrun.Config, _ *nsrun.Request) { c.Env = []string{"MY_SETTING"} },
		"is passed on by name":           func(_ *nsrun.Config, q *nsrun.Request) { q.Env = []string{"MY_SETTING=x"} },
		"need a Gateway":                 func(c *nsrun.Config, _ *nsrun.Request) { c.Gateway = nil },
		"the broker has to enforce":      func(c *nsrun.Config, _ *nsrun.Request) { c.Enforcer = nsrun.KernelEnforcer },
		"without a sandbox there are no": func(c *nsrun.Config, _ *nsrun.Request) { c.Sandbox = nsrun.SandboxDisabled },
		"two credentials":                func(c *nsrun.Config, _ *nsrun.Request) { c.Credentials = append(c.Credentials, c.Credentials[0]) },
		"variable NOT_THERE_AT_ALL is not": func(c *nsrun.Config, _ *nsrun.Request) {
			c.Credentials = []credential.Rule{{Host: "h", Env: "NOT_THERE_AT_ALL"}}
		},
		"no such file": func(c *nsrun.Config, _ *nsrun.Request) {
			c.Credentials = []credential.Rule{{Host: "h", File: "/none/at/all"}}
		},
		"is not a host": func(c *nsrun.Config, _ *nsrun.Request) { c.Credentials = []credential.Rule{{Host: "*", Env: "HOME"}} },
	} {
		c, q := base, nsrun.Request{Command: "true"}
		change(&c, &q)
		if _, err := runner(t, c).Run(t.Context(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
