package mounts

import (
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxMirrored is how many names a directory may have to be mirrored.
const maxMirrored = 4096

// CreateMountPoints returns a Plan that creates targets that are missing below a read-only bind, in the sandbox only.
// It mirrors the directory that lacks them: a tmpfs in its place, in which everything that the directory holds is bound
// again. It uses the host's files as they are now. It does not create targets whose parents are symbolic links.
func (p Plan) CreateMountPoints() (Plan, error) {
	var readOnly Plan // at the end, mirrors become what they stand for
	for i := 0; i < len(p); i++ {
		mirror, at, err := p.mirror(i)
		if err != nil {
			return nil, err
		}
		if mirror == nil {
			continue
		}
		readOnly = append(readOnly, Remount(mirror[0].Target))
		p = append(append(append(Plan(nil), p[:at+1]...), mirror...), p[at+1:]...)
		i = at // what was inserted, and what comes after it, is looked at again
	}
	return append(p, readOnly...), nil
}

// mirror returns the steps to insert after step at, so that the target of step i can be made; nil: none.
func (p Plan) mirror(i int) (steps Plan, at int, err error) {
	m := &p[i]
	switch m.Kind {
	case KindChmod, KindRemount, KindBlock:
		return nil, 0, nil // which make nothing
	}
	target := path.Clean(m.Target)
	at = -1
	for j := range p[:i] {
		switch p[j].Kind {
		case KindBind, KindTmpfs, KindOverlay, KindProc, KindDev:
			if t := path.Clean(p[j].Target); t == "/" || strings.HasPrefix(target, t+"/") {
				at = j
			}
		}
	}
	if at < 0 || p[at].Kind != KindBind || !p[at].ReadOnly {
		return nil, 0, nil
	}
	cover := &p[at]
	below := strings.TrimPrefix(strings.TrimPrefix(target, path.Clean(cover.Target)), "/")
	source, inside := path.Clean(cover.Source), path.Clean(cover.Target)
	for rest, more := below, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		info, err := os.Lstat(path.Join(source, name))
		if os.IsNotExist(err) {
			steps, err = mirrored(cover, source, inside)
			return steps, at, err
		}
		if err != nil || more && !info.IsDir() {
			return nil, 0, nil // the set-up will say what is wrong
		}
		source, inside = path.Join(source, name), path.Join(inside, name)
	}
	return nil, 0, nil
}

// mirrored are the steps that show what is in source at target, in a directory that can be written to.
func mirrored(cover *Mount, source, target string) (Plan, error) {
	fail := func(err error) (Plan, error) {
		if pe, ok := err.(*fs.PathError); ok {
			err = pe.Err
		}
		return nil, &Error{"mirror", source, err}
	}
	info, err := os.Stat(source)
	if err != nil {
		return fail(err)
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return fail(err)
	}
	if len(entries) > maxMirrored {
		return fail(errManyNames)
	}
	steps := Plan{Tmpfs(target).WithPerm(info.Mode() & (fs.ModePerm | fs.ModeSticky | fs.ModeSetgid))}
	for _, e := range entries {
		from, to := path.Join(source, e.Name()), path.Join(target, e.Name())
		if e.Type() == fs.ModeSymlink {
			text, err := os.Readlink(from)
			if err != nil {
				return fail(err)
			}
			steps = append(steps, Symlink(text, to))
			continue
		}
		bind := *cover
		bind.Source, bind.Target, bind.Optional = from, to, true // it may go meanwhile
		bind.Same, bind.Onto = FileID{}, FileID{}
		steps = append(steps, bind)
	}
	return steps, nil
}
