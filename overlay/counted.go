//go:build linux

package overlay

import (
	"context"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// counted calls do, with a context that tells the function of WithProgress what is done.
func counted(ctx context.Context, do func(context.Context) error) error {
	f, _ := ctx.Value(progressKey{}).(func(Progress))
	if f == nil {
		return do(ctx)
	}
	var p Progress
	err := do(tree.Counting(ctx, func(size int64) {
		p.Done++
		p.Bytes += size
		f(p)
	}))
	if p.Total = p.Done; p.Done > 0 {
		f(p)
	}
	return err
}
