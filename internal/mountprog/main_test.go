//go:build linux

package mountprog_test

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.MainOnce(m) }
