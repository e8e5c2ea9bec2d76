package nsexec_test

import "github.com/nsrun/nsrun/mounts"

func tmpfs(at string) mounts.Mount { return mounts.Tmpfs(at) }
