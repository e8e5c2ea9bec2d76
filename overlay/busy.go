package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// errBusy is wrapped where somebody else holds a session.
var errBusy = errors.New("the session is in use")

// errGone is that a session was removed, maybe a moment ago.
var errGone = fmt.Errorf("it was removed: %w", fs.ErrNotExist)

// shortList keeps a message readable; the whole list is in the error's fields.
func shortList(list []string) string {
	const most = 5
	if len(list) == 0 {
		return "nothing"
	}
	if len(list) > most {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}
