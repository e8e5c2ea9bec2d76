//go:build linux

package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// launcher is the small process that clones for this one. One launcher serves the whole process: it holds nothing that
// belongs to a single command.
type launcher struct {
	mu   turn
	sock sys.FD // None: not running
	proc *os.Process
	ids  [2]sys.FileID // of the socket and of the process's handle
	gen  atomic.Int64  // how many there were
	nums atomic.Uint64 // how many descriptors its clones can have open; 0: there was none
	who  string        // the credentials it was started with
	end  string        // how the last one ended
}

// credentials are those that the launcher inherits and cannot change later. It does not keep real ids.
func credentials() string {
	groups, _ := unix.Getgroups()
	return fmt.Sprint(unix.Geteuid(), unix.Getegid(), groups)
}

var theLauncher = launcher{mu: make(turn, 1), sock: sys.None}

// turn is a mutex for which a goroutine can wait until a context ends.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// take is Lock; its error is the context's.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// parent is the thread whose children all sandboxes are: the launcher clones with CLONE_PARENT, and PR_SET_PDEATHSIG is
// about the death of the parent thread. So one thread, which lives as long as the process, starts all launchers.
var parent = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// clone asks the launcher to run a first Program in a clone, with its descriptors, starting the launcher if need be.
func (l *launcher) clone(ctx context.Context, block []byte, fds []int) error {
	if err := l.mu.take(ctx); err != nil {
		return &Error{Op: "start", Err: err}
	}
	defer l.mu.Unlock()
	if who := credentials(); who != l.who || l.sock.Forget(l.ids[0]) {
		l.stop()
		l.who = who
	}
	for try := 0; ; try++ {
		if l.sock == sys.None {
			if err := l.start(); err != nil {
				return &Error{Op: StepLauncher, Err: err}
			}
		}
		err := l.send(ctx, block, fds)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return &Error{Op: "start", Err: ctx.Err()}
		}
		end := l.stop()
		if try > 0 {
			return &Error{Op: StepLauncher, Err: fmt.Errorf("%w: %s", err, end)}
		}
	}
}

// send sends a message to the launcher. It fails if the launcher accepts nothing for a while.
func (l *launcher) send(ctx context.Context, block []byte, fds []int) error {
	for began := time.Now(); ; {
		err := l.sock.TrySend(block, fds...)
		if err != unix.EAGAIN {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > launcherEnd {
			return errors.New("it does not answer")
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(l.sock), Events: unix.POLLOUT}}, int(launcherPatience.Milliseconds()))
	}
}

func (l *launcher) start() error {
	ours, theirs, err := sys.SeqPacket()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		theirs.Close()
		return underlying(err)
	}
	defer null.Close()
	control := os.NewFile(uintptr(theirs), "launcher")
	defer control.Close()
	done := make(chan error)
	parent() <- func() {
		// The launcher takes no signal but SIGKILL: the program decides what to do about signals from the
		// terminal. Signals 32 to 34 are not blocked: by one of them the Go runtime, or libc, has every thread carry
		// out setuid(2) and the like, and waits for that, while it may have stopped this thread.
		var old unix.Sigset_t
		all := unix.Sigset_t{Val: [16]uint64{^uint64(7 << (32 - 1))}}
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old)
		l.proc, err = reexec.Start([]*os.File{null, null, null, control}, "", &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		done <- err
	}
	if err := <-done; err != nil {
		ours.Close()
		return underlying(err)
	}
	var limit unix.Rlimit
	if unix.Prlimit(l.proc.Pid, unix.RLIMIT_NOFILE, nil, &limit) == nil {
		l.nums.Store(limit.Cur)
	}
	l.sock = ours
	l.ids = [...]sys.FileID{ours.ID(), handle(l.proc).ID()}
	l.gen.Add(1)
	return nil
}

// drop stops the launcher of a generation that loses messages. Its socket may accept more of them while it ends.
func (l *launcher) drop(gen int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen.Load() == gen {
		l.stop()
	}
}

// launcherPatience is how long a delay of the launcher is ignored.
const launcherPatience = 50 * time.Millisecond

