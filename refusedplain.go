//go:build linux

package nsrun

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
)

// Some messages name what could not be used, and no error: "cannot load such file -- /tmp/x.rb". What they name is a
// refusal only if the message says nothing after it, because that would be the reason.

// cannot is how such messages begin, and what they say could not be done. Each has one of cannotWords. Most lines have
// none, and to match the patterns takes long.
const cannot = `\b(cannot|can't|can not|could not|couldn't|unable to|failed to|error) `

// making is the same about something new.
const making = cannot + `(creat|writ|updat|copy|mak|sav)(e|ing)?\b`

var (
	cannotUse = lazyPattern(cannot + `(find|load|open|access|read|process|copy|cd to|chdir to|change directory to)(ing)?\b` +
		`|\bno (file|directory) (is )?named\b|undefinedfilename in`) // Ghostscript says the latter
	cannotMake  = lazyPattern(making)
	cannotWords = [...][]byte{[]byte("can"), []byte("could"), []byte("unable"), []byte("failed"), []byte("error"), []byte("no file"), []byte("no directory")}
	apostrophes = strings.NewReplacer("‘", "'", "’", "'", "`", "'")
)

// lostError is what programs say that forgot the error, or closed the file before they looked.
const lostError = "bad file descriptor"

// plain adds what a message without an error names. Of several names the last one is meant, which programs copy to.
func (t *refusalTable) plain(line string, lower []byte) {
	lost := bytes.HasSuffix(bytes.TrimSpace(lower), []byte(lostError))
	if t.landlock || !lost && !slices.ContainsFunc(cannotWords[:], func(word []byte) bool { return bytes.Contains(lower, word) }) {
		return
	}
	text := apostrophes.Replace(string(lower))
	uses, makes := cannotUse().MatchString(text), cannotMake().MatchString(text)
	if !lost && !uses && !makes {
		return
	}
	if strings.Contains(text, "unable to open database file") && !strings.Contains(line, "/") {
		t.guesses.newDatabase.add(t, t.newDatabase)
		return
	}
	names := slices.DeleteFunc(wordsIn(line), noSlash)
	if makes && len(names) == 0 && aboutOutput().MatchString(text) {
		if !t.madeElsewhere(line) {
			t.guesses.newOutput.add(t, t.newOutput)
		}
		return
	}
	variants := len(names) > 1 && isVariants(line, names[0])
	if variants {
		names = names[:1]
	}
	for _, name := range slices.Backward(names) {
		i := strings.LastIndex(line, name)
		if !filepath.IsAbs(name) || i < 0 || !variants && !endsThere(line[i+len(name):]) || strings.Contains(name, " ") && !host.Exists(name) {
			continue
		}
		if t.names--; t.names < 0 || t.addPath(name, unix.ENOENT, RefusedRead) {
			return
		}
		if makes || lost || t.isOutput(name) || !host.Exists(name) && (strings.Contains(text, "database") || isDatabaseName(name)) {
			if t.made(name) {
				return
			}
		}
		if !strings.Contains(text, "copy") { // of two names, the other one may be meant
			return
		}
	}
}

// isOutput reports whether the command line names a file as the one that is made.
func (t *refusalTable) isOutput(name string) bool {
	for word := range t.outputs() {
		if filepath.Clean(t.inDir(word)) == name {
			return true
		}
	}
	return false
}

// madeElsewhere adds a file that a message quotes without its directory, if a directory of the command line is one in
// which the command cannot make files: TeX does not say where the files are that it cannot write to.
func (t *refusalTable) madeElsewhere(line string) bool {
	for i, name := range strings.Split(quotes.Replace(line), "'") {
		if i%2 == 0 || !filepath.IsLocal(name) || name == "." {
			continue
		}
		for dir := range t.outputs() {
			if dir = t.inDir(dir); host.IsDir(dir) && t.made(filepath.Join(dir, name)) {
				return true
			}
		}
	}
	return false
}

// aboutOutput is what a message that names nothing has to say could not be made.
var aboutOutput = lazyPattern(making + `[^:]*\b(file|folder|director(y|ies)|archive|output|database)s?\b`)

// newOutput guesses the last file or directory of the command line that is not there and cannot be made.
func (t *refusalTable) newOutput() (r Refusal, ok bool) {
	for _, name := range slices.Backward(t.paths()) {
		if isNew(name) {
			if r, ok = refusedPath(t.box, name, unix.EROFS, RefusedWrite); ok {
				break
			}
		}
	}
	return r, ok
}

// unnamed guesses the first path of the command line that is refused with an error: the message names nothing.
func (t *refusalTable) unnamed(err unix.Errno) func() (Refusal, bool) {
	return func() (r Refusal, ok bool) {
		for _, name := range t.paths() {
			if !host.Exists(name) {
				continue
			}
			if r, ok = refusedPath(t.box, name, err, RefusedRead); ok && r.Kind == RefusedRead {
				return r, true
			}
		}
		return r, false
	}
}

