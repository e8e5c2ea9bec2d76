//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/netpolicy"
)

// Learn finds the least that a command needs beyond a Config. It runs the command, allows what was refused, and runs it
// again, until it succeeds. Then it finds out which of these permissions the command does not need. So the command runs
// several times.
//
// Everything that the command writes is kept apart and discarded, even where rules make something writable; c.After and
// c.Recorder have no effect, and folders with the mode Direct are an error. Learn allows without a question: reading
// what the caller can read, except places of secrets; and writing. For each place of secrets and each unix socket it
// asks c.Approver, when nothing else is left to allow. For the network it asks once, as for Request.LearnNet, and the
// command then reaches everything. What c blocks stays blocked. What the command does on the network or through sockets
// is done in each run, and not undone.
//
// If the command still fails, the error is a *LearnError. Stdin, Stdout and Stderr of q must be nil.
func Learn(ctx context.Context, c Config, q Request, o LearnOptions) (Lesson, error) {
	c.After, c.Recorder, c.Why = Discard, nil, true
	l := &learner{config: c, request: q, options: o}
	l.request.LearnNet = false
	if why := notLearned(&c, &q); why != "" {
		return l.lesson, &Error{Op: "learn", Err: errors.New(why)}
	}
	// Only these keep all changes apart.
	l.config.Sandbox, l.config.Backend = SandboxRequired, NativeBackend
	l.needs, l.secrets = slices.Clone(o.Given), host.FindHidden(host.Home()).Secrets
	err := l.open(ctx, q.LearnNet)
	if err == nil {
		err = l.reduce(ctx)
	}
	l.lesson.Without = l.lesson.Last.Refusals
	return l.lesson, err
}

// notLearned says why nothing can be learned from a request. Empty: it can.
func notLearned(c *Config, q *Request) string {
	switch {
	case q.Stdin != nil || q.Stdout != nil || q.Stderr != nil || q.Passthrough:
		return "the command runs several times, so it cannot use the caller's standard input and output"
	case c.Sandbox == SandboxDisabled, c.Backend == LandlockBackend:
		return "it needs a sandbox with namespaces, because nothing else keeps all changes apart"
	case c.Mode == Direct && c.Project != "", slices.ContainsFunc(c.Shared, func(f Folder) bool { return f.Mode == Direct }):
		return "changes to a folder that is written to in place are not kept apart"
	case c.Session != "":
		return "it cannot continue a session, because each run begins a new one"
	case q.Network:
		return "the host's network has no rules to learn"
	}
	return ""
}

type learner struct {
	config   Config
	request  Request
	options  LearnOptions
	secrets  []string
	needs    []Need // that are allowed
	asked    []Need // that the Approver was asked about
	everyNet bool   // all of the network is allowed
	noNet    error  // why it is not; nil: it is, or nobody was asked
	fails    bool   // the command failed with only the given needs
	lesson   Lesson
}

// mostRuns is how often open runs a command.
const mostRuns = 50

// open runs the command, and allows what it was refused, until it succeeds.
func (l *learner) open(ctx context.Context, net bool) error {
	if net {
		if err := l.askNetwork(ctx); err != nil {
			return err
		}
	}
	for range mostRuns {
		ok, err := l.run(ctx, l.needs, true)
		if ok {
			return nil
		}
		l.fails = true
		if err != nil && !slices.ContainsFunc(l.lesson.Last.Refusals, func(r Refusal) bool { return r.Rule != limitRule }) {
			return err
		}
		if more, err := l.more(ctx); err != nil || !more {
			return cmp.Or(err, l.stuck())
		}
	}
	return l.stuck()
}

// more allows more, and reports whether there was anything to allow. It begins with what needs no question, and there
// with what made the command fail.
func (l *learner) more(ctx context.Context) (bool, error) {
	refusals := l.lesson.Last.Refusals
	for _, failed := range [...]bool{true, false} {
		more := false
		for _, r := range refusals {
			if need, ok := needOf(r); ok && r.Failed == failed && !l.asks(r) && !has(l.needs, need) {
				l.add(need)
				more = true
			}
		}
		if more {
			return true, nil
		}
	}
	if n := &l.lesson.Last.Network; !l.everyNet && l.noNet == nil && (n.Refused > 0 || len(n.Denied()) > 0) {
		if l.noNet = l.askNetwork(ctx); l.noNet == nil {
			return true, nil
		}
	}
	for _, failed := range [...]bool{true, false} {
		for _, r := range refusals {
			need, ok := needOf(r)
			if !ok || r.Failed != failed || !l.asks(r) || has(l.asked, need) || has(l.needs, need) {
				continue
			}
			if l.asked = append(l.asked, need); l.ask(ctx, need) == nil {
				l.add(need)
				return true, ctx.Err()
			}
		}
	}
	return false, ctx.Err()
}

