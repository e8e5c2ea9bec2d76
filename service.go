//go:build linux

package nsrun

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/mounts"
)

// SSHAgent stands in Config.AllowUnix for the ssh-agent of this program's user (SSH_AUTH_SOCK). Commands do not see the
// agent itself: they have a proxy that lists chosen keys, and asks the Approver about each signature (ActionSign). If
// it is given alone, the Approver is also asked about each key (ActionKey). "ssh-agent:" and a key's comment, its
// fingerprint, or the path of its public key file, which is absolute or begins with "~/", chooses a key. It can be
// given several times.
const SSHAgent = service.SSHAgent

// GPGAgent stands in Config.AllowUnix, as "gpg-agent:" and a key, for the gpg-agent of this program's user: commands
// have a proxy that signs with that key alone, and asks the Approver about each signature (ActionSign).
const GPGAgent = service.GPGAgent

// A Gateway serves commands that use a credential. Open is called for each command and rule; the function that it
// returns serves a listener until ctx ends.
type Gateway interface {
	Open(ctx context.Context, r credential.Route) (serve func(net.Listener) error, err error)
}

// services are those of one command. The zero value is none.
type services struct {
	ctx     context.Context // nil: there are none, or only to be looked at
	stop    context.CancelFunc
	started chan struct{}  // closed when the command was executed
	running sync.WaitGroup // what serves
	end     []func()       // in reverse order, after all that is running
	shown   []func()       // when the sandbox has been made: removes names
	mounts  mounts.Plan    // in the sandbox
	env     []string       // of the command
	routes  []route        // of credentials
	secrets []string       // files that the command must not see
	turn    chan struct{}  // full: somebody is being asked

	mu      sync.Mutex
	uses    []ServiceUse
	refused int // questions that were answered with no
}

// Limits of what one command can do with services.
const (
	maxUses    = 200 // that are listed
	maxRefused = 3   // questions that are answered with no; after that, nobody is asked
)

var errEnough = errors.New("nsrun no longer asks, after several answers of no")

// openServices opens everything in Config.AllowUnix that is not a path, once for an Execution.
func (x *Execution) openServices(run bool, suspect func(dir string) bool) error {
	s := &x.services
	c := &x.runner.config
	if s.ctx != nil || len(s.env) > 0 || len(c.Credentials) == 0 && !slices.ContainsFunc(c.AllowUnix, service.Is) {
		return nil
	}
	if !x.explain {
		s.ctx, s.stop = context.WithCancel(x.parent)
		s.started, s.turn = make(chan struct{}), make(chan struct{}, 1)
	}
	for _, open := range [...]func(run bool, suspect func(dir string) bool) error{x.openHostSockets, x.openBus, x.openAgent, x.openGPG} {
		if err := open(run, suspect); err != nil {
			return err
		}
	}
	return x.openCredentials(suspect)
}

// allowedOf returns what Config.AllowUnix allows of a service, such as names on the bus.
func (x *Execution) allowedOf(name string) (args []string) {
	for _, text := range x.runner.config.AllowUnix {
		if v, _, err := service.Parse(text); err == nil && v.Name == name {
			args = append(args, v.Arg)
		}
	}
	return args
}

// listen makes a socket for the command at target, and serves it; with explain it makes nothing.
func (s *services) listen(target string, serve func(context.Context, net.Listener)) error {
	if s.ctx == nil {
		s.mounts = append(s.mounts, mounts.ROBind(target, target))
		return nil
	}
	l, m, remove, err := host.ServiceSocket(target)
	if err != nil {
		return public(err, nil, nil)
	}
	s.shown = append(s.shown, remove)
	s.mounts = append(s.mounts, m)
	s.running.Go(func() { serve(s.ctx, l) })
	return nil
}

// begun must be called when the command was executed.
func (s *services) begun() {
	if s.ctx != nil {
		s.unname()
		close(s.started)
	}
}

func (s *services) unname() {
	for _, f := range s.shown {
		f()
	}
	s.shown = nil
}

// close closes them. The command has ended.
func (s *services) close() {
	if s.ctx == nil {
		return
	}
	s.stop()
	s.running.Wait()
	s.unname()
	for _, f := range slices.Backward(s.end) {
		f()
	}
	s.end = nil
}

// use asks whether the command may use a service, and records the answer.
func (x *Execution) use(ctx context.Context, name string, q Question) bool {
	s := &x.services
	select {
	case <-s.started:
	case <-ctx.Done():
		return false
	}
	u := ServiceUse{Service: name, Target: q.Target, About: q.About}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-s.turn }()
	err := x.askAbout(ctx, q)
	u.Allowed = err == nil
	if e, ok := errors.AsType[*DeniedError](err); err != nil && (!ok || e.Err != nil) {
		u.Reason = err.Error()
		if ok {
			u.Reason = e.Err.Error()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && u.Reason == "" && q.OneTime {
		s.refused++
	}
	if len(s.uses) < maxUses {
		s.uses = append(s.uses, u)
	}
	return u.Allowed
}

// askAbout asks, while the command is stopped if it could write over the question.
func (x *Execution) askAbout(ctx context.Context, q Question) error {
	s := &x.services
	s.mu.Lock()
	enough := s.refused >= maxRefused
	s.mu.Unlock()
	if enough {
		return &DeniedError{q, errEnough}
	}
	if x.runner.config.Approver == nil {
		return &DeniedError{q, errNobody}
	}
	q.Project, q.Command, q.Running = x.project, x.request.text(), true
	if !x.atTerminal() {
		return x.runner.ask(ctx, q)
	}
	var err error
	if herr := x.paused(ctx, func() { err = x.runner.ask(ctx, q) }); herr != nil {
		return &DeniedError{q, herr}
	}
	return err
}

// atTerminal reports whether the command has a terminal, as standard input, output or error.
func (x *Execution) atTerminal() bool { return slices.ContainsFunc(x.standard(), host.IsTerminal) }

// standard are the caller's files among the command's standard input, output and error.
func (x *Execution) standard() (files []*os.File) {
	q := &x.request
	for _, v := range [...]any{q.Stdin, q.Stdout, q.Stderr} {
		if f, ok := v.(*os.File); ok && q.Passthrough {
			files = append(files, f)
		}
	}
	return files
}
