//go:build linux

package nsexec

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

var errInherit = errors.New("descriptors can be inherited only from a program that is its own launcher, with its own standard descriptors")

var errCgroupInherit = errors.New("with Inherit there can be no Cgroup")

func invalid(why string) error { return fmt.Errorf("%w (%s)", syscall.EINVAL, why) }

func names(flags uint64) string {
	var n []string
	for _, f := range [...]struct {
		flag uint64
		name string
	}{
		{unix.CLONE_NEWUSER, "user"}, {unix.CLONE_NEWPID, "pid"}, {unix.CLONE_NEWNET, "net"},
		{unix.CLONE_NEWIPC, "ipc"}, {unix.CLONE_NEWUTS, "uts"}, {unix.CLONE_NEWCGROUP, "cgroup"},
		{unix.CLONE_NEWNS, "mount"},
	} {
		if flags&f.flag != 0 {
			n = append(n, f.name)
		}
	}
	if len(n) == 0 {
		return "no namespaces"
	}
	return strings.Join(n, ", ") + " namespaces"
}

// start starts the sandbox. It returns after the command was executed.
func start(c *Cmd, files []*os.File) (*clone, error) {
	if err := c.checkConfinement(); err != nil {
		return nil, err
	}
	s, err := bringUp(c, files)
	if c.namespacesUsedUp(err) {
		sys.AwaitNamespaces(c.context().Done(), func() bool {
			s, err = bringUp(c, files)
			return c.namespacesUsedUp(err)
		})
	}
	for tries := 1; tries < attachTries && replaced(err) && c.repeatable(); tries++ {
		s, err = bringUp(c, files)
	}
	if err != nil && c.callsRefused(err) && c.repeatable() {
		c.opt.ClassicMounts = true
		return bringUp(c, files)
	}
	return s, err
}

// attachTries is how often a sandbox is set up while somebody replaces what is mounted over.
const attachTries = 20

// replaced reports whether a set-up failed because somebody removed or replaced a file between the look-up and the
// mount over it, as passwd(1) does with /etc/shadow.
func replaced(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.attach && e.Err == syscall.ENOENT
}

// namespacesUsedUp reports whether a set-up failed because a limit on namespaces is reached. So far nothing is mounted.
func (c *Cmd) namespacesUsedUp(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Op == StepClone && (e.Err == syscall.ENOSPC || e.Err == syscall.EUSERS) &&
		c.opt.Block == nil && c.opt.Place == nil && c.opt.Created == nil
}

// repeatable reports whether a set-up can be done again after a part of it. The kernel mounts volatile overlays and
// layers once only: their owner has to prepare them again.
func (c *Cmd) repeatable() bool {
	return c.opt.Block == nil && c.opt.Place == nil && c.opt.Created == nil && len(c.Layers) == 0 &&
		!slices.ContainsFunc(c.Mounts, func(m mounts.Mount) bool { return m.Volatile })
}

// callsRefused reports whether a set-up failed because a filter refuses one of the new mount calls, or because a limit
// on mount namespaces does not allow as many copies of mounts as they take. From then on they are not used. For calls
// that check a privilege first, nsrun cannot find that out before.
func (c *Cmd) callsRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Program == 0 || c.opt.ClassicMounts || !features.Has(features.NewMountCalls) {
		return false
	}
	switch {
	case e.mountsUsedUp():
		features.Without(features.NewMountCalls, e.Err)
	case e.Err != syscall.EPERM && e.Err != syscall.EACCES:
		return false
	}
	return !features.Confirm(features.NewMountCalls)
}

// bringUp is start with one of the forms of mounts.
func bringUp(c *Cmd, files []*os.File) (*clone, error) {
	p := c.beginning()
	defer runtime.KeepAlive(files)
	fds := make([]int, len(files), len(files)+1)
	for i, f := range files {
		fds[i] = -1
		if f == nil {
			continue
		}
		if fds[i] = int(f.Fd()); fds[i] < 0 {
			return nil, &Error{Op: "start", Path: f.Name(), Err: os.ErrClosed}
		}
	}
	if len(fds) >= reexec.MaxFds {
		return nil, &Error{Op: "start", Path: c.Path, Err: invalid("more than 252 descriptors cannot be passed")} // SCM_MAX_FD, and the status pipe
	}
	if c.opt.Inherit {
		if !reexec.InProcess || len(fds) > 3 || fds[0] != 0 || fds[1] != 1 || fds[2] != 2 {
			return nil, &Error{Op: "start", Path: c.Path, Err: errInherit}
		}
		fds = nil
	}
	if c.Cgroup != nil && c.opt.Inherit {
		return nil, &Error{Op: "start", Path: c.Path, Err: errCgroupInherit}
	}
	for _, f := range c.Seccomp {
		if len(f) == 0 || len(f) > maxFilter {
			return nil, &Error{Op: StepSeccomp, Err: invalid("a filter has 1 to 4096 instructions")} // BPF_MAXINSNS
		}
	}
	if !reexec.InProcess {
		s, err := ready.take(c.context(), p)
		if err == nil {
			s, err = c.complete(s, p, fds, cloneInLauncher)
		}
		if err == nil {
			ready.refill(p, c)
		}
		return s, err
	}
	if s := begun(p); s != nil {
		return c.complete(s, p, fds, cloneHere)
	}
	if !p.waits() && !p.joins() && c.opt.Place == nil {
		return startHere(c, p, fds)
	}
	s, err := spawnFirst(c.context(), p, cloneHere)
	if err != nil {
		return nil, err
	}
	return c.complete(s, p, fds, cloneHere)
}

