//go:build linux

package main

import (
	"fmt"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// finishInterrupted is tellRecovered, and finishes interrupted restorations, too.
func finishInterrupted() {
	finishRestorations()
	tellRecovered()
}

// tellRecovered finishes or rolls back interrupted operations on sessions, which opening a session does as well, and
// says so.
func tellRecovered() {
	for r, err := range overlay.Recover("") {
		if text := recoveredText(r, err); text != "" {
			console.Say("%s", text)
		}
	}
}

// finishRestorations removes what an interrupted nsrun restore left in a project.
func finishRestorations() {
	reg := project.Open(project.Options{})
	reg.Recover()
	_ = reg.Close()
}

// recoveredText says what became of an interrupted session. Empty: there is nothing to say.
func recoveredText(r overlay.Recovered, err error) string {
	switch {
	case r.ID == "": // the state directory: the next one that opens it reports the error
		return ""
	case err != nil:
		return fmt.Sprintf("session %s was interrupted, and stays so: %s", r.ID, err)
	case r.What == "":
		return ""
	}
	return fmt.Sprintf("session %s was interrupted: %s", r.ID, r.What)
}
