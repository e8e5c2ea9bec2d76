package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultDir returns where sessions are kept unless Options.Dir says otherwise:
// $XDG_STATE_HOME/nsrun/sessions, or ~/.local/state/nsrun/sessions.
func DefaultDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // the specification says to ignore others
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &Error{Op: "find state directory", Err: err}
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "nsrun", "sessions"), nil
}

// openStateDir opens the directory that holds the sessions and returns its path
// without symbolic links. With create, what is missing is made, mode 0700.
//
// Whoever owns a directory on the way could put another one in its place, so
// each must belong to root or to the caller, and if everybody can write to it
// it must be sticky, as /tmp is. The directory itself must be the caller's.
func openStateDir(dir string, create bool) (path string, h *handle, err error) {
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return "", nil, err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, &Error{Op: "open state directory", Path: dir, Err: err}
	}
	// Links on the way are the user's business (/home may be one), but the last
	// name must not be one, and what is made is made below no link.
	var missing []string
	existing := filepath.Dir(dir)
	for {
		p, err := resolveLinks(existing)
		if err == nil {
			existing = p
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || existing == "/" {
			return "", nil, &Error{Op: "open state directory", Path: existing, Err: bare(err)}
		}
		missing = append(missing, filepath.Base(existing))
		existing = filepath.Dir(existing)
	}
	slices.Reverse(missing)
	missing = append(missing, filepath.Base(dir))

	path = "/"
	h, err = openAbs("/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", nil, &Error{Op: "open state directory", Path: path, Err: err}
	}
	top, err := h.stat()
	if err != nil {
		h.close()
		return "", nil, &Error{Op: "open state directory", Path: path, Err: err}
	}
	step := func(name string, make bool) error {
		path = filepath.Join(path, name)
		open := func() (*handle, error) {
			return openat2(h.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0,
				unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
		}
		next, err := open()
		if err == unix.ENOENT && make {
			if err = unix.Mkdirat(h.fd, name, 0o700); err == nil || err == unix.EEXIST {
				next, err = open()
			}
		}
		if err != nil {
			return err
		}
		h.close()
		h = next
		st, err := h.stat()
		if err != nil {
			return err
		}
		// In a user namespace root's files may seem to be nobody's: then "/"
		// seems so as well.
		if !st.owned() && st.uid != 0 && st.uid != top.uid {
			return fmt.Errorf("it belongs to user %d: %w", st.uid, unix.EPERM)
		}
		if st.mode&0o002 != 0 && st.mode&unix.S_ISVTX == 0 {
			return fmt.Errorf("everybody can write to it: %w", unix.EPERM)
		}
		return nil
	}
	for name := range strings.SplitSeq(strings.Trim(existing, "/"), "/") {
		if name == "" {
			continue
		}
		if err := step(name, false); err != nil {
			h.close()
			return "", nil, &Error{Op: "open state directory", Path: path, Err: err}
		}
	}
	for _, name := range missing {
		if err := step(name, create); err != nil {
			h.close()
			return "", nil, &Error{Op: "open state directory", Path: path, Err: err}
		}
	}
	last, err := openOwned(h, ".")
	h.close()
	if err != nil {
		return "", nil, &Error{Op: "open state directory", Path: path, Err: err}
	}
	return path, last, nil
}

// resolveLinks is filepath.EvalSymlinks, but for links that somebody else put into a
// directory that all can write to: what fs.protected_symlinks is against
// (proc_sys_fs(5)), which resolving in user space, and some hosts, do without.
func resolveLinks(path string) (string, error) {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		var st, dir unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return "", err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", unix.ELOOP
		}
		if err := unix.Lstat(at, &dir); err != nil {
			return "", err
		}
		const shared = unix.S_ISVTX | unix.S_IWOTH
		if dir.Mode&shared == shared && st.Uid != dir.Uid && st.Uid != uint32(unix.Geteuid()) {
			return "", fmt.Errorf("%s is a link of user %d's: %w", next, st.Uid, unix.EPERM)
		}
		text, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(text) {
			at = "/"
		}
		rest = append(strings.Split(text, "/"), rest...)
	}
	return at, nil
}

// openOwned opens a directory that must be the caller's own and writable by
// nobody else.
func openOwned(at *handle, name string) (*handle, error) {
	h, err := at.openDir(name)
	if err != nil {
		return nil, err
	}
	st, err := h.stat()
	switch {
	case err != nil:
	case !st.owned():
		err = fmt.Errorf("it belongs to user %d: %w", st.uid, unix.EPERM)
	case st.mode&0o022 != 0:
		err = fmt.Errorf("others can write to it: %w", unix.EPERM)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

const (
	timeLayout = "20060102T150405Z"
	idChars    = 8
)

// newName returns a session's name: its time of creation and a random part.
func newName(created time.Time) string {
	return created.UTC().Format(timeLayout) + "-" + randomText(idChars)
}

// isName reports whether name could be a session's.
func isName(name string) bool {
	t, id, ok := strings.Cut(name, "-")
	if !ok || len(id) < 6 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return false
	}
	_, err := time.Parse(timeLayout, t)
	return err == nil
}

// sessionNames lists the sessions in a state directory, the oldest first; those
// of one second in no certain order.
func sessionNames(state *handle) ([]string, error) {
	all, err := state.names()
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(n string) bool { return !isName(n) })
	slices.Sort(names)
	return names, nil
}

// shortest is how many characters of a session's random part mean it.
const shortest = 4

// findSession returns the name of the session that id means: its name, its
// beginning, its end or the beginning of its random part, both of at least four
// characters, or "last".
func findSession(state *handle, id string) (string, error) {
	names, err := sessionNames(state)
	if err != nil {
		return "", err
	}
	if id == "last" {
		return lastSession(state, names)
	}
	var found []string
	for _, n := range names {
		if n == id {
			return n, nil
		}
		_, random, _ := strings.Cut(n, "-")
		long := len(id) >= shortest // what is shorter was meant as something else, such as a path
		if strings.HasPrefix(n, id) || long && (strings.HasPrefix(random, id) || strings.HasSuffix(n, id)) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 0 || id == "":
		return "", fmt.Errorf("no such session: %w", fs.ErrNotExist)
	case len(found) > 1:
		return "", fmt.Errorf("more than one session is meant: %s", shortList(found))
	}
	return found[0], nil
}

// lastSession returns the newest of names, which are sorted.
func lastSession(state *handle, names []string) (string, error) {
	if len(names) == 0 {
		return "", fmt.Errorf("no sessions: %w", fs.ErrNotExist)
	}
	last := names[len(names)-1]
	second, _, _ := strings.Cut(last, "-")
	var newest time.Time
	for _, n := range slices.Backward(names) {
		if !strings.HasPrefix(n, second) {
			break
		}
		dir, err := openOwned(state, n)
		if err != nil {
			continue
		}
		m, err := readMeta(dir)
		dir.close()
		if err == nil && m.Created.After(newest) {
			last, newest = n, m.Created
		}
	}
	return last, nil
}
