package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// gitRequests are the requests of git (gitprotocol-http(5)) and git-lfs to a repository: the end of the path, the
// method, and the values of service, the only parameter. Nil: no parameter.
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

// isGit reports whether a request is one of gitRequests. The host may have other services with the same password.
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

// gitHeaders are the headers of these requests. Others could turn them into other requests: some servers and proxies
// take the path or the method from a header (X-Original-URL, X-HTTP-Method-Override), and some headers change the
// protocol.
var gitHeaders = [...]string{
	"Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Git-Protocol", "Pragma", "User-Agent",
}

func onlyGit(h http.Header) {
	for name := range h {
		if !slices.Contains(gitHeaders[:], name) {
			delete(h, name)
		}
	}
}

// isRepository reports whether a path can only be that of a repository: no server reads it as another path.
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
