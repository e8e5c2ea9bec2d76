//go:build linux

package nsrun_test

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/credential/gateway"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// gitHost is a server with the repository repo.git, for the user me with theToken, and the number of its requests.
func gitHost(t *testing.T, dir string) (at netip.AddrPort, hits *atomic.Int32) {
	t.Helper()
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		testenv.Skip(t, "git", err.Error())
	}
	secretHost(t) // whose certificate is this one's too
	testenv.Tree(t, dir, "repos/")
	root := filepath.Join(dir, "repos")
	for _, args := range [][]string{{"init", "-q", "-b", "main", "--bare", root + "/repo.git"}, {"-C", root + "/repo.git", "config", "http.receivepack", "true"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	hits = new(atomic.Int32)
	handler := &cgi.Handler{Path: strings.TrimSpace(string(backend)) + "/git-http-backend", Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if user, password, _ := r.BasicAuth(); user != "me" || password != theToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			fmt.Fprintln(w, "served")
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String()), hits
}

// helper has git's credential helpers of the caller answer with a password.
func helper(t *testing.T, dir, password string) {
	t.Helper()
	config := "[credential]\n\thelper = \"!f() { [ $1 = get ] && echo username=me && echo password=" + password + "; }; f\"\n" +
		"[user]\n\tname = Me\n\temail = me@example.org\n"
	if err := os.WriteFile(filepath.Join(dir, "home/.gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGitCredential: git in a sandbox pushes and fetches with the caller's credential, which it does not have.
func TestGitCredential(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	at, hits := gitHost(t, dir)
	helper(t, dir, theToken)
	// What the project's configuration names is not executed outside. The control is git in that directory.
	planted := filepath.Join(dir, "planted")
	p := filepath.Join(dir, "p")
	testenv.Tree(t, p, ".git/objects/", ".git/refs/", ".git/HEAD: ref: refs/heads/main\n",
		".git/config: [core]\n\trepositoryformatversion = 0\n[credential]\n\thelper = \"!touch "+planted+"; :\"\n")
	control := exec.Command("git", "credential", "fill")
	control.Dir, control.Stdin = p, strings.NewReader("protocol=https\nhost=h\n\n")
	control.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0")
	_ = control.Run() // nobody has a password
	if err := os.Remove(planted); err != nil {
		t.Fatal(err)
	}
	rule := credential.Rule{Host: at.Addr().String(), Port: at.Port(), Git: true}
	push := fmt.Sprintf(`cd /tmp && git init -q -b main r && cd r && git -c user.name=Me -c user.email=me@example.org commit -q --allow-empty -m one &&
git push -q https://%s/repo.git main && git clone -q https://%[1]s/repo.git ../c && git -C ../c log --format=%%s; `, at)
	for _, c := range []struct {
		name   string
		answer nsrun.Answer
		env    []string
		want   string
	}{
		{"yes", nsrun.Allow, nil, "one\n0\n"},
		{"no", nsrun.Deny, nil, "0\n"},
		{"with a configuration", nsrun.Allow, []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=Other"}, "one\n0\nOther\n"},
		{"with a proxy", nsrun.Allow, []string{"http_proxy=http://192.0.2.1:1"}, "one\n0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &asking{answer: func(nsrun.Question) nsrun.Answer { return c.answer }}
			config := nsrun.Config{Project: p, After: nsrun.Discard, Approver: a, Credentials: []credential.Rule{rule}, Gateway: gateway.Gateway{}, Env: c.env}
			before := hits.Load()
			res, err := runner(t, config).Run(t.Context(), bash(push+search+`
[ -z "$GIT_CONFIG_KEY_2" ] || git config user.name`))
			if err != nil || res.Stdout.String() != c.want {
				t.Errorf("%s, %v", res, err)
			}
			if len(a.asked) != 1 || a.asked[0].Action != nsrun.ActionCredential || a.asked[0].Target != at.String() || !a.asked[0].Running {
				t.Errorf("asked %+v", a.asked)
			}
			if (hits.Load() == before) != (c.answer == nsrun.Deny) {
				t.Errorf("%d requests", hits.Load()-before)
			}
			if len(res.Services) != 1 || res.Services[0].Allowed != (c.answer == nsrun.Allow) {
				t.Errorf("%+v", res.Services)
			}
			if out, err := exec.Command("git", "-C", filepath.Join(dir, "repos/repo.git"), "update-ref", "-d", "refs/heads/main").CombinedOutput(); err != nil && c.answer == nsrun.Allow {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Error("a helper of the project's was executed outside")
	}
	// Nobody who can say yes, and nothing but git's requests.
	config := nsrun.Config{Project: p, After: nsrun.Discard, Credentials: []credential.Rule{rule}, Gateway: gateway.Gateway{}}
	before := hits.Load()
	if res, err := runner(t, config).Run(t.Context(), bash(push+"true")); err != nil || strings.Contains(res.Stdout.String(), "one") || hits.Load() != before {
		t.Errorf("%s, %v", res, err)
	}
	config.Approver = yes{}
	other := "BASE=$" + rule.Variable() + "; " + strings.ReplaceAll(getBase, "/v1/x", "/api/v1/user")
	if res, err := runner(t, config).Run(t.Context(), bash(other)); err != nil || !strings.HasPrefix(res.Stdout.String(), "HTTP/1.1 403") || hits.Load() != before {
		t.Errorf("%s, %v", res, err)
	}
}

// TestGitCredentialWrong: if the password is wrong, or if there is none, git in the sandbox does not ask for one.
func TestGitCredentialWrong(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	at, _ := gitHost(t, dir)
	rule := credential.Rule{Host: at.Addr().String(), Port: at.Port(), Git: true}
	config := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Approver: yes{}, Credentials: []credential.Rule{rule}, Gateway: gateway.Gateway{}}
	for _, c := range [][2]string{{"wrong", "403"}, {"", "502"}} {
		password, want := c[0], c[1]
		if password != "" {
			helper(t, dir, password)
		} else if err := os.Remove(filepath.Join(dir, "home/.gitconfig")); err != nil {
			t.Fatal(err)
		}
		res, err := runner(t, config).Run(t.Context(), bash("GIT_ASKPASS='touch asked' git ls-remote https://"+at.String()+"/repo.git; ls"))
		if err != nil || !strings.Contains(res.Stderr.String(), want) || strings.Contains(res.Stdout.String(), "asked") {
			t.Errorf("%q: %s, %v", password, res, err)
		}
	}
	// A git that commands could have put there is not used.
	testenv.Tree(t, dir, "p/git: #!/bin/sh\n")
	if err := os.Chmod(filepath.Join(dir, "p/git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "p")+":.:")
	if _, err := runner(t, config).Run(t.Context(), nsrun.Request{Args: []string{"/bin/true"}}); err == nil || !strings.Contains(err.Error(), "git is not installed") {
		t.Error(err)
	}
}