// gone reports whether the launcher of a generation has ended. It may have been killed after it cloned and before it
// reported that.
func (l *launcher) gone(gen int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen.Load() != gen || l.proc == nil {
		return true
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, l.proc.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != nil || info.Signo != 0
}

// pid is the process id of the launcher of a generation, or 0.
func (l *launcher) pid(gen int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen.Load() != gen || l.proc == nil {
		return 0
	}
	return l.proc.Pid
}

// obituary says how the launcher of a generation ended, if it has.
func (l *launcher) obituary(gen int64) string {
	if !l.gone(gen) {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen.Load() == gen && l.proc != nil {
		l.stop()
	}
	return l.end
}

// launcherEnd is how long the launcher may take to end after its socket was closed.
const launcherEnd = 2 * time.Second

// stop ends the launcher, waits for it, and returns how it ended. Running sandboxes are not affected. The launcher
// first handles all requests: otherwise nobody would know of a clone that it had made.
func (l *launcher) stop() (end string) {
	if !l.sock.Forget(l.ids[0]) {
		l.sock.Close()
	}
	if l.proc != nil {
		l.end = l.await()
		l.proc = nil
	}
	return l.end
}

// await waits for the launcher's end, and returns how it ended.
func (l *launcher) await() string {
	proc := l.proc
	if h := handle(proc); h.Forget(l.ids[1]) {
		leave(proc)
		reap(proc.Pid)
		return "unknown"
	}
	kill := time.AfterFunc(launcherEnd, func() { _ = proc.Kill() })
	state, err := proc.Wait()
	late := !kill.Stop()
	if err != nil {
		return "unknown"
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && late && ws.Signal() == syscall.SIGKILL {
		return "it did not end by itself and was killed"
	}
	return state.String()
}

// cloneFunc runs a first Program in a clone: in the launcher, or here.
type cloneFunc func(ctx context.Context, first *prog.Program, fds []int) (pid int, err error)

func cloneInLauncher(ctx context.Context, first *prog.Program, fds []int) (int, error) {
	return 0, first.Use(func(block []byte) error { return theLauncher.clone(ctx, block, fds) })
}

func cloneHere(_ context.Context, first *prog.Program, fds []int) (int, error) {
	pid, errno := reexec.Spawn(first.Block(), fds)
	if errno != 0 {
		return 0, &Error{Op: StepClone, Path: names(first.Flags), Err: errno}
	}
	return pid, nil
}

// spawnFirst makes a sandbox that has its namespaces and waits for the rest.
func spawnFirst(ctx context.Context, p *beginning, by cloneFunc) (*clone, error) {
	gen := theLauncher.gen.Load()
	s, err := spawnOnce(ctx, p, by)
	if errors.Is(err, errGone) {
		// The launcher was killed before it cloned.
		theLauncher.drop(gen)
		s, err = spawnOnce(ctx, p, by)
	}
	return s, err
}

// connect makes the socket and the status pipe of s, and returns the ends that the sandbox gets.
func (s *clone) connect() (theirs, status sys.FD, err error) {
	if s.sock, theirs, err = sys.SeqPacket(); err != nil {
		s.sock = sys.None
		return sys.None, sys.None, err
	}
	if err = unix.SetsockoptInt(int(s.sock), unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err == nil {
		s.status, status, err = statusPipe()
	}
	if err != nil {
		theirs.Close()
		s.status = nil
		s.close()
		return sys.None, sys.None, err
	}
	s.childStatus = int(status)
	return theirs, status, nil
}

func spawnOnce(ctx context.Context, p *beginning, by cloneFunc) (*clone, error) {
	s := &clone{sock: sys.None, mounts: p.mountsFirst(), ctx: ctx}
	theirs, w, err := s.connect()
	if err != nil {
		return nil, &Error{Op: "start", Err: err}
	}
	defer theirs.Close()
	defer w.Close()

	b := prog.New(prog.Native())
	b.SetStage(stage1)
	sock, fds := prog.Int(0), []int{int(theirs)}
	number := func(f *os.File) prog.Arg {
		fds = append(fds, int(f.Fd()))
		return prog.Int(len(fds) - 1)
	}
	if p.inherit {
		sock, fds = prog.Int(theirs), nil
		number = func(f *os.File) prog.Arg { return prog.Int(f.Fd()) }
		for _, fd := range [...]int{int(s.sock), int(s.status.Fd())} {
			b.Call(prog.SysClose, prog.Int(fd))
		}
	} else {
		b.Call(prog.Install, prog.Int(0))
	}
	b.Step("start", "")
	b.Call(prog.SysWrite, sock, b.Zero(8).Arg(), prog.Int(1)).Tolerate(syscall.EPIPE) // see sender
	flags := p.cloneFlags()
	if p.joins() {
		p.enter(b, sock, number)
		flags = 0
	}
	if !reexec.InProcess {
		flags |= unix.CLONE_PARENT
	}
	b.SetFlags(flags | p.into())
	if p.waits() {
		// What has to be done for it is done when the first message arrives on the socket.
		b.Step("start", "")
		b.Call(prog.SysRead, sock, b.Zero(8).Arg(), prog.Int(8))
	}
	p.namespaces(b)
	b.Step("start", "")
	b.Call(prog.Receive, sock)
	b.SetNFds(len(fds) + 1)
	fds = append(p.withCgroup(fds), int(w))
	s.first = b.Program()

	s.pid, err = by(ctx, s.first, fds)
	// Before s is closed, which waits until nobody has them.
	theirs.Close()
	w.Close()
	if err != nil {
		s.close()
		return nil, err
	}
	s.gen = theLauncher.gen.Load()
	defer s.bound(ctx)()
	if p.joins() {
		if err := s.awaitJoined(p.twice()); err != nil {
			return nil, s.giveUp(err)
		}
	}
	if p.waits() {
		if err := s.serve(p); err != nil {
			return nil, s.giveUp(err)
		}
	}
	return s, nil
}

// serve does for a waiting clone what it waits for.
func (s *clone) serve(p *beginning) error {
	if err := s.awaitPid(); err != nil {
		return err
	}
	if p.created != nil {
		if err := p.created(s.pid); err != nil {
			return err
		}
	}
	if p.uid != "" && !p.self {
		if err := s.writeMaps(p); err != nil {
			return err
		}
	}
	err := s.sock.Send([]byte("12345678"))
	if err != nil && err != unix.EPIPE && err != unix.ECONNRESET { // these say that it has ended: its reports say why
		return &Error{Op: "start", Err: err}
	}
	return nil
}

// begun is the sandbox that was begun before this program's main, if there is one and it has the wanted profile.
func begun(p *beginning) *clone {
	e, mapped, marks, ok := takeBegun()
	if !ok {
		return nil
	}
	_ = unix.SetNonblock(e.Status, true)
	s := &clone{
		pid: e.Pid, sock: sys.FD(e.Sock), status: os.NewFile(uintptr(e.Status), "status"), childStatus: e.ChildStatus,
		waited: true, mounts: true, marks: marks, ctx: context.Background(),
	}
	ids := func(n int) string { return text([]IDMap{{uint32(n), uint32(n), 1}}) }
	p.surplus = Capabilities(e.Bounding) &^ p.bounding
	mine := profile{bounding: Capabilities(e.Bounding) &^ p.surplus, flags: uint64(e.Flags), uid: ids(e.UID), gid: ids(e.GID), self: true, inherit: e.Inherit, keyring: e.Inherit}
	switch {
	case mapped.uid != nil:
		mine.uid, mine.gid, mine.self = text(mapped.uid), text(mapped.gid), false
	case e.UID == 0:
		mine.uid, mine.gid, mine.self = p.uid, p.gid, false
	}
	if !p.common() || p.profile != mine || !mine.self && mapped.uid == nil && s.writeMaps(p) != nil {
		s.close()
		p.surplus = 0 // of a sandbox that is made now, nothing is to be removed
		return nil
	}
	return s
}

// writeMaps maps the ids of a clone's user namespace.
func (s *clone) writeMaps(p *beginning) error {
	for _, m := range [...]struct{ op, name, helper, data string }{
		{"uid map", mapName(s.pid, "uid"), "newuidmap", p.uid}, {"gid map", mapName(s.pid, "gid"), "newgidmap", p.gid},
	} {
		err := writeMap(m.name, m.data)
		if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			err = mapHelper(s.ctx, m.helper, s.pid, m.data)
		}
		if err != nil {
			return &Error{Op: Step(m.op), Path: oneLine(m.data), Err: underlying(err)}
		}
	}
	return nil
}

func mapName(pid int, ids string) string { return "/proc/" + itoa(int64(pid)) + "/" + ids + "_map" }

// writeMap writes a map as a whole, as the kernel asks for (user_namespaces(7)).
func writeMap(name, data string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return sys.Retry(func() error {
		_, err := unix.Write(fd, []byte(data))
		return err
	})
}

// mapHelper writes a map with newuidmap(1) or newgidmap(1), which grant a user the ids in /etc/subuid and /etc/subgid.
func mapHelper(ctx context.Context, name string, pid int, data string) error {
	args := append([]string{itoa(int64(pid))}, strings.Fields(data)...)
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		return unix.EPERM // there is no such program
	}
	return fmt.Errorf("%w (%s)", unix.EPERM, strings.TrimSpace(string(out)))
}

// oneLine is an id map for messages.
func oneLine(m string) string { return strings.ReplaceAll(strings.TrimSuffix(m, "\n"), "\n", ", ") }

// underlying is the errno in an error of package os.
func underlying(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}

// send gives the sandbox its second Program.
func (s *clone) send(p *prog.Program, fds []int) error {
	fds = slices.Clone(fds)
	null := -1
	for i, fd := range fds {
		if fd >= 0 {
			continue
		}
		// A descriptor that is to be closed still needs a placeholder.
		if null < 0 {
			var err error
			if null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
			defer unix.Close(null)
		}
		fds[i] = null
	}
	return p.Use(func(block []byte) error {
		if len(block) <= reexec.InlineMax {
			return s.sock.Send(block, fds...)
		}
		f, err := memFile(block)
		if err != nil {
			return err
		}
		defer f.Close()
		return s.sock.Send(block[:prog.HeaderSize], append(fds[:len(fds):len(fds)], int(f))...)
	})
}

// memFile is a file in memory with the given content.
func memFile(b []byte) (sys.FD, error) {
	f, err := sys.MemFile("program")
	if err != nil {
		return sys.None, err
	}
	for off := 0; off < len(b); {
		n, err := unix.Pwrite(int(f), b[off:], int64(off))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			f.Close()
			return sys.None, err
		}
		off += n
	}
	return f, nil
}
