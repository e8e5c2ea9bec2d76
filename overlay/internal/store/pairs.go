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

// ScratchName is the directory of a session that holds what was written to
// scratch overlays.
const ScratchName = "scratch"

// MakePair makes an upper and a work directory, and returns their number.
func MakePair(at *tree.Handle) (n int, err error) {
	for n = 1; ; n++ {
		err := at.Mkdir(ScratchUpper(n))
		if err == unix.EEXIST {
			continue
		}
		if err == nil {
			// The process that removed an earlier pair may have been killed meanwhile.
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
// directories are there for the next ones: those that nothing was written to, if there are
// no others.
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

// clearPair makes a pair of directories be as new, and reports whether it can: not if something
// was written, or given to the directory itself, or if the kernel has noted what it was over.
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
	// A mark of the kernel's in it says that what was written may not be on disk.
	return true, tree.RemoveTree(at, ScratchWork(n)+"/work")
}

// IsMark reports whether an attribute is one of these marks of overlayfs.
func IsMark(attr string, marks ...string) bool {
	mark, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(attr, "trusted."), "user."), "overlay.")
	return ok && slices.Contains(marks, mark)
}
