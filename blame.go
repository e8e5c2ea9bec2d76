//go:build linux

package nsrun

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/attempts"
)

// Many programs meet a refusal that they can do without, and fail later of something else. What a program thinks nobody can
// know, but what it did next, and what it said on standard error, can be seen: it failed of what its last message names; else
// of what it did last. A process fails of what its last child failed of, if it says nothing else itself.

// blame finds out of which refusals a command failed. The zero blame has seen nothing.
type blame struct {
	of     map[int]*followed // the processes that met a refusal, or have a child that failed of one
	reason []int             // what the command failed of, where it has ended
}

// followed is what a process did since it executed its program.
type followed struct {
	met   []met
	own   []string // the last paths that it looked for in vain, through no fault of the policy
	text  []byte   // its last message
	went  bool     // it went on since the last refusal
	fresh bool     // it went on since the last message
	child *fault   // the last child's end
	quiet bool     // no message since then
	out   string   // its standard output, which it may close before it ends
}

// met is a refusal, by its place in the list.
type met struct {
	index  int
	target string
	err    syscall.Errno
}

// fault is a child that failed.
type fault struct {
	reason  []int
	program string
	out     string // its standard output
}

// mostOwn is how many paths of a process are kept, and mostText how much of a message.
const mostOwn, mostText = 64, 4096

func (b *blame) follow(process int) *followed {
	f := b.of[process]
	if f == nil {
		if b.of == nil {
			b.of = map[int]*followed{}
		}
		f = &followed{}
		b.of[process] = f
	}
	return f
}

// refused notes a refusal. Others that execute the same program may say it: they have forked the process.
func (b *blame) refused(p attempts.Process, m met) {
	f := b.follow(p.Host)
	f.met, f.went, f.fresh, f.child, f.own, f.out = append(f.met, m), false, true, nil, nil, p.Out
	for _, process := range p.Kin {
		f := b.follow(process)
		f.met, f.went = append(f.met, m), true
	}
}

// Follows reports whether what a process does next matters; negative: of any.
func (b *blame) Follows(process int) bool {
	return process < 0 && len(b.of) > 0 || b.of[process] != nil
}

// Tried notes that a process used a path, or failed to for a reason of its own.
func (b *blame) Tried(process int, name string, failed bool) {
	f := b.of[process]
	if f == nil || noise(name, len(f.text) > 0 && !f.fresh) || f.again(name) {
		return
	}
	f.went, f.fresh = true, true
	if failed {
		if len(f.own) == mostOwn {
			f.own = f.own[1:]
		}
		f.own = append(f.own, name)
	}
}

// again reports whether a path is the one that was refused last, or the directory that it is in.
func (f *followed) again(name string) bool {
	if len(f.met) == 0 {
		return false
	}
	last := f.met[len(f.met)-1].target
	return name == last || name == path.Dir(last)
}

// Executed notes that a process executes another program: what it met before is over.
func (b *blame) Executed(process int) { delete(b.of, process) }

// Said notes what a process writes to standard error.
func (b *blame) Said(process int, text []byte) {
	f := b.of[process]
	if f == nil {
		return
	}
	if f.fresh && !refersBack(text) {
		f.text = nil
	}
	f.fresh, f.quiet = false, false
	if f.text = append(f.text, text...); len(f.text) > mostText {
		f.text = f.text[len(f.text)-mostText:]
	}
}

// Ended notes that a process ends.
func (b *blame) Ended(p attempts.Process, status int, command bool) {
	var reason []int
	parent := b.of[p.Parent]
	if status != 0 {
		reason = b.of[p.Host].reason(shells(p.Program))
		// Who fails without a word, and reads what another one should have written, may fail of that.
		if c := parent.lastChild(); reason == nil && b.of[p.Host] == nil && c != nil && feeds(c, p) {
			reason = c.reason
		}
	}
	out := p.Out
	if f := b.of[p.Host]; f != nil {
		out = cmp.Or(f.out, out)
	}
	delete(b.of, p.Host)
	switch c := parent.lastChild(); {
	case command:
		b.reason = reason
	case status == 0:
		if c != nil && !feeds(c, p) && !givesUp(p.Program) {
			parent.child = nil
		}
	case reason == nil && slices.Contains(p.Kin, p.Parent) && !shells(p.Program): // what it failed of the parent knows
	case reason != nil || parent != nil:
		parent = b.follow(p.Parent)
		parent.child, parent.quiet, parent.fresh = &fault{reason, p.Program, out}, true, true
	}
}

// signaled notes what a command failed of that has not said that it ends: a signal ended it.
func (b *blame) signaled(process int) {
	if f := b.of[process]; f != nil && b.reason == nil {
		b.reason, _ = f.named()
	}
}

func (f *followed) lastChild() *fault {
	if f == nil {
		return nil
	}
	return f.child
}

// feeds reports whether a process reads what a child has written.
func feeds(c *fault, p attempts.Process) bool {
	return c.out == p.In && strings.HasPrefix(p.In, "pipe:")
}

