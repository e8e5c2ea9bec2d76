//go:build linux

package nsrun

import (
	"cmp"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// observed is what a command was seen to be refused (Config.Why).
type observed struct {
	by  *attempts.Observer
	box *plan.Sandbox
	// loopback says that the command has a loopback device of its own.
	loopback bool
	net      *network // nil: none
	list     []Refusal
	blame    blame
}

// observe has the command observed, by whoever supervises it. deny is the filter that it must pass.
func (x *Execution) observe(cmd *nsexec.Cmd, deny nsexec.Filter) error {
	if err := features.Get(features.SeccompNotification).Err(); err != nil {
		return err
	}
	box := x.box
	o := &observed{box: &box, loopback: !x.request.Network && (x.net == nil || x.net.mode == BrokerEnforcer), net: x.net}
	o.by = &attempts.Observer{Deny: deny, Tell: o.tell, After: &o.blame}
	if err := o.by.Attach(sandbox.Of(cmd)); err != nil {
		return &Error{Op: "observe", Err: err}
	}
	cmd.Seccomp = []nsexec.Filter{} // the observer has it
	x.observed = o
	return nil
}

// endObserved waits until nothing more is told.
func (x *Execution) endObserved() {
	if o := x.observed; o != nil && o.by != nil {
		o.by.Close()
		o.blame.signaled(o.by.Command())
		for _, i := range o.blame.reason {
			o.list[i].Failed = true
		}
		// What was the reason comes first.
		slices.SortStableFunc(o.list, func(a, b Refusal) int { return cmp.Compare(rank(a), rank(b)) })
		o.by = nil
	}
}

var refusalKinds = [...]RefusalKind{
	attempts.Read: RefusedRead, attempts.Write: RefusedWrite, attempts.Exec: RefusedExec, attempts.Unix: RefusedUnix, attempts.Syscall: RefusedSyscall,
	attempts.Loopback: RefusedConnect, attempts.Signal: RefusedSignal,
}

// tell adds an attempt, if it is the policy that refuses it.
func (o *observed) tell(a attempts.Attempt, by func() attempts.Process) bool {
	kind := refusalKinds[a.Kind]
	var r Refusal
	ok := false
	if kind == RefusedConnect {
		r, ok = refusedLoopback(a.To, by().Host)
		ok = ok && o.loopback && (o.net == nil || !o.net.table.Decide(netpolicy.TCP, a.To).Allowed)
	} else if kind == RefusedSignal {
		ok = true
		r = Refusal{Kind: kind, Op: string(kind), Target: "process " + strconv.Itoa(a.Number), Rule: processRule, Count: 1,
			Why: "commands have numbers of processes of their own, and reach none outside the sandbox"}
	} else if kind == RefusedSyscall {
		r = refusedSyscall(a.Path)
		ok = a.Anyone || os.Geteuid() == 0
	} else if a.Err == unix.EXDEV {
		r, ok = refusedAcross(o.box, a.From, a.Path)
	} else {
		if r, ok = refusedPath(o.box, a.Path, a.Err, kind); !ok && kind == RefusedWrite {
			r, ok = refusedWrite(o.box, a.Path, a.Err, a.Name)
		}
		ok = ok && (r.Kind == kind || r.Kind != RefusedUnix) // who only looks at a socket does not connect to it
	}
	if !ok {
		return false
	}
	i, who := slices.IndexFunc(o.list, func(other Refusal) bool { return other.Kind == r.Kind && other.Target == r.Target }), by()
	switch {
	case i >= 0:
		o.list[i].Count++
	case len(o.list) == mostRefusals:
		return true
	default:
		r.PID, r.Program = who.PID, who.Program
		i, o.list = len(o.list), append(o.list, r)
	}
	o.blame.refused(who, met{index: i, target: textTarget(a), err: a.Err})
	return true
}

// rank is the order of refusals: 0 for those that a command failed of.
func rank(r Refusal) int {
	if r.Failed {
		return 0
	}
	return 1
}
