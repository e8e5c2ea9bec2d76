package broker

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// maxLocal is how many UDP ports of the host's loopback device a sandbox can have.
const maxLocal = 16

// A local is a UDP port of the host's loopback device that the sandbox has under the same
// address on its own, where a socket of its own stands for it. Each client has a
// socket on the host, connected to the port: nobody else can answer.
type local struct {
	b    *Broker
	to   netip.AddrPort
	conn *net.UDPConn // the sandbox's

	mu    sync.Mutex
	flows map[netip.AddrPort]*flow // by client
	ended sync.WaitGroup
}

// localSocket is what stands for a port inside.
func localSocket(at netip.AddrPort) nsexec.Socket {
	family, addr := uint16(unix.AF_INET), make([]byte, unix.SizeofSockaddrInet4)
	if at.Addr().Is4() {
		copy(addr[4:], at.Addr().AsSlice())
	} else {
		family, addr = unix.AF_INET6, make([]byte, unix.SizeofSockaddrInet6)
		copy(addr[8:], at.Addr().AsSlice())
	}
	binary.NativeEndian.PutUint16(addr, family)
	binary.BigEndian.PutUint16(addr[2:], at.Port())
	return nsexec.Socket{Domain: int(family), Type: unix.SOCK_DGRAM, Addr: addr}
}

// serveLocal begins to relay for the sockets of o.LocalUDP.
func (b *Broker) serveLocal() error {
	for i, to := range b.o.LocalUDP {
		conn, err := net.FilePacketConn(b.sockets[b.localSockets+i])
		if err != nil {
			return err
		}
		l := &local{b: b, to: to, conn: conn.(*net.UDPConn), flows: make(map[netip.AddrPort]*flow)}
		b.locals = append(b.locals, l)
	}
	for _, l := range b.locals {
		b.running.Go(l.run)
	}
	return nil
}

// run relays what the sandbox sends, until the socket is closed.
func (l *local) run() {
	defer l.ended.Wait()
	defer l.close()
	message := make([]byte, 64<<10)
	for {
		n, client, err := l.conn.ReadFromUDPAddrPort(message)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of a message that was sent before, and could not be delivered
		}
		if f := l.flow(client); f != nil {
			// What does not fit is lost, as on any other link.
			_, _ = f.conn.Write(message[:n])
		}
	}
}

// flow is a client's; nil if there must be none. An existing one was allowed, and stays.
func (l *local) flow(client netip.AddrPort) *flow {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flows[client]; f != nil {
		f.used = time.Now()
		return f
	}
	if len(l.flows) >= maxFlows || !l.b.allowed(netpolicy.UDP, l.to) {
		return nil
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(l.to))
	if err != nil {
		return nil
	}
	f := &flow{pair: pair{client, l.to}, conn: conn, used: time.Now()}
	l.flows[client] = f
	l.ended.Go(func() { l.answer(f) })
	return f
}

// answer relays what comes back to a client, as long as anything does.
func (l *local) answer(f *flow) {
	defer func() {
		_ = f.conn.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.flows, f.client)
	}()
	message := make([]byte, 64<<10)
	for {
		_ = f.conn.SetReadDeadline(time.Now().Add(idle))
		n, err := f.conn.Read(message)
		l.mu.Lock()
		unused := time.Since(f.used) >= idle
		if err == nil {
			f.used = time.Now()
		}
		l.mu.Unlock()
		switch {
		case err == nil:
			_, _ = l.conn.WriteToUDPAddrPort(message[:n], f.client)
		case errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) && unused:
			return
		}
	}
}

func (l *local) close() {
	_ = l.conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.flows {
		_ = f.conn.Close()
	}
}
