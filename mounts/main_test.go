//go:build linux

package mounts_test

import (
	"testing"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

func TestMain(m *testing.M) {
	testenv.AllNeedNamespaces()
	testenv.Main(m, nsexec.Shutdown)
}

// TestExamples says where the examples cannot be run.
func TestExamples(t *testing.T) {
	testenv.Examples(t, func() {
		if f := features.Get(features.Overlay); f.Status == features.No {
			testenv.Skip(t, string(f.Name), f.Why)
		}
	})
}
