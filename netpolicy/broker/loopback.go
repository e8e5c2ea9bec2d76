//go:build linux

package broker

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/netpolicy"
)

// MaxLocalUDP is how many UDP ports of the host's loopback device a sandbox can use.
const MaxLocalUDP = 16

// maxLocalFlows is how many clients one of them has at once.
const maxLocalFlows = 128

// A local is a UDP port of the host's loopback device. The sandbox has a socket with the same
// address on its own loopback device, which stands for it. Each client is a flow.
type local struct {
	b     *Broker
	to    netip.AddrPort
	conn  *net.UDPConn // the sandbox's
	flows flows
	out   [64 << 10]byte // one message on its way back, under mu of flows
}

// localPorts returns the ports that are possible on this machine, each once.
func localPorts(ports []netip.AddrPort) (list []netip.AddrPort) {
	for _, at := range ports {
		if !slices.Contains(list, at) && (at.Addr().Is4() || supports(unix.AF_INET6)) {
			list = append(list, at)
		}
	}
	return list
}

// localSocket is the socket inside that stands for a port.
func localSocket(at netip.AddrPort) sandbox.Socket {
	family, addr := uint16(unix.AF_INET), make([]byte, unix.SizeofSockaddrInet4)
	if at.Addr().Is4() {
		copy(addr[4:], at.Addr().AsSlice())
	} else {
		family, addr = unix.AF_INET6, make([]byte, unix.SizeofSockaddrInet6)
		copy(addr[8:], at.Addr().AsSlice())
	}
	binary.NativeEndian.PutUint16(addr, family)
	binary.BigEndian.PutUint16(addr[2:], at.Port())
	return sandbox.Socket{Domain: int(family), Type: unix.SOCK_DGRAM, Addr: addr}
}

// serveLocal begins to relay for the sockets of o.LocalUDP.
func (b *Broker) serveLocal() error {
	for i, to := range b.o.LocalUDP {
		conn, err := net.FilePacketConn(b.sockets[b.localSockets+i])
		if err != nil {
			return err
		}
		l := &local{b: b, to: to, conn: conn.(*net.UDPConn)}
		l.flows.most, l.flows.back = maxLocalFlows, l.back
		b.locals = append(b.locals, l)
	}
	for _, l := range b.locals {
		b.running.Go(l.run)
	}
	return nil
}

// run relays what the sandbox sends, until the socket is closed.
func (l *local) run() {
	defer l.flows.end()
	message := make([]byte, 64<<10)
	for {
		n, client, err := l.conn.ReadFromUDPAddrPort(message)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the error of an earlier message that could not be delivered
		}
		p := pair{client, l.to}
		f := l.flows.get(p)
		if f == nil && l.b.allowed(netpolicy.UDP, l.to) {
			f = l.flows.open(p)
		}
		if f != nil {
			// What does not fit is lost, as on any other link.
			_, _ = f.conn.Write(message[:n])
		}
	}
}

// back relays one message, if there is one.
func (l *local) back(f *flow, fd int) bool {
	n, _, err := unix.Recvfrom(fd, l.out[:], unix.MSG_DONTWAIT)
	if err == unix.EAGAIN {
		return false
	}
	if err == nil { // else it was of a message that could not be delivered
		f.used = time.Now()
		_, _ = l.conn.WriteToUDPAddrPort(l.out[:n], f.client)
	}
	return true
}
