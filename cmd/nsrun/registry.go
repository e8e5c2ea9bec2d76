package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// What verbs tell the registry. It stops none of them: what fails is said, and all goes on.

// backupReport is a backup in the report.
type backupReport struct {
	Path   string `json:"path"`
	Backup string `json:"backup"`
}

// tellRegistry calls tell with the registry, and says what went wrong. Who has no home
// directory has no registry.
func tellRegistry(tell func(context.Context, nsrunlib.Registry) error) {
	if _, _, err := project.DefaultDirs(); err != nil {
		return
	}
	reg := project.Open(project.Options{})
	err := tell(context.Background(), nsrunlib.Registry{Registry: reg})
	if cerr := reg.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		say("registry: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// registerCommit tells the registry what is in the project now.
func registerCommit(s *overlay.Session) {
	tellRegistry(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Committed(ctx, s) })
}

// registerUndo tells the registry that changes were taken out of the project again.
func registerUndo(s *overlay.Session, changes []overlay.Change) {
	tellRegistry(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Undone(ctx, s.ID(), changes) })
}

// registerDiscard tells the registry that a session's changes are no more.
func registerDiscard(id string) {
	tellRegistry(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Discarded(ctx, id) })
}

// filePath is the absolute path that a word means, without symbolic links on the way; what
// is deleted has one too.
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
