//go:build linux

package nsrun_test

import (
	"testing"

	"github.com/nsrun/nsrun"
)

// TestSafeEnvURLs: users and passwords in URLs, in lists of them, and sessions of password managers do not pass.
func TestSafeEnvURLs(t *testing.T) {
	for kv, passes := range map[string]bool{
		"GOPROXY=https://u:p@h,direct": false, "GOPROXY=direct,https://u:p@h": false, "GOPROXY=https://proxy.example.org,direct": true,
		"PIP_EXTRA_INDEX_URL=https://a/simple https://u:p@b/simple": false, "PIP_EXTRA_INDEX_URL=https://a/simple https://b/simple": true,
		"URL=https://token@host/x": false, "URL=https://u:p/w@host": false, "URL=https://u:p@w@host": false, "URL=https://host:8080/x": true,
		"REPO=ssh://git@host/x": true, "REPO=git@host:x": true, "X=://": true, "X=a://": true, "X=://,": true,
		"BW_SESSION=x": false, "OP_SESSION_my=x": false, "XDG_SESSION_ID=1": true, "DESKTOP_SESSION=x": true,
	} {
		if got := len(nsrun.SafeEnv([]string{kv})) == 1; got != passes {
			t.Errorf("%s: passes %t", kv, got)
		}
	}
}
