//go:build linux

package nsrun

import (
	"regexp"
	"sync"
)

// lazyPattern compiles a regular expression when it is first used. All together take a tenth of a millisecond, which
// each start of the program would pay.
func lazyPattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
