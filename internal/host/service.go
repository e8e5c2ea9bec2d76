//go:build linux

package host

import (
	"errors"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay"
)

// socketDir is the directory of the sockets of services, beside that of the sessions: no command sees it.
func socketDir() (string, error) {
	state, err := overlay.DefaultDir()
	return filepath.Join(filepath.Dir(state), "sockets"), err
}

// abandoned is the age at which the file of a socket will not be mounted any more.
const abandoned = time.Hour

// longestName is how long a name in sockaddr_un can be.
const longestName = 107

// ServiceSocket makes a socket for a service, and the mount that shows it at target in a sandbox. Its file is in a
// directory that no other program uses. Call remove, which removes the file, when the sandbox has been made: from then
// on the socket has a name in that sandbox only.
func ServiceSocket(target string) (l *net.UnixListener, m mounts.Mount, remove func(), err error) {
	n, err := NameSocket()
	if err != nil {
		return nil, m, nil, &plan.Error{Op: "make socket", Path: target, Err: err}
	}
	address := filepath.Join(n.Dir, n.Name)
	if len(address) > longestName {
		address = sys.ProcPath(int(n.dir)) + "/" + n.Name
	}
	if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"}); err == nil {
		l.SetUnlinkOnClose(false)
		if m, err = n.Mount(target); err != nil {
			_ = l.Close()
		}
	}
	if err != nil {
		n.Remove()
		return nil, m, nil, &plan.Error{Op: "make socket", Path: target, Err: sys.Bare(err)}
	}
	return l, m, n.Remove, nil
}

// A SocketName is a free name for a socket, in a directory that no other program uses.
type SocketName struct {
	Dir, Name string
	dir       sys.FD
}

// NameSocket finds one. Call Remove when the sandbox has been made.
func NameSocket() (SocketName, error) {
	named, err := socketDir()
	if err != nil {
		return SocketName{}, err
	}
	dir, real, err := owndir.Open(named, true)
	if err != nil {
		return SocketName{}, err
	}
	sweep(int(dir))
	return SocketName{real, sys.RandomText(16), dir}, nil
}

// Mount shows the socket, which must exist by now, at target in a sandbox.
func (n *SocketName) Mount(target string) (mounts.Mount, error) {
	m, err := Bind(filepath.Join(n.Dir, n.Name), false)
	m.Target = target
	return m, err
}

func (n *SocketName) Remove() {
	_ = unix.Unlinkat(int(n.dir), n.Name, 0)
	n.dir.Close()
}

// sweep removes the files of programs that were killed before they could remove them.
func sweep(dir int) {
	names, _ := sys.Names(dir, make([]byte, 4<<10))
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK &&
			time.Since(time.Unix(st.Ctim.Unix())) > abandoned {
			_ = unix.Unlinkat(dir, name, 0)
		}
	}
}

// ServicePoint is the path at which commands see the socket of a service. Without the host's /run there is no private
// directory.
func ServicePoint(name string, run bool) string {
	if run {
		return path.Join("/run/nsrun", name)
	}
	return path.Join("/tmp/.nsrun", name)
}

// A Socket is a unix socket of the host, held by a descriptor: if its file is replaced later, this is still the old
// one.
type Socket struct{ file *os.File }

func HoldSocket(name string, suspect func(dir string) bool) (*Socket, error) {
	return holdSocket("use socket", name, suspect)
}

func holdSocket(op, name string, suspect func(dir string) bool) (*Socket, error) {
	fail := func(err error) (*Socket, error) {
		return nil, &plan.Error{Op: op, Path: name, Err: sys.Bare(err)}
	}
	if !filepath.IsAbs(name) {
		return fail(plan.ErrNotAbsolute)
	}
	real, err := links.Resolve(name, suspect)
	if err != nil {
		return fail(err)
	}
	fd, err := sys.Openat2(unix.AT_FDCWD, real, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return fail(err)
	}
	f := os.NewFile(uintptr(fd), real)
	fi, err := f.Stat()
	if err == nil && fi.Mode()&os.ModeSocket == 0 {
		err = errors.New("not a socket")
	}
	if err != nil {
		_ = f.Close()
		return fail(err)
	}
	return &Socket{f}, nil
}

// File is its file, opened as a path.
func (s *Socket) File() *os.File { return s.file }

func (s *Socket) Dial() (net.Conn, error) {
	return net.Dial("unix", sys.ProcPath(int(s.file.Fd())))
}

func (s *Socket) Close() { _ = s.file.Close() }

// Trusted resolves a file of at most most bytes. No command can have created a link to it or written the file.
func Trusted(name string, most int64, suspect func(dir string) bool) (string, error) {
	f, err := openTrusted(name, most, suspect)
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// ReadTrusted reads such a file; suspect is nil if Trusted returned the path.
func ReadTrusted(name string, most int64, suspect func(dir string) bool) ([]byte, error) {
	f, err := openTrusted(name, most, suspect)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

func openTrusted(name string, most int64, suspect func(dir string) bool) (*os.File, error) {
	real := name
	if suspect != nil {
		var err error
		if real, err = links.Resolve(name, suspect); err != nil {
			return nil, err
		}
		if suspect(filepath.Dir(real)) {
			return nil, errors.New("commands can write to it")
		}
	}
	fd, err := sys.Openat2(unix.AT_FDCWD, real, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), real)
	fi, err := f.Stat()
	switch {
	case err != nil:
	case !fi.Mode().IsRegular():
		err = errors.New("not a regular file")
	case fi.Size() > most:
		err = errors.New("too large")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Program finds a program along PATH, ignoring directories in which commands can have put something.
func Program(name string, suspect func(dir string) bool) (program, path string, err error) {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		real, err := links.Resolve(dir, suspect)
		if err != nil || suspect(real) {
			continue
		}
		dirs = append(dirs, dir)
		file := filepath.Join(real, name)
		if fi, err := os.Stat(file); program == "" && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			program = file
		}
	}
	if program == "" {
		return "", "", errors.New(name + " is not installed")
	}
	return program, strings.Join(dirs, string(filepath.ListSeparator)), nil
}
