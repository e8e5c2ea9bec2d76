//go:build linux

package mounts_test

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

func TestMain(m *testing.M) { testenv.Main(m, nsexec.Shutdown) }
