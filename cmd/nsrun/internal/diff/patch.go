//go:build linux

package diff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay"
)

// WritePatch writes a patch for git apply. It contains what git knows of a change: contents, symbolic links, and
// whether a file is executable. It omits what git would refuse, because git then refuses the whole patch. Standard
// error says what the patch lacks. The changes must be in one root.
func WritePatch(w io.Writer, s *overlay.Session, changes []overlay.Change) error {
	if roots := rootsOf(changes); len(roots) > 1 {
		return usage.Errorf("diff", "the changes are in %d roots, and a patch is for one: name one of %s",
			len(roots), strings.Join(roots, ", "))
	}
	p := patcher{p: textdiff.NewPatch(w), s: s, umask: umask(), uid: os.Geteuid(), room: mostContents,
		made: map[string]bool{}, removed: map[string]bool{}, blocked: map[string]bool{}, links: map[string]bool{}}
	err := p.write(changes)
	if err == nil {
		err = p.emptied(changes)
	}
	if err != nil {
		return errors.Join(err, p.p.Break())
	}
	for _, n := range p.notes {
		console.Say("not in the patch: %s", n)
	}
	if n := p.p.Written(); n > textdiff.MaxGitPatch {
		console.Say("the patch has %d bytes, and git apply takes %d at most", n, textdiff.MaxGitPatch)
	}
	return nil
}

func rootsOf(changes []overlay.Change) (list []string) {
	for _, c := range changes {
		if r := escape.Quote(c.Root); len(list) == 0 || list[len(list)-1] != r {
			list = append(list, r)
		}
	}
	return list
}

// umask returns this process's umask, with which git apply will create files.
func umask() fs.FileMode {
	m := unix.Umask(0o077)
	unix.Umask(m)
	return fs.FileMode(m)
}

// A patcher writes changes to a patch.
type patcher struct {
	p     *textdiff.Patch
	s     *overlay.Session
	umask fs.FileMode
	uid   int
	notes []*note
	left  int   // how many things the patch lacks
	room  int64 // how many bytes of contents it may still get

	made, removed map[string]bool // directories below which the patch writes a file, or deletes one
	blocked       map[string]bool // paths where git cannot create an object
	links         map[string]bool // links that become directories
}

// A note is one kind of thing that the patch lacks.
type note struct {
	one, many string // "empty directory", "empty directories"
	names     []string
}

// mostContents limits the contents of a patch, in bytes: git apply reads files into memory, and a sparse file can have
// any size.
const mostContents = 4 << 30

// mostNames limits the names in a note. If there are more, it says only how many.
const mostNames = 10

func (n *note) String() string {
	if len(n.names) == 1 {
		return n.one + ": " + n.names[0]
	}
	text := fmt.Sprintf("%d %s", len(n.names), n.many)
	if len(n.names) <= mostNames {
		text += ": " + strings.Join(n.names, ", ")
	}
	return text
}

// lacks notes that the patch lacks something about c.
func (p *patcher) lacks(c overlay.Change, detail, one, many string) {
	p.left++
	i := slices.IndexFunc(p.notes, func(n *note) bool { return n.one == one })
	if i < 0 {
		i = len(p.notes)
		p.notes = append(p.notes, &note{one: one, many: many})
	}
	name := c.Path
	if c.Mode.IsDir() {
		name += "/"
	}
	name = escape.Quote(name)
	if detail != "" {
		name += " (" + detail + ")"
	}
	p.notes[i].names = append(p.notes[i].names, name)
}

func (p *patcher) write(changes []overlay.Change) error {
	for _, c := range changes {
		if err := p.change(c); err != nil {
			return err
		}
	}
	// Only after all files is it known which new directories the patch leaves empty.
	for _, c := range changes {
		if c.Kind != overlay.Deleted && c.Kind != overlay.Modified && c.Mode.IsDir() && !p.made[c.Path] && !inAny(p.blocked, c.Path) {
			p.lacks(c, "", "empty directory", "empty directories")
		}
	}
	return nil
}

// inAny reports whether a path is one of the dirs, or below one.
func inAny(dirs map[string]bool, name string) bool {
	for ; len(dirs) > 0 && name != "."; name = path.Dir(name) {
		if dirs[name] {
			return true
		}
	}
	return false
}

