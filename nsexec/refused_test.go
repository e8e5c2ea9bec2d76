//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// helpRefused gives up a sandbox that was refused, and says what became of another process.
func helpRefused([]string) int {
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, value := range []uint32{0, 1<<32 - 1, 1<<32 - 2} { // as numbers of 32 bits: -1 and -2
		if err := nsexec.CloseRefused(value); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	_ = other.Process.Signal(os.Interrupt) // unless it was killed before
	fmt.Println(other.Wait())
	return 0
}

// TestRefusedIsNotKilled: killing a process that was never cloned kills nothing. With -1 as its process id, kill(2)
// ended every process that the caller may send a signal to. The test runs where these are few.
func TestRefusedIsNotKilled(t *testing.T) {
	leaks(t)
	c := helper("refused")
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "signal: interrupt\n" {
		t.Errorf("%s%v", out, err)
	}
}

// TestUnclonedEnds: a start for which no process can be cloned fails at once. Nobody waits for what this process itself
// still has open.
func TestUnclonedEnds(t *testing.T) {
	leaks(t)
	for _, launched := range []bool{false, true} {
		ended := make(chan error, 1)
		go func() { ended <- nsexec.StartUncloned(launched) }()
		select {
		case err := <-ended:
			if !errors.Is(err, syscall.EPERM) {
				t.Errorf("launched %v: %v", launched, err)
			}
		case <-time.After(testenv.Patience):
			t.Fatalf("launched %v: it waits", launched)
		}
	}
}
