package gateway

import (
	"net/http"
	"strings"
)

// gitRequests are what git requests of a repository (gitprotocol-http(5)), and git-lfs: the end of the path, the method, and
// the values of the parameter service, of which there is no other.
var gitRequests = [...]struct {
	path, method string
	services     []string
}{
	{"/info/refs", http.MethodGet, []string{"git-upload-pack", "git-receive-pack"}},
	{"/git-upload-pack", http.MethodPost, nil},
	{"/git-receive-pack", http.MethodPost, nil},
	{"/info/lfs/objects/batch", http.MethodPost, nil},
	{"/info/lfs/locks/verify", http.MethodPost, nil},
}

// isGit reports whether a request is one of those. A host can have other services with the same password.
func isGit(r *http.Request) bool {
	path := r.URL.EscapedPath()
	for _, g := range gitRequests {
		repository, ok := strings.CutSuffix(path, g.path)
		if !ok || r.Method != g.method || !isRepository(repository) {
			continue
		}
		if g.services == nil {
			return r.URL.RawQuery == ""
		}
		for _, service := range g.services {
			if r.URL.RawQuery == "service="+service {
				return true
			}
		}
	}
	return false
}

// isRepository reports whether a path can be nothing but that of a repository: no server takes it for another one.
func isRepository(path string) bool {
	names := strings.Split(path, "/")
	if len(names) < 2 || names[0] != "" {
		return false
	}
	for _, name := range names[1:] {
		name = strings.ReplaceAll(name, "%20", "-")
		if strings.Trim(name, ".") == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+@") != "" {
			return false
		}
	}
	return true
}
