//go:build linux

package main

import (
	"cmp"
	"flag"
	"os"
	"os/exec"
	"strings"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// What was meant by a word that is none: what is written almost like it, or begins like it.

// otherWords are what other programs call our verbs.
var otherWords = [...][2]string{
	{"list", "ls"}, {"status", "ls"}, {"sessions", "ls"}, {"exec", "run"}, {"apply", "commit"}, {"accept", "commit"},
	{"revert", "undo"}, {"rollback", "undo"}, {"reject", "discard"}, {"delete", "discard"}, {"remove", "discard"},
	{"history", "log"}, {"clean", "gc"}, {"prune", "gc"}, {"check", "doctor"},
}

// nearVerb is the verb that a word is near, or empty.
func nearVerb(word string) string {
	for _, w := range otherWords {
		if w[0] == word {
			return w[1]
		}
	}
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.name
	}
	return nearest(word, names)
}

// nearest is the one of the names that a word is near, or empty: of those that are equally
// near, the first.
func nearest(word string, names []string) string {
	word = strings.ToLower(word)
	letters := strings.Trim(word, "-")
	most := min((len(letters)+1)/3, 3) // of three letters one may be wrong, of five two
	best, at := most+1, ""
	begins := 0
	first := ""
	for _, name := range names {
		if d := distance(word, name); d < best && d < len(strings.Trim(name, "-")) {
			best, at = d, name
		}
		if len(letters) > 1 && strings.HasPrefix(name, word) {
			begins, first = begins+1, cmp.Or(first, name)
		}
	}
	if begins == 1 || at == "" {
		at = cmp.Or(first, at)
	}
	return at
}

// distance is how many letters are wrong, missing, too many, or swapped with the next one.
func distance(a, b string) int {
	// Three rows of the table: the one before the last, the last, the one that is filled.
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		rows[2][0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			n := min(rows[1][j]+wrong, rows[1][j+1]+1, rows[2][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, rows[0][j-1]+1)
			}
			rows[2][j+1] = n
		}
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
	}
	return rows[1][len(b)]
}

// didYouMean is the end of a message, empty where nothing is near.
func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return `; did you mean "` + near + `"?`
}

// noVerb says that the first word of a command line is neither a verb nor a program.
func noVerb(words []string) int {
	text := `no such verb or program "` + printable(words[0]) + `"`
	near := nearVerb(words[0])
	switch {
	case len(words) == 1 && shellText(words[0]):
		text += " (try: " + quoteCommand([]string{"nsrun", "run", "-c", words[0]}) + ")"
	case near != "":
		text += didYouMean(near)
	default:
		text += " (try: nsrun help)"
	}
	say("%s", text)
	return exitFailed
}

// isProgram reports whether a word names a program, or is a path.
func isProgram(word string) bool {
	_, err := exec.LookPath(word)
	return err == nil || strings.Contains(word, "/") && !shellText(word)
}

// shellText reports whether a word looks like a command line for a shell.
func shellText(word string) bool { return strings.ContainsAny(strings.TrimSpace(word), " \t\n;|&<>$`") }

// bwrapHint is what may have been meant by a command line in bubblewrap's manner that is
// refused with this message, or empty. words are without this program's name.
func bwrapHint(words []string, message string) string {
	if option, ok := strings.CutPrefix(message, "Unknown option "); ok {
		if verb := laterVerb(words); verb != "" && flagsOf(verb).Lookup(flagName(option)) != nil {
			return "flags come after the verb; try: nsrun " + verb + " " + quote(option) + " …"
		}
		options := bwrap.Options(true)
		names := make([]string, 0, len(options))
		for _, o := range options {
			if !o.Hidden {
				names = append(names, o.Name)
			}
		}
		if near := nearest(option, names); near != "" {
			return `did you mean "` + near + `"?`
		}
		return "try: nsrun help, or nsrun --help"
	}
	name, ok := strings.CutPrefix(message, "execvp ")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, ": ")
	switch first := words[0]; {
	case action(name) != nil && first != name:
		return "a verb comes first; try: nsrun help " + name
	case !strings.HasPrefix(first, "-"):
		return "without options nothing is mounted; try: " + quoteCommand(append([]string{"nsrun", "run", "--"}, words...))
	}
	return ""
}

// laterVerb is the first verb among words that is not the first of them, or empty.
func laterVerb(words []string) string {
	for _, w := range words[min(1, len(words)):] {
		if action(w) != nil {
			return w
		}
	}
	return ""
}

// flagsOf are the flags of a verb.
func flagsOf(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	for _, v := range verbs {
		if v.name == name && v.flags != nil {
			v.flags(fs)
		}
	}
	return fs
}

// flagName is a flag without its dashes and its value.
func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// wrongFlag is the mistake that package flag found in the flags of a verb.
func wrongFlag(verb string, err error) error {
	text := flagText(err)
	if word, ok := strings.CutPrefix(text, "unknown flag "); ok {
		var names []string
		flagsOf(verb).VisitAll(func(f *flag.Flag) { names = append(names, dashed(f.Name)) })
		if near := nearest(dashed(flagName(word)), names); near != "" {
			text += didYouMean(near)
		}
	}
	return &usageError{verb, text}
}

// sessionOf is the session of the execution that a word means, if both still are. Empty: there is none.
func sessionOf(word string) string {
	if !project.IsExecution(word) && len(word) != 8 {
		return ""
	}
	reg := project.Open(project.Options{})
	defer reg.Close()
	for e, err := range reg.Executions(project.Filter{ID: word, Most: 1}) {
		if err != nil || e.Session == "" {
			return ""
		}
		s, err := overlay.OpenReadOnly("", e.Session)
		if err != nil {
			return ""
		}
		_ = s.Close()
		return e.Session
	}
	return ""
}

// noSessionHint is what to type where a word stands in a session's place and names none.
func noSessionHint(word string) string {
	_, err := os.Lstat(word)
	if id := sessionOf(word); id != "" && err != nil {
		return "that is a command in the log; its session is " + id
	}
	if err != nil && !strings.ContainsAny(word, "/.*") {
		return "try: nsrun ls"
	}
	switch verb := os.Args[min(1, len(os.Args)-1)]; verb {
	case "diff", "commit", "drop":
		return "a session comes before paths; try: " + quoteCommand([]string{"nsrun", verb, "last", word})
	}
	return "a path is no session; try: nsrun ls, and nsrun diff last PATH"
}

// dashed is a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
