//go:build linux

package nsrun

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// Finding refusals costs a command that succeeds nothing: the decisions of the network's enforcers are known anyway,
// and refused files are found in the error messages of a command that failed. A message only suggests a path: it is
// reported only if the plan refuses the path, and nothing else would.

// mostRefusals is how many are reported, mostNames how many names in messages are checked, mostLooks how many words of
// messages are looked for, and mostWords how many words of the command line are checked. A hostile command has nsrun
// check as many as it can.
const (
	mostRefusals = 100
	mostNames    = 1000
	mostLooks    = 5000
	mostWords    = 200
)

// findRefusals finds what the command was refused. err is what Wait returns.
func (x *Execution) findRefusals(err error) {
	if x.observed != nil || x.failed() {
		// No flag makes these writable. Where a rule makes something writable, they were found before.
		x.box.Closed = append(x.box.Closed, host.ConfigDirs(host.Home())...)
	}
	t := refusalTable{box: &x.box, dir: x.dir, args: x.args, names: mostNames, held: sys.Held(), landlock: x.landlock, rules: x.net != nil, open: x.request.Network || x.net != nil && x.net.mode == KernelEnforcer}
	for _, d := range x.result.Network.Denied() {
		r := networkRefusal(d)
		target := d.Host
		if d.Proto != "dns" {
			target = net.JoinHostPort(d.Address, strconv.Itoa(int(d.Port)))
		}
		r.Failed = x.observed.failedOf(target)
		t.add(r)
	}
	if x.net == nil && x.result.Network.Refused > 0 && x.failedOtherwise() {
		x.result.Network.Refused = 0
	}
	r := noNetwork(x.result.Network.Refused)
	if r.Failed = x.net == nil && x.observed.failedOf(""); r.Failed {
		r.Count = max(r.Count, 1) // the kernel does not count everywhere
		x.result.Network.Refused = r.Count
		r.Flag = cmp.Or(x.observed.wanted.flags(), r.Flag)
	}
	if r.Count > 0 {
		if x.pings() {
			icmp := refusedICMP()
			r.Why, r.Flag = icmp.Why, icmp.Flag
		}
		t.add(r)
	}
	x.limitRefusals(&t)
	if x.result.Started && x.failed() && host.Is32Bit(x.program()) {
		t.add(Refusal{Kind: RefusedExec, Op: string(RefusedExec), Target: x.program(), Rule: "seccomp", Count: 1, Failed: x.runner.config.Why,
			Why: "it is a 32-bit program, and commands have no system calls of another architecture"})
	}
	switch e, ok := errors.AsType[*nsexec.Error](err); {
	case ok && e.Op == "exec" && filepath.IsAbs(x.program()):
		t.addPath(x.program(), e.Err, RefusedExec)
	case ok && e.Op == "chdir":
		t.addPath(x.dir, e.Err, RefusedRead)
	case x.observed != nil:
		sortFailed(x.observed.list) // these are not among those that are too many
		for _, r := range x.observed.list {
			if r.Rule != networkRule {
				t.widen(&r)
				if !x.runner.apart { // Learn finds out by itself which directories git needs
					t.widenGit(&r)
				}
				t.add(r)
			}
		}
		for _, text := range x.messageTexts() {
			for line := range bytes.Lines(text) {
				t.trash(string(line)) // no call was refused: the program looked where the files are
			}
		}
		x.blameSilent(&t)
		sortFailed(t.list)
	case x.result.Started && x.failed():
		x.findInMessages(&t)
	}
	if x.result.Started && x.failed() {
		x.findForeignOwners(&t)
	}
	x.withoutFlags(t.list)
	x.result.Refusals = t.list
}

// failedOtherwise reports whether the command's messages say why it failed, and that it was not for lack of a network.
func (x *Execution) failedOtherwise() bool {
	texts := x.messageTexts()
	return slices.ContainsFunc(texts, namesItself) ||
		x.observed == nil && slices.ContainsFunc(texts, ownMistake) && !slices.ContainsFunc(texts, aboutNetwork)
}

// blameSilent marks what made a command fail that said nothing, if its command line tells and nothing else is known.
func (x *Execution) blameSilent(t *refusalTable) {
	if !x.result.Started || !x.failed() || !saidNothing(x.messageTexts()) || slices.ContainsFunc(t.list, func(r Refusal) bool { return r.Failed }) {
		return
	}
	silent := *t
	silent.list = nil
	silent.silent(x.processState().ExitCode())
	for _, r := range silent.list {
		for i := range t.list {
			if same := &t.list[i]; same.Kind == r.Kind && same.Target == r.Target && same.Rule == r.Rule {
				same.Failed = true
			}
		}
	}
}

