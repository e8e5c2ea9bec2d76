//go:build linux

package configfile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/paths"
)

// A Query is what configuration is wanted for.
type Query struct {
	Places   Places
	Projects []string // absolute paths; relative paths in their files lie below the first
	WorkDir  string   // where the user is, without links; empty, or outside of the projects: it does not count
	Command  []string // empty: any
	Flags    *config.Layer
	Without  map[string]bool // places of values, file:line:column, that are taken as if they were not there
}

// A Read is one file that was read.
type Read struct {
	Path   string
	Source config.Source
	Trust  Trustworthiness // of a project's
	Near   bool            // it is the file of a directory above a project, or between that and the working directory
	Layer  *config.Layer
	Errors []*config.Error
}

// Trustworthiness says whether the user trusts a project's file.
type Trustworthiness uint8

const (
	NotTrusted Trustworthiness = iota
	Changed                    // another content was trusted
	IsTrusted
)

// Files reads all files that there are. What is wrong in one is in its Errors.
func Files(home string, q Query) (list []Read, err error) {
	f := &config.Facts{Home: home, Command: q.Command}
	if len(q.Projects) > 0 {
		f.Project = q.Projects[0]
	}
	add := func(r Read, data []byte, err error) {
		if err != nil {
			hint := hint(r, err)
			if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path != r.Path {
				err = errors.New(escape.Quote(e.Path) + ": " + e.Err.Error())
			} else if ok {
				err = e.Err
			}
			r.Errors = []*config.Error{{Pos: config.Pos{File: escape.Quote(r.Path)}, Text: err.Error(), Hint: hint}}
		} else if data == nil {
			return
		} else {
			facts := *f
			if r.Near {
				facts.Project = filepath.Dir(r.Path)
			}
			r.Layer, r.Errors = config.Decode(escape.Quote(r.Path), r.Source, data, &facts)
			if r.Layer != nil && r.Source == config.Project {
				r.Layer.Strict = r.Trust != IsTrusted
				r.Layer.Protect(escape.Quote(r.Path), r.Path)
			}
		}
		list = append(list, r)
	}
	for _, own := range [...]Read{{Path: q.Places.System, Source: config.System}, {Path: q.Places.User, Source: config.User}} {
		if own.Path != "" {
			data, err := readOwn(own.Path, own.Source == config.User, q.Projects)
			add(own, data, err)
		}
	}
	near := func(list []string) {
		for _, path := range list {
			data, err := ReadProject(path)
			add(Read{Path: path, Source: config.Project, Near: true}, data, err)
		}
	}
	near(above(q.Projects))
	for _, project := range q.Projects {
		r := Read{Path: filepath.Join(project, ProjectName), Source: config.Project}
		data, err := ReadProject(r.Path)
		if err == nil && data != nil {
			var trusted string
			switch trusted, err = trustOf(r.Path); {
			case trusted == Hash(data):
				r.Trust = IsTrusted
			case trusted != "":
				r.Trust = Changed
			}
		}
		add(r, data, err)
	}
	near(q.between())
	return list, nil
}

// A command can choose which directory is the project: it makes a repository in the one in which the user works, or
// removes the one around that. So the files of the directories above a project count, and of those in it, around the
// working directory.

// above are the paths of the files above projects, from the outermost to the innermost.
func above(projects []string) (list []string) {
	for _, project := range projects {
		for d := project; d != filepath.Dir(d); {
			if d = filepath.Dir(d); !links.Own(d) {
				break
			}
			if name := filepath.Join(d, ProjectName); links.Own(name) && !slices.Contains(list, name) && !slices.Contains(projects, d) {
				list = append(list, name)
			}
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return list
}

// between are the paths of the files in a project around the working directory, from the outermost to the innermost.
func (q *Query) between() (list []string) {
	in := func(d string) bool {
		return slices.ContainsFunc(q.Projects, func(p string) bool { return d != p && paths.Inside(d, p) })
	}
	for d := q.WorkDir; in(d); d = filepath.Dir(d) {
		if name := filepath.Join(d, ProjectName); links.Own(name) && !slices.Contains(q.Projects, d) {
			list = append(list, name)
		}
	}
	slices.Reverse(list)
	return list
}

// Load merges what files and flags say. The policy is nil if there are no files. Notes are lines about what was left
// out.
func Load(home string, q Query) (p *config.Policy, notes []string, err error) {
	files, err := Files(home, q)
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, nil
	}
	var layers []*config.Layer
	for _, file := range files {
		if len(file.Errors) > 0 {
			return nil, nil, file.Errors[0]
		}
		file.Layer.Leave(q.Without)
		layers = append(layers, file.Layer)
	}
	p, err = config.Merge(layers, q.Flags, &config.Facts{Command: q.Command})
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		if file.Source != config.Project || file.Trust == IsTrusted || file.Near {
			continue
		}
		for _, left := range p.Left {
			if left.Pos.File != escape.Quote(file.Path) {
				continue
			}
			why := "the file is not trusted"
			if file.Trust == Changed {
				why = "the file changed since it was trusted"
			}
			notes = append(notes, left.Error()+": "+why+" (try: nsrun trust "+escape.Command([]string{file.Path})+")")
			break // one line for each file
		}
	}
	return p, notes, nil
}

// hint is what to do about an error. Empty: unknown.
func hint(r Read, err error) string {
	path := r.Path
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path = e.Path
	}
	fi, staterr := os.Lstat(path)
	owner := "root"
	if r.Source != config.System {
		owner = strconv.Itoa(os.Geteuid())
	}
	switch {
	case errors.Is(err, unix.EACCES) && r.Source == config.User:
		return "try: export XDG_CONFIG_HOME=DIR, with a directory that you can read"
	case staterr != nil || !fi.IsDir() && !fi.Mode().IsRegular(): // such as a device that a link leads to
		return ""
	case errors.Is(err, unix.EACCES):
		return "try: chmod a+r " + escape.Command([]string{path})
	case errors.Is(err, owndir.ErrWritable):
		return "try: chmod go-w " + escape.Command([]string{path})
	case errors.Is(err, owndir.ErrForeign):
		return "try: chown " + owner + " " + escape.Command([]string{path})
	}
	return ""
}
