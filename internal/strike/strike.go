//go:build linux

package strike

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Action is what happens at the call that a Plan names. The zero Action is Kill.
type Action uint8

const (
	Kill      Action = iota // the program is killed before the call is done
	KillAfter               // it is killed when the call was done
	Fail                    // the call is not done, and returns an error
)

var actionNames = [...]string{Kill: "kill", KillAfter: "kill after", Fail: "fail"}

func (a Action) String() string {
	if int(a) >= len(actionNames) {
		return fmt.Sprintf("action(%d)", uint8(a))
	}
	return actionNames[a]
}

// A Plan says which call is struck, and how. The zero Plan only counts.
type Plan struct {
	// At is the number of the call, counted from 1. Zero: none is struck.
	At int

	// Do is what happens there. Zero: Kill.
	Do Action

	// Errno is what a call that fails returns. Zero: EIO.
	Errno unix.Errno

	// Stay lets later calls fail too, until End: with ENOSPC and EDQUOT those that may
	// need room, as on a disk that is full; with other errors all that change or flush
	// something, as on a disk that is broken. False: one call fails.
	Stay bool

	// Opens counts calls that open a file and change nothing, too. False: they do not count, and do not fail.
	Opens bool

	// Looks counts calls that change nothing and can fail, too: those that open, read, list and map files, ask for their
	// attributes, and copy descriptors. It implies Opens. False: they do not count, and do not fail.
	Looks bool

	// Starts counts calls that make processes and set up sandboxes instead: from the first instruction of the program on,
	// without Begin, and also in the processes that it makes, until they execute another program. Kill and KillAfter
	// then kill the process alone that makes the call. Opens, Looks, Alone and Stay do not matter. False: they do not
	// count.
	Starts bool

	// Alone counts the calls of the program itself, and none of processes that it starts. False: all count.
	Alone bool

	// Only counts the calls alone of which it reports true, so that a number means the same in each run where threads
	// take turns. Nil: all count.
	Only func(Call) bool

	// Trace is called with every call that counts, and its number. Nil: it is not.
	Trace func(k int, c Call)
}

// A Result says how the program ended.
type Result struct {
	Calls    int  // how many calls were counted; with a program that was killed, until then
	Call     Call // the call that was struck; zero: none was
	Failed   int  // how many calls failed
	Killed   bool // by us
	ExitCode int  // -1: it was killed, by us or a signal
}

// ErrNotPermitted is what Run wraps where programs cannot be traced.
var ErrNotPermitted = errors.New("processes cannot be traced here")

// Run runs a command that was not started, until it and all that it started ended. An
// error means that it could not be run or traced; how it ends is not an error.
//
// The command's SysProcAttr gets Ptrace set. Its Wait is called, and its ProcessState stays nil.
func Run(cmd *exec.Cmd, p Plan) (r Result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Only this thread is asked for as a tracer, and it is thrown away with all that it traces.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread is never thrown away, and adopts orphans, which the tracer would wait for. While it is
			// locked here, another thread does it.
			r, err = Run(cmd, p)
			runtime.UnlockOSThread()
			return
		}
		r, err = run(cmd, p)
	}()
	<-done
	return r, err
}

func run(cmd *exec.Cmd, p Plan) (Result, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	if !p.Starts {
		cmd.Env = append(cmd.Env, insideEnv+"="+insideChanges)
	}
	if p.Looks {
		p.Opens = true
		// Go's runtime looks at the limit of its cgroup from time to time, which would count.
		cmd.Env = append(cmd.Env, insideEnv+"="+insideLooks, "GODEBUG=updatemaxprocs=0")
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", ErrNotPermitted, err)
		}
		return Result{}, err
	}
	t := tracer{plan: p, main: cmd.Process.Pid, threads: map[int]*thread{cmd.Process.Pid: {}}}
	t.plan.Errno = cmp.Or(p.Errno, unix.EIO)
	err := t.trace()
	if err != nil {
		t.kill()
		_ = t.reap()
		err = fmt.Errorf("strike: %w", err)
	}
	// The process was waited for; what is left are its pipes.
	_ = cmd.Wait()
	t.result.ExitCode = t.exit
	return t.result, err
}

// A tracer is one Run.
type tracer struct {
	plan    Plan
	main    int // the process
	threads map[int]*thread
	on      bool // between marks
	dying   bool
	exit    int
	result  Result
}

// A thread is one that is traced.
type thread struct {
	known  bool // its first stop was seen
	struck bool // it is to be killed at the end of its call
}

const (
	// The threads of this thread alone: the test may have other children.
	waitFlags = unix.WALL | unix.WNOTHREAD

	options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
		unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACESECCOMP
)

// wait waits for the next stop or end of a thread; pid as for wait4(2).
func wait(pid int) (int, unix.WaitStatus, error) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(pid, &ws, waitFlags, nil)
		if err != unix.EINTR {
			return got, ws, err
		}
	}
}

