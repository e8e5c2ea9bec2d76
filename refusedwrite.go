//go:build linux

package nsrun

import (
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// crossDevice is in the text of EXDEV, as libc, Go, Rust and Node write it, and noTrash in GLib's for a file that is in
// another mount than the home directory, which has the trash.
const crossDevice, noTrash = "cross-device link", "Trashing on system internal mounts"

// across adds what a message says could not be renamed or linked, because it would go from one mount to another.
func (t *refusalTable) across(line string) {
	if before, behind, ok := strings.Cut(line, crossDevice); ok && !t.landlock {
		from, to, ok := fromTo(before, behind)
		if !ok {
			t.guesses.leaving.add(t, t.leaving)
		} else if r, ok := t.between(from, to, !strings.Contains(before, "link")); ok {
			t.add(r)
		}
	}
	t.trash(line)
}

// trash adds what a message says could not be moved to the trash.
func (t *refusalTable) trash(line string) {
	before, _, ok := strings.Cut(line, ": "+noTrash)
	if !ok || t.landlock {
		return
	}
	_, uri, _ := strings.Cut(before, "file://")
	name, err := url.PathUnescape(uri)
	r, ok := t.between(name, filepath.Join(host.Home(), "any"), true) // the trash itself may not be there yet
	if err != nil || !ok {
		return
	}
	r.Target = filepath.Join(r.Target, ".local/share/Trash")
	r.Why = "nothing can be moved from " + escape.Quote(filepath.Dir(name)) + " to the trash, because they are different mounts: remove it instead"
	if real, on, _ := look(t.box, filepath.Dir(name)); t.box.Why(real, on).Writing == plan.Apart {
		r.Why += ", which nsrun undo can take back"
	}
	t.add(r)
}

// fromTo are the names in a message about two: the quoted ones, or the last two words before the error. ln(1) puts the
// new name first.
func fromTo(before, behind string) (from, to string, ok bool) {
	quoted := strings.Split(quotes.Replace(before+behind), "'")
	if len(quoted) >= 4 {
		if from, to = quoted[1], quoted[3]; strings.Contains(quoted[2], "=>") {
			from, to = to, from
		}
		return from, to, true
	}
	if i := strings.LastIndex(before, ": "); i >= 0 {
		before = before[:i]
	}
	words := strings.Fields(before)
	if len(words) < 3 { // none, or the name of the call and one more
		return "", "", false
	}
	return words[len(words)-2], words[len(words)-1], true
}

// between is a rename or link from one name to another, if these are in two mounts that the command sees, and in one on
// the host.
func (t *refusalTable) between(from, to string, renames bool) (r Refusal, ok bool) {
	a := attempts.Attempt{Name: renames}
	for i, dir := range [...]*string{&a.From, &a.Path} {
		name := t.inDir([...]string{from, to}[i])
		real, on, unseen := look(t.box, filepath.Dir(filepath.Clean(name)))
		p := t.box.Why(real, on)
		if t.names--; t.names < 0 || unseen != "" || !p.Read && (p.Cause != plan.PrivateCause || p.At != real) {
			return r, false // the answer would tell something about what is hidden
		}
		*dir = real
	}
	if !t.box.Apart(a.From, a.Path) {
		return r, false
	}
	return refusedAcross(t.box, a)
}

// leaving guesses the path of the command line to which something could not be renamed or linked from the working
// directory.
func (t *refusalTable) leaving() (r Refusal, ok bool) {
	for _, name := range slices.Backward(t.paths()) {
		if strings.HasPrefix(name, t.args[0]) {
			continue // the shell
		}
		if r, ok = t.between(filepath.Join(t.dir, "any"), name, false); ok {
			break
		}
	}
	return r, ok
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

// guesses are what messages of different kinds are about.
type guesses struct{ database, newDatabase, removed, written, leaving, socket, output, newOutput, closed, missing guess }

// A guess is what messages that name no path are about. It depends only on the command line, so it is made once.
type guess struct {
	made, ok bool
	refusal  Refusal
}

// add adds the guess, which make makes, if there is one.
func (g *guess) add(t *refusalTable, make func() (Refusal, bool)) bool {
	if !g.made {
		g.made = true
		g.refusal, g.ok = make()
	}
	if g.ok {
		t.add(g.refusal)
	}
	return g.ok
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
			if is(name) && !t.isScript(name) {
				if replacesFiles(t.args) && !host.IsDir(name) {
					name = filepath.Dir(name)
				}
				if r, ok = refusedPath(t.box, t.removedFrom(name), unix.EROFS, RefusedWrite); ok {
					return r, ok
				}
			}
		}
	}
	return r, false
}

