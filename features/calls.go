//go:build linux

package features

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
)

// commonCalls are calls without which nothing of nsrun works. The kernel refuses each with -1 as its arguments with an
// error that a filter does not choose.
var commonCalls = [...]systemCall{
	{"pipe2", unix.SYS_PIPE2}, {"dup3", unix.SYS_DUP3}, {"sendmsg", unix.SYS_SENDMSG},
	{"recvmsg", unix.SYS_RECVMSG}, {"ppoll", unix.SYS_PPOLL}, {"prctl", unix.SYS_PRCTL}, {"wait4", unix.SYS_WAIT4}, {"waitid", unix.SYS_WAITID}, {"chdir", unix.SYS_CHDIR},
	{"getcwd", unix.SYS_GETCWD}, {"geteuid", unix.SYS_GETEUID},
}

// changingCalls are more of them, with arguments. They change the process, so another process makes them.
var changingCalls = [...]struct {
	name string
	call prog.Sys
	arg  uintptr
}{{"umask", prog.SysUmask, 0o22}, {"setsid", prog.SysSetsid, 0}}

// fileCalls are calls without which no session can be made, kept, committed or recorded. With -1 as descriptor and
// zeros behind it, the kernel refuses each with an error that a filter does not choose. (With -1 as mode or flags, a
// filter that refuses set-user-id bits, as nsrun's own does, would refuse some of them.)
var fileCalls = [...]systemCall{
	{"openat", unix.SYS_OPENAT}, {"fstat", unix.SYS_FSTAT}, {"getdents64", unix.SYS_GETDENTS64}, {"lseek", unix.SYS_LSEEK},
	{"mkdirat", unix.SYS_MKDIRAT}, {"unlinkat", unix.SYS_UNLINKAT}, {"fchmodat", unix.SYS_FCHMODAT}, {"fchmod", unix.SYS_FCHMOD},
	{"utimensat", unix.SYS_UTIMENSAT}, {"flistxattr", unix.SYS_FLISTXATTR}, {"fgetxattr", unix.SYS_FGETXATTR},
	{"fstatfs", unix.SYS_FSTATFS}, {"newfstatat", unix.SYS_NEWFSTATAT}, {"readlinkat", unix.SYS_READLINKAT}, {"linkat", unix.SYS_LINKAT},
	{"pread64", unix.SYS_PREAD64}, {"pwrite64", unix.SYS_PWRITE64}, {"flock", unix.SYS_FLOCK}, {"fdatasync", unix.SYS_FDATASYNC}, {"renameat", unix.SYS_RENAMEAT},
}

func tryCommonCalls() error {
	refused := refusedCalls(commonCalls[:], badFD)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		_ = errors.Join(unix.Close(pair[0]), unix.Close(pair[1]))
	case refusal(err), err == unix.EAFNOSUPPORT: // RestrictAddressFamilies= of systemd
		refused = append(refused, "socketpair(2)")
	}
	for _, c := range &changingCalls {
		if refused != nil || !Filtered() {
			break // the process itself needs the others
		}
		b := prog.New(prog.Native())
		b.SetNFds(1)
		b.Call(c.call, prog.Int(c.arg))
		b.Call(prog.SysExitGroup, prog.Int(0))
		if e, ok := reexec.Perform(b.Program(), nil).(unix.Errno); ok && refusal(e) { // others are not the call's
			refused = append(refused, c.name+"(2)")
		}
	}
	return refusedBy(refused)
}

func tryFileCalls() error { return refusedBy(refusedCalls(fileCalls[:], 0)) }

// refusedCalls makes calls with -1 as their first argument and others behind it, and returns those that a filter
// refuses.
func refusedCalls(list []systemCall, others uintptr) (refused []string) {
	for _, c := range list {
		if _, _, e := unix.RawSyscall6(uintptr(c.number), badFD, others, others, others, others, others); refusal(e) {
			refused = append(refused, c.name+"(2)")
		}
	}
	return refused
}

// refusal reports whether err is one with which filters refuse calls.
func refusal(err error) bool {
	e, ok := errors.AsType[unix.Errno](err)
	return ok && (e == unix.EPERM || e == unix.EACCES || e == unix.ENOSYS)
}

func refusedBy(refused []string) error {
	if refused == nil {
		return nil
	}
	return refusedError{absentError("a seccomp filter refuses " + strings.Join(refused, ", "))}
}

// Refused returns a *MissingError that names the calls that a seccomp filter refuses, if err may come from that. Nil:
// it does not, or all calls that each sandbox or each session needs are allowed.
func Refused(err error) error {
	if !refusal(err) && !errors.Is(err, unix.EAFNOSUPPORT) || !Filtered() {
		return nil
	}
	for _, name := range [...]Name{CommonCalls, FileCalls} {
		if f := Get(name); f.Status == No {
			return f.Err()
		}
	}
	return nil
}

// refusedError says which calls a seccomp filter refuses.
type refusedError struct{ absentError }

func (refusedError) sentence() {}
