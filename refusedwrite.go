//go:build linux

package nsrun

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// mountRule is the word for what cannot be replaced because something is mounted there.
const mountRule = "mount"

// refusedWrite is a write that fails although nothing is read-only. Either the host has the directory, but the sandbox
// lacks it, or has something else in place of one above it; or a rule names the path, which is therefore a mount that
// cannot be replaced or removed. If ofName is true, the name itself is written to, otherwise what it leads to.
func refusedWrite(box *plan.Sandbox, name string, err error, ofName bool) (r Refusal, ok bool) {
	real, on, unseen := look(box, name)
	if unseen != "" {
		return r, false
	}
	p := box.Why(real, on)
	r = Refusal{Kind: RefusedWrite, Op: string(RefusedWrite), Target: real, Rule: causes[p.Cause].word, Why: refusalText(&p), Count: 1}
	at := real
	if ofName || !on.Exists {
		at = filepath.Dir(real)
	}
	switch {
	case errors.Is(err, unix.EBUSY) && p.At == real:
		r.Rule, r.Why = mountRule, escape.Quote(real)+" is a mount of its own, and can be neither replaced nor removed"
	case errors.Is(err, unix.ENOENT) && p.At != real && p.At != at && (p.Cause == plan.PrivateCause || p.Cause == plan.StrictCause) && (on.Exists || !ofName):
	case errors.Is(err, unix.ENOENT) && p.At != real && p.Cause == plan.SecretCause && p.Absent:
	default:
		return r, false
	}
	_, there, _ := look(box, at)
	if !there.Exists || there.NoWrite {
		return r, false
	}
	if with, ok := box.Opening(at); ok {
		r.allowWith(with)
	}
	return r, true
}

// refusedAcross is a rename or link from one directory to another that are one mount on the host, and two in the
// sandbox.
func refusedAcross(box *plan.Sandbox, a attempts.Attempt) (r Refusal, ok bool) {
	from, mayRemove := onHost(a.From)
	to, mayMake := onHost(a.Path)
	if from != to || !mayMake || a.Name && !mayRemove {
		return r, false
	}
	r = Refusal{Kind: RefusedWrite, Op: string(RefusedWrite), Target: a.Path, Rule: mountRule, Count: 1,
		Why: "nothing can be renamed or linked from " + escape.Quote(a.From) + " to it, because they are different mounts"}
	with, ok := box.Across(a.From, a.Path)
	if r.allowWith(with); !ok {
		r.Why += ", and no flag makes them one: copy instead"
	}
	return r, true
}

// onHost is the number of the host's mount that a directory is in, and whether this user may write to it. If the host
// lacks the directory, it is about the nearest of its parents.
func onHost(dir string) (mount uint64, writable bool) {
	var st unix.Statx_t
	_, on, _ := host.Look(dir, nil)
	_ = sys.Statx(unix.AT_FDCWD, on.Nearest, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, on.Root || !on.NoWrite
}

func (r *Refusal) allowWith(with plan.Flag) {
	if with.Name != "" && with.Path == "" {
		r.Flag = with.Name
	} else if with.Name != "" {
		r.flag, r.value = with.Name, with.Path
		r.Flag = with.Name + " " + escape.Command([]string{with.Path})
	}
}

// A guess is what messages that name no path are about. It depends only on the command line, so it is made once.
type guess struct {
	made, ok bool
	refusal  Refusal
}

// add adds the guess, which make makes.
func (g *guess) add(t *refusalTable, make func() (Refusal, bool)) {
	if !g.made {
		g.made = true
		g.refusal, g.ok = make()
	}
	if g.ok {
		t.add(g.refusal)
	}
}

// database guesses the directory of the first database of the command line that cannot be written to: SQLite makes a
// journal beside it.
func (t *refusalTable) database() (r Refusal, ok bool) {
	for _, name := range t.paths() {
		if isDatabase(name) {
			if r, ok = refusedPath(t.box, filepath.Dir(name), unix.EROFS, RefusedWrite); ok {
				break
			}
		}
	}
	return r, ok
}

// written guesses what of the command line cannot be written to: its last directory, as tar -C and cd tell in which one
// the names of messages are, or else its last file, or else what it was to make.
func (t *refusalTable) written() (r Refusal, ok bool) {
	for _, is := range [...]func(name string) bool{host.IsDir, isData, isNew} {
		for _, name := range slices.Backward(t.paths()) {
			if is(name) {
				if r, ok = refusedPath(t.box, t.removedFrom(name), unix.EROFS, RefusedWrite); ok {
					return r, ok
				}
			}
		}
	}
	return r, false
}

// removed guesses the directory of the last path of the command line that cannot be removed.
func (t *refusalTable) removed() (r Refusal, ok bool) {
	for _, name := range slices.Backward(t.paths()) {
		if host.Exists(name) {
			if r, ok = refusedPath(t.box, t.removedFrom(filepath.Dir(name)), unix.EROFS, RefusedWrite); ok {
				break
			}
		}
	}
	return r, ok
}

// isNew reports whether nothing is at a path, in a directory that exists.
func isNew(name string) bool { return !host.Exists(name) && host.IsDir(filepath.Dir(name)) }

// isData reports whether a path is that of a file that is no program.
func isData(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 == 0
}

// isDatabase reports whether a file is SQLite's.
func isDatabase(name string) bool {
	const magic = "SQLite format 3\x00"
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // by now it can be a FIFO
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := sys.Regular(f); err != nil {
		return false
	}
	b := make([]byte, len(magic))
	_, err = io.ReadFull(f, b)
	return err == nil && string(b) == magic
}
