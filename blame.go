//go:build linux

package nsrun

import (
	"bytes"
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/attempts"
)

// Many programs can do without something that they were refused, and fail later for another reason. Nobody can know a
// program's reasons, but nsrun can observe what it does next and what it writes to standard error: it failed because of
// what its last message names, or else because of what it did last. If a process writes nothing itself, it failed for
// the same reason as its last child.
//
// The network is different. Programs use it for things other than their work, such as looking for a newer version of
// themselves, and helpers use it for other processes. So messages count more, also those of all ancestors of the
// process; and threads that work at the same time say nothing about each other.

// blame finds out which refusals made a command fail. The zero blame has observed nothing.
type blame struct {
	of map[int]*followed // the processes that met a refusal, or have a child that failed of one
	// connections are the refusals of connections. Programs that start others, such as ssh, for a connection say only
	// that there is none.
	connections map[int]bool
	reason      []int // why the command failed: indexes of refusals; nil: for another reason, or it has not ended
	// holds reports whether a hidden directory of the host has a file that a message names. Nil: unknown.
	holds func(dir, name string) bool
}

// followed is what a process did since it executed its program.
type followed struct {
	met   []met    // refusals, in the order in which it last met each
	times int      // how many refusals it met
	own   []string // the last paths that it did not find, and the policy does not hide
	text  []byte   // its last message
	went  bool     // it went on since the last refusal
	fresh bool     // it went on since the last message
	child *fault   // the last child that failed; nil: none, or another one succeeded after it
	quiet bool     // no message since then
	out   string   // its standard output, which it may close before it ends
	from  int      // the process that has forked it, and executes the same program; 0: unknown
	holds func(dir, name string) bool
	below []met // refused writes of its children that succeeded, or seemed to
	// complained says that it has written something about the network since a refusal of the network.
	complained bool
}

// met is a refusal that a process met.
type met struct {
	index  int    // in the list of refusals
	target string // of the network: an address or a name, or empty
	host   string // the name of an address; empty: unknown
	err    syscall.Errno
	net    bool   // something of the network
	conn   bool   // a connection, of the network or to a server of this host
	call   bool   // a system call that the filter refuses
	alone  bool   // the process has one thread
	helper bool   // a descendant of the process met it
	only   string // it counts only if the message contains one of these words, separated by "|"; empty: always
	vague  bool   // the host may lack it too: it counts only if a message names it and the error
	by     string // the program that met it
}

// fault is a child that failed.
type fault struct {
	reason  []int
	program string
	out     string // its standard output
	times   int    // of its parent
	aside   bool   // it ran in the background
	conn    bool   // the reason is a connection
}

// Limits.
const (
	mostOwn, mostMet = 64, 256 // paths and refusals of a process
	mostText         = 4096    // bytes of a message
	mostFollowed     = 4096    // processes: the ends of killed ones are not observed
	mostTries        = 1000    // files that are looked for in hidden directories
)

func (b *blame) follow(process int) *followed {
	f := b.of[process]
	if f == nil {
		if b.of == nil || len(b.of) == mostFollowed {
			b.of = map[int]*followed{}
		}
		f = &followed{holds: b.holds}
		b.of[process] = f
	}
	return f
}

// meet adds a refusal.
func (f *followed) meet(m met) {
	f.times++
	// A program that could not rename a file, and then copies it, failed because of what the copy was refused.
	f.met = slices.DeleteFunc(f.met, func(other met) bool { return other == m || other.err == unix.EXDEV && m.err == unix.EROFS })
	if len(f.met) == mostMet {
		f.met = slices.Delete(f.met, 0, 1)
	}
	f.met = append(f.met, m)
}

// refused records a refusal. Ancestors that execute the same program may report it.
func (b *blame) refused(p attempts.Process, m met) {
	m.alone = p.Threads == 1
	m.by, _, _ = strings.Cut(p.Program, " ")
	f := b.follow(p.Host)
	if m.conn {
		if b.connections == nil {
			b.connections = map[int]bool{}
		}
		b.connections[m.index] = true
	}
	if m.net {
		b.refusedNet(p, f, m)
		return
	}
	f.meet(m)
	f.went, f.fresh, f.child, f.own, f.out = false, true, nil, nil, p.Out
	for i, process := range p.Kin {
		if i == 0 {
			f.from = process
		}
		f := b.follow(process)
		f.meet(m)
		f.went = true
	}
}

