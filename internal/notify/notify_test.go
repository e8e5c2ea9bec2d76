//go:build linux

package notify

import (
	"testing"
	"time"
)

// TestRoom: a connect that has waited for long is not tried often, because each try takes time of this process.
func TestRoom(t *testing.T) {
	tries := 0
	for waited := time.Duration(0); waited < 10*time.Second; waited += Room(waited) {
		tries++
	}
	if Room(0) > LookEvery/2 || tries > 120 {
		t.Errorf("the first wait is %v; %d tries in ten seconds", Room(0), tries)
	}
}
