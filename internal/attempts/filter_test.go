//go:build linux

package attempts

import (
	"encoding/binary"
	"math/rand/v2"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/nsexec"
)

// data is a struct seccomp_data in the byte order in which package bpf's virtual machine loads words: the bytes of each
// word are reversed.
func data(nr, arch uint32, args [6]uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, nr)
	b = binary.BigEndian.AppendUint32(b, arch)
	b = append(b, make([]byte, 8)...)
	for _, a := range args {
		b = binary.BigEndian.AppendUint32(b, uint32(a))
		b = binary.BigEndian.AppendUint32(b, uint32(a>>32))
	}
	return b
}

func machine(t *testing.T, f []unix.SockFilter) func(b []byte) uint32 {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, i := range f {
		raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("not understood")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return func(b []byte) uint32 {
		v, err := vm.Run(b)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(v)
	}
}

// TestUnknownCalls: the default filter refuses calls that its lists cannot know, and the broadest of its variants does.
// The controls are the last one that they know, and that numbers of other calls are not refused.
func TestUnknownCalls(t *testing.T) {
	broad := nsexec.FilterOptions{UserNamespaces: true, CgroupNamespaces: true, Openat2: true}.Filter()
	for _, f := range [...][]unix.SockFilter{nsexec.DefaultFilter(), broad} {
		answer := machine(t, f)
		for nr, want := range map[uint32]uint32{
			unix.SYS_READ: seccomp.Allow, unix.SYS_FUTEX_WAITV: seccomp.Allow, unix.SYS_FILE_SETATTR: seccomp.Allow,
			unix.SYS_FILE_SETATTR + 1: seccomp.Refuse | uint32(unix.ENOSYS), 500: seccomp.Refuse | uint32(unix.ENOSYS), 1<<30 - 1: seccomp.Refuse | uint32(unix.ENOSYS),
		} {
			if got := answer(data(nr, f[1].K, [6]uint64{})); got != want {
				t.Errorf("call %d: %#x, not %#x", nr, got, want)
			}
		}
	}
}

// TestVerdict: verdict answers each call as the kernel does with the default filter. The filters that observe let no
// call pass that the default filter refuses.
func TestVerdict(t *testing.T) {
	deny := []unix.SockFilter(nsexec.DefaultFilter())
	byDeny, byObserving := machine(t, deny), machine(t, observing(deny, true, 1<<64-1))
	byMessages, byReports := machine(t, (&Messages{descriptors: []uint32{standardError}}).filter(deny)), machine(t, (&Messages{descriptors: []uint32{standardError, standardOutput}}).filter(deny))
	arch := deny[1].K
	values := []uint64{0, 1, 2, 4, 15, 0x5412, 0x541c, 1024, unix.O_CREAT, unix.S_ISUID, unix.S_ISGID, unix.CLONE_NEWUSER, unix.CLONE_NEWTIME, 1 << 32, 1<<64 - 1}
	told, said, reported := 0, 0, 0
	for nr := uint32(0); nr < 480; nr++ {
		for range 200 {
			at := arch
			if rand.IntN(20) == 0 {
				at ^= 1
			}
			call := nr
			if rand.IntN(20) == 0 {
				call |= 0x40000000
			}
			var args [6]uint64
			for i := range args {
				args[i] = values[rand.IntN(len(values))]
			}
			b := data(call, at, args)
			want := byDeny(b)
			if got := verdict(deny, call, at, &args); got != want {
				t.Fatalf("call %#x of %#x, %#x: %#x, want %#x", call, at, args, got, want)
			}
			switch got := byMessages(b); {
			case got == seccomp.Notify && at == arch && isWrite(int32(call)) && uint32(args[0]) == standardError:
				said++
			case got != want:
				t.Fatalf("messages: call %#x of %#x, %#x: %#x, want %#x", call, at, args, got, want)
			}
			switch got := byReports(b); {
			case got == seccomp.Notify && at == arch && isWrite(int32(call)) && (uint32(args[0]) == standardError || uint32(args[0]) == standardOutput):
				reported++
			case got != want:
				t.Fatalf("reports: call %#x of %#x, %#x: %#x, want %#x", call, at, args, got, want)
			}
			switch got := byObserving(b); {
			case got == seccomp.Notify:
				told++
			case got != want || want&seccomp.Action == seccomp.Refuse && syscall.Errno(want&^seccomp.Action) == unix.EPERM:
				t.Fatalf("call %#x of %#x, %#x: %#x, want %#x", call, at, args, got, want)
			}
		}
	}
	if told == 0 || said == 0 || reported <= said {
		t.Error("nothing is reported")
	}
	if got := verdict(nil, 1, arch, new([6]uint64)); got&seccomp.Action != seccomp.Refuse {
		t.Errorf("no filter: %#x", got)
	}
}

// TestOpenedIsNotTold: a look at what is open already does not wait for anybody, and one at a path does.
func TestOpenedIsNotTold(t *testing.T) {
	deny := []unix.SockFilter(nsexec.DefaultFilter())
	decide, arch := machine(t, observing(deny, true, 1<<64-1)), deny[1].K
	for _, c := range newCalls {
		if c.deed != looks || c.flags < 0 {
			continue
		}
		for flags, want := range map[uint64]uint32{
			0: seccomp.Notify, unix.AT_SYMLINK_NOFOLLOW: seccomp.Notify, unix.AT_EMPTY_PATH: seccomp.Allow, unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW: seccomp.Allow,
		} {
			var args [6]uint64
			args[c.flags] = flags
			if got := decide(data(uint32(c.nr), arch, args)); got != want {
				t.Errorf("call %d, flags %#x: %#x, want %#x", c.nr, flags, got, want)
			}
		}
	}
}

// TestOwnIDs: a change to ids that root has already does not wait for anybody, and neither does one of the times of an
// open file.
func TestOwnIDs(t *testing.T) {
	deny := []unix.SockFilter(nsexec.DefaultFilter())
	decide, arch := machine(t, observing(deny, true, 0)), deny[1].K
	const unchanged = 1<<32 - 1
	for _, c := range []struct {
		nr   uint32
		args [6]uint64
		want uint32
	}{
		{unix.SYS_SETRESUID, [6]uint64{0, 0, 0, 1000}, seccomp.Allow},
		{unix.SYS_SETRESUID, [6]uint64{unchanged, 0, 1<<64 - 1}, seccomp.Allow},
		{unix.SYS_SETRESUID, [6]uint64{1000}, seccomp.Notify},
		{unix.SYS_SETRESUID, [6]uint64{0, 1000}, seccomp.Notify},
		{unix.SYS_SETRESGID, [6]uint64{unchanged, unchanged, 5}, seccomp.Notify},
		{unix.SYS_SETUID, [6]uint64{0}, seccomp.Allow},
		{unix.SYS_SETUID, [6]uint64{1}, seccomp.Notify},
		{unix.SYS_SETGROUPS, [6]uint64{0}, seccomp.Notify},
		{unix.SYS_FCHOWN, [6]uint64{3, 0, 0}, seccomp.Notify},
		{unix.SYS_UTIMENSAT, [6]uint64{3, 0, 0x7ffc12345678}, seccomp.Allow},
		{unix.SYS_UTIMENSAT, [6]uint64{3, 0x7ffc12345678}, seccomp.Notify},
		{unix.SYS_UTIMENSAT, [6]uint64{3, 1 << 32}, seccomp.Notify},
	} {
		if got := decide(data(c.nr, arch, c.args)); got != c.want {
			t.Errorf("call %d, %#x: %#x, want %#x", c.nr, c.args, got, c.want)
		}
	}
}

// TestSendsWithAddress: what is sent without an address does not wait for anybody.
func TestSendsWithAddress(t *testing.T) {
	deny := []unix.SockFilter(nsexec.DefaultFilter())
	decide, arch := machine(t, observing(deny, true, 1<<64-1)), deny[1].K
	for address, want := range map[uint64]uint32{0: seccomp.Allow, 0x7ffc12345678: seccomp.Notify} {
		if got := decide(data(unix.SYS_SENDTO, arch, [6]uint64{3, 1, 1, 0, address, 16})); got != want {
			t.Errorf("address %#x: %#x, want %#x", address, got, want)
		}
	}
}
