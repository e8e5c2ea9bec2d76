//go:build linux

package main

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// printPatch prints what an execution changed; at and below path, if that is not empty.
func printPatch(out io.Writer, reg *project.Registry, e *project.Execution, path string) error {
	after, done := laterFiles(e)
	defer done()
	l := logPatch{Patch: textdiff.NewPatch(out), reg: reg, after: after}
	l.NoBinaries = true
	defer func() {
		sayFiles(l.unkept, "no version of %s was kept", "no versions of %s were kept")
		sayFiles(l.dropped, "the change of %s was dropped", "the changes of %s were dropped")
		sayFiles(l.gone, "the version of %s is no longer kept", "the versions of %s are no longer kept")
	}()
	for _, c := range e.Changes {
		if path != "" && !paths.Inside(c.Name(), path) {
			continue
		}
		if err := l.change(c); err != nil {
			return err
		}
	}
	return nil
}

// A logPatch is the patch of an execution.
type logPatch struct {
	*textdiff.Patch
	reg                   *project.Registry
	after                 func(project.Change) (*os.File, error)
	unkept, dropped, gone []string // files of which no change is printed
}

// change prints one change.
func (l *logPatch) change(c project.Change) error {
	switch {
	case c.Before == "":
		if c.Kind != project.Added && c.OldMode.IsRegular() {
			l.unkept = append(l.unkept, c.Name())
		}
		return nil
	case c.Dropped:
		l.dropped = append(l.dropped, c.Name())
		return nil
	}
	f := textdiff.File{OldPath: c.Path, NewPath: c.Path}
	if c.Kind != project.Added {
		old, err := l.reg.OpenBefore(c)
		if errors.Is(err, fs.ErrNotExist) {
			l.gone = append(l.gone, c.Name())
			return nil
		}
		if err != nil {
			return err
		}
		defer old.Close()
		f.OldMode = diff.GitMode(c.OldMode)
		if f.Old, err = fileContent(old); err != nil {
			return err
		}
	}
	if now, err := l.after(c); err == nil {
		defer now.Close()
		fi, err := now.Stat()
		if err != nil {
			return err
		}
		f.NewMode = diff.GitMode(fi.Mode())
		if f.New, err = fileContent(now); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		console.Say("%s", err)
		return nil
	}
	if f.OldMode == 0 && f.NewMode == 0 {
		return nil
	}
	if err := l.Add(f); err != nil {
		return errors.Join(err, l.Break())
	}
	return nil
}

// sayFiles prints one line about any number of files, and nothing about none.
func sayFiles(names []string, one, several string) {
	switch len(names) {
	case 0:
	case 1:
		console.Say(one, escape.Quote(names[0]))
	default:
		console.Say(several, escape.Quote(names[0])+" and "+console.Plural(len(names)-1, "other file"))
	}
}

func fileContent(f *os.File) (textdiff.Content, error) {
	fi, err := f.Stat()
	if err != nil {
		return textdiff.Content{}, err
	}
	return textdiff.Content{Size: fi.Size(), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, 0, fi.Size())), nil
	}}, nil
}

// laterFiles opens files as an execution left them: in its session, or, if that is gone, as they are in the project
// now.
func laterFiles(e *project.Execution) (open func(project.Change) (*os.File, error), done func()) {
	if e.Session != "" {
		if s, err := overlay.OpenReadOnly("", e.Session); err == nil {
			if s.State() == overlay.Kept {
				return func(c project.Change) (*os.File, error) {
					f, err := s.File(overlay.Change{Kind: c.Kind, Root: c.Root, Path: c.Path}, overlay.After)
					if errors.Is(err, unix.ENOTDIR) {
						err = fs.ErrNotExist // it went with its directory
					}
					return f, err
				}, func() { _ = s.Close() }
			}
			_ = s.Close()
		}
	}
	said := false
	return func(c project.Change) (*os.File, error) {
		if !said { // not where there is nothing to compare
			console.Say("%s is compared with the files as they are now", shortExecution(e.ID))
			said = true
		}
		fd, err := sys.Openat2(unix.AT_FDCWD, c.Name(), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0,
			unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
		if err == unix.ELOOP || err == unix.ENOTDIR {
			err = unix.ENOENT // something else took its place
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: c.Name(), Err: err}
		}
		f := os.NewFile(uintptr(fd), c.Name())
		if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
			_ = f.Close()
			return nil, &fs.PathError{Op: "open", Path: c.Name(), Err: cmp.Or(err, fs.ErrNotExist)}
		}
		return f, nil
	}, func() {}
}