// findInMessages finds what a command that failed was refused in its messages, or in that it has none.
func (x *Execution) findInMessages(t *refusalTable) {
	if !x.landlock && !x.request.Network && (x.net == nil || x.net.mode == BrokerEnforcer) {
		t.reaches = func(proto netpolicy.Proto, to netip.AddrPort) bool {
			return x.net != nil && x.net.table.Decide(proto, to).Allowed
		}
	}
	known, texts := len(t.list), x.messageTexts()
	for _, text := range texts {
		t.text(text)
	}
	if x.heard() && saidNothing(texts) {
		t.silent(x.processState().ExitCode())
	}
	if x.net == nil && len(t.list) > known && !slices.ContainsFunc(texts, aboutNetwork) {
		// It was not for the command's work, as when git looks up the name of this host.
		t.list = slices.DeleteFunc(t.list, func(r Refusal) bool { return r.Rule == networkRule })
		x.result.Network.Refused = 0
	}
}

// messageTexts are what is known of the command's standard error, and of its standard output reports of failed tests
// and the errors of programs that print them there.
func (x *Execution) messageTexts() [][]byte {
	list := [][]byte{x.said}
	for _, c := range [...]*capture{x.metered, x.stderr} {
		if c != nil {
			list = append(list, c.output().Bytes())
		}
	}
	out := x.told
	if x.stdout != nil {
		out = x.stdout.output().Bytes()
	}
	if x.request.Merge || runsTests(x.args) && reportsFailure(out) || tellsErrors(x.args) {
		list = append(list, out)
	}
	return list
}

// pings reports whether it was ping(8) that used the network, and nothing else that said so.
func (x *Execution) pings() bool {
	found := false
	for line := range bytes.Lines(x.said) {
		switch {
		case bytes.HasPrefix(line, []byte("ping: ")):
			found = true
		case aboutNetwork(line):
			return false
		}
	}
	return found || x.observed != nil && slices.ContainsFunc(x.observed.list, func(r Refusal) bool { return r.Rule == networkRule && r.Target == "" && r.Program == "ping" })
}

// program is the path of the command's program on the host. Empty: it has none there.
func (x *Execution) program() string {
	name := x.args[0]
	if !strings.Contains(name, "/") {
		name, _ = exec.LookPath(name)
	} else if !filepath.IsAbs(name) {
		name = filepath.Join(x.dir, name)
	}
	return name
}

// limitRefusals adds the limits that ended the command, and those of processes and file sizes if they were reached.
func (x *Execution) limitRefusals(t *refusalTable) {
	x.heardLimits()
	name := x.result.SignalName()
	for _, l := range x.result.Limits {
		r := Refusal{Kind: RefusedSignal, Op: name, Target: l.Name, Rule: limitRule, Why: limits.HitText(limits.Name(l.Name), l.Value, false), Flag: limits.Name(l.Name).Twice(l.Value), Count: 1}
		// The system call that fails when the limit is reached, if there is one.
		call := map[limits.Name]string{limits.PIDs: "clone", limits.FileSize: "write", limits.OpenFiles: "open"}[limits.Name(l.Name)]
		switch {
		case l.Killed && name != "":
			t.add(r)
		case l.Hit && call != "" && x.failed():
			r.Kind, r.Op, r.Target = RefusedSyscall, string(RefusedSyscall), call
			t.add(r)
		}
	}
	if x.result.TimedOut && name != "" {
		t.add(Refusal{Kind: RefusedSignal, Op: name, Target: "timeout", Rule: limitRule, Why: "time limit " + x.timeout.String() + " reached",
			Flag: "--timeout " + (2 * x.timeout).String(), Count: 1})
	}
}

// tellRefusals sets the refusals in the result, if there can be any.
func (x *Execution) tellRefusals(err error) {
	if x.bare != nil {
		return
	}
	n := &x.result.Network
	if err != nil && !x.result.Started || x.failed() || x.observed != nil || len(n.Decisions) > 0 || n.Refused > 0 {
		x.findRefusals(err)
	}
}

// noNetwork is a refusal of n attempts to use a network, if there is none.
func noNetwork(n int) Refusal {
	return Refusal{Kind: RefusedConnect, Op: "connect", Rule: networkRule, Why: "there is no network", Flag: "--learn-net", Count: n}
}