func (b *blame) refusedNet(p attempts.Process, f *followed, m met) {
	f.quiet = false // it went on after the child's end
	f.meet(m)
	f.went, f.out = false, p.Out
	f.fresh = f.fresh || m.alone
	m.helper = true
	for _, process := range p.Above {
		b.follow(process).meet(m)
	}
}

// Follows reports whether what a process does next matters.
func (b *blame) Follows(process int) bool { return b.of[process] != nil }

// Tried records that a process used a path or connected to a server, or failed to for a reason of its own.
func (b *blame) Tried(process int, name string, failed bool) {
	f := b.of[process]
	if f == nil || noise(name, len(f.text) > 0 && !f.fresh) || f.again(name) {
		return
	}
	if n := len(f.met); n > 0 && (f.met[n-1].net && resolves(name) || f.met[n-1].conn && !strings.HasPrefix(name, "/")) {
		return // it tries several addresses
	}
	f.went, f.fresh = true, true
	if failed {
		if len(f.own) == mostOwn {
			f.own = f.own[1:]
		}
		f.own = append(f.own, name)
	}
}

// again reports whether a path is the last one that was refused, or its directory.
func (f *followed) again(name string) bool {
	if len(f.met) == 0 {
		return false
	}
	last := f.met[len(f.met)-1].target
	return name == last || name == path.Dir(last)
}

// Executed records that a process executes another program, and forgets what it did before.
func (b *blame) Executed(process int) { delete(b.of, process) }

// Said records what a process writes to standard error.
func (b *blame) Said(process int, text []byte) {
	f := b.of[process]
	if f == nil {
		return
	}
	if f.fresh && !f.continues(text) && !refersBack(text) {
		f.text = nil
	}
	f.fresh, f.quiet = false, false
	if f.text = append(f.text, text...); len(f.text) > mostText {
		f.text = f.text[len(f.text)-mostText:]
	}
	text = errorsOnly(text)
	about := aboutNetwork(text)
	f.complained = f.complained || slices.ContainsFunc(f.met, func(m met) bool { return m.net && (about || m.inText(text)) })
}

// Ended records that a process ends.
func (b *blame) Ended(p attempts.Process, status int, command bool) {
	var reason []int
	parent := b.of[p.Parent]
	if status != 0 {
		reason = b.of[p.Host].reason(shells(p.Program))
		// A process that fails without a message, and reads what another process should have written, may have
		// failed because of that one.
		if c := parent.lastChild(); reason == nil && b.of[p.Host] == nil && c != nil && feeds(c, p) {
			reason = c.reason
		}
		if reason == nil && b.of[p.Host].silent() {
			reason = b.ofForked(p.Host)
		}
	}
	ended, out := b.of[p.Host], p.Out
	if ended != nil {
		out = cmp.Or(ended.out, out)
	}
	delete(b.of, p.Host)
	switch c := parent.lastChild(); {
	case command:
		b.reason = reason
	case status == 0:
		b.pass(ended, p.Parent)
		if c != nil && !feeds(c, p) && (c.aside || !givesUp(p.Program)) {
			parent.child = nil
		}
	case reason == nil && slices.Contains(p.Kin, p.Parent) && !shells(p.Program): // its parent reports why it failed
	case reason != nil || parent != nil:
		parent = b.follow(p.Parent)
		parent.child, parent.quiet, parent.fresh = &fault{reason, p.Program, out, parent.times, p.Background, b.connected(reason)}, true, true
	}
}

// connected reports whether all of the reasons are refused connections.
func (b *blame) connected(reason []int) bool {
	return reason != nil && !slices.ContainsFunc(reason, func(i int) bool { return !b.connections[i] })
}

