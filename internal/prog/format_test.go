//go:build linux

package prog_test

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/prog"
)

func format(t *testing.T, b *prog.Builder) string {
	t.Helper()
	var text bytes.Buffer
	if err := b.Program().Format(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestFormatOperation compares the text of single operations.
func TestFormatOperation(t *testing.T) {
	const resolve = 0x10 | 0x4
	for _, c := range []struct {
		want string
		add  func(b *prog.Builder)
	}{
		{`openat2($0, "dev", {O_PATH|O_CLOEXEC, RESOLVE_IN_ROOT|RESOLVE_NO_SYMLINKS}, 24) = $1`, func(b *prog.Builder) {
			how, size := b.How(prog.PathOnly|prog.CloseOnExec, 0, resolve)
			b.Call(prog.SysOpenat2, b.Slot().Arg(), b.String("dev"), how.Arg(), size).To(b.Slot())
		}},
		{`openat(AT_FDCWD, "a\x1b[31m\n\"b\"", O_WRONLY|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0644)`, func(b *prog.Builder) {
			b.Call(prog.SysOpenat, prog.AtCwd, b.String("a\x1b[31m\n\"b\""),
				b.Open(prog.WriteOnly|prog.Create|prog.NoFollow|prog.CloseOnExec), prog.Int(0o644))
		}},
		{`openat(AT_FDCWD, "", O_RDONLY, 00)`, func(b *prog.Builder) {
			b.Call(prog.SysOpenat, prog.AtCwd, b.String(""), b.Open(0), prog.Int(0))
		}},
		{`mknodat(3, "\xff", S_IFREG|0444, 0) or EEXIST`, func(b *prog.Builder) {
			b.Call(prog.SysMknodat, prog.Int(3), b.String("\xff"), prog.Int(0o100444), prog.Int(0)).Tolerate(syscall.EEXIST)
		}},
		{`mount_setattr($0, "", AT_RECURSIVE|AT_EMPTY_PATH, {MOUNT_ATTR_RDONLY|MOUNT_ATTR_NOSUID, without MOUNT_ATTR_NODEV, MS_PRIVATE}, 32)`, func(b *prog.Builder) {
			b.Call(prog.SysMountSetattr, b.Slot().Arg(), b.String(""), prog.Int(0x9000), b.Words(3, 4, 0x40000, 0).Arg(), prog.Int(32))
		}},
		{`mount(NULL, "/", NULL, MS_REC|MS_SLAVE|0x80000000, NULL)`, func(b *prog.Builder) {
			b.Call(prog.SysMount, prog.Null, b.String("/"), prog.Null, prog.Int(0x80084000), prog.Null)
		}},
		{`fsconfig(4, FSCONFIG_SET_STRING, "size", "4096", 0)`, func(b *prog.Builder) {
			b.Call(prog.SysFsconfig, prog.Int(4), prog.Int(1), b.String("size"), b.String("4096"), prog.Int(0))
		}},
		{`fsmount(4, FSMOUNT_CLOEXEC, 0)`, func(b *prog.Builder) {
			b.Call(prog.SysFsmount, prog.Int(4), prog.Int(1), prog.Int(0))
		}},
		{`move_mount(4, "", 5, "", MOVE_MOUNT_F_EMPTY_PATH|MOVE_MOUNT_T_EMPTY_PATH)`, func(b *prog.Builder) {
			b.Call(prog.SysMoveMount, prog.Int(4), b.String(""), prog.Int(5), b.String(""), prog.Int(0x44))
		}},
		{`write(4, "hello", 5) = 5`, func(b *prog.Builder) {
			b.Call(prog.SysWrite, prog.Int(4), b.Data([]byte("hello")).Arg(), prog.Int(5)).Full()
		}},
		{`write(4, "` + strings.Repeat("x", 64) + `"…, 70) = 70`, func(b *prog.Builder) {
			b.Call(prog.SysWrite, prog.Int(4), b.Data(bytes.Repeat([]byte("x"), 70)).Arg(), prog.Int(70)).Full()
		}},
		{`execve("/bin/sh", ["sh", "-c", "a b"], [HOME, "B\n"])`, func(b *prog.Builder) {
			b.Call(prog.Exec, b.String("/bin/sh"), b.Strings([]string{"sh", "-c", "a b"}).Arg(), b.Strings([]string{"HOME=/secret", "B\n=secret"}).Arg())
		}},
		{`execve("/bin/true", [], [])`, func(b *prog.Builder) {
			b.Call(prog.SysExecve, b.String("/bin/true"), b.Strings(nil).Arg(), b.Strings(nil).Arg())
		}},
		{`fail with ELOOP`, func(b *prog.Builder) { b.Fail(syscall.ELOOP) }},
		{`fail as execve did`, func(b *prog.Builder) { b.Call(prog.ExecFail) }},
		{`prctl(PR_CAPBSET_DROP, 2) or EPERM|EINVAL`, func(b *prog.Builder) {
			b.Call(prog.SysPrctl, prog.Int(24), prog.Int(2)).Tolerate(syscall.EPERM, syscall.EINVAL)
		}},
		{`prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0)`, func(b *prog.Builder) {
			b.Call(prog.SysPrctl, prog.Int(47), prog.Int(2), prog.Int(0))
		}},
		{`capset(@8, {effective 0x100000002, permitted 0x100000003, inheritable 0x4})`, func(b *prog.Builder) {
			b.Call(prog.SysCapset, b.Words(0x20080522).Arg(), b.Words(3<<32|2, 1<<32|4, 1).Arg())
		}},
		{`prlimit64(0, RLIMIT_NOFILE, {64, 128}, NULL)`, func(b *prog.Builder) {
			b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(7), b.Words(64, 128).Arg(), prog.Null)
		}},
		{`seccomp(SECCOMP_SET_MODE_FILTER, 0, {5 instructions})`, func(b *prog.Builder) {
			b.Call(prog.SysSeccomp, prog.Int(1), prog.Int(0), b.Words(5, 0).Arg())
		}},
		{`unshare(CLONE_NEWNS|CLONE_NEWNET)`, func(b *prog.Builder) { b.Call(prog.SysUnshare, prog.Int(0x40020000)) }},
		{`rt_sigprocmask(SIG_SETMASK, [0x10], NULL, 8)`, func(b *prog.Builder) {
			b.Call(prog.SysSigprocmask, prog.Int(2), b.Words(16).Arg(), prog.Null, prog.Int(8))
		}},
		{`keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)`, func(b *prog.Builder) { b.Call(prog.SysKeyctl, prog.Int(1), prog.Null) }},
		{`setresuid(-1, 0, 4294967295)`, func(b *prog.Builder) {
			b.Call(prog.SysSetresuid, prog.Int(-1), prog.Int(0), prog.Int(uint32(0xffffffff)))
		}},
	} {
		for _, arch := range []prog.Arch{prog.AMD64, prog.ARM64} {
			b := prog.New(arch)
			c.add(b)
			if got := strings.TrimPrefix(format(t, b), "start\n    0  "); got != c.want+"\n" {
				t.Errorf("arch %d\n got %swant %s", arch, got, c.want)
			}
		}
	}
}

// TestFormatJumps compares a whole Program: steps, and where jumps lead.
func TestFormatJumps(t *testing.T) {
	b := prog.New(prog.AMD64)
	b.Step("bind", "/a b")
	at := b.Slot()
	open := b.Call(prog.SysFchdir, at.Arg()).Tolerate(syscall.ENOENT, syscall.Errno(77))
	ok, missing := open.OnSuccess(), open.OnTolerated()
	b.Step("dir", "/c\x1b[2J")
	word := b.Words(0)
	is := b.If(word, 0xf000, 0x4000)
	jump := b.Jump()
	b.Here(ok)
	b.Fail(syscall.EEXIST)
	b.Here(missing, is, jump)
	b.Step("exec", "")
	b.Close(at)
	const want = `bind /a b
    0  fchdir($0) → 3 or ENOENT|errno 77 → 4
dir "/c\x1b[2J"
    1  if @8 & 0xf000 == 0x4000 → 4
    2  go on → 4
    3  fail with EEXIST
exec
    4  close($0)
`
	if got := format(t, b); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestFormatReturnsErrors(t *testing.T) {
	b := prog.New(prog.AMD64)
	b.Jump()
	if err := b.Program().Format(full{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}
