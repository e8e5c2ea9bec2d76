//go:build linux

package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/pathrule"
)

var errWholeHost = errors.New("nsrun would have to search the whole file system: name a directory before **")

// Glob finds the existing paths that a pattern matches, sorted, except those that skip reports, and those in a
// directory that was found. It follows no symbolic link after the pattern's Base.
func Glob(p *pathrule.Pattern, skip func(path string) bool) ([]string, error) {
	base, literal := p.Base()
	switch {
	case literal && (!Exists(base) || skip(base)):
		return nil, nil
	case literal:
		return []string{base}, nil
	case base == "/" && p.Deep():
		return nil, errWholeHost
	}
	return globFrom(globDir{base, p.Start()}, p, skip)
}

func globFrom(dir globDir, p *pathrule.Pattern, skip func(path string) bool) ([]string, error) {
	w := &globWalk{pattern: p, skip: skip, queue: []globDir{dir}, open: 1}
	w.more = sync.NewCond(&w.mu)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(w.work)
	}
	wg.Wait()
	slices.Sort(w.found)
	return w.found, w.err
}

// Meant are the existing paths that a rule's text matches.
func Meant(text string) []string {
	p, err := pathrule.Parse(text, Variable(Home()))
	if err != nil {
		return nil
	}
	list, _ := Glob(&p, func(string) bool { return false })
	return list
}

// Nothing reports whether a rule's text is valid and matches no existing path.
func Nothing(text string) bool {
	p, err := pathrule.Parse(text, Variable(Home()))
	if err != nil {
		return false
	}
	list, err := Glob(&p, func(string) bool { return false })
	return err == nil && len(list) == 0
}

// globDir is a directory, and how much of the pattern has matched there.
type globDir struct {
	path  string
	state pathrule.State
}

// globWalk lists directories side by side.
type globWalk struct {
	pattern *pathrule.Pattern
	skip    func(string) bool

	mu    sync.Mutex
	more  *sync.Cond
	queue []globDir
	open  int // directories that are not done
	found []string
	err   error
}

func (w *globWalk) work() {
	buf := make([]byte, 64<<10)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && w.open > 0 {
			w.more.Wait()
		}
		if w.open == 0 {
			return
		}
		dir := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		w.mu.Unlock()
		var found []string
		var dirs []globDir
		err := eachEntry(dir.path, buf, func(name []byte, isDir func() bool) {
			state := w.pattern.Step(dir.state, string(name))
			if state == 0 {
				return
			}
			if w.pattern.Matches(state) {
				if path := join(dir.path, name); !w.skip(path) {
					found = append(found, path)
					return
				}
			}
			if w.pattern.More(state) && isDir() {
				dirs = append(dirs, globDir{join(dir.path, name), state})
			}
		})
		w.mu.Lock()
		if w.err == nil {
			w.err = err
		}
		w.found, w.queue = append(w.found, found...), append(w.queue, dirs...)
		w.open += len(dirs) - 1
		if len(dirs) > 0 || w.open == 0 {
			w.more.Broadcast()
		}
	}
}

func join(dir string, name []byte) string {
	if dir == "/" {
		return dir + string(name)
	}
	return dir + "/" + string(name)
}

// eachEntry calls f for each entry of a directory. A directory that does not exist any more, that is not one, or that
// nobody may enter, has no entries.
func eachEntry(dir string, buf []byte, f func(name []byte, isDir func() bool)) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP:
		return nil
	case err == unix.EACCES && !mayAs(dir, unix.X_OK):
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", escape.Quote(dir), err)
	}
	defer unix.Close(fd)
	for {
		size, err := unix.ReadDirent(fd, buf)
		if err != nil {
			return fmt.Errorf("list %s: %w", escape.Quote(dir), err)
		}
		if size <= 0 {
			return nil
		}
		for b := buf[:size]; len(b) > 0; {
			const reclen, kind, text = 16, 18, 19 // in struct linux_dirent64
			n := int(binary.NativeEndian.Uint16(b[reclen:]))
			name, _, _ := bytes.Cut(b[text:n], []byte{0})
			kindOf := b[kind]
			b = b[n:]
			if s := string(name); s == "." || s == ".." {
				continue
			}
			f(name, func() bool {
				var st unix.Stat_t
				return kindOf == unix.DT_DIR || kindOf == unix.DT_UNKNOWN &&
					unix.Fstatat(fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
			})
		}
	}
}
