//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// Exit statuses of our own, as timeout(1) and env(1) have them.
const (
	exitTimeout       = 124
	exitFailed        = 125
	exitCannotExecute = 126
	exitNotFound      = 127
)

// say prints one of our lines. Whatever is in it, it is one line, and nothing
// that a terminal would act on.
func say(format string, args ...any) {
	clearModes()
	_, _ = os.Stderr.WriteString("nsrun: " + printable(fmt.Sprintf(format, args...)) + "\n")
}

// unread has this program go on where nobody reads what it prints: what was asked for is done all the same, and the
// exit status tells of it. A command that is run ends by SIGPIPE as ever, unless our caller ignores that.
func unread() {
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
}

func printable(s string) string { return escape.Printable(s) }

// fail prints what went wrong, with what to type where that is known, and returns
// the exit status for it.
func fail(err error) int {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // errors that were joined
	if hint := hint(err); hint != "" && !strings.Contains(text, "try: ") {
		text += " (" + hint + ")"
	}
	say("%s", text)
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == "exec" {
		if errors.Is(e.Err, unix.ENOENT) {
			return exitNotFound
		}
		return exitCannotExecute
	}
	return exitFailed
}

// usageError is a mistake on the command line.
type usageError struct{ verb, text string }

func (e *usageError) Error() string { return e.verb + ": " + e.text }

// flagText is an error of package flag, with flags as they are typed here.
func flagText(err error) string {
	text := strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag -", 1)
	if strings.HasSuffix(text, "timeout: parse error") {
		text = strings.Replace(text, "parse error", "not a duration like 10s or 5m", 1)
	}
	for _, before := range [...]string{`" for flag -`, `" for -`, "flag needs an argument: -", "unknown flag -"} {
		i := strings.Index(text, before)
		if i < 0 {
			continue
		}
		i += len(before)
		if name, _, _ := strings.Cut(text[i:], ":"); len(name) > 1 && name[0] != '-' {
			text = text[:i] + "-" + text[i:]
		}
		break
	}
	return text
}

// hint is what can be typed to get on.
func hint(err error) string {
	if u, ok := errors.AsType[*usageError](err); ok {
		if u.verb == "help" {
			return "try: nsrun help"
		}
		return "try: nsrun help " + u.verb
	}
	if text := surroundings(err); text != "" {
		return text
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok {
		switch e.Op {
		case "clone", "uid map", "gid map", "launcher", "seccomp":
			return "try: nsrun doctor"
		case "landlock":
			if e.Path == nsexec.AbstractSockets {
				return "try: --net-by broker with rules, --allow-unix @ with --net host"
			}
		case "overlay":
			return "try: nsrun doctor, or nsrun run --direct"
		case "exec":
			if errors.Is(e.Err, unix.ENOENT) && shellText(e.Path) {
				return "a line for a shell is run by: " + quoteCommand([]string{"nsrun", "run", "-c", e.Path})
			}
		case "chdir":
			return "try: nsrun run -C DIR, or --ro DIR to show it"
		}
	}
	if _, ok := errors.AsType[*nsrunlib.MountError](err); ok {
		return "try: nsrun run --direct"
	}
	if e, ok := errors.AsType[*nsrunlib.Error](err); ok && e.Op == "use as project" {
		return "try: nsrun run --project DIR"
	}
	if e, ok := errors.AsType[*overlay.Error](err); ok && e.Op == "use as project" {
		return "try: nsrun run --project DIR"
	}
	if r, ok := errors.AsType[*reviewError](err); ok {
		return "try: nsrun commit " + r.id + " PATH…"
	}
	if e, ok := errors.AsType[*overlay.Error](err); ok && (e.Op == "open session" || e.Op == "remove session") && errors.Is(err, os.ErrNotExist) {
		return noSessionHint(e.Path)
	}
	if u, ok := errors.AsType[*unknownError](err); ok && u.try != "" {
		return "try: " + u.try
	}
	if errors.Is(err, errNoneHere) {
		return "try: nsrun ls --all, and name one"
	}
	if errors.Is(err, overlay.ErrEnded) || errors.Is(err, errNoneLeft) {
		return "try: nsrun ls"
	}
	if errors.Is(err, overlay.ErrNoCommit) {
		return "try: nsrun ls, and nsrun undo SESSION"
	}
	if e, ok := errors.AsType[*project.Error](err); ok && errors.Is(err, project.ErrDamaged) && filepath.Base(e.Path) == "registry.db" {
		return "try: mv " + quoteCommand([]string{e.Path, e.Path + ".damaged"})
	}
	if errors.Is(err, overlay.ErrLeftOut) {
		return "try: nsrun commit with .git/objects, or without the index"
	}
	if errors.Is(err, overlay.ErrNoChange) {
		return "try: nsrun show"
	}
	return ""
}

func quote(s string) string { return escape.Quote(s) }

func quoteCommand(args []string) string { return escape.Command(args) }

// printChanges prints changes, deletions first, a new or deleted directory as one
// line. Nothing is cut off.
func printChanges(w io.Writer, prefix string, changes []overlay.Change, several bool) {
	if w == os.Stderr {
		clearModes()
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	for _, deletions := range [...]bool{true, false} {
		for i := 0; i < len(changes); i++ {
			c := changes[i]
			if (c.Kind == overlay.Deleted) != deletions {
				continue
			}
			line := c.String()
			if several {
				line = line[:2] + quote(c.Root) + ": " + line[2:]
			}
			if c.Kind == overlay.Added && c.Mode.IsDir() {
				// What is not as usual below it has a line of its own.
				n := 0
				for _, in := range changes[i+1 : i+1+below(changes[i:])] {
					if in.Special != "" || in.Runs != "" {
						break
					}
					n++
				}
				if n > 0 {
					line += fmt.Sprintf(" (and %d below)", n)
				}
				i += n
			}
			fmt.Fprintf(out, "%s%s%s\n", prefix, line, details(c))
		}
	}
}

// details is what a change's letter does not tell, in parentheses.
func details(c overlay.Change) string {
	var list []string
	switch {
	case c.Kind == overlay.Deleted && c.Below > 0:
		list = append(list, fmt.Sprintf("and %d below", c.Below))
	case c.Kind == overlay.TypeChanged:
		was := "was a " + typeName(c.OldMode)
		if c.Below > 0 {
			was += fmt.Sprintf(" with %d below", c.Below)
		}
		list = append(list, was)
	case c.Kind == overlay.Modified && c.Aspects&^overlay.Content != 0:
		for _, a := range jsonform.Aspects(c) {
			if a == "mode" && c.Mode != c.OldMode {
				a += " " + octal(c.OldMode) + " → " + octal(c.Mode)
			}
			list = append(list, a)
		}
	}
	if c.Special != "" {
		list = append(list, c.Special)
	}
	if c.Runs != "" {
		list = append(list, "runs later: "+c.Runs)
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// below counts the changes that lie in the new directory changes[0]. All are
// additions: there was nothing.
func below(changes []overlay.Change) (n int) {
	dir := changes[0]
	for _, c := range changes[1:] {
		if c.Root != dir.Root || !strings.HasPrefix(c.Path, dir.Path+"/") {
			break
		}
		n++
	}
	return n
}

// plural is "1 change", "2 changes".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