// socket guesses the first unix socket of the command line to which the command cannot connect: most programs do not
// say which one it was.
func (t *refusalTable) socket() (r Refusal, ok bool) {
	for _, name := range t.paths() {
		if r, ok = refusedPath(t.box, name, unix.EACCES, RefusedUnix); ok && r.Kind == RefusedUnix {
			return r, true
		}
	}
	return r, false
}

// exists reports whether a word of a message is the name of something. Then the message is about that.
func (t *refusalTable) exists(message string) bool {
	return slices.ContainsFunc(wordsIn(message), func(name string) bool {
		name = t.inDir(name)
		t.looked++
		return name != t.dir && t.looked < mostLooks && host.Exists(name)
	})
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
	f := openRegular(name)
	if f == nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(magic))
	_, err := io.ReadFull(f, b)
	return err == nil && string(b) == magic
}

// openRegular opens a regular file for reading. Nil: it is none, or cannot be opened.
func openRegular(name string) *os.File {
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // by now it can be a FIFO
	if err != nil {
		return nil
	}
	if _, err := sys.Regular(f); err != nil {
		f.Close()
		return nil
	}
	return f
}

// removesTrees reports whether a command line has rm with its option -r, find with -delete and no test, or calls what
// does the same in a program.
func removesTrees(args []string) bool {
	line := strings.Join(args, " ")
	for _, call := range [...]string{"rmtree(", "remove_tree(", "rm_rf", "rm_r(", "rmSync(", "RemoveAll("} {
		if strings.Contains(line, call) {
			return true
		}
	}
	found, words := false, strings.Fields(line)
	for i, word := range words {
		switch {
		case filepath.Base(word) == "find" && findsToRemove(words[i+1:]):
			return true
		case filepath.Base(word) == "rm":
			found = true
		case found && (word == "--recursive" || len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.ContainsAny(word, "rR")):
			return true
		}
	}
	return false
}

// findsToRemove reports whether words after find are those of a command that removes all that it finds.
func findsToRemove(words []string) bool {
	i := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") })
	if i >= 0 && words[i] == "-depth" {
		i++
	}
	return i >= 0 && i < len(words) && words[i] == "-delete"
}

// removesFiles reports whether a command line has a program write to a file before it removes it.
func removesFiles(args []string) bool {
	found := false
	for word := range shellWords(args) {
		switch {
		case filepath.Base(word) == "shred":
			found = true
		case found && (strings.HasPrefix(word, "--remove") || len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.Contains(word, "u")):
			return true
		}
	}
	return false
}

// removing reports whether a message, which does not say what was done, follows a line of a program or of the command
// line that removes or renames something. So it is with Python, whose traceback quotes the program, and Node.
func (t *refusalTable) removing(behind string) bool {
	return removes(behind) || removes(string(t.last)) || slices.ContainsFunc(t.args, removes)
}

// creates reports whether a message is about a file that could not be made.
func creates(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{"creat", "touch", "mkdir", "for writing", "output file"}, func(word string) bool { return strings.Contains(message, word) })
}

// changes reports whether a message is about a change of what it names.
func changes(message string) bool {
	message = strings.ToLower(message)
	return creates(message) || removes(message) || slices.ContainsFunc([]string{"setting", "changing", "preserving", "lock", "write"}, func(word string) bool { return strings.Contains(message, word) })
}

// removes reports whether a message is about a name, not about what the name leads to.
func removes(message string) bool {
	return slices.ContainsFunc([]string{"remove", "move", "unlink", "rename", "delete", "rmdir", "rmtree"}, func(word string) bool { return strings.Contains(message, word) })
}

// replacesFiles reports whether a command line has a program that writes a new file beside the one that it changes.
func replacesFiles(args []string) bool {
	for word := range shellWords(args) {
		if slices.Contains([]string{"zip", "7z", "7za", "7zz", "7zr"}, filepath.Base(word)) {
			return true
		}
	}
	return false
}
