//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/plan"
)

// place is where all is made: $TMPDIR, or a directory for caches where a sandbox has something of its own in the place
// of $TMPDIR. There home directories would last no longer than a command, and each command would find its caches empty.
func place() (string, error) {
	dir, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil || !plan.Private(dir+"/") {
		return dir, err
	}
	cache := "/var/cache"
	if os.Getuid() != 0 {
		if cache, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	if cache, err = filepath.EvalSymlinks(cache); err != nil {
		return "", err
	}
	if plan.Private(cache + "/") {
		return "", fmt.Errorf("sandboxes have something of their own at %s and %s: $TMPDIR has to be elsewhere", dir, cache)
	}
	return cache, nil
}