// add adds a need. A need to write replaces needs to read and write below its target, except those of secrets.
func (l *learner) add(need Need) {
	if need.Kind == RefusedWrite {
		l.needs = slices.DeleteFunc(l.needs, func(n Need) bool {
			return (n.Kind == RefusedRead || n.Kind == RefusedWrite) && paths.Inside(n.Target, need.Target) &&
				(n.Target == need.Target || !paths.InAny(n.Target, l.secrets))
		})
	}
	l.needs = append(l.needs, need)
}

func has(list []Need, n Need) bool { return slices.ContainsFunc(list, n.same) }

// needOf returns the need that would allow a refused access to a file or a socket. Blocked paths have none.
func needOf(r Refusal) (Need, bool) {
	for _, k := range needs {
		if k.flag == r.flag && r.Rule != causes[plan.BlockedCause].word {
			return Need{Kind: k.kind, Target: r.value, Program: r.Program, Why: r.Why}, true
		}
	}
	return Need{}, false
}

// asks reports whether only the Approver can allow a refused access.
func (l *learner) asks(r Refusal) bool {
	return r.Kind == RefusedUnix || r.Kind == RefusedConnect || r.Rule == causes[plan.SecretCause].word || r.Rule == causes[plan.GitCause].word || paths.InAny(r.value, l.secrets)
}

// askApprover asks as a Runner does. An error means no.
func (l *learner) askApprover(ctx context.Context, about Question) error {
	r := NewRunner(l.config)
	defer func() { _ = r.Close() }()
	about.Command, about.Project, about.OneTime = l.request.text(), l.config.Project, true
	return r.ask(ctx, about)
}

func (l *learner) ask(ctx context.Context, need Need) error {
	action := ActionShow
	switch need.Kind {
	case RefusedWrite:
		action = ActionWrite
	case RefusedUnix, RefusedConnect:
		action = ActionConnect
	}
	return l.askApprover(ctx, Question{Action: action, Target: need.Target})
}

func (l *learner) askNetwork(ctx context.Context) error {
	err := l.askApprover(ctx, Question{Action: ActionNetwork, Target: unique()})
	l.everyNet = err == nil
	return err
}

// stuck says why nothing more can be allowed.
func (l *learner) stuck() error {
	e := &LearnError{}
	for _, r := range l.lesson.Last.Refusals {
		if need, ok := needOf(r); !ok || !has(l.needs, need) {
			e.Closed = append(e.Closed, r)
		}
	}
	return e
}

// run runs the command with what is allowed, and reports whether it succeeded.
func (l *learner) run(ctx context.Context, opened []Need, why bool) (bool, error) {
	c, q := l.config, l.request
	c.Why, q.LearnNet = why, l.everyNet
	c.Rules, c.AllowUnix, c.Net.Rules = withNeeds(c.Rules, opened), slices.Clone(c.AllowUnix), slices.Clone(c.Net.Rules)
	for _, n := range opened {
		switch n.Kind {
		case RefusedUnix:
			c.AllowUnix = append(c.AllowUnix, n.Target)
		case RefusedConnect:
			rule, err := netpolicy.Parse(n.Target)
			if err != nil {
				return false, err
			}
			c.Net.Rules = append(c.Net.Rules, rule)
		}
	}
	c.Approver = answerer{c.Approver}
	r := NewRunner(c)
	r.apart = true
	res, err := r.Run(ctx, q)
	err = cmp.Or(err, r.Close(), ctx.Err())
	if res.TimedOut {
		err = cmp.Or(err, context.DeadlineExceeded)
	}
	l.lesson.Runs++
	l.lesson.Last = res
	if l.options.Ran != nil {
		l.options.Ran(res, opened)
	}
	return err == nil && res.ExitCode == 0, err
}

