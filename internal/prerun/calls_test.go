//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"encoding/binary"
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
			var filter []byte
			add := func(code uint16, jf byte, k uint32) {
				filter = append(binary.NativeEndian.AppendUint16(filter, code), 0, jf)
				filter = binary.NativeEndian.AppendUint32(filter, k)
			}
			add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0)
			add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, uint32(nr))
			add(unix.BPF_RET|unix.BPF_K, 0, unix.SECCOMP_RET_ERRNO|uint32(errno))
			add(unix.BPF_RET|unix.BPF_K, 0, unix.SECCOMP_RET_ALLOW)
			if err := os.WriteFile(file, filter, 0o644); err != nil {
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
}