func (t *tracer) trace() error {
	// The first stop is that of execve.
	_, ws, err := wait(t.main)
	if err != nil {
		return err
	}
	if !ws.Stopped() {
		t.ended(t.main, ws)
		return fmt.Errorf("the program ended at once: %#x", uint32(ws))
	}
	if err := unix.PtraceSetOptions(t.main, options); err != nil {
		return fmt.Errorf("%w: set options: %w", ErrNotPermitted, err)
	}
	t.threads[t.main].known = true
	if err := t.resume(t.main, 0); err != nil {
		return err
	}
	// Until nothing is traced any more, and not until all known threads have ended: one that made a process can be
	// killed before the first stop of that is seen.
	for {
		tid, ws, err := wait(-1)
		if err == unix.ECHILD {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if ws.Exited() || ws.Signaled() {
			t.ended(tid, ws)
			continue
		}
		if err := t.stopped(tid, ws); err != nil && err != unix.ESRCH {
			return err
		}
	}
}

func (t *tracer) ended(tid int, ws unix.WaitStatus) {
	delete(t.threads, tid)
	if tid != t.main {
		return
	}
	if t.exit = ws.ExitStatus(); ws.Signaled() {
		t.exit = -1
	}
}

// reap waits for all that were killed.
func (t *tracer) reap() error {
	for {
		tid, ws, err := wait(-1)
		if err != nil {
			return err
		}
		if ws.Exited() || ws.Signaled() {
			t.ended(tid, ws)
		}
	}
}

func (t *tracer) kill() {
	t.dying = true
	for tid := range t.threads {
		_ = unix.Kill(tid, unix.SIGKILL)
	}
}

// resume lets a thread run on, to the end of its call if it is to be killed there.
func (t *tracer) resume(tid int, sig unix.Signal) error {
	if th := t.threads[tid]; th != nil && th.struck || t.plan.Starts {
		return unix.PtraceSyscall(tid, int(sig))
	}
	return unix.PtraceCont(tid, int(sig))
}

func (t *tracer) stopped(tid int, ws unix.WaitStatus) error {
	th := t.threads[tid]
	if th == nil {
		th = &thread{}
		t.threads[tid] = th
	}
	if t.dying {
		_ = unix.Kill(tid, unix.SIGKILL) // one that was just made
		return nil
	}
	switch sig := ws.StopSignal(); {
	case sig == unix.SIGTRAP|0x80 && t.plan.Starts:
		return t.startStopped(tid, th)
	case sig == unix.SIGTRAP|0x80:
		if th.struck {
			t.result.Killed = true
			t.kill()
			return nil
		}
		return t.resume(tid, 0)
	case sig == unix.SIGTRAP && ws.TrapCause() > 0:
		switch ws.TrapCause() {
		case unix.PTRACE_EVENT_SECCOMP:
			return t.entered(tid, th)
		case unix.PTRACE_EVENT_EXEC:
			return t.executed(tid)
		}
		return t.resume(tid, 0)
	case sig == unix.SIGSTOP && !th.known:
		th.known = true
		return t.resume(tid, 0)
	default:
		return t.resume(tid, sig)
	}
}

// entered looks at a call that a thread is about to do.
func (t *tracer) entered(tid int, th *thread) error {
	_, nr, args, err := readCall(tid)
	if err != nil {
		return err
	}
	if nr == unix.SYS_PRCTL {
		if args[0] == marker {
			t.on = args[1] == begin
		}
		return t.resume(tid, 0)
	}
	f, ok := calls[uintptr(nr)]
	if !ok {
		f, ok = looks[uintptr(nr)]
	}
	if !ok || !t.on || t.plan.Alone && !t.own(tid) {
		return t.resume(tid, 0)
	}
	c := f.read(tid, args)
	k := f.of(c, args)
	if k == 0 || k == opens && !t.plan.Opens || k == look && !t.plan.Looks {
		return t.resume(tid, 0)
	}
	if t.plan.Only != nil && !t.plan.Only(c) {
		return t.resume(tid, 0)
	}
	t.result.Calls++
	if t.plan.Trace != nil {
		t.plan.Trace(t.result.Calls, c)
	}
	switch p := t.plan; {
	case p.At == 0 || t.result.Calls < p.At:
	case t.result.Calls > p.At:
		if p.Do == Fail && p.Stay && k&stays(p.Errno) != 0 {
			return t.fail(tid)
		}
	default:
		t.result.Call = c
		switch p.Do {
		case Kill:
			t.result.Killed = true
			t.kill() // which skips the call
			return nil
		case KillAfter:
			th.struck = true
		case Fail:
			if !p.Stay || k&stays(p.Errno) != 0 {
				return t.fail(tid)
			}
		}
	}
	return t.resume(tid, 0)
}

// own reports whether a thread is one of the program itself.
func (t *tracer) own(tid int) bool {
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/task/%d", t.main, tid), &st) == nil
}

// stays are the calls that an error which stays lets fail.
func stays(errno unix.Errno) kind {
	if errno == unix.ENOSPC || errno == unix.EDQUOT {
		return room
	}
	return change | flush
}

func (t *tracer) fail(tid int) error {
	t.result.Failed++
	if err := skip(tid, t.plan.Errno); err != nil {
		return err
	}
	return t.resume(tid, 0)
}

// readCall asks which call the thread is about to do, or, if it is at the end of one, only that.
func readCall(tid int) (ended bool, nr uint64, args [6]uint64, err error) {
	// struct ptrace_syscall_info of <linux/ptrace.h>.
	var info struct {
		op   uint8
		_    [3]uint8
		arch uint32
		ip   uint64
		sp   uint64
		nr   uint64
		args [6]uint64
		data uint32
	}
	const getSyscallInfo = 0x420e
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if e != 0 {
		return false, 0, args, e
	}
	const atExit = 2
	return info.op == atExit, info.nr, info.args, nil
}

func readMemory(tid int, addr uint64, b []byte) int {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err != nil {
		return 0
	}
	return n
}

func readWord(tid int, addr uint64) uint64 {
	var b [8]byte
	readMemory(tid, addr, b[:])
	return *(*uint64)(unsafe.Pointer(&b[0]))
}

// readText reads a string as C has them; pages are read one by one, since the next may be missing.
func readText(tid int, addr uint64) string {
	const page = 4096
	var s []byte
	for len(s) < page {
		b := make([]byte, page-addr%page)
		n := readMemory(tid, addr, b)
		text, _, found := strings.Cut(string(b[:n]), "\x00")
		s = append(s, text...)
		if found || n == 0 {
			break
		}
		addr += uint64(n)
	}
	return string(s)
}