// complete sends the second Program to a sandbox that has its namespaces.
func (c *Cmd) complete(s *clone, p *beginning, fds []int, by cloneFunc) (*clone, error) {
	b := prog.Spare(prog.Native())
	defer func() { b.Release() }()
	second, err := c.secondProgram(b, s, p, fds)
	if err != nil {
		s.close()
		return nil, err
	}
	gen := theLauncher.gen.Load()
	for try := 0; ; try++ {
		s.domain, s.unmounted = c.opt.Confinement != nil, &c.opt.Unmounted
		if err := c.place(s); err != nil {
			return nil, err
		}
		c.countFirst(s)
		sendErr := s.send(second, fds)
		s.endSocket()
		// Even if nothing could be sent: the first Program may have reported why.
		err := s.await(second, c)
		if err == nil {
			s.sock.Close()
			c.count(s, 1)
			return s, nil
		}
		if !errors.Is(err, errGone) {
			return nil, err
		}
		// A waiting sandbox may have been killed, or the launcher before it cloned: try once more, with a new
		// one. Not if the sandbox was begun just now and has received its work: what it read from the caller's
		// descriptors is lost, and whoever kills it while it waits for one (Block) does not want the command.
		// The reports alone do not tell, because a command can have written them: see started. One that was
		// begun before main, and ended by itself, could not make its namespaces: a new one says why.
		lost := sendErr != nil || s.unread && (s.waited && (!p.inherit || s.exited) || s.unknown)
		if !lost || try > 0 || !p.common() {
			if _, killed := errors.AsType[*KilledError](err); sendErr != nil && !killed {
				err = &Error{Op: "start", Path: c.Path, Err: sendErr}
			}
			return nil, err
		}
		theLauncher.drop(gen)
		if s, err = spawnFirst(c.context(), p, by); err != nil {
			return nil, err
		}
		b = prog.New(prog.Native())
		if second, err = c.secondProgram(b, s, p, fds); err != nil {
			s.close()
			return nil, err
		}
	}
}

// place moves the sandbox to its cgroup and the like, before it knows what to run.
func (c *Cmd) place(s *clone) error {
	if c.opt.Place == nil {
		return nil
	}
	err := s.awaitPid()
	if err == nil {
		if err = c.opt.Place(s.pid); err != nil {
			err = &Error{Op: "limit", Err: err}
		}
	}
	if err != nil {
		return s.giveUp(err)
	}
	return nil
}

// secondProgram builds the second Program for these descriptors and the status pipe.
func (c *Cmd) secondProgram(b *prog.Builder, s *clone, p *beginning, fds []int) (*prog.Program, error) {
	status, more := s.childStatus, 0
	if !c.opt.Inherit {
		status = len(fds)
		if s.marks != nil {
			more = 1
			s.marks.Fd = status + 1
		}
		b.Call(prog.Install, prog.Int(len(fds)), prog.Int(more))
	}
	b.SetNFds(len(fds) + 1 + more)
	if err := c.setup(b, p, fds, status, s.mounts, s.marks); err != nil {
		return nil, err
	}
	return b.Program(), nil
}

// startHere runs both Programs, as one, in a clone of this process.
func startHere(c *Cmd, p *beginning, fds []int) (*clone, error) {
	r, w, err := statusPipe()
	if err != nil {
		return nil, &Error{Op: "start", Path: c.Path, Err: err}
	}
	defer w.Close()
	b := prog.New(prog.Native())
	b.SetNFds(len(fds) + 1)
	b.SetFlags(p.cloneFlags() | p.into())
	status := int(w)
	if c.opt.Inherit {
		b.Call(prog.SysClose, prog.Int(r.Fd()))
	} else {
		status = len(fds)
		b.Call(prog.Install, prog.Int(len(fds)))
	}
	p.namespaces(b)
	if err := c.setup(b, p, fds, status, p.mountsFirst(), nil); err != nil {
		_ = r.Close()
		return nil, err
	}
	program := b.Program()
	pid, errno := reexec.Spawn(program.Block(), append(p.withCgroup(fds), int(w)))
	if errno != 0 {
		_ = r.Close()
		return nil, &Error{Op: StepClone, Path: names(p.flags), Err: errno}
	}
	w.Close()
	s := &clone{pid: pid, status: r, sock: sys.None, ctx: c.context(), domain: c.opt.Confinement != nil, unmounted: &c.opt.Unmounted}
	c.count(s, countTries)
	if err := s.await(program, c); err != nil {
		return nil, err
	}
	return s, nil
}
