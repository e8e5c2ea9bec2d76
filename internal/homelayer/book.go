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

// A book says which runs what is in the layer is of, as far as runs are being merged. It is written before anything is
// moved, so that whoever goes on after a crash knows it as well.
type book struct {
	file *os.File
	runs map[string][]string // by paths below the home directory, the last one last; of a directory, for what is in it
}

// mostSmall is how much of a file of nsrun's own is read.
const mostSmall = 64 << 20

// recordEnd ends a record of the book: the run, a zero byte and the path.
const recordEnd = "\x00\x00"

// openBook opens the book, and reads what is there of it. A record that is not complete is cut off.
func openBook(runs sys.FD) (*book, error) {
	f, err := sys.OwnFile(runs, movedName, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND)
	if err != nil {
		return nil, err
	}
	b := &book{f, make(map[string][]string)}
	text, err := io.ReadAll(io.LimitReader(b.file, mostSmall))
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

// write adds what is about to be moved as a run's: names in a directory, whose path ends with a slash.
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

// of is the last run that something is of, but for one; empty: of none.
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

// readSmall reads a file of nsrun's own; one that is missing is empty.
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