// reason is what a process failed of; nil: something of its own.
func (f *followed) reason(shell bool) []int {
	if f == nil {
		return nil
	}
	if f.child != nil && f.quiet {
		return f.child.reason
	}
	if named, said := f.named(); said {
		return named
	}
	text := bytes.TrimSpace(errorsOnly(f.text))
	if c := f.child; c != nil {
		if len(text) == 0 || shell || about(text, c.program) {
			return c.reason
		}
		return nil
	}
	if len(f.met) == 0 {
		return nil
	}
	last := f.met[len(f.met)-1]
	if f.went || len(text) == 0 && harmless(last.target) || len(text) > 0 && !aboutAccess(text) {
		return nil
	}
	return []int{last.index}
}

// named is what the last message of a process names. said: it names something, if only a path of its own.
func (f *followed) named() (reason []int, said bool) {
	words := map[string]bool{}
	text := errorsOnly(f.text)
	for _, word := range bytes.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`‘’(),;<>[]", r) }) {
		words[strings.TrimRight(string(word), ":.")] = true
	}
	for _, m := range f.met {
		if names(words, m.target) && !slices.Contains(reason, m.index) {
			reason = append(reason, m.index)
		}
	}
	if reason != nil {
		return reason, true
	}
	if slices.ContainsFunc(f.own, func(name string) bool { return names(words, name) }) {
		return nil, true
	}
	for _, m := range slices.Backward(f.met) {
		text := bytes.ToLower(text)
		if (m.err == unix.EROFS || !f.went) && f.child == nil && bytes.Contains(text, []byte(strings.ToLower(m.err.Error()))) {
			return []int{m.index}, true
		}
	}
	return nil, false
}

// names reports whether one of the words is a path, its last name, or something in it.
func names(words map[string]bool, target string) bool {
	base := path.Base(target)
	if words[target] || words[base] && base != "." {
		return true
	}
	for word := range words {
		if strings.HasSuffix(word, "/"+base) || strings.HasPrefix(target, "/") && strings.Contains(word, target+"/") {
			return true
		}
	}
	return false
}

// errorsOnly is a message without its warnings, and without lines of source that something points at.
func errorsOnly(text []byte) (left []byte) {
	lines := slices.Collect(bytes.Lines(text))
	for i, line := range lines {
		pointed := i+1 < len(lines) && bytes.ContainsRune(lines[i+1], '^') && len(bytes.Trim(lines[i+1], " |~^\t\n")) == 0
		if !pointed && !bytes.Contains(bytes.ToLower(line), []byte("warning")) {
			left = append(left, line...)
		}
	}
	return left
}

// refersBack reports whether a message is about those before it.
func refersBack(text []byte) bool { return containsAny(text, "previous error", "(code ") }

// about reports whether a message is about the end of another program.
func about(text []byte, program string) bool {
	name, _, _ := strings.Cut(program, " ")
	return containsAny(text, "status", "exit code", "error 1", "error 2", "command failed", "failed with", "exited", name)
}

// aboutAccess reports whether a message without a name can be about what was refused.
func aboutAccess(text []byte) bool {
	return containsAny(text, "cannot", "can't", "could not", "couldn't", "unable", "fail", "denied", "read-only", "readonly", "permi", "writ", "open",
		"access", "creat", "missing", "not found", "no such", "connect", "died at", "read error")
}

func containsAny(text []byte, words ...string) bool {
	lower := bytes.ToLower(text)
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(lower, []byte(word)) })
}

// shells reports whether a program says what scripts tell it to say.
func shells(program string) bool {
	name, _, _ := strings.Cut(program, " ")
	return slices.Contains([]string{"sh", "dash", "bash", "zsh", "ksh", "busybox", "fish"}, name)
}

// givesUp reports whether a program is one that scripts end with after something failed.
func givesUp(program string) bool {
	name, _, _ := strings.Cut(program, " ")
	return slices.Contains([]string{"rm", "rmdir", "kill", "cat", "echo", "printf", "date", "sleep", "tput", "logger", "umount"}, name)
}

// harmless reports whether no program fails of it without a word: what Python compiled, and Java's counters.
func harmless(target string) bool {
	return strings.Contains(target, "__pycache__") || strings.HasPrefix(path.Base(target), "hsperfdata_")
}

// noise reports whether a path says nothing of what a program does: it takes its messages from there, or, in the middle of one,
// the lines of its source.
func noise(name string, message bool) bool {
	switch path.Ext(name) {
	case ".mo", ".cat":
		return true
	case ".py", ".pyc", ".rb", ".js", ".mjs", ".pl":
		return message
	}
	return strings.Contains(name, "/locale/") || strings.Contains(name, "/locale-langpack/") || name == "/etc/localtime"
}

// textTarget is what messages call what was refused.
func textTarget(a attempts.Attempt) string {
	switch a.Kind {
	case attempts.Loopback:
		return strconv.Itoa(int(a.To.Port()))
	case attempts.Signal:
		return strconv.Itoa(a.Number)
	}
	return a.Path
}