// pass tells a parent which writes a child was refused that ended without an error: it may have told its parent of them
// by a pipe, as git-receive-pack does.
func (b *blame) pass(child *followed, parent int) {
	if child == nil {
		return
	}
	list := child.below
	for _, m := range child.met {
		if m.err == unix.EROFS && !m.net && !m.helper {
			list = append(list, m)
		}
	}
	if len(list) > 0 {
		f := b.follow(parent)
		f.below = append(f.below, list...)
		f.below = f.below[max(0, len(f.below)-mostMet):]
	}
}

// passed returns the refusals of children below a path that the last message names.
func (f *followed) passed(text []byte, words map[string]bool) (reason []int) {
	for _, m := range f.below {
		if !aboutAccess(text) || slices.Contains(reason, m.index) {
			continue
		}
		for word := range words {
			if dir := strings.TrimLeft(strings.TrimPrefix(word, "file://"), "./"); dir != "" && strings.Contains(word, "/") && strings.Contains(m.target, "/"+dir+"/") {
				reason = append(reason, m.index)
				break
			}
		}
	}
	return reason
}

// silent reports whether a process that met a refusal has said nothing.
func (f *followed) silent() bool { return f != nil && f.child == nil && len(f.text) == 0 }

// ofForked returns why a process failed, from the messages of its forked copies that have not ended: they may wait to
// be killed.
func (b *blame) ofForked(process int) []int {
	for _, f := range b.of {
		if reason, _ := f.named(); f.from == process && reason != nil {
			return reason
		}
	}
	return nil
}

// signaled records why a command failed that a signal ended.
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

// reason returns the refusals that made a process fail. Nil: another reason did.
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
	if c := f.child; c != nil && !(len(text) == 0 && f.times > c.times && !f.met[len(f.met)-1].beside()) {
		if len(text) == 0 || shell || about(text, c.program) || c.conn && aboutNetwork(text) {
			return c.reason
		}
		return nil
	}
	if len(f.met) == 0 {
		return nil
	}
	last := f.met[len(f.met)-1]
	if f.went || last.helper || last.vague || last.beside() && len(text) > 0 {
		return nil
	}
	if len(text) == 0 && harmless(last.target) || len(text) > 0 && !aboutAccess(text) {
		return nil
	}
	return []int{last.index}
}

