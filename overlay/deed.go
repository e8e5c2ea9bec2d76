package overlay

import (
	"strconv"
)

// A Deed is an operation on a session's changes that Undo can take back.
type Deed uint8

// The deeds. The zero Deed is NoDeed: there is nothing to take back.
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
