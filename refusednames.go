//go:build linux

package nsrun

import (
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
)

// line adds the path that a message is about: the last one before the error's text, else the first one after it.
func (t *refusalTable) line(before, behind string, err unix.Errno) bool {
	kind := RefusedRead
	if err == unix.EROFS {
		kind = RefusedWrite
	}
	if what, to, ok := strings.Cut(behind, " -> "); ok && err == unix.EROFS && (strings.Contains(what, "link ") || strings.Contains(what, "copyfile ")) {
		behind = to // Node names two paths, and writes to the second
	}
	before, behind = withoutPlaces(before), withoutPlaces(behind)
	names := wordsIn(before)
	slices.Reverse(names)
	names = slices.DeleteFunc(append(names, wordsIn(behind)...), isPlace)
	if t.landlock && err == unix.EROFS {
		names = slices.DeleteFunc(names, noSlash)
		names = names[:min(1, len(names))] // it may well be a permission of the file
	}
	moves := t.moves()
	for _, name := range names {
		switch {
		case noSlash(name):
			if moves || !t.means(name) {
				continue
			}
			name = filepath.Join(t.dir, name)
		case filepath.IsAbs(name):
		case err == unix.EROFS: // only the policy causes it
			name = t.absolute(name)
		case moves:
			continue
		default:
			name = filepath.Join(t.dir, name)
		}
		if t.names--; t.names < 0 {
			break
		}
		if kind == RefusedWrite {
			name = lockOf(name, before)
		}
		removal := kind == RefusedWrite && (removes(before) || strings.Contains(behind, " -> ") || !changes(before) && t.removing(behind))
		if removal {
			name = t.removedFrom(filepath.Dir(name)) // which is what is written to
		}
		if kind == RefusedWrite && !removal && removesFiles(t.args) && host.Exists(name) && !host.IsDir(name) {
			name = filepath.Dir(name) // it is removed next
		}
		if t.landlock && err == unix.EROFS && kind == RefusedWrite && host.IsDir(name) && !changes(before) && !removal {
			continue // a directory that cannot be listed: Landlock has the same error for it
		}
		if err == unix.ENOENT && (creates(before) || strings.Contains(behind, ", mkdir ") || strings.Contains(before, "cannot change permissions")) {
			if r, ok := refusedWrite(t.box, name, err, false); ok {
				t.add(r)
				return true
			}
			// A program that makes directories may go on after EROFS, and then misses what it has not made.
			if (isNew(name) || t.makesParents() && !host.Exists(name)) && t.addPath(name, unix.EROFS, RefusedWrite) {
				return true
			}
		}
		if t.addPath(name, err, kind) || kind == RefusedWrite && !t.landlock && t.addPath(filepath.Dir(name), err, kind) {
			return true // a file with a rule of its own can be written to, but its directory cannot
		}
	}
	return false
}

func noSlash(name string) bool { return !strings.Contains(name, "/") }

// means reports whether a word without a slash is a name in the working directory. Any word of a message can be one,
// and in a directory that is read-only all of them are refused. So something of that name has to be there, or the
// message quotes it.
func (t *refusalTable) means(word string) bool {
	t.looked++
	return t.looked < mostLooks && filepath.IsLocal(word) && word != "." && (host.Exists(filepath.Join(t.dir, word)) || strings.Contains(quotes.Replace(string(t.now)), "'"+word+"'"))
}

// moves reports whether the command line changes the working directory. Programs that do so by themselves mostly name
// absolute paths.
func (t *refusalTable) moves() bool {
	for word := range shellWords(t.args) {
		if word == "cd" || word == "pushd" || strings.HasPrefix(word, "-C") || strings.Contains(word, "chdir") || strings.HasPrefix(word, "--directory") {
			return true
		}
	}
	return false
}

// shellWords are the words of a command line, also those of lines for a shell in it.
func shellWords(args []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, arg := range args {
			for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return strings.ContainsRune(" \t\n;&|('\"", r) }) {
				if !yield(word) {
					return
				}
			}
		}
	}
}

// absolute is the path that a relative one in a message about a write means: in the working directory, or, if the
// command may write there or the command line changes the directory, in a directory that it names, as git -C does.
func (t *refusalTable) absolute(name string) string {
	path := filepath.Join(t.dir, name)
	if _, ok := refusedPath(t.box, path, unix.EROFS, RefusedWrite); ok && !t.moves() {
		return path
	}
	for _, dir := range t.paths() {
		other := filepath.Join(dir, name)
		if !host.IsDir(filepath.Dir(other)) {
			continue
		}
		if _, ok := refusedPath(t.box, other, unix.EROFS, RefusedWrite); ok {
			return other
		}
	}
	return path
}

// makesParents reports whether the command line has Node make a directory with those above it. Where a file system is
// read-only Node says that there is no such directory.
func (t *refusalTable) makesParents() bool {
	line := strings.Join(t.args, " ")
	return strings.Contains(line, "mkdir") && strings.Contains(line, "recursive")
}

// quotes turns all quotes into one kind.
var quotes = strings.NewReplacer("n't ", "nt ", "‘", "'", "’", "'", "`", "'", `"`, "'")

// schemes turns URLs of files and of unix sockets into paths.
var schemes = strings.NewReplacer("file:///", "/", "unix:///", "/", "unix:/", "/")

// namesIn are the words of a message that can be paths with a slash.
func namesIn(message string) []string { return slices.DeleteFunc(wordsIn(message), noSlash) }

// wordsIn are the words of a message that can be paths: quoted words, and words separated by colons and spaces.
func wordsIn(message string) (names []string) {
	message = quotes.Replace(schemes.Replace(message))
	for i, part := range strings.Split(message, "'") {
		if i%2 == 1 {
			names = append(names, part)
			continue
		}
		for field := range strings.SplitSeq(part, ": ") {
			field = strings.Trim(field, " \t\r\n:,()[]")
			if field == "" {
				continue
			}
			if strings.HasPrefix(field, "/") {
				names = append(names, field)
			} else if _, name, ok := strings.Cut(field, "(/"); ok && !strings.Contains(field, " ") {
				names = append(names, "/"+name) // PHP: file_get_contents(/path)
			}
			if words := strings.Fields(field); len(words) > 1 || !strings.HasPrefix(field, "/") {
				for _, word := range words {
					word = strings.Trim(word, ",()[]:")
					if name := strings.TrimSuffix(word, "."); name != "" && !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, "/") {
						word = name // a sentence ends there
					}
					names = append(names, word)
				}
			}
		}
	}
	return names
}

// executed is the beginning of a command line, up to a program that it executes.
var executed = lazyPattern(`(^|[;&|(]|(^| )(-[a-z]*c|exec|then|do|else|sudo|env|nice|timeout \S+))[ '"]*$`)

// ofOthers adds the file of another user that a message names, which root may write to outside the sandbox, and does
// not execute here: everybody may read it, or it would have been found before.
func (t *refusalTable) ofOthers(before, behind string) bool {
	line := strings.Join(t.args, " ")
	for _, name := range namesIn(before + ": " + behind) {
		if t.names--; t.names < 0 {
			break
		}
		if before, _, found := strings.Cut(line, name); found && executed().MatchString(before) {
			continue
		}
		if t.addPath(t.inDir(name), unix.EACCES, RefusedWrite) {
			return true
		}
	}
	return false
}
