//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// testCalls: where a seccomp filter refuses a call that the runtime makes, the end is one line that names it. The
// control is a filter that refuses another call.
func testCalls(t *testing.T, early string) {
	file := filepath.Join(testenv.Dir(t), "filter")
	refused := map[uintptr]string{unix.SYS_FUTEX: "futex(2)", unix.SYS_REBOOT: ""}
	for _, c := range runtimeCalls {
		refused[c.number] = c.name
	}
	for nr, name := range refused {
		for _, errno := range [...]syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENOSYS} {
			if err := os.WriteFile(file, refusing(uint32(nr), errno), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(early, "--ro-bind", "/", "/", "--dev", "/dev", "--seccomp-file", file, "--", early, "help").CombinedOutput()
			switch {
			case name == "" && err != nil:
				t.Errorf("the control, %v: %v\n%s", errno, err, out)
			case name != "" && (err == nil || string(out) != refusedCall+name+refusedRuntime):
				t.Errorf("%s, %v: %v\n%s", name, errno, err, out)
			}
		}
	}
	testEarlyCalls(t, early)
	testEndingCalls(t, early)
}

// testEndingCalls: where a filter ends processes at a call that nsrun makes, the end is one line, too. The control is a
// call that nothing makes. (Of calls that are early, and of those that look for a filter or make the process that may
// end, nothing can be said.)
func testEndingCalls(t *testing.T, early string) {
	file := filepath.Join(testenv.Dir(t), "filter")
	ends := map[uintptr]string{unix.SYS_REBOOT: ""}
	for _, c := range runtimeCalls {
		if !c.early && c.number != unix.SYS_CLONE {
			ends[c.number] = c.name
		}
	}
	for _, c := range endingCalls {
		ends[c.number] = c.name
	}
	for nr, name := range ends {
		for _, answer := range [...]uint32{unix.SECCOMP_RET_KILL_PROCESS, unix.SECCOMP_RET_KILL_THREAD, unix.SECCOMP_RET_TRAP} {
			if err := os.WriteFile(file, answering(uint32(nr), answer), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(early, "--ro-bind", "/", "/", "--dev", "/dev", "--seccomp-file", file, "--", early, "help").CombinedOutput()
			status := 0
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				status = e.ExitCode()
			}
			switch {
			case name == "" && status != 0:
				t.Errorf("the control, %#x: %v\n%s", answer, err, out)
			case name != "" && (status != 125 || string(out) != endedAtCall+name+endedRemedy):
				t.Errorf("%s, %#x: %v\n%s", name, answer, err, out)
			}
		}
	}
}

// testEarlyCalls: so it is for what needs no runtime. It does not hang without close(2), nor succeed without wait4(2)
// although the command may not have ended. The control is a call that only the runtime needs.
func testEarlyCalls(t *testing.T, early string) {
	file := filepath.Join(testenv.Dir(t), "filter")
	for nr, name := range map[uint32]string{unix.SYS_CLOSE: "close(2)", unix.SYS_WAIT4: "wait4(2)", unix.SYS_READ: "read(2)", unix.SYS_EPOLL_CREATE1: ""} {
		if err := os.WriteFile(file, refusing(nr, syscall.EPERM), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		args := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--seccomp-file", file, "--", early, "--ro-bind", "/", "/", "--", "/bin/true"}
		if os.Geteuid() != 0 {
			args = append([]string{"--unshare-user", "--cap-add", "ALL"}, args...)
		}
		cmd := exec.CommandContext(ctx, early, args...)
		cmd.WaitDelay = testenv.Patience
		out, err := cmd.CombinedOutput()
		cancel()
		want := refusedCall + name + refusedRuntime
		switch {
		case name == "" && err != nil:
			t.Errorf("the control: %v\n%s", err, out)
		case name != "" && (err == nil || string(out) != want):
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// refusing is a seccomp filter that answers one call with an error.
func refusing(nr uint32, errno syscall.Errno) []byte {
	return answering(nr, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

// answering is a seccomp filter with an answer to one call.
func answering(nr, answer uint32) (filter []byte) {
	for _, in := range [...]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
		{Code: unix.BPF_RET | unix.BPF_K, K: answer},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		filter = append(binary.NativeEndian.AppendUint16(filter, in.Code), in.Jt, in.Jf)
		filter = binary.NativeEndian.AppendUint32(filter, in.K)
	}
	return filter
}
