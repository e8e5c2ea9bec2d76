//go:build linux

package nsrun

import (
	"cmp"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// observed collects what a command is refused (Config.Why).
type observed struct {
	by  *attempts.Observer
	box *plan.Sandbox
	// loopback says that the command has a loopback device of its own.
	loopback bool
	held     uint64   // nsrun's privileges, see sys.Held
	open     bool     // the command has the host's network
	abstract []string // Config.AllowUnix
	net      *network // nil: none by rules
	servers  []netip.AddrPort
	wanted   wanted
	mu       sync.Mutex // for the rest: other goroutines refuse lookups
	list     []Refusal
	gone     int // how many older ones list no longer has: blame's index of list[0]
	blame    blame
	said     []byte           // the end of what the command wrote to standard error
	asked    attempts.Process // the last process that looked up a name
}

// observe attaches an Observer to the command. deny is the filter that its calls must pass.
func (x *Execution) observe(cmd *nsexec.Cmd, deny nsexec.Filter) error {
	if err := features.Get(features.SeccompNotification).Err(); err != nil {
		return err
	}
	box := x.box
	box.Closed = append(slices.Clip(box.Closed), host.ConfigDirs(host.Home())...)
	o := &observed{box: &box, loopback: !x.request.Network && (x.net == nil || x.net.mode == BrokerEnforcer), open: x.request.Network, abstract: x.runner.config.AllowUnix, net: x.net}
	o.blame.holds = holds
	if o.net != nil {
		tell := o.refusedName
		o.net.observe.Store(&tell)
	} else {
		o.servers = host.ReadResolvConf().Upstreams
	}
	o.held = sys.Held()
	o.by = &attempts.Observer{Deny: deny, Tell: o.tell, After: o, Heard: o.heard, Held: o.held}
	if root, ok := x.mapsIDs(); ok {
		o.by.Root, o.by.User = root.Has, uint32(x.ownRoot())
	} else {
		o.by.Unprivileged = os.Geteuid() == 0
	}
	if err := o.by.Attach(sandbox.Of(cmd)); err != nil {
		return &Error{Op: "observe", Err: err}
	}
	cmd.Seccomp = []nsexec.Filter{} // the Observer enforces deny
	x.observed = o
	return nil
}

// holds reports whether a directory has a file of this name, or a module.
func holds(dir, name string) bool {
	return slices.ContainsFunc([]string{"", ".py", ".js"}, func(end string) bool { return unix.Access(filepath.Join(dir, name)+end, unix.F_OK) == nil })
}

// endObserved waits until all observations have arrived.
func (x *Execution) endObserved() {
	if o := x.observed; o != nil && o.by != nil {
		if o.net != nil {
			o.net.observe.Store(nil)
		}
		o.by.Close()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.blame.signaled(o.by.Command())
		x.said = o.said
		for _, i := range o.blame.reason {
			if i >= o.gone {
				o.list[i-o.gone].Failed = true
			}
		}
		// All that is known is that there was such a socket: most programs only ask for addresses.
		o.list = slices.DeleteFunc(o.list, func(r Refusal) bool { return r.Target == networkChange && !r.Failed })
		o.by = nil
	}
}

var refusalKinds = [...]RefusalKind{
	attempts.Read: RefusedRead, attempts.Write: RefusedWrite, attempts.Exec: RefusedExec, attempts.Unix: RefusedUnix, attempts.Syscall: RefusedSyscall,
	attempts.Inet: RefusedConnect, attempts.Signal: RefusedSignal,
}

// mostObserved is how many refusals are kept while the command runs. More than mostRefusals, because what makes the
// command fail mostly comes last.
const mostObserved = 1000

// tell adds an attempt, if the policy refuses it.
func (o *observed) tell(a attempts.Attempt, by func() attempts.Process) bool {
	kind := refusalKinds[a.Kind]
	m := met{target: textTarget(a), err: a.Err}
	var r Refusal
	ok := false
	if kind == RefusedConnect {
		r, ok = o.refusedInet(a, by, &m)
	} else if kind == RefusedSignal {
		ok = true
		r = Refusal{Kind: kind, Op: string(kind), Target: "process " + strconv.Itoa(a.Number), Rule: processRule, Count: 1,
			Why: "the sandbox has its own process ids, and commands reach no process outside"}
	} else if a.SetID {
		r, ok, m.call, m.only, m.vague = refusedSetID(a.Path), true, true, setIDWords, true
	} else if a.Netlink {
		r, ok, m.call, m.only, m.vague = refusedPrivilege(networkChange, false), a.Needs&^o.held == 0, true, "netlink|rule set generation", true
	} else if a.Privileges {
		r, ok, m.call = refusedPrivilege(a.Path, a.Owner), a.Owner || a.Needs&^o.held == 0, true
	} else if a.ICMP {
		r, m.call = refusedICMP(), true
		ok = (a.Needs&^o.held == 0 || host.Pings()) && (o.net != nil || by().Program != "ping") // whose connect fails, too
	} else if strings.HasPrefix(a.Path, AbstractSockets) {
		r, ok = o.refusedAbstract(a.Path, by)
	} else if kind == RefusedSyscall {
		r = refusedSyscall(a.Path)
		ok = a.Needs&^o.held == 0
		m.call = true
	} else if a.Err == unix.EXDEV {
		r, ok = refusedAcross(o.box, a)
	} else {
		if r, ok = refusedPath(o.box, a.Path, a.Err, kind); !ok && kind == RefusedWrite {
			r, ok = refusedWrite(o.box, a.Path, a.Err, a.Name)
		}
		m.vague = kind == RefusedRead && strings.HasPrefix(a.Path, r.Target+"/")
		ok = ok && (r.Kind == kind || r.Kind != RefusedUnix) // looking at a socket is no connection
	}
	if ok {
		o.noting(func() { o.add(r, by(), m) })
	}
	return ok
}

// heard keeps the end of what the command writes to standard error.
func (o *observed) heard(text []byte) {
	o.noting(func() {
		if o.said = append(o.said, text...); len(o.said) > 2*mostHeard {
			o.said = append(o.said[:0], o.said[len(o.said)-mostHeard:]...)
		}
	})
}

// mostHeard is how many bytes of messages are kept.
const mostHeard = 16 << 10

// noting calls f with o.mu held, unless the command's end has been noted: the Observer may have waited longer for a
// file system.
func (o *observed) noting(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by != nil {
		f()
	}
}

// add adds a refusal; o.mu is held.
func (o *observed) add(r Refusal, who attempts.Process, m met) {
	i := slices.IndexFunc(o.list, func(other Refusal) bool {
		return other.Kind == r.Kind && other.Target == r.Target && other.Rule == r.Rule
	})
	switch {
	case i >= 0:
		o.list[i].Count++
		if same := &o.list[i]; same.Program == "ping" { // a flag helps other programs, see pings
			same.PID, same.Program = who.PID, who.Program
		}
	default:
		// A program may look for many files that it does not need before it is refused what it fails of.
		if len(o.list) == mostObserved {
			o.list = slices.Delete(o.list, 0, 1)
			o.gone++
		}
		r.PID, r.Program = who.PID, who.Program
		i, o.list = len(o.list), append(o.list, r)
	}
	m.index = o.gone + i
	o.blame.refused(who, m)
	o.by.Follow(maps.Keys(o.blame.of))
}

// refusedInet returns the Refusal of a use of the network. If rules refuse it, the Refusal has only the target: the
// enforcer logs the rest.
func (o *observed) refusedInet(a attempts.Attempt, by func() attempts.Process, m *met) (r Refusal, ok bool) {
	if a.Joins {
		return o.refusedJoin(a, m)
	}
	local := a.To.Addr().IsLoopback()
	m.net, m.conn = !local, !a.Serves
	proto := netpolicy.TCP
	if a.Datagram {
		proto = netpolicy.UDP
	}
	switch {
	case o.open:
		return r, false
	case a.Serves && (o.net == nil || o.net.mode == BrokerEnforcer) && hasAddress(a.To.Addr().AsSlice()):
		m.net, m.call, m.err, m.target = false, true, unix.EADDRNOTAVAIL, a.To.Addr().String()
		return refusedAddress(m.target), true
	case a.Serves:
		m.target = strconv.Itoa(int(a.To.Port()))
		m.net = true
		ok = o.net != nil && o.net.mode == KernelEnforcer && a.To.Port() != 0 && (a.Datagram || !slices.Contains(o.net.publish, a.To.Port()))
		return Refusal{Kind: RefusedConnect, Target: a.To.String(), Rule: networkRule, Count: 1}, ok
	case o.net == nil && (!local || slices.Contains(o.servers, a.To)):
		m.net, m.target = true, ""
		if !local && a.To.Port() != domain {
			m.target = a.To.Addr().String()
		}
		o.wanted.add(proto, a.To)
		return noNetwork(1), true
	case o.net != nil && a.To == o.net.asked:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked = by()
		return r, false
	case local && o.loopback:
		m.net = a.Datagram // nothing fails before an answer is waited for
		r, ok = refusedLoopback(proto, a.To, by().Host)
		return r, ok && (o.net == nil || !o.net.table.Decide(proto, a.To).Allowed)
	case local && o.net != nil && !a.Datagram && o.net.isClosed(a.To):
		return r, false
	}
	v := o.net.table.Decide(proto, a.To)
	m.net, m.target, m.host = true, a.To.Addr().String(), v.Host
	return Refusal{Kind: RefusedConnect, Target: a.To.String(), Rule: networkRule, Count: 1}, !v.Allowed
}

// refusedJoin returns the Refusal of a multicast group, if the host has a device for it that the sandbox lacks. With
// rules of the network the enforcer knows it.
func (o *observed) refusedJoin(a attempts.Attempt, m *met) (r Refusal, ok bool) {
	m.call, m.target = true, a.To.Addr().String()
	return refusedGroup(m.target), !o.open && o.net == nil && joinsOn(a.Device)
}

// refusedAbstract is a connection to a socket of the host that has no path, if the sandbox has none of that name.
func (o *observed) refusedAbstract(name string, by func() attempts.Process) (r Refusal, ok bool) {
	r, ok = refusedAbstract(o.open, o.abstract)
	r.Target, r.Op, r.Rule, r.Count = name, string(r.Kind), causes[plan.SocketCause].word, 1 // no rule of the network
	return r, ok && isBound("self", name) && (o.open || !isBound(strconv.Itoa(by().Host), name))
}

// isBound reports whether the network namespace of a process has a socket of this name.
func isBound(process, name string) bool {
	text, _ := os.ReadFile("/proc/" + process + "/net/unix")
	return strings.Contains(string(text), " "+name+"\n")
}

// domain is the port of name servers.
const domain = 53

// refusedName records that rules refused to resolve a name, for the last process that used the resolver.
func (o *observed) refusedName(name string) {
	o.noting(func() {
		if o.asked.Host != 0 {
			o.add(Refusal{Kind: RefusedConnect, Target: name, Rule: networkRule, Count: 1}, o.asked, met{target: name, net: true})
		}
	})
}

// failedOf reports whether the command failed because the network refused a target: a name, an address with its port,
// or, if empty, everything.
func (o *observed) failedOf(target string) bool {
	return o != nil && slices.ContainsFunc(o.list, func(r Refusal) bool { return r.Failed && r.Rule == networkRule && r.Target == target })
}

// Follows, Tried, Executed, Said and Ended make o a Follower for its blame.
func (o *observed) Follows(process int) (follows bool) {
	o.noting(func() { follows = o.blame.Follows(process) })
	return follows
}

func (o *observed) Tried(process int, name string, failed bool) {
	o.noting(func() { o.blame.Tried(process, name, failed) })
}

func (o *observed) Executed(process int) {
	o.noting(func() {
		o.blame.Executed(process)
		o.by.Follow(maps.Keys(o.blame.of))
	})
}

func (o *observed) Said(process int, text []byte) { o.noting(func() { o.blame.Said(process, text) }) }

func (o *observed) Ended(p attempts.Process, status int, command bool) {
	o.noting(func() {
		o.blame.Ended(p, status, command)
		o.by.Follow(maps.Keys(o.blame.of))
	})
}

// sortFailed puts what made the command fail first.
func sortFailed(list []Refusal) {
	rank := func(r Refusal) int {
		if r.Failed {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Refusal) int { return cmp.Compare(rank(a), rank(b)) })
}
