//go:build linux

package store

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// ScratchName is the directory of a session for writes to scratch overlays.
const ScratchName = "scratch"

// MakePair makes an upper and a work directory, and returns their number.
func MakePair(at *tree.Handle) (n int, err error) {
	for n = 1; ; n++ {
		err := at.Mkdir(ScratchUpper(n))
		if err == unix.EEXIST {
			continue
		}
		if err == nil {
			// A process may have been killed while it removed an earlier pair.
			err = tree.RemoveTree(at, ScratchWork(n))
		}
		if err == nil {
			err = at.Mkdir(ScratchWork(n))
		}
		return n, err
	}
}

func ScratchUpper(n int) string { return ScratchName + "/upper" + strconv.Itoa(n) }
func ScratchWork(n int) string  { return ScratchName + "/work" + strconv.Itoa(n) }

// ClearScratch removes what was written to scratch overlays, and returns how many pairs of
// directories the next ones can use: all of them if nothing was written to any, else none.
func ClearScratch(at *tree.Handle) (n int, err error) {
	for n = 0; ; n++ {
		clean, err := clearPair(at, n+1)
		if err == unix.ENOENT {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if !clean {
			return 0, tree.RemoveTree(at, ScratchName)
		}
	}
}

// clearPair makes a pair of directories as good as new, and reports whether it could. It cannot if something was
// written, if the directory itself was changed, or if the kernel noted its lower layer.
func clearPair(at *tree.Handle, n int) (bool, error) {
	up, err := at.OpenDir(ScratchUpper(n))
	if err != nil {
		return false, err
	}
	defer up.Close()
	st, err := up.Stat()
	if err != nil || int(st.UID) != os.Geteuid() {
		return false, err
	}
	names, err := up.Names()
	if err != nil || len(names) > 0 {
		return false, err
	}
	attrs, err := up.XattrNames()
	if err != nil || slices.ContainsFunc(attrs, func(a string) bool { return !IsMark(a, "impure", "uuid") }) {
		return false, err
	}
	// The kernel's mark in it says that what was written may not be on disk.
	return true, tree.RemoveTree(at, ScratchWork(n)+"/work")
}

// IsMark reports whether an attribute is one of these marks of overlayfs.
func IsMark(attr string, marks ...string) bool {
	mark, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(attr, "trusted."), "user."), "overlay.")
	return ok && slices.Contains(marks, mark)
}