// networkRefusal turns a decision of the network's enforcers into a refusal.
func networkRefusal(d netpolicy.Decision) Refusal {
	r := Refusal{Kind: RefusedConnect, Op: "connect", Target: TargetText(d), Rule: networkRule, Why: "no rule allows it", Flag: d.AllowWith, Count: d.Count}
	switch {
	case d.Server:
		r.Kind, r.Op, r.Why = RefusedServe, "bind", "the port is not published"
	case d.Group:
		r.Kind, r.Op, r.Why = RefusedServe, "join", "the host would announce it on its network"
	case d.Proto == netpolicy.UDP.String():
		r.Op = "send"
	case d.Address == "":
		r.Op = "resolve"
	}
	return r
}

// refusalTable collects refusals, each once.
type refusalTable struct {
	box      *plan.Sandbox
	dir      string     // the working directory
	args     []string   // the command line
	words    []string   // of args: those that can be paths, absolute and clean
	guesses  guesses    // for messages that name no path
	names    int        // that may still be looked at
	looked   int        // how many words were looked for
	last     []byte     // the line before the one that is looked at
	now      []byte     // and that one
	nameless unix.Errno // the error of the line before, which names nothing
	follows  bool       // that line ends with a colon: empty lines may come before the name
	pushes   bool       // git could not write to a repository, which it names in a later line
	held     uint64     // nsrun's privileges, see sys.Held
	landlock bool       // nothing is done by mounts
	rules    bool       // it has a network by rules
	open     bool       // it has the host's network
	list     []Refusal

	// reaches reports whether the command may connect to an address of this host's loopback device; nil: it has
	// none of its own.
	reaches func(netpolicy.Proto, netip.AddrPort) bool
	asked   map[netip.AddrPort]bool // what was looked for there
	// argsAsked says that the servers in the command line are among these.
	argsAsked bool
}

func (t *refusalTable) add(r Refusal) {
	i := slices.IndexFunc(t.list, func(o Refusal) bool {
		return o.Kind == r.Kind && o.Op == r.Op && o.Target == r.Target && o.Rule == r.Rule
	})
	switch {
	case i >= 0:
		t.list[i].Count += r.Count
	case len(t.list) < mostRefusals:
		t.list = append(t.list, r)
	}
}

// messages are the texts of errors that a policy about files can cause.
var messages = [...]struct {
	text []byte
	err  unix.Errno
}{
	{[]byte("read-only file system"), unix.EROFS},
	{[]byte(readOnlyDatabase), unix.EROFS},
	{[]byte(cannotPush), unix.EROFS},
	{[]byte(cannotWrite), unix.EROFS},
	{[]byte("permission denied"), unix.EACCES},
	{[]byte("no such file"), unix.ENOENT},          // not all shells say "or directory"
	{[]byte("directory nonexistent"), unix.ENOENT}, // dash
	{[]byte("not found"), unix.ENOENT},             // shells say this of programs
	{[]byte("not be found"), unix.ENOENT},
	{[]byte("does not exist"), unix.ENOENT}, // git, of a repository to clone
	{[]byte("does not appear to be a git repository"), unix.ENOENT},
	{[]byte("connection refused"), unix.ECONNREFUSED},
	{[]byte("eacces"), unix.EACCES}, // Node says only this of sockets
	{[]byte("enoent"), unix.ENOENT},
	{[]byte("erofs"), unix.EROFS},
	{[]byte("accessdeniedexception"), unix.EACCES}, // Java
	{[]byte("nosuchfileexception"), unix.ENOENT},
	{[]byte("name not matched"), unix.ENOENT}, // zip
	{[]byte(noneToZip), unix.ENOENT},
}

// readOnlyDatabase is what SQLite says of a file, or a directory, that it cannot write to. It does not say of which.
const readOnlyDatabase = "readonly database"

// noneToZip is what zip -q says if it cannot see the files that it was given.
const noneToZip = "zip error: nothing to do!"

// namespaceWords occur in messages about namespaces, which the seccomp filter refuses with EPERM.
var namespaceWords = [...][]byte{[]byte("namespace"), []byte("unshare"), []byte("no usable sandbox"), []byte("clone")}

