//go:build linux

package gateway

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/credential"
)

// TestGitRequests: nothing but what git requests of a repository is passed on with git's password.
func TestGitRequests(t *testing.T) {
	for request, want := range map[string]bool{
		"GET /me/repo.git/info/refs?service=git-upload-pack": true,
		"GET /me/repo/info/refs?service=git-receive-pack":    true,
		"POST /me/repo.git/git-upload-pack":                  true,
		"POST /a/b/c/~d/git-receive-pack":                    true,
		"POST /me/my%20project/_git/x/git-upload-pack":       true,
		"POST /me/repo.git/info/lfs/objects/batch":           true,
		"POST /me/repo.git/info/lfs/locks/verify":            true,
		"GET /":                      false,
		"GET /api/v1/user":           false,
		"GET /me/repo.git/info/refs": false,
		"GET /me/repo.git/info/refs?service=git-upload-pack&x=1":    false,
		"GET /me/repo.git/info/refs?service=other":                  false,
		"POST /me/repo.git/info/refs?service=git-upload-pack":       false,
		"GET /me/repo.git/git-upload-pack":                          false,
		"POST /git-upload-pack":                                     false,
		"POST /api/v1/user?x=/git-upload-pack":                      false,
		"POST /me/../api/v1/x/git-upload-pack":                      false,
		"POST /me/..%2fapi/git-upload-pack":                         false,
		"POST /me/%2e%2e/api/git-upload-pack":                       false,
		"POST /me/%2e./api/git-upload-pack":                         false,
		"POST /me/.../git-upload-pack":                              false,
		"POST /me//git-upload-pack":                                 false,
		"POST /api/v1/user%3f/git-upload-pack":                      false,
		"POST /api/v1/user%23/git-upload-pack":                      false,
		"POST /api/v1/user;/git-upload-pack":                        false,
		"POST /api/v1/user%5c/git-upload-pack":                      false,
		"POST /api/v1/user%00/git-upload-pack":                      false,
		"DELETE /me/repo.git/git-receive-pack":                      false,
		"GET /me/repo.git/info/refs?service=git-upload-pack%26x=1":  false,
		"POST http://elsewhere.example/me/repo.git/git-upload-pack": true, // it goes to the one host
	} {
		method, target := "GET", request[4:]
		switch request[0] {
		case 'P':
			method, target = "POST", request[5:]
		case 'D':
			method, target = "DELETE", request[7:]
		}
		if got := isGit(httptest.NewRequest(method, target, nil)); got != want {
			t.Errorf("%s: %t", request, got)
		}
	}
}

// TestGitHeaders: no header turns a git request into a request for something else. The control is a credential that is
// not limited to git: there the header arrives.
func TestGitHeaders(t *testing.T) {
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(slices.Sorted(maps.Keys(r.Header)), " "))
	})
	sent := map[string]string{
		"X-Original-URL": "/api/v1/user", "X-Rewrite-URL": "/api", "X-HTTP-Method-Override": "DELETE", "Cookie": "a=b", "X-Forwarded-Host": "other.example",
		"Upgrade": "websocket", "Connection": "Upgrade", "PRIVATE-TOKEN": "x", "Git-Protocol": "version=2", "Content-Type": "application/x-git-upload-pack-request",
	}
	at := netip.MustParseAddrPort(strings.TrimPrefix(h.URL, "https://"))
	git := serveRoute(t, credential.Route{
		Rule:   credential.Rule{Host: at.Addr().String(), Port: at.Port(), Git: true},
		Secret: func(context.Context) (string, error) { return "me:" + secret, nil },
	})
	for _, c := range []struct {
		address string
		want    string
	}{
		{git, "Accept-Encoding Authorization Content-Length Content-Type Git-Protocol User-Agent"},
		{open(t, h, ""), "Accept-Encoding Authorization Connection Content-Length Content-Type Cookie Git-Protocol Private-Token Upgrade User-Agent " +
			"X-Http-Method-Override X-Original-Url X-Rewrite-Url"},
	} {
		r := request(t, "POST", "http://"+c.address+"/me/repo.git/git-upload-pack", io.NopCloser(strings.NewReader("0000")))
		r.ContentLength = 4
		for name, value := range sent {
			r.Header.Set(name, value)
		}
		if answer := fetch(t, r); !strings.HasSuffix(answer, "\n"+c.want) {
			t.Error(answer)
		}
	}
}
