//go:build linux

package main

import (
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
)

// tellServices says which uses of services were refused without a question.
func (r *runner) tellServices() {
	if r.o.quiet {
		return
	}
	told := 0
	for _, u := range r.services {
		if u.Allowed || u.Reason == "" {
			continue
		}
		if told++; told > mostDenied {
			console.Say("more uses of services were refused: --report lists them")
			return
		}
		about := u.About
		if about != "" {
			about = " " + about
		}
		console.Say("%s: the use of %s%s was refused: %s", u.Service, u.Target, about, u.Reason)
	}
}
