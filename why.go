//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/netpolicy"
)

// Why says what the command of a Request would be allowed to do with something, and runs nothing. what is an absolute
// path; a unix socket, as its path or, if it has none, as "@" and its name; or a host, as a rule of the network names
// it ("example.org:443", "tcp:192.0.2.1").
func (r *Runner) Why(ctx context.Context, q Request, what string) (Finding, error) {
	a := Finding{Target: what, Write: "no"}
	x, err := r.plannedWith(ctx, q, true)
	if err != nil {
		return a, err
	}
	defer x.unplan()
	switch {
	case strings.HasPrefix(what, "/"):
		a.path(&x.box, filepath.Clean(what))
	case strings.HasPrefix(what, AbstractSockets):
		a.abstract(&x.request, r.config.AllowUnix)
	default:
		err = a.host(x)
	}
	x.withoutFlags(a.Denied)
	return a, err
}

// causes are the words for what refuses something, and the texts for people: %s is the path or host.
var causes = [...]struct{ word, text string }{
	plan.NoCause:        {"", ""},
	plan.HostCause:      {"host", "the host's files are read-only"},
	plan.ShownCause:     {"read-only", "%s is shown read-only"},
	plan.GitCause:       {"git", "git executes or obeys what is in %s"},
	plan.SecretCause:    {"secret", "%s is a place of secrets, and hidden"},
	plan.SocketCause:    {"socket", "sockets of the host are hidden"},
	plan.BlockedCause:   {"blocked", "%s is blocked"},
	plan.PrivateCause:   {"private", "commands have a %s of their own"},
	plan.StrictCause:    {"strict", "the preset strict shows nothing of the host but what is listed"},
	plan.NetworkCause:   {"network", "%s is made for the network of the command"},
	plan.OwnCause:       {"nsrun", "%s is nsrun's own"},
	plan.ProtectedCause: {"protected", "%s is protected: changes of it are held back, or refused where they would be made in place"},
	plan.PrivilegeCause: {"privileges", "root has no privileges in the sandbox, and permissions of %s are for others"},
	plan.NobodyCause:    {"ids", "to %s a command with ids of its own is nobody, and its permissions are for others"},
}

var writings = [...]string{plan.NoWriting: "no", plan.Apart: "apart", plan.InPlace: "in place", plan.Temporary: "temporary", plan.InHome: "home layer"}

// path answers about a path, or a socket that has one.
func (a *Finding) path(box *plan.Sandbox, name string) {
	real, on, _ := host.Look(name, nil)
	p := box.Why(real, on)
	a.Kind, a.Path, a.Exists = "path", real, on.Exists
	a.Read, a.Write, a.Connect = p.Read && on.Exists, writings[p.Writing], p.Connect
	a.Rule = causes[p.Cause].word
	a.Text = refusalText(&p)
	a.Denied = refusals(&p, on, a.Text)
	if on.Socket {
		a.Kind = "socket"
	}
	if _, _, unseen := look(box, name); unseen != "" {
		if r, ok := refusedLink(box, unseen, unix.ENOENT); ok {
			a.Read, a.Write, a.Connect = false, writings[plan.NoWriting], false
			a.Rule, a.Text, a.Denied = r.Rule, "a link on the way to it is hidden: "+r.Why, []Refusal{r}
		}
	}
	if !on.Root && on.Exists && (on.NoRead || on.NoWrite && p.Writing != plan.Temporary) && !on.Socket {
		what := "write to"
		if on.NoRead {
			a.Read, what = false, "read"
		}
		if on.NoWrite && p.Writing != plan.Temporary {
			a.Write = writings[plan.NoWriting]
		}
		a.Text = strings.TrimPrefix(a.Text+"; your own permissions do not allow you to "+what+" it", "; ")
	}
}

// refusalText says for people what refuses something.
func refusalText(p *plan.Place) string {
	return strings.ReplaceAll(causes[p.Cause].text, "%s", escape.Quote(p.At))
}

