//go:build linux

package nsexec_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/nsrun/nsrun/nsexec"
)

// TestShutdownAtAnyTime: Shutdown while commands are being started hurts none of
// them.
func TestShutdownAtAnyTime(t *testing.T) {
	leaks(t)
	n := 60
	if testing.Short() {
		n = 10
	}
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for range n {
				c := nsexec.Command("true")
				c.Mounts = base()
				if err := c.Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	var shutdowns sync.WaitGroup
	shutdowns.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				nsexec.Shutdown()
			}
		}
	})
	starts.Wait()
	close(done)
	shutdowns.Wait()
}

// TestReadyLate: a sandbox that takes too long to be made in advance is given up. The next command used to get it, and
// its reports could not be read.
func TestReadyLate(t *testing.T) {
	leaks(t)
	if err := nsexec.ReadyLate(); !errors.Is(err, context.Canceled) {
		t.Errorf("it is ready: %v", err)
	}
}
