//go:build linux

package nsrun

import (
	"iter"
	"net/url"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
)

// cannotPush is what git says of a repository to push to. A later line names the repository: "To /srv/x.git".
const cannotPush = "unable to create temporary object directory"

// cannotWrite is what curl says of the file that it was told to write to.
const cannotWrite = "failure writing output to destination"

// pushed adds the repository to which git could not push, if a line names it.
func (t *refusalTable) pushed(line string) {
	name, ok := strings.CutPrefix(strings.TrimSpace(line), "To ")
	if !ok || !t.pushes {
		return
	}
	t.pushes = false
	if u, err := url.Parse(name); err == nil && u.Scheme == "file" {
		name = u.Path
	}
	name = t.inDir(name)
	if t.names--; t.names >= 0 && host.IsDir(name) {
		t.addPath(gitDirectory(name), unix.EROFS, RefusedWrite)
	}
}

// widenGit gives a refusal of git the flag for the whole repository, if it is about something in one: git writes to
// several of its directories, one after the other.
func (t *refusalTable) widenGit(r *Refusal) {
	name, _, _ := strings.Cut(r.Program, " ")
	if r.flag != "--rw" || name != "git" && !strings.HasPrefix(name, "git-") {
		return
	}
	for dir := filepath.Clean(r.value); dir != "/"; dir = filepath.Dir(dir) {
		if !isRepository(dir) {
			continue
		}
		if with, ok := t.box.Opening(dir); ok && unix.Access(dir, unix.W_OK) == nil {
			r.allowWith(with)
		}
		return
	}
}

// gitDirectory is the directory with git's own files of a repository, or of a work tree that has them in it.
func gitDirectory(dir string) string {
	if inside := filepath.Join(dir, ".git"); !isRepository(dir) && isRepository(inside) {
		return inside
	}
	return dir
}

// isRepository reports whether a directory has git's own files.
func isRepository(dir string) bool {
	return host.IsDir(filepath.Join(dir, "objects")) && host.IsDir(filepath.Join(dir, "refs")) && host.Exists(filepath.Join(dir, "HEAD"))
}

// lockOf is the file that a program makes beside another one, to replace it: git says only the other's name.
func lockOf(name, before string) string {
	if strings.Contains(before, "could not lock") && !strings.HasSuffix(name, ".lock") {
		return name + ".lock"
	}
	return name
}

// output guesses the file that curl could not write to.
func (t *refusalTable) output() (r Refusal, ok bool) {
	for name := range t.outputs() {
		if r, ok = refusedPath(t.box, t.inDir(name), unix.EROFS, RefusedWrite); ok {
			break
		}
	}
	return r, ok
}

// outputOption is an option whose value is what a program makes, as "-output-directory=".
var outputOption = lazyPattern(`(?i)^-+([a-z]+-)?s?out(put)?(-?(dir(ectory)?|file|path))?(=|$)`)

// outputs are the words of the command line that are values of such options.
func (t *refusalTable) outputs() iter.Seq[string] {
	return func(yield func(string) bool) {
		before := ""
		for word := range shellWords(t.args) {
			name := ""
			if before == "-o" || isShortOutput(before) || outputOption().MatchString(before) && !strings.Contains(before, "=") {
				name = word
			} else if _, value, ok := strings.Cut(word, "="); ok && outputOption().MatchString(word) {
				name = value
			}
			if before = word; name != "" && !yield(strings.Trim(name, `'"`)) {
				return
			}
		}
	}
}

// isShortOutput reports whether a word is several short options, of which -o is the last: curl -sSfo FILE.
func isShortOutput(word string) bool {
	return len(word) > 2 && word[0] == '-' && word[1] != '-' && word[len(word)-1] == 'o'
}
