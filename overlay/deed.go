//go:build linux

package overlay

import (
	"strconv"

	"github.com/nsrun/nsrun/overlay/internal/store"
)

// A Deed is something that was done about a session's changes, and can be taken back.
type Deed uint8

// The deeds. Zero: there is nothing to take back.
const (
	NoDeed      Deed = iota
	CommitDeed       // changes were committed
	DropDeed         // changes were dropped
	DiscardDeed      // all that was left was discarded
)

var deedNames = [...]string{NoDeed: "nothing", CommitDeed: "commit", DropDeed: "drop", DiscardDeed: "discard"}

// String returns "nothing", "commit", "drop" or "discard".
func (d Deed) String() string {
	if int(d) >= len(deedNames) {
		return "deed(" + strconv.Itoa(int(d)) + ")"
	}
	return deedNames[d]
}

// lastDeed is what Undo takes back.
func lastDeed(m *store.Meta) Deed {
	n := len(m.Dropped)
	drop := n > 0 && m.Dropped[n-1].After == m.LastTx() && (m.State != store.Discarded || m.Thrown)
	switch {
	case m.State == store.Discarded && m.Thrown && !(drop && m.Dropped[n-1].Ended):
		return DiscardDeed
	case drop:
		return DropDeed
	case len(m.Done) > 0:
		return CommitDeed
	}
	return NoDeed
}