// namespaces looks for the message of a program that was refused a namespace. nsrun in a sandbox names the flag itself.
func (t *refusalTable) namespaces(lower []byte) {
	if bytes.Contains(lower, []byte("--allow-userns")) ||
		!bytes.Contains(lower, []byte("not permitted")) && !bytes.Contains(lower, []byte("no permission")) && !bytes.Contains(lower, namespaceWords[2]) {
		return
	}
	for _, word := range namespaceWords {
		if bytes.Contains(lower, word) {
			t.add(refusedSyscall("unshare"))
			return
		}
	}
}

// text looks for paths in lines that contain the text of such an error.
func (t *refusalTable) text(output []byte) {
	for line := range bytes.Lines(output) {
		t.last, t.now = t.now, line
		lower := bytes.ToLower(line)
		if !t.box.UserNamespaces {
			t.namespaces(lower)
		}
		t.privileges(lower)
		t.servers(lower)
		t.across(string(line))
		t.pushed(string(line))
		t.ssh(lower)
		if bytes.Contains(lower, []byte("not found")) || bytes.Contains(lower, []byte("no such file")) {
			t.program(line)
		}
		t.message(line, lower)
	}
}

// message looks for paths in a line, if it is about an error that a policy about files can cause.
func (t *refusalTable) message(line, lower []byte) {
	if len(lower) != len(line) {
		return
	}
	if err := t.nameless; err != 0 && bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("/")) {
		t.line(string(line), "", err)
	} else if t.follows && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	t.nameless, t.follows = 0, false
	for _, m := range messages {
		i := bytes.Index(lower, m.text)
		if i < 0 {
			continue
		}
		before, behind := string(line[:i]), string(line[i+len(m.text):])
		if strings.TrimSpace(before) == "" && bytes.HasSuffix(bytes.TrimSpace(t.last), []byte(":")) {
			before = string(t.last) // CMake breaks lines
		}
		switch string(m.text) {
		case readOnlyDatabase:
			t.guesses.database.add(t, t.database)
		case cannotPush:
			t.pushes = true
		case noneToZip:
			t.guesses.missing.add(t, t.unnamed(m.err))
		case cannotWrite:
			t.guesses.output.add(t, t.output)
		default:
			t.about(before, behind, m.err)
		}
		return
	}
	t.plain(string(line), lower)
}

// about adds what a message about an error names, before the error or behind it, or else a guess.
func (t *refusalTable) about(before, behind string, err unix.Errno) {
	switch found := t.line(before, behind, err); {
	case found:
	case err != unix.ECONNREFUSED && strings.Trim(behind, ") \n") == ":":
		t.nameless, t.follows = err, true // CMake names it after an empty line
	case err == unix.EACCES && !t.landlock:
		if t.ofOthers(before, behind) {
			return
		}
		if !t.exists(before) && !t.exists(behind) && !t.guesses.socket.add(t, t.socket) {
			t.guesses.closed.add(t, t.unnamed(err))
		}
	case t.landlock && err == unix.EACCES: // Landlock has one error
		_ = t.line(before, behind, unix.ENOENT) || t.line(before, behind, unix.EROFS)
	case err == unix.EROFS && (removes(before) || !changes(before) && t.removing(behind)):
		t.guesses.removed.add(t, t.removed)
	case err == unix.EROFS:
		t.guesses.written.add(t, t.written)
	case strings.TrimPrefix(strings.TrimSpace(behind), "or directory") == "" && len(namesIn(before)) == 0:
		t.nameless = err // 7-Zip names it in the next line
	}
	if err == unix.ENOENT && !t.landlock && t.namesNothing(before, behind) {
		t.guesses.missing.add(t, t.unnamed(err))
	}
}

// program adds the program that a message says is missing: its last word that is the name of one of this host.
func (t *refusalTable) program(message []byte) {
	words := strings.FieldsFunc(quotes.Replace(string(message)), func(r rune) bool { return strings.ContainsRune(" \t\n':,", r) })
	for _, word := range slices.Backward(words) {
		if t.names--; t.names < 0 || strings.Contains(word, "/") {
			return // the message names a path
		}
		if name, err := exec.LookPath(word); err == nil && t.addPath(name, unix.ENOENT, RefusedExec) {
			return
		}
	}
}

// inDir is the path that a name means in the working directory.
func (t *refusalTable) inDir(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(t.dir, name)
}

// paths are the words of the command line that can be paths, absolute and clean.
func (t *refusalTable) paths() []string {
	if t.words == nil {
		t.words = []string{}
		list := namesIn(strings.Join(t.args, " "))
		for _, name := range list[:min(len(list), mostWords)] {
			t.words = append(t.words, filepath.Clean(t.inDir(name)))
		}
	}
	return t.words
}

