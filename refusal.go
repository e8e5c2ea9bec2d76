package nsrun

import "github.com/nsrun/nsrun/internal/escape"

// RefusalKind says what was refused.
type RefusalKind string

const (
	RefusedRead    RefusalKind = "read"    // to read a file or directory
	RefusedWrite   RefusalKind = "write"   // to write to, create, remove or rename one
	RefusedExec    RefusalKind = "exec"    // to execute a program
	RefusedConnect RefusalKind = "connect" // to connect or send to a host by TCP or UDP, or to look up its name
	RefusedServe   RefusalKind = "socket"  // to bind a port, or to join a multicast group
	RefusedUnix    RefusalKind = "unix"    // to connect to a unix socket of the host
	RefusedSyscall RefusalKind = "syscall" // a system call that this user may make outside a sandbox
	RefusedSignal  RefusalKind = "signal"  // to send a signal to a process outside the sandbox; or a signal ended the command because of a limit
)

// A Refusal is something that the policy refused a command, and the flag that would allow it.
type Refusal struct {
	Kind RefusalKind `json:"kind"`
	// Op says more exactly what was tried: with RefusedConnect "connect", "send" or "resolve"; with RefusedServe
	// "bind" or "join"; with RefusedSignal and a limit, the signal that ended the command; else it is the kind.
	Op string `json:"op"`
	// Target is an absolute path without symbolic links. For the network it is a text, see TargetText; with
	// RefusedSyscall it is the call's name; with RefusedSignal it is "process 123" or the limit's name.
	Target string `json:"path"`
	// Rule is a word for what refuses it: "host" (the host's files are read-only), "read-only", "git", "secret",
	// "socket", "blocked", "private" (commands have their own in place of the host's), "strict" (only what is
	// listed is shown), "nsrun", "privileges", "network", "seccomp", "mount" (a rule names this very file, so it is
	// a mount of its own), "loopback" (a server of this host listens there, but commands have their own loopback
	// device), "address" (a server at an address of the host, or a multicast group on its network devices, which
	// the sandbox does not have), "owner" (an overlay can hold no new version of another user's or group's file),
	// "icmp" (ping(8)), "processes" (the sandbox has its own process ids), "limit" (one of Result.Limits, or
	// Config.Timeout; the Flag is for twice as much).
	Rule string `json:"rule"`
	Why  string `json:"why"` // the same for people
	// Flag is the flag of nsrun run that would allow it, as it is typed in a shell: see PathRule. Empty: none would.
	Flag    string `json:"allow_with"`
	Count   int    `json:"count"`             // how many times it was seen; zero: nobody has tried
	PID     int    `json:"pid,omitempty"`     // who tried it first, as the sandbox counts; zero: unknown
	Program string `json:"program,omitempty"` // its name, followed by the name it was called by if that differs; empty: unknown
	// Failed says that the command failed because of it, as far as that can be told from what processes did next
	// and wrote to standard error. It is set only with Config.Why.
	Failed bool `json:"failed,omitempty"`

	flag, value string // of Flag, as they are before anything is quoted; empty: Flag is about something else than a path
}

// String is a line about it: "read of /tmp/x: commands have a /tmp of their own (try: --ro /tmp/x)".
func (r Refusal) String() string {
	text := string(r.Kind)
	switch r.Kind {
	case RefusedRead:
		text = "read of"
	case RefusedWrite:
		text = "write to"
	case RefusedExec:
		if text = "execution of"; r.Target == "" {
			text = "execution"
		}
	case RefusedUnix:
		text = "connection to"
	case RefusedServe:
		if text = "server at"; r.Op == "join" {
			text = "joining of"
			if r.Target == "" {
				text += " a multicast group"
			}
		}
	case RefusedSyscall:
		text = "system call"
	case RefusedSignal:
		text = "signal to"
		if r.Rule == limitRule {
			text = r.Op + " for"
		}
	}
	if r.Target != "" {
		text += " " + escape.Quote(r.Target)
	}
	text += ": " + r.Why
	if r.Flag != "" {
		text += " (try: " + r.Flag + ")"
	}
	return text
}

// PathRule is what a Request can ask for, in its Paths, so that the command is not refused this again: the same path or
// the directory that has to be writable. ok is false if no rule about a path would allow it, and for a Refusal that was
// decoded from JSON. For the network there are Request.Network and rules in Config.Net, and for a unix socket
// Config.AllowUnix.
func (r Refusal) PathRule() (rule Rule, ok bool) {
	switch r.flag {
	case "--ro":
		return Rule{Mode: ReadOnly, Pattern: r.value}, true
	case "--rw":
		return Rule{Mode: Direct, Pattern: r.value}, true
	}
	return Rule{}, false
}

// loopbackRule is the word for a server of the host at its loopback device, where the sandbox has one of its own.
const loopbackRule = "loopback"

// networkRule is the word for rules of the network, and for the lack of one.
const networkRule = "network"

// addressRule is the word for an address of the host's network devices, which the sandbox does not have.
const addressRule = "address"

// limitRule is the word for a limit, and processRule for what is outside the sandbox's process numbers.
const limitRule, processRule = "limit", "processes"

// FileRefusals returns the refusals in Result.Refusals that are not also in Result.Network or Result.Limits.
func (r Result) FileRefusals() (list []Refusal) {
	for _, d := range r.Refusals {
		if d.Rule != limitRule && d.Kind != RefusedConnect && d.Kind != RefusedServe || d.Rule == loopbackRule || d.Rule == addressRule {
			list = append(list, d)
		}
	}
	return list
}
