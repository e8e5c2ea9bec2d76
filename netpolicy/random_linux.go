package netpolicy

import "github.com/nsrun/nsrun/internal/sys"

func fill(b []byte) error { return sys.Random(b) }
