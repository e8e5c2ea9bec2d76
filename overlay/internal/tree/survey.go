//go:build linux

package tree

import (
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// A Survey is what was found at the top of a root. A session keeps it for its next listing, as long as the root has the
// same names. Decisions need a new one, and so do changes below a directory in the root.
type Survey struct {
	at    Stat     // of the root, before
	Names []string // the wanted ones
	Maybe []string // directories that may have a name
	Keep  bool     // a later listing can use it, see Still
}

// ClockStep is in how long steps file systems count at most that have no fractions of a second. Each such step ends
// where a step of this length ends.
const ClockStep = 2 * time.Second

// SurveyAge returns how long before a survey the root must have changed last, at ctime, so that a later change gets
// another time: some file systems count in steps of two seconds. Those that count fractions of a second take the time
// of the last tick of the clock, at most 10 ms ago. It is a variable for tests.
var SurveyAge = func(ctime int64) time.Duration {
	if ctime%int64(time.Second) == 0 {
		return ClockStep
	}
	return 100 * time.Millisecond
}

// SurveyOf surveys a directory: it looks for names in it, and for a name in the directories in it. It uses up to so
// many goroutines.
func SurveyOf(d Dir, name string, want func(string) bool, workers int) (*Survey, error) {
	real, ok := d.(*realDir)
	if !ok {
		list, err := d.Names()
		sv := &Survey{Maybe: list}
		for _, name := range list {
			if want(name) {
				sv.Names = append(sv.Names, name)
			}
		}
		return sv, err
	}
	sv, err := &Survey{}, error(nil)
	if sv.at, err = real.h.Stat(); err != nil {
		return nil, err
	}
	var dirs []string
	err = real.h.eachEntry(func(name string, typ byte) {
		if want(name) {
			sv.Names = append(sv.Names, name)
		}
		if typ == unix.DT_DIR || typ == unix.DT_UNKNOWN {
			dirs = append(dirs, name)
		}
	})
	sv.Maybe = real.h.holding(dirs, name, workers)
	sv.Keep = time.Since(time.Unix(0, sv.at.Ctime)) >= SurveyAge(sv.at.Ctime)
	return sv, err
}

// Still reports whether the directory has the names that it had.
func (sv *Survey) Still(d Dir) bool {
	real, ok := d.(*realDir)
	if !ok {
		return false
	}
	st, err := real.h.Stat()
	return err == nil && st.Dev == sv.at.Dev && st.Ino == sv.at.Ino && st.Ctime == sv.at.Ctime
}

// eachEntry calls yield for each entry of the directory h, with its type (unix.DT_DIR and the like). Some file systems
// always say DT_UNKNOWN. Many names share their memory.
func (h *Handle) eachEntry(yield func(name string, typ byte)) error {
	if _, err := unix.Seek(int(h.FD), 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		n := 0
		if err := sys.Retry(func() (err error) { n, err = unix.ReadDirent(int(h.FD), buf); return err }); err != nil {
			return err
		}
		if n <= 0 {
			return nil
		}
		// A struct linux_dirent64: inode, offset, length, type, and a name that ends in a zero byte.
		for left := string(buf[:n]); len(left) > 19; {
			size := int(binary.NativeEndian.Uint16([]byte(left[16:18])))
			name := left[19:size]
			if name = name[:strings.IndexByte(name, 0)]; name != "." && name != ".." {
				yield(name, left[18])
			}
			left = left[size:]
		}
	}
}

// FewDirs is how many directories are not worth another thread.
const FewDirs = 128

// holding returns those of the directories in h that may have a name. It needs one call for each,
// which follows links, so it finds too many rather than too few.
func (h *Handle) holding(dirs []string, name string, workers int) (list []string) {
	workers = max(1, min(workers, len(dirs)/FewDirs))
	found := make([][]string, workers)
	part := (len(dirs) + workers - 1) / workers
	look := func(k int) {
		for _, dir := range dirs[k*part : min((k+1)*part, len(dirs))] {
			if !h.lacks(dir, name) {
				found[k] = append(found[k], dir)
			}
		}
	}
	var wg sync.WaitGroup
	for k := 1; k < workers; k++ {
		wg.Go(func() { look(k) })
	}
	look(0)
	wg.Wait()
	for _, l := range found {
		list = append(list, l...)
	}
	return list
}

// lacks reports whether there is certainly nothing at dir/name in h.
func (h *Handle) lacks(dir, name string) bool {
	var buf [512]byte
	at := append(append(append(buf[:0], dir...), '/'), name...)
	_, err := h.lstat(&append(at, 0)[0])
	return err == unix.ENOENT || err == unix.ENOTDIR
}
