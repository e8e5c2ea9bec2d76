//go:build linux

package nettest

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	Main()
	testenv.Main(m)
}

func TestControls(t *testing.T) {
	testenv.Leaks(t)
	World(t)
	tried, opened, groups := Controls(t)
	t.Logf("%d tries, %d other sockets, %d groups", tried, opened, groups)
	if groups < 15 {
		t.Errorf("only %d groups were joined", groups)
	}
	if tried < 120 {
		t.Errorf("only %d tries", tried)
	}
}
