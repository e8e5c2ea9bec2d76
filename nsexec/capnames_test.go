//go:build linux

package nsexec

import (
	"testing"

	"github.com/syndtr/gocapability/capability"
)

func TestCapabilityNames(t *testing.T) {
	for _, c := range capability.List() {
		if int(c) >= len(capNames) || capNames[c] != c.String() {
			t.Errorf("capability %d is called %q elsewhere", c, c)
		}
	}
	for n := range maxCaps {
		if known := AllCapabilities()&(1<<n) != 0; known != (n <= int(capability.CAP_LAST_CAP)) {
			t.Errorf("capability %d: known %v", n, known)
		}
	}
}
