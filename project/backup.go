//go:build linux

package project

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

const (
	editedName = "edited"
	tempName   = "temp-files"
	newPrefix  = ".new-" // of what is not complete yet

	dateLayout = "06-01-02"

	// nameMost is how long a name of ours is at most, in bytes: encrypting file systems take no more than 143.
	nameMost = 140
)

func isDate(s string) bool {
	t, err := time.Parse(dateLayout, s)
	return err == nil && t.Format(dateLayout) == s
}

// backupName is {id}-{YY-MM-DD}-{basename}.
func backupName(id uint64, date, path string) string {
	return fitName(strconv.FormatUint(id, 10)+"-"+date+"-", filepath.Base(path))
}

// fitName puts a prefix and the end of a name that somebody else chose together: without what a terminal would act on,
// and not too long. The prefix tells such names apart, so what gets lost here matters to nobody but readers.
func fitName(prefix, base string) string {
	base = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, base)
	if most := nameMost - len(prefix); len(base) > most {
		ext := filepath.Ext(base) // what tells people and editors its type
		if len(ext) > 16 {
			ext = ""
		}
		cut := base[:most-len(ext)]
		for len(cut) > 0 && !utf8.ValidString(cut) {
			cut = cut[:len(cut)-1]
		}
		base = cut + ext
	}
	return prefix + base
}

func parseBackup(name string) (id uint64, date string, ok bool) {
	digits, rest, _ := strings.Cut(name, "-")
	id, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || id == 0 || digits != strconv.FormatUint(id, 10) || len(rest) < len("YY-MM-DD-x") ||
		len(name) > nameMost || rest[8] != '-' || strings.ContainsAny(name, "/\x00") {
		return 0, "", false
	}
	return id, rest[:8], isDate(rest[:8])
}

// isBefore reports whether name is one of a before-version: {n}-{basename}.
func isBefore(name string) bool {
	digits, rest, ok := strings.Cut(name, "-")
	n, err := strconv.ParseUint(digits, 10, 31)
	return ok && err == nil && digits == strconv.FormatUint(n, 10) && rest != "" && len(name) <= nameMost && !strings.ContainsAny(name, "/\x00")
}

// A vault is a directory in which copies appear when they are complete, and on disk. Until flush they have no names.
type vault struct {
	d       *dir
	waiting []waiting
	dirty   bool // names that are not on disk
}

type waiting struct {
	f         *os.File
	temp, end string
	done      func(there bool, size int64, err error)
}

// vaultMost bounds how many descriptors wait.
const vaultMost = 64

// has reports whether there is such a copy, and how large it is.
func (v *vault) has(name string) (size int64, ok bool, err error) {
	st, err := v.d.lstat(name)
	if err == unix.ENOENT {
		return 0, false, nil
	}
	if err == nil {
		err = owned(&st, unix.S_IFREG)
	}
	return st.Size, err == nil, err
}

// add copies src. done is called when the copy has its name: there says that somebody
// else's copy had it already, and that one stays.
func (v *vault) add(ctx context.Context, name string, src *os.File, done func(there bool, size int64, err error)) {
	w := waiting{temp: newPrefix + sys.RandomText(8), end: name, done: done}
	var err error
	if w.f, err = v.d.file(w.temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL); err != nil {
		done(false, 0, err)
		return
	}
	if _, err = sys.CopyData(ctx, w.f, src); err == nil {
		// Writing begins now, and flush waits for all of it together.
		err = unix.SyncFileRange(int(w.f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
			err = nil
		}
	}
	if err != nil {
		_ = w.f.Close()
		_ = v.d.unlink(w.temp, 0)
		done(false, 0, err)
		return
	}
	if v.waiting = append(v.waiting, w); len(v.waiting) == vaultMost {
		v.name()
	}
}

// name gives names to the copies that wait.
func (v *vault) name() {
	for _, w := range v.waiting {
		there := false
		var st unix.Stat_t
		err := sys.Fsync(int(w.f.Fd()))
		if err == nil {
			err = unix.Fstat(int(w.f.Fd()), &st)
		}
		_ = w.f.Close()
		if err == nil {
			err = sys.RenameNew(int(v.d.fd), w.temp, int(v.d.fd), w.end)
			v.dirty = v.dirty || err == nil
		}
		if err == unix.EEXIST {
			there = true
			if st, err = v.d.lstat(w.end); err == nil {
				err = owned(&st, unix.S_IFREG)
			}
		}
		if err != nil || there {
			_ = v.d.unlink(w.temp, 0)
		}
		w.done(there, st.Size, err)
	}
	v.waiting = nil
}

// flush names what waits, and returns when names and contents are on disk.
func (v *vault) flush() error {
	v.name()
	if !v.dirty {
		return nil
	}
	v.dirty = false
	return v.d.sync()
}

func (v *vault) close() {
	for _, w := range v.waiting {
		_ = w.f.Close()
		_ = v.d.unlink(w.temp, 0)
	}
	v.d.close()
}

// tooLarge says which limit was exceeded.
type tooLarge struct {
	what       string
	size, most int64
}

func (e *tooLarge) Error() string {
	return fmt.Sprintf("%d bytes, and %s are at most %d", e.size, e.what, e.most)
}
