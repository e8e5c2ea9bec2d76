package nsexec

import (
	"errors"
	"math/bits"
	"strings"

	"github.com/syndtr/gocapability/capability"
)

// Capabilities is a set of capabilities, see capabilities(7); bit n is the
// capability with number n. The zero value is the empty set.
type Capabilities uint64

// ErrCapability says that there is no capability of that name.
var ErrCapability = errors.New("unknown capability")

// AllCapabilities are those that this kernel knows.
func AllCapabilities() Capabilities {
	return Capabilities(1)<<(uint(capability.CAP_LAST_CAP)+1) - 1
}

// ParseCapabilities parses names with or without "CAP_", in any case, separated
// by commas, or "all".
func ParseCapabilities(s string) (set Capabilities, err error) {
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "cap_")
		if name == "all" {
			set |= AllCapabilities()
			continue
		}
		found := false
		for _, c := range capability.List() {
			if c.String() == name {
				set |= 1 << uint(c)
				found = true
			}
		}
		if !found {
			return 0, &Error{Op: "capability", Path: name, Err: ErrCapability}
		}
	}
	return set, nil
}

// String is the set as names, in the order of their numbers.
func (c Capabilities) String() string {
	var names []string
	for v := uint64(c); v != 0; v &= v - 1 {
		names = append(names, "cap_"+capability.Cap(bits.TrailingZeros64(v)).String())
	}
	return strings.Join(names, ",")
}
