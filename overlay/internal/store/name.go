//go:build linux

package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
)

const (
	timeLayout = "20060102T150405Z"
	idChars    = 8
)

// NewName returns a session's name: its time of creation and a random part.
func NewName(created time.Time) string {
	return created.UTC().Format(timeLayout) + "-" + sys.RandomText(idChars)
}

// IsName reports whether name could be a session's.
func IsName(name string) bool {
	t, id, ok := strings.Cut(name, "-")
	if !ok || len(id) < 6 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return false
	}
	_, err := time.Parse(timeLayout, t)
	return err == nil
}

// UpperName and WorkName are paths in the session's directory.
func UpperName(i int) string { return "upper/overlay" + strconv.Itoa(i+1) }

func WorkName(i int) string { return "work/overlay" + strconv.Itoa(i+1) }

// MemName is the directory of a session on which only the sandbox sees the session's tmpfs.
const MemName = "mem"

const (
	NewPrefix  = ".new-"
	GonePrefix = ".gone-"
)
