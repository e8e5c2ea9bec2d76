//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
)

// workDir is os.Getwd, and refuses a path that is too long for system calls.
func workDir() (string, error) {
	wd, err := os.Getwd()
	if errors.Is(err, unix.ENAMETOOLONG) || len(wd) >= unix.PathMax {
		err = advice.With(os.NewSyscallError("getwd", unix.ENAMETOOLONG), "the current directory is too deep; try: cd DIR")
	}
	return wd, err
}

// projectAround is the project around a directory. It follows no links that commands can have created, except those
// through which the shell came here.
func projectAround(dir string) (string, error) {
	if here, err := os.Getwd(); err == nil && here == dir {
		dir = physical(dir)
	}
	real, err := trustedDir(dir)
	if err != nil {
		return "", err
	}
	return nsrunlib.FindProject(real), nil
}

// fromHere is filepath.Abs, but begins at the physical working directory, not at $PWD, which may contain links.
func fromHere(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(physical(""), name)
	}
	return filepath.Abs(name)
}

// physical returns the current directory's path without symbolic links, or otherwise if that is unknown.
func physical(otherwise string) string {
	if dir, err := os.Readlink("/proc/self/cwd"); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}

// trusted resolves a path, but follows no link that commands can have created.
func trusted(path string) (string, error) {
	w := links.Written{Dirs: func() []string {
		// Without git, the current directory is a project, but usually not a whole home directory.
		here := nsrunlib.FindProject(physical("/"))
		for _, home := range nsrunlib.Homes() {
			if paths.Inside(home, here) {
				return nil
			}
		}
		return []string{here}
	}}
	return links.Resolve(path, w.Suspect)
}

// trustedDir is trusted, with an error that names the path.
func trustedDir(path string) (string, error) {
	real, err := trusted(path)
	if errno, bare := err.(unix.Errno); bare {
		err = &fs.PathError{Op: "open", Path: path, Err: errno}
	}
	return real, err
}

// realPath makes a path absolute, and resolves its symbolic links.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// here returns the current directory without symbolic links. It is an error if the directory does not exist.
func here() (string, error) {
	wd, err := workDir()
	if err == nil {
		wd, err = realPath(wd)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.NewSyscallError("getwd", unix.ENOENT)
	}
	return wd, err
}

// filePath is the absolute path that a word means, with symbolic links in its directory resolved; the file itself may
// be deleted.
func filePath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	dir, rest := filepath.Dir(abs), filepath.Base(abs)
	if abs == "/" {
		return abs, nil
	}
	for {
		real, err := realPath(dir)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !os.IsNotExist(err) || dir == "/" {
			return "", &fs.PathError{Op: "find", Path: abs, Err: err}
		}
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
}