// calls are what programs print before an error in place of a name.
var calls = []string{"", "open", "fopen", "stat", "exec", "execv", "execve", "execvp", "execlp", "chdir", "opendir", "read"}

// namesNothing reports whether a message has nothing but an error: no name, which would be that of a missing file.
func (t *refusalTable) namesNothing(before, behind string) bool {
	if strings.HasSuffix(before, "{error,") { // Erlang
		return true
	}
	word := strings.Trim(before, " :\t")
	rest := strings.Trim(strings.TrimPrefix(strings.TrimSpace(withoutPlaces(behind)), "or directory"), " .\n")
	return rest == "" && (slices.Contains(calls, word) || word == filepath.Base(t.args[0]))
}

// isVariants reports whether a message ends with a name, and with others that begin with it: "cannot find x, x.zip or
// x.ZIP".
func isVariants(line, name string) bool {
	_, rest, found := strings.Cut(line, name)
	if found && endsThere(rest) {
		return false
	}
	for found && !endsThere(rest) {
		rest = strings.TrimLeft(rest, `'"’, `)
		rest, found = strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(rest, "or "), `'"‘ `), name)
		rest = strings.TrimLeftFunc(rest, func(r rune) bool {
			return r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
		})
	}
	return found
}

// endsThere reports whether nothing follows a name in a message but what closes it, and the error in other words.
func endsThere(rest string) bool {
	rest = strings.TrimLeft(strings.ToLower(strings.TrimSpace(rest)), `'"’.)],:; `)
	if to, ok := strings.CutPrefix(rest, `to `); ok { // where something was copied to
		rest = strings.TrimLeftFunc(strings.TrimLeft(to, `'"‘`), func(r rune) bool { return r != ':' && !unicode.IsSpace(r) })
	}
	for _, known := range [...]string{"cannot read", lostError, "unable to open database file", "for writing", "(14)", "(loaderror)"} {
		rest = strings.TrimLeft(strings.TrimPrefix(rest, known), `'"’.)],:; `)
	}
	return rest == ""
}

// isDatabaseName reports whether a file that is to be made is called a database.
func isDatabaseName(name string) bool {
	return slices.Contains([]string{".db", ".db3", ".sqlite", ".sqlite3"}, filepath.Ext(name))
}

// made adds the refusal of a file or directory that could not be made or written to. If it is not there yet, it could
// have been made, because its directory is there.
func (t *refusalTable) made(name string) bool {
	if !host.Exists(name) && !host.IsDir(filepath.Dir(name)) {
		return false
	}
	if replacesFiles(t.args) {
		name = filepath.Dir(name)
	}
	return t.addPath(name, unix.EROFS, RefusedWrite)
}

// newDatabase guesses the first file of the command line that is not there and cannot be made: SQLite does not say
// which one it could not open.
func (t *refusalTable) newDatabase() (r Refusal, ok bool) {
	for _, name := range t.paths() {
		if r, ok = refusedPath(t.box, name, unix.ENOENT, RefusedRead); ok {
			return r, true
		}
		if isNew(name) {
			if r, ok = refusedPath(t.box, name, unix.EROFS, RefusedWrite); ok {
				return r, true
			}
		}
	}
	return r, false
}

// places are the lines of programs that messages name.
var (
	placeAfter = lazyPattern(` (at|in) \S+ (on )?line [0-9]+`)
	placeName  = lazyPattern(`:[0-9]+(:[0-9]+)?(:in)?$`)
)

// withoutPlaces removes from a message where in a program an error occurred: nothing was refused there.
func withoutPlaces(message string) string { return placeAfter().ReplaceAllString(message, "") }

// isPlace reports whether a name is that of a line of a program, as in "x.rb:12:in".
func isPlace(name string) bool {
	end := placeName().FindStringIndex(name)
	return end != nil && host.Exists(name[:end[0]]) && !host.Exists(name)
}

// interpreters are programs that execute the first file that they are given.
var interpreters = lazyPattern(`^(python|perl|ruby|node|nodejs|php|lua|sh|dash|bash|zsh|ksh|awk|Rscript|tclsh)[0-9.]*$`)

// isScript reports whether the command line has a program execute a file, which it then does not write to.
func (t *refusalTable) isScript(name string) bool {
	runs := false
	for word := range shellWords(t.args) {
		switch {
		case interpreters().MatchString(filepath.Base(word)):
			runs = true
		case runs && !strings.HasPrefix(word, "-"):
			if filepath.Clean(t.inDir(word)) == name {
				return true
			}
			runs = false
		}
	}
	return false
}
