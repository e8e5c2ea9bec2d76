//go:build linux

package nettest

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// NeedSocketCgroups skips a test where the kernel does not tell in which cgroup a socket was made.
func NeedSocketCgroups(t testing.TB) {
	t.Helper()
	packets, conns := ListenBoth(t, "127.0.0.1", 0)
	defer func() { _, _ = packets.Close(), conns.Close() }()
	at, none := netip.MustParseAddrPort(conns.Addr().String()), netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	for _, proto := range [...]uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		if s, err := sys.FindInetSocket(proto, at, none); err != nil || s.Cgroup == 0 {
			testenv.Skip(t, "socket cgroups", "sock_diag(7) does not tell a socket's cgroup")
		}
	}
}