// removedFrom is the directory that has to be writable for something in a directory to be removed: if the command
// removes the directory, too, it is that in which the directory is.
func (t *refusalTable) removedFrom(dir string) string {
	if !removesTrees(t.args) {
		return dir
	}
	for _, name := range t.paths() {
		if paths.Inside(dir, name) {
			dir = filepath.Dir(name)
		}
	}
	return dir
}

// widen gives a refusal the flag for the directory that removedFrom names, or for that of a database, if this user may
// write to it.
func (t *refusalTable) widen(r *Refusal) {
	dir := t.removedFrom(r.Target)
	if isDatabase(dir) || dir == r.Target && (removesFiles(t.args) || replacesFiles(t.args)) && !host.IsDir(dir) {
		dir = filepath.Dir(dir)
	}
	if r.flag != "--rw" || dir == r.Target {
		return
	}
	if with, ok := t.box.Opening(dir); ok && unix.Access(dir, unix.W_OK) == nil {
		r.allowWith(with)
	}
}

// addPath adds the plan's refusal of a path, if that can cause the error.
func (t *refusalTable) addPath(name string, err error, kind RefusalKind) bool {
	r, ok := refusedPath(t.box, name, err, kind)
	if ok {
		t.add(r)
	}
	return ok
}

// refusedPath is the plan's refusal of a path, if that can cause the error.
func refusedPath(box *plan.Sandbox, name string, err error, kind RefusalKind) (r Refusal, ok bool) {
	real, on, unseen := look(box, name)
	if unseen != "" {
		return refusedLink(box, unseen, err)
	}
	if errors.Is(err, unix.ENOENT) && !on.Exists {
		return r, false // most often: it is not on the host either
	}
	p := box.Why(real, on)
	if errors.Is(err, unix.EACCES) && !on.Exists && p.At != real && hides(p.Cause) {
		return refusedPath(box, p.At, err, kind) // what is hidden is the directory
	}
	possible := false
	switch {
	case errors.Is(err, unix.EROFS):
		possible = true
	case on.Socket:
		kind, possible = RefusedUnix, true
	case errors.Is(err, unix.ENOENT):
		possible = on.Exists && !p.Read
	case errors.Is(err, unix.EACCES) && (p.Cause == plan.PrivilegeCause || p.Cause == plan.NobodyCause):
		possible = true
		if p.Read {
			kind = RefusedWrite
		}
	case errors.Is(err, unix.EACCES) && kind == RefusedWrite && strings.HasPrefix(p.WriteWith.Name, plan.OwnIDsWith):
		possible = on.Exists // before the kernel looks whether it is read-only
	case errors.Is(err, unix.EACCES):
		possible = on.Exists && hides(p.Cause)
	}
	if !possible {
		return r, false
	}
	why := refusalText(&p)
	for _, r := range refusals(&p, on, why) {
		if r.Kind == kind || kind == RefusedExec && r.Kind == RefusedRead {
			r.Kind, r.Op, r.Count = kind, string(kind), 1
			return r, true
		}
	}
	return r, false
}

// look is host.Look for a path that a command chose. Where a link leads that the command does not see, it would learn
// from the refusal. The links that /proc has of other processes are such, too: with a backend that shows all of /proc,
// the kernel does not let the command follow these.
func look(box *plan.Sandbox, name string) (real string, on plan.OnHost, unseen string) {
	return host.Look(name, func(link string) bool {
		return !strings.HasPrefix(link, "/proc/") && (box.Links(link) || box.Why(link, plan.OnHost{Exists: true}).Read)
	})
}

// refusedLink is the refusal to read the directory of a symbolic link that commands do not see. The links of Debian's
// alternatives are such: /usr/bin/awk leads to /etc/alternatives/awk, and that to /usr/bin.
func refusedLink(box *plan.Sandbox, link string, err error) (r Refusal, ok bool) {
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) {
		return r, false
	}
	dir, on, _ := look(box, filepath.Dir(link))
	p := box.Why(dir, on)
	if errors.Is(err, unix.EACCES) && !hides(p.Cause) {
		return r, false
	}
	for _, r := range refusals(&p, on, refusalText(&p)) {
		if r.Kind == RefusedRead {
			r.Count = 1
			return r, true
		}
	}
	return r, false
}

// hides reports whether it is because of this that something is hidden.
func hides(c plan.Cause) bool {
	return c == plan.SecretCause || c == plan.BlockedCause || c == plan.OwnCause
}