// GitMode returns git's mode for an object. Zero: git has none.
func GitMode(m fs.FileMode) uint32 {
	switch {
	case m.IsRegular() && m&0o100 != 0:
		return textdiff.Executable
	case m.IsRegular():
		return textdiff.Regular
	case isLink(m):
		return textdiff.Symlink
	}
	return 0
}

func (p *patcher) change(c overlay.Change) error {
	if inAny(p.blocked, c.Path) {
		p.lacks(c, "", "object below something that git cannot create", "objects below something that git cannot create")
		return nil
	}
	if inAny(p.links, c.Path) && !p.gitFollows(c) {
		p.lacks(c, "", "object below a former link that git cannot follow", "objects below a former link that git cannot follow")
		return nil
	}
	old, new := sides(c)
	f := textdiff.File{OldPath: c.Path, NewPath: c.Path, OldMode: GitMode(old), NewMode: GitMode(new)}
	for _, mode := range [...]uint32{f.OldMode, f.NewMode} {
		if mode == 0 {
			continue
		}
		if why := textdiff.GitRefuses(c.Path, mode); why != "" {
			p.lacks(c, "", "path, since "+why, "paths, since "+why)
			return nil
		}
	}
	if c.Kind != overlay.Added && c.Kind != overlay.Modified {
		ok, err := p.remove(c, old)
		if err != nil {
			return err
		}
		if !ok && c.Kind == overlay.TypeChanged {
			p.blocked[c.Path] = true
			p.lacks(c, "", "object that replaces something that git cannot delete", "objects that replace something that git cannot delete")
			return nil
		}
	}
	same := c.Kind == overlay.Modified && f.OldMode == f.NewMode && c.Aspects != 0 && c.Aspects&overlay.Content == 0
	if !same && !p.fits(c, old, new) {
		p.blocked[c.Path] = true
		p.lacks(c, "", "file that is too large for a patch", "files that are too large for a patch")
		return nil
	}
	if isLink(old) && new.IsDir() {
		p.links[c.Path] = true
	}
	if f.NewMode == 0 && c.Kind != overlay.Deleted && !new.IsDir() {
		p.lacks(c, "", typeName(new), typeName(new)+"s")
	}
	if err := p.attached(c, new, same); err != nil {
		return err
	}
	if same || f.OldMode == 0 && f.NewMode == 0 {
		return nil
	}
	var err error
	if f.Old, err = p.content(c, overlay.Before, f.OldMode); err != nil {
		return err
	}
	if f.New, err = p.content(c, overlay.After, f.NewMode); err != nil {
		return err
	}
	if f.NewMode != 0 {
		above(p.made, c.Path)
	} else {
		above(p.removed, c.Path)
	}
	if err := p.p.Add(f); err != nil {
		return p.fail(c, err)
	}
	return nil
}

// fits reports whether there is room for both versions of a file, and takes it.
func (p *patcher) fits(c overlay.Change, old, new fs.FileMode) bool {
	for _, side := range [...]struct {
		mode fs.FileMode
		size int64
	}{{old, c.OldSize}, {new, c.Size}} {
		if !side.mode.IsRegular() {
			continue
		}
		if side.size > p.room {
			return false
		}
		p.room -= side.size
	}
	return true
}

// gitFollows reports whether git can create an object below a link that becomes a directory. git first looks the path
// up, still through that link. It refuses the path if the look-up fails, or if another link on the way stays.
func (p *patcher) gitFollows(c overlay.Change) bool {
	_, err := os.Lstat(path.Join(c.Root, c.Path))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return false
	}
	for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
		fi, err := os.Lstat(path.Join(c.Root, dir))
		if err == nil && isLink(fi.Mode()) && !p.links[dir] {
			return false
		}
	}
	return true
}

