//go:build linux

package prog_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/testenv"
)

// numbers are the numbers of system calls in a laid-out Program.
func numbers(p *prog.Program) (nrs []uint32) {
	block := p.Block()
	h := (*prog.Header)(unsafe.Pointer(&block[0]))
	for _, o := range unsafe.Slice((*prog.Op)(unsafe.Pointer(&block[h.Ops])), h.NOps) {
		nrs = append(nrs, o.Nr)
	}
	return nrs
}

// realCalls are all system calls, without the child's own steps.
func realCalls() (calls []prog.Sys) {
	for s := prog.SysClose; s <= prog.SysExecve; s++ {
		calls = append(calls, s)
	}
	return calls
}

// TestNumbers compares the table with the one of golang.org/x/sys/unix, for both
// architectures.
func TestNumbers(t *testing.T) {
	for _, a := range []struct {
		arch prog.Arch
		name string
	}{{prog.AMD64, "amd64"}, {prog.ARM64, "arm64"}} {
		t.Run(a.name, func(t *testing.T) {
			want := sysnum(t, a.name)
			b := prog.New(a.arch)
			for _, s := range realCalls() {
				b.Call(s)
			}
			for i, nr := range numbers(b.Program()) {
				name := realCalls()[i].String()
				if w, ok := want[strings.ToUpper(name)]; !ok || w != nr {
					t.Errorf("%s is %d, not %d", name, w, nr)
				}
			}
		})
	}
}

// sysnum reads the numbers out of the source of golang.org/x/sys/unix.
func sysnum(t *testing.T, arch string) map[string]uint32 {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		testenv.Skip(t, "go", "go list finds no source of golang.org/x/sys")
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+arch+".go"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	nrs := make(map[string]uint32)
	for s := bufio.NewScanner(f); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 3 && strings.HasPrefix(f[0], "SYS_") {
			n, err := strconv.ParseUint(f[2], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			nrs[strings.TrimPrefix(f[0], "SYS_")] = uint32(n)
		}
	}
	return nrs
}

// TestNativeNumbers compares numbers with constants of this architecture.
func TestNativeNumbers(t *testing.T) {
	b := prog.New(prog.Native())
	want := []uint32{unix.SYS_OPENAT2, unix.SYS_MOUNT_SETATTR, unix.SYS_MOUNT, unix.SYS_EXECVE, unix.SYS_SETRESUID}
	for _, s := range []prog.Sys{prog.SysOpenat2, prog.SysMountSetattr, prog.SysMount, prog.SysExecve, prog.SysSetresuid} {
		b.Call(s)
	}
	for i, nr := range numbers(b.Program()) {
		if nr != want[i] {
			t.Errorf("%d: %d, want %d", i, nr, want[i])
		}
	}
}

// TestOpenFlags compares the flags of an open in a Program, which are the kernel's numbers, with those of this
// architecture.
func TestOpenFlags(t *testing.T) {
	for _, c := range []struct {
		flag prog.OpenFlag
		want uint64
		name string
	}{
		{prog.WriteOnly, unix.O_WRONLY, "O_WRONLY"}, {prog.ReadWrite, unix.O_RDWR, "O_RDWR"},
		{prog.Create, unix.O_CREAT, "O_CREAT"}, {prog.Exclusive, unix.O_EXCL, "O_EXCL"},
		{prog.Truncate, unix.O_TRUNC, "O_TRUNC"}, {prog.NoFollow, unix.O_NOFOLLOW, "O_NOFOLLOW"},
		{prog.Directory, unix.O_DIRECTORY, "O_DIRECTORY"}, {prog.PathOnly, unix.O_PATH, "O_PATH"},
		{prog.CloseOnExec, unix.O_CLOEXEC, "O_CLOEXEC"}, {prog.NonBlock, unix.O_NONBLOCK, "O_NONBLOCK"},
	} {
		b := prog.New(prog.Native())
		b.Call(prog.SysOpenat, prog.AtCwd, b.String("x"), b.Open(c.flag), prog.Int(0))
		block := b.Program().Block()
		h := (*prog.Header)(unsafe.Pointer(&block[0]))
		if got := (*prog.Op)(unsafe.Pointer(&block[h.Ops])).Args[2]; got != c.want {
			t.Errorf("%s is %#x, want %#x", c.name, got, c.want)
		}
		for _, arch := range []prog.Arch{prog.AMD64, prog.ARM64} {
			b := prog.New(arch)
			b.Call(prog.SysOpenat, prog.AtCwd, b.String("x"), b.Open(c.flag), prog.Int(0))
			if got := format(t, b); !strings.Contains(got, `"x", `+c.name+`, 00)`) {
				t.Errorf("arch %d: %s", arch, got)
			}
		}
	}
}
