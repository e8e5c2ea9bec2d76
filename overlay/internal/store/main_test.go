//go:build linux

package store

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
