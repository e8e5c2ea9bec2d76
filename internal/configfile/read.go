//go:build linux

package configfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
)

const ProjectName = ".nsrun.toml"

// Places are where files are. An empty one is left out.
type Places struct{ System, User string }

// DefaultPlaces are /etc/nsrun/config.toml, and $XDG_CONFIG_HOME/nsrun/config.toml or the same in ~/.config.
func DefaultPlaces() Places {
	p := Places{System: filepath.Join(host.SystemConfigDir, "config.toml")}
	if dir := host.ConfigDir(host.Home()); dir != "" {
		p.User = filepath.Join(dir, "config.toml")
	}
	return p
}

// readOwn reads a file that only root, or with user also the caller, can have written. It is nil if there is none.
func readOwn(path string, user bool, written []string) ([]byte, error) {
	n, err := open(path)
	switch err {
	case nil:
		unix.Close(n)
	case unix.ENOENT, unix.ENOTDIR:
		return nil, nil
	case unix.ELOOP:
		if path, err = throughLinks(path, written); err != nil || path == "" {
			return nil, err
		}
	}
	fd, err := owndir.OpenFile(path, user)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer fd.Close()
	return content(fd)
}

// open opens a file that no symbolic link leads to.
func open(path string) (int, error) {
	return sys.Openat2(unix.AT_FDCWD, path, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS)
}

// throughLinks is where a path leads, which must not be through or to what commands can have written. Empty: nowhere.
func throughLinks(path string, written []string) (string, error) {
	suspect := host.Written{Dirs: written}.Suspect()
	real, err := links.Resolve(path, suspect)
	switch {
	case err == unix.ENOENT, err == unix.ENOTDIR:
		return "", nil
	case err != nil:
		return "", err
	case suspect(filepath.Dir(real)):
		return "", fmt.Errorf("it leads to %s, which a command in a sandbox could have written", escape.Quote(real))
	}
	return real, nil
}

// content reads a file that is open. The decoder refuses what is longer than config.MaxSize.
func content(fd sys.FD) ([]byte, error) {
	return fd.ReadAll(make([]byte, 4096), config.MaxSize)
}

// ReadProject reads the file of a project, whoever wrote it. It is nil if there is none.
func ReadProject(path string) ([]byte, error) {
	n, err := sys.Openat2(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0, unix.RESOLVE_NO_SYMLINKS)
	fd := sys.FD(n)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR:
		return nil, nil
	case unix.ELOOP:
		return nil, errors.New("it is a symbolic link, but must be a regular file")
	default:
		return nil, err
	}
	defer fd.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("not a regular file")
	}
	return content(fd)
}
