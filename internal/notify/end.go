//go:build linux

package notify

import "time"

// Patience is how long the end of a command waits for calls that are still being handled. One can be about a file on a
// file system that does not answer, and then nobody can end it. It is a variable for tests.
var Patience = 2 * time.Second

// Ended waits until end returns, and reports whether it has. After Patience it does not wait any longer. Then calls
// later, when end has returned.
func Ended(end, then func()) bool {
	done := make(chan struct{})
	go func() {
		end()
		close(done)
	}()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-done:
		then()
		return true
	case <-late.C:
		go func() {
			<-done
			then()
		}()
		return false
	}
}
