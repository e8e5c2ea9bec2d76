//go:build linux

package tx

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