// remove writes the deletion of a directory, and notes what git cannot delete. It reports whether git will leave
// nothing at the path.
func (p *patcher) remove(c overlay.Change, old fs.FileMode) (bool, error) {
	if !old.IsDir() {
		if GitMode(old) == 0 {
			c.Mode = old
			p.lacks(c, "", typeName(old)+" that is to be deleted", typeName(old)+"s that are to be deleted")
			return false, nil
		}
		return true, nil
	}
	all := true
	dirs := []overlay.Change{}
	if c.Kind == overlay.Deleted {
		dirs = append(dirs, c)
	}
	for below, err := range p.s.Below(c) {
		if err != nil {
			return false, err
		}
		if below.Mode.IsDir() {
			dirs = append(dirs, below)
			continue
		}
		left := p.left
		if err := p.change(below); err != nil {
			return false, err
		}
		all = all && left == p.left
	}
	for _, d := range dirs {
		if !p.removed[d.Path] {
			p.lacks(d, "", "empty directory that is to be deleted", "empty directories that are to be deleted")
			all = false
		}
	}
	return all, nil
}

// above adds the directories above a path to dirs.
func above(dirs map[string]bool, name string) {
	for dir := path.Dir(name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
		dirs[dir] = true
	}
}

// attached notes the mode, links, owner and attributes that git will not give to the session's object. git leaves the
// mode of a file that is the same to it, and gives others a mode by the umask.
func (p *patcher) attached(c overlay.Change, new fs.FileMode, same bool) error {
	if c.Kind == overlay.Deleted {
		return nil
	}
	want := 0o666 &^ p.umask
	if new.IsDir() || new&0o100 != 0 {
		want = 0o777 &^ p.umask
	}
	if same || new.IsDir() && c.Kind == overlay.Modified {
		want = c.OldMode
	}
	if (new.IsRegular() || new.IsDir()) && jsonform.Octal(new) != jsonform.Octal(want) {
		p.lacks(c, jsonform.Octal(new), "mode that git does not know", "modes that git does not know")
	}
	if c.Links > 1 {
		p.lacks(c, "", "hard link", "hard links")
	}
	owner, attributes := c.Aspects&overlay.Owner != 0, c.Aspects&overlay.Attributes != 0
	if c.Kind != overlay.Modified {
		a, err := p.s.Access(c, overlay.After)
		if err != nil {
			return err
		}
		owner, attributes = int(a.UID) != p.uid, len(a.Attributes) > 0
	}
	if owner {
		p.lacks(c, "", "owner", "owners")
	}
	if attributes {
		p.lacks(c, "", "object's attributes", "objects' attributes")
	}
	return nil
}

// content returns the content of one version. A file is opened only when it is written.
func (p *patcher) content(c overlay.Change, side overlay.Side, mode uint32) (textdiff.Content, error) {
	size := c.Size
	if side == overlay.Before {
		size = c.OldSize
	}
	switch mode {
	case 0:
		return textdiff.Content{}, nil
	case textdiff.Symlink:
		text, err := p.s.Link(c, side)
		return textdiff.Bytes([]byte(text)), err
	}
	return textdiff.Content{Size: size, Open: func() (io.ReadCloser, error) { return p.s.File(c, side) }}, nil
}

// fail adds the file to an error that lacks it.
func (p *patcher) fail(c overlay.Change, err error) error {
	if errors.Is(err, textdiff.ErrChanged) {
		return &overlay.Error{Op: "read", Path: c.Root + "/" + c.Path, Err: err}
	}
	return err
}

// emptied notes the directories that git deletes because it deletes everything in them.
func (p *patcher) emptied(changes []overlay.Change) error {
	deleted := map[string]bool{}
	for _, c := range changes {
		if c.Kind == overlay.Deleted && GitMode(c.Mode) != 0 {
			deleted[c.Path] = true
		}
	}
	seen := map[string]bool{".": true}
	for _, c := range changes {
		dir := overlay.Change{Root: c.Root, Path: path.Dir(c.Path), Mode: fs.ModeDir}
		if !deleted[c.Path] || seen[dir.Path] || p.made[dir.Path] {
			continue
		}
		seen[dir.Path] = true
		names, err := p.s.Names(dir, overlay.Before)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(names, func(n string) bool { return !deleted[dir.Path+"/"+n] }) {
			p.lacks(dir, "", "empty directory, which git deletes", "empty directories, which git deletes")
		}
	}
	return nil
}
