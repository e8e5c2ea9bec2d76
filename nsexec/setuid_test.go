//go:build linux

package nsexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestSetIDsMeanwhile: a program changes its ids, which the Go runtime has every thread do, while a launcher is
// started. Neither waits for the other one without end.
func TestSetIDsMeanwhile(t *testing.T) {
	leaks(t)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), helperVars("setids")...)
	end := time.AfterFunc(testenv.Patience, func() { _ = c.Process.Kill() })
	defer end.Stop()
	if out, err := c.CombinedOutput(); err != nil || string(out) != "fine\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// helpSetIDs is that program. It sets the ids that it has.
func helpSetIDs([]string) int {
	defer nsexec.Shutdown()
	ended := make(chan error)
	go func() {
		var err error
		for range 10 {
			nsexec.Shutdown()
			if err = shell("true").Run(); err != nil {
				break
			}
		}
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				fmt.Println(err)
				return 1
			}
			fmt.Println("fine")
			return 0
		default:
			if err := syscall.Setresuid(-1, -1, -1); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	}
}