// withNeeds adds the needs of files to rules, with the precedence of configuration files: the deeper path wins, then
// the read-only one, and hidden paths win over both.
func withNeeds(rules []Rule, needs []Need) []Rule {
	rules = slices.Clone(rules)
	for _, n := range needs {
		mode, opens := map[RefusalKind]Mode{RefusedWrite: Direct, RefusedRead: ReadOnly}[n.Kind]
		if !opens {
			continue
		}
		rule := Rule{Mode: mode, Pattern: pathrule.Quote(n.Target)}
		at := slices.IndexFunc(rules, func(other Rule) bool {
			deeper := strings.Count(other.Pattern, "/") - strings.Count(rule.Pattern, "/")
			return other.Mode == Blocked || deeper > 0 || deeper == 0 && rule.Mode == Direct && other.Mode == ReadOnly
		})
		if at < 0 {
			at = len(rules)
		}
		rules = slices.Insert(rules, at, rule)
	}
	return rules
}

// answerer says yes to the network, about which the user was asked before, and passes other questions on.
type answerer struct{ others Approver }

func (a answerer) Approve(ctx context.Context, q Question) (Answer, error) {
	switch {
	case q.Action == ActionNetwork:
		return Allow, nil
	case a.others == nil:
		return Deny, errNobody
	}
	return a.others.Approve(ctx, q)
}

// reduce keeps only those needs without which the command fails. For lists that a file replaces, it also tries their
// earlier elements.
func (l *learner) reduce(ctx context.Context) error {
	if l.everyNet {
		l.needs = slices.DeleteFunc(l.needs, func(n Need) bool { return n.Kind == RefusedConnect })
		for _, rule := range l.lesson.Last.Network.Rules {
			l.needs = append(l.needs, Need{Kind: RefusedConnect, Target: rule, Why: "no rule allowed it"})
		}
		l.everyNet, l.config.Net.Rules = false, nil
	}
	if l.hasKind(RefusedConnect) {
		for _, rule := range l.config.Net.Rules {
			l.give(RefusedConnect, rule.String())
		}
		l.config.Net.Rules = nil
	}
	if l.hasKind(RefusedUnix) {
		for _, path := range l.config.AllowUnix {
			l.give(RefusedUnix, path)
		}
		l.config.AllowUnix = nil
	}
	if len(l.needs) == 0 {
		return nil
	}
	least, err := l.without(ctx, nil, l.needs, l.fails)
	if err != nil {
		return err
	}
	// Run it once more, and record what it was refused and does not need.
	ok, err := l.run(ctx, least, true)
	if !ok && err == nil {
		err = &Error{Op: "learn", Err: errors.New("the command behaves differently each time: it failed with permissions with which it had succeeded before")}
	}
	l.lesson.Needs, l.lesson.Network, l.lesson.Sockets = least, contains(least, RefusedConnect), contains(least, RefusedUnix)
	return err
}

func (l *learner) hasKind(kind RefusalKind) bool { return contains(l.needs, kind) }

func contains(list []Need, kind RefusalKind) bool {
	return slices.ContainsFunc(list, func(n Need) bool { return n.Kind == kind })
}

func (l *learner) give(kind RefusalKind, target string) {
	if n := (Need{Kind: kind, Target: target, Why: "it was allowed before"}); !has(l.needs, n) {
		l.needs = append(l.needs, n)
	}
}

// without returns the elements of a list without which the command fails, while others are allowed: it tries to omit
// all of them, unless it is known to fail then, and then each half.
func (l *learner) without(ctx context.Context, others, list []Need, fails bool) ([]Need, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if !fails {
		ok, err := l.run(ctx, others, false)
		if ok {
			return nil, nil
		}
		if err != nil && !l.lesson.Last.failedToStart() {
			return nil, err
		}
	}
	if len(list) == 1 {
		return list, nil
	}
	half := len(list) / 2
	first, err := l.without(ctx, slices.Concat(others, list[half:]), list[:half], false)
	if err != nil {
		return nil, err
	}
	second, err := l.without(ctx, slices.Concat(others, first), list[half:], fails && len(first) == 0)
	return slices.Concat(first, second), err
}

// failedToStart reports whether the policy prevented the command from being executed.
func (r *Result) failedToStart() bool { return !r.Started && len(r.Refusals) > 0 }
