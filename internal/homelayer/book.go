//go:build linux

package homelayer

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A book records which run each object in the layer came from while runs are merged. It is written before anything is
// moved, so that a merge can continue after a crash.
type book struct {
	file *os.File
	runs map[string][]string // by paths below the home directory, the last one last; of a directory, for what is in it
}

// recordEnd ends a record: the run, a zero byte and the path.
const recordEnd = "\x00\x00"

// openBook opens and reads the book, and cuts off an incomplete record.
func openBook(runs sys.FD) (*book, error) {
	f, err := sys.OwnFile(runs, movedName, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND)
	if err != nil {
		return nil, err
	}
	b := &book{f, make(map[string][]string)}
	text, err := io.ReadAll(b.file) // all of it: what is not read would be cut off
	if err == nil {
		whole := strings.LastIndex(string(text), recordEnd) + len(recordEnd)
		if whole < len(recordEnd) {
			whole = 0
		}
		text, err = text[:whole], b.file.Truncate(int64(whole))
	}
	if err != nil {
		b.close()
		return nil, err
	}
	for record := range strings.SplitSeq(string(text), recordEnd) {
		if run, path, ok := strings.Cut(record, "\x00"); ok {
			b.runs[path] = append(b.runs[path], run)
		}
	}
	return b, nil
}

func (b *book) close() { _ = b.file.Close() }

// write records names in a directory, whose path ends with a slash, that are about to be moved as a run's.
func (b *book) write(run, at string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var text strings.Builder
	for _, name := range names {
		text.WriteString(run + "\x00" + at + name + recordEnd)
		b.runs[at+name] = append(b.runs[at+name], run)
	}
	_, err := b.file.WriteString(text.String())
	return err
}

// of is the last run, other than but, that wrote a path; empty: none did.
func (b *book) of(path, but string) string {
	for {
		for _, run := range slices.Backward(b.runs[path]) {
			if run != but {
				return run
			}
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return ""
		}
		path = path[:i]
	}
}

// mostSmall is how much readSmall reads.
const mostSmall = 64 << 20

// readSmall reads a file of nsrun's own; a missing one is empty.
func readSmall(dir sys.FD, name string) (string, error) {
	f, err := openAt(dir, name, unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	file := os.NewFile(uintptr(f), name)
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, mostSmall))
	return string(b), err
}
