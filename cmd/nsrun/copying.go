//go:build linux

package main

import (
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
)

// copying returns a function to be called as the copy of the project proceeds, which can take long. It shows how far
// that is, and meanwhile a signal stops the start at once. The second function is to be called when the command was
// started, or was not.
func (r *runner) copying() (progress func(overlay.Progress), end func()) {
	bar := console.NewBar("copying the project", r.o.quiet)
	show := bar.Progress()
	end = func() {
		if r.copies.Swap(false) {
			bar.End()
		}
	}
	return func(p overlay.Progress) {
		if p.Total > 0 {
			end()
			return
		}
		r.copies.Store(true)
		if show != nil {
			show(p)
		}
	}, end
}