// refusals are the ways to use a path that the policy refuses and nothing else does.
func refusals(p *plan.Place, on plan.OnHost, why string) (list []Refusal) {
	add := func(kind RefusalKind, with plan.Flag) {
		r := Refusal{Kind: kind, Op: string(kind), Target: p.Path, Rule: causes[p.Cause].word, Why: why}
		r.allowWith(with)
		list = append(list, r)
	}
	own := !on.Root // what permissions refuse is not the policy's doing, but for root
	if on.Socket {
		if !p.Connect {
			with := p.ConnectWith
			if name := serviceAt(p.Path); name != "" && with.Name != "" {
				with.Path = name // which asks, and shows less
			}
			add(RefusedUnix, with)
		}
		return list
	}
	ofKernel := p.Cause == plan.PrivateCause && p.ReadWith == (plan.Flag{})
	if on.Exists && !p.Read && !ofKernel && !(own && on.NoRead) {
		add(RefusedRead, p.ReadWith)
	}
	if p.Writing == plan.NoWriting && !(own && on.NoWrite) && p.Cause != plan.PrivateCause {
		add(RefusedWrite, p.WriteWith)
	}
	return list
}

// abstract answers about a socket without a path.
func (a *Finding) abstract(q *Request, allowed []string) {
	a.Kind = "socket"
	if r, refused := refusedAbstract(q.Network, allowed); refused {
		a.deny(r)
	} else {
		a.Connect, a.Rule, a.Text = true, "allowed", "--allow-unix @ allows it"
	}
}

// refusedAbstract is a connection to a socket of the host that has no path. network says that the command has the
// host's network, and allowed is Config.AllowUnix.
func refusedAbstract(network bool, allowed []string) (r Refusal, refused bool) {
	switch {
	case !network:
		return Refusal{Kind: RefusedUnix, Rule: "network", Why: "abstract sockets of the host belong to its own network", Flag: "--net host --allow-unix @"}, true
	case !slices.Contains(allowed, AbstractSockets):
		return Refusal{Kind: RefusedUnix, Rule: "socket", Why: "sockets of the host are hidden", Flag: "--allow-unix @"}, true
	}
	return r, false
}

func (a *Finding) deny(r Refusal) {
	r.Op, r.Target = string(r.Kind), a.Target
	a.Rule, a.Text, a.Denied = r.Rule, r.Why, append(a.Denied, r)
}

// host answers about a host of the network.
func (a *Finding) host(x *Execution) error {
	a.Kind = "host"
	asked, err := netpolicy.Parse(a.Target)
	if err != nil {
		return err
	}
	if asked.Any || asked.Suffix || asked.Prefix.IsValid() && !asked.Prefix.IsSingleIP() || asked.First != asked.Last {
		return &Error{"ask about", a.Target, errors.New("ask about one host, and at most one port of it")}
	}
	own := asked.Prefix.IsValid() && asked.Prefix.Addr().IsLoopback()
	switch {
	case x.request.Network:
		a.Connect, a.Rule, a.Text = true, "allowed", "the command would have the host's network"
		return nil
	case x.request.LearnNet:
		a.Connect, a.Rule, a.Text = true, "allowed", "the command would reach everything"
		return nil
	}
	why := "no rule allows it"
	if x.net == nil {
		why = "there is no network"
	} else if rule, ok := x.net.table.Policy().Allowing(asked); ok {
		a.Connect, a.Rule, a.Text = true, "allowed", "--allow-net "+escape.Command([]string{rule.String()})+" allows it"
		if asked.Proto == netpolicy.AnyProto && rule.Proto == netpolicy.UDP {
			a.Text += ", by UDP only"
		}
		return nil
	}
	if own {
		why += "; the loopback device is the sandbox's own"
		if x.net != nil && x.net.mode == KernelEnforcer {
			why = "no rule allows it"
		}
	}
	for _, r := range x.services.routes {
		if r.rule.Host == asked.Host && (asked.First == 0 || asked.First == cmp.Or(r.rule.Port, 443)) {
			why += "; requests with its credential go to $" + r.rule.Variable()
		}
	}
	a.deny(Refusal{Kind: RefusedConnect, Rule: "network", Why: why, Flag: "--allow-net " + escape.Command([]string{asked.String()})})
	return nil
}