// named returns the refusals that the last message of a process names. said: it names a refusal or another cause.
func (f *followed) named() (reason []int, said bool) {
	words := map[string]bool{}
	text := errorsOnly(f.text)
	if namesItself(text) {
		f.met = slices.DeleteFunc(f.met, func(m met) bool { return m.net })
	}
	for _, word := range bytes.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`‘’(),;<>[]", r) }) {
		if scheme, _, link := strings.Cut(string(word), "://"); !link || scheme == "file" { // other links are no paths
			words[strings.TrimRight(string(word), ":.")] = true
		}
	}
	counting := slices.DeleteFunc(slices.Clone(f.met), func(m met) bool { return m.only != "" && !containsAny(text, strings.Split(m.only, "|")...) })
	for _, m := range counting {
		if (m.net && m.inText(text) || !m.net && names(words, m.target, m.by) && (!m.vague && m.err != unix.EXDEV || m.says(text))) && !slices.Contains(reason, m.index) {
			reason = append(reason, m.index)
		}
	}
	if reason == nil {
		reason = f.searched(text, words)
	}
	if reason == nil {
		reason = f.lacking(text)
	}
	if reason != nil {
		return reason, true
	}
	for _, m := range counting {
		if m.only != "" && m.err == 0 { // no call failed, but the program lacks what it needs
			return []int{m.index}, true
		}
	}
	if slices.ContainsFunc(f.own, func(name string) bool { return names(words, name, "") }) {
		return nil, true
	}
	if reason = f.passed(text, words); reason != nil {
		return reason, true
	}
	for _, m := range slices.Backward(counting) {
		says := m.says(text)
		if m.call && (says || containsAny(text, "no permission", "missing cap_", "must be root", "superuser")) { // programs go on, to look for the reason
			return []int{m.index}, true
		}
		if !m.net && (m.err == unix.EROFS || !f.went) && f.child == nil && says {
			return []int{m.index}, true
		}
	}
	if f.child != nil && about(text, f.child.program) {
		return nil, false
	}
	for _, m := range slices.Backward(f.met) {
		if m.net && (aboutNetwork(text) || f.complained && aboutAccess(text)) {
			return []int{m.index}, true
		}
	}
	return nil, false
}

// searched returns the refusals of hidden directories with a file that a message says is missing. Compilers skip
// directories that they do not find, and name only the file.
func (f *followed) searched(text []byte, words map[string]bool) (reason []int) {
	if f.holds == nil || !containsAny(text, "no such", "not found", "cannot find", "no module") {
		return nil
	}
	tries := mostTries
	for _, m := range slices.Backward(f.met) {
		base := path.Base(m.target)
		if module := strings.TrimSuffix(base, path.Ext(base)); !m.net && !m.vague && words[module] && !slices.Contains(reason, m.index) {
			reason = append(reason, m.index)
		}
		for word := range words {
			if m.err != unix.ENOENT && m.err != unix.EACCES || m.net || tries == 0 || slices.Contains(reason, m.index) {
				break
			}
			if tries--; filepath.IsLocal(word) && word != "." && f.holds(m.target, word) {
				reason = append(reason, m.index)
			}
		}
	}
	return reason
}

// beside reports whether the refusal may not concern the process's main work: a helper met it, or one of its threads.
func (m *met) beside() bool { return m.helper || m.net && !m.alone }

// says reports whether a message contains the text or the name of the error.
func (m *met) says(text []byte) bool {
	name := unix.ErrnoName(m.err)
	return containsAny(text, strings.ToLower(m.err.Error())) || m.err == unix.EROFS && containsAny(text, readOnlyDatabase) || name != "" && bytes.Contains(text, []byte(name))
}

// inText reports whether a message contains the name or the address of this network target.
func (m *met) inText(text []byte) bool { return hasHost(text, m.target) || hasHost(text, m.host) }

// hasHost reports whether a text contains a host, but not as a part of another one.
func hasHost(text []byte, host string) bool {
	if host == "" {
		return false
	}
	part := func(c byte) bool {
		return c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for rest, before := text, byte(' '); ; {
		i := bytes.Index(rest, []byte(host))
		if i < 0 {
			return false
		}
		if i > 0 {
			before = rest[i-1]
		}
		behind := rest[i+len(host):]
		if dot := bytes.TrimPrefix(behind, []byte(".")); len(dot) == 0 || !part(dot[0]) {
			behind = nil // the dot ends a sentence, or the name
		}
		if !part(before) && (len(behind) == 0 || !part(behind[0])) {
			return true
		}
		before, rest = rest[i], rest[i+1:]
	}
}

// resolves reports whether C libraries read a path to find the address of a host.
func resolves(name string) bool {
	switch name {
	case "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/ld.so.cache":
		return true
	}
	return strings.HasPrefix(path.Base(name), "libnss_")
}

// names reports whether one of the words is a path, its last element, or something in it. The last element does not
// count if it is also the program's name, which programs print for many reasons.
func names(words map[string]bool, target, program string) bool {
	base := path.Base(target)
	if words[target] || words[base] && base != "." && base != program {
		return true
	}
	for word := range words {
		if strings.HasSuffix(word, "/"+base) || strings.HasPrefix(target, "/") && strings.Contains(word, target+"/") {
			return true
		}
	}
	return false
}

// errorsOnly removes warnings and quoted lines of source code from a message.
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

// continues reports whether a message continues the one before it: the rest of a line, or a line that is indented, as
// those of a stack trace. Other threads may have used files meanwhile.
func (f *followed) continues(text []byte) bool {
	return len(f.text) > 0 && (f.text[len(f.text)-1] != '\n' || len(text) > 0 && (text[0] == '\t' || text[0] == ' '))
}

// refersBack reports whether a message refers to those before it.
func refersBack(text []byte) bool {
	return containsAny(text, "previous error", "(code ", "log of this run")
}

// about reports whether a message is about the end of another program.
func about(text []byte, program string) bool {
	name, _, _ := strings.Cut(program, " ")
	return containsAny(text, "status", "exit code", "error 1", "error 2", "] error ", "command failed", "failed with", "exited", "clone of", "failed to clone", "could not read from remote repository", name)
}

// aboutAccess reports whether a message that names nothing can be about a refusal.
func aboutAccess(text []byte) bool {
	return containsAny(text, "cannot", "can't", "could not", "couldn't", "unable", "fail", "denied", "read-only", "readonly", "permi", "writ", "open",
		"access", "creat", "missing", "not found", "no such", "connect", "died at", "read error")
}

// aboutNetwork reports whether a message is about the network. It ignores lines of stack traces.
func aboutNetwork(text []byte) bool {
	var said []byte
	for line := range bytes.Lines(text) {
		if place := bytes.TrimLeft(line, " \t"); !bytes.HasPrefix(place, []byte("at ")) && !bytes.HasPrefix(place, []byte("File \"")) {
			said = append(said, line...)
		}
	}
	codes := []string{"EAI_", "ENOTFOUND", "ENETUNREACH", "EHOSTUNREACH", "ECONNREFUSED", "ETIMEDOUT"}
	return slices.ContainsFunc(codes, func(code string) bool { return bytes.Contains(said, []byte(code)) }) ||
		containsAny(said, "resolv", "resolution", "getaddrinfo", "unreachable", "network", "connect", "no such host", "unknown host", "unknownhost", "not known", "dial tcp",
			"dial udp", "lookup", "look up", "timed out", "offline", "download", "fetch", "remote", "find a version", "sendto",
			"bind:", "bind(", "to bind", "cannot bind", "listen tcp", "listen e")
}

// namesItself reports whether a message is that of git about an unknown author: to make an address for one, git has
// looked up the name of this host, and not for its work.
func namesItself(text []byte) bool {
	return containsAny(text, "please tell me who you are") && !aboutNetwork(text)
}

// mistakes are what programs say of a mistake in their arguments, or in their own files.
var mistakes = lazyPattern(`usage: |syntax error|parse error|parsing \[|has no command|unable to find required|has not been declared|no file or directory at ` +
	`|(unknown|unrecogni[sz]ed|invalid|illegal|undeclared|unsupported|no such) (\w+ )?(command|subcommand|option|flag|argument|keyword|directive|parameter|resource|variable|setting|section|switch)|missing name for`)

// ownMistake reports whether a message is about such a mistake.
func ownMistake(text []byte) bool { return mistakes().Match(bytes.ToLower(errorsOnly(text))) }

func containsAny(text []byte, words ...string) bool {
	lower := bytes.ToLower(text)
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(lower, []byte(word)) })
}

// shells reports whether a program is a shell.
func shells(program string) bool {
	name, _, _ := strings.Cut(program, " ")
	return slices.Contains([]string{"sh", "dash", "bash", "zsh", "ksh", "busybox", "fish"}, name)
}

// givesUp reports whether scripts often run this program last, after something failed.
func givesUp(program string) bool {
	name, _, _ := strings.Cut(program, " ")
	return slices.Contains([]string{"rm", "rmdir", "kill", "cat", "echo", "printf", "date", "sleep", "tput", "logger", "umount"}, name)
}

// harmless reports whether no program fails silently because of a path: Python's compiled files, and Java's counters.
func harmless(target string) bool {
	return strings.Contains(target, "__pycache__") || strings.HasPrefix(path.Base(target), "hsperfdata_")
}

// noise reports whether a program uses a path only to write messages: their translations, the time zone, or, while it
// writes one (message), its own source. A URL is noise too.
func noise(name string, message bool) bool {
	switch path.Ext(name) {
	case ".mo", ".cat":
		return true
	case ".py", ".pyc", ".rb", ".js", ".mjs", ".pl":
		return message
	}
	return strings.Contains(name, "://") || strings.Contains(name, "/locale/") || strings.Contains(name, "/locale-langpack/") || name == "/etc/localtime"
}

// textTarget returns what messages call the target of an attempt.
func textTarget(a attempts.Attempt) string {
	switch a.Kind {
	case attempts.Inet:
		return strconv.Itoa(int(a.To.Port()))
	case attempts.Signal:
		return strconv.Itoa(a.Number)
	}
	return a.Path
}
