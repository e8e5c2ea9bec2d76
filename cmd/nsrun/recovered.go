//go:build linux

package main

import (
	"fmt"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
)

// tellRecovered finishes or rolls back interrupted operations, which opening a session does as well, and says so.
func tellRecovered() {
	for r, err := range overlay.Recover("") {
		if text := recoveredText(r, err); text != "" {
			console.Say("%s", text)
		}
	}
}

// recoveredText is empty if there is nothing to say about a session.
func recoveredText(r overlay.Recovered, err error) string {
	switch {
	case r.ID == "": // the state directory: whoever opens it next has to say it
		return ""
	case err != nil:
		return fmt.Sprintf("session %s was interrupted, and stays so: %s", r.ID, err)
	case r.What == "":
		return ""
	}
	return fmt.Sprintf("session %s was interrupted: %s", r.ID, r.What)
}
