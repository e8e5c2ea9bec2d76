//go:build linux

package broker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// A Broker makes the network connections of one sandbox.
type Broker struct {
	o        Options
	landlock bool
	kcmp     bool    // descriptors of callers can be compared by the kernel
	pid      uintptr // this process

	observer   *sandbox.Observer // of other calls
	published  []published
	endClients func()        // of published ports; nil: none are served
	sending    atomic.Int64  // clients of them to which the sandbox may still send
	sent       chan struct{} // one of them has everything

	mu      sync.Mutex
	started bool
	closed  bool
	listen  *os.File
	sockets []*os.File // of the sandbox's network namespace, see sockets
	udp     net.PacketConn
	tcp     net.Listener
	relay   *relay
	locals  []*local
	stop    sys.FD // an eventfd: readable when all is to end
	running sync.WaitGroup

	seeds        []*seed // by family: IPv4, and IPv6 where there is any
	localSockets int     // the first of them in sockets

	linkOnce sync.Once
	linkErr  error

	cookie     uint64 // of the sandbox's network namespace
	network    uint64 // the same, its inode; 0: it is not needed
	slow       chan struct{}
	turnedAway atomic.Int64
	watch      watch
}

// MaxWaiting is how many connects of a sandbox can wait for an answer at once. Each takes up to four descriptors of
// this process, and nothing else limits how many a command begins.
const MaxWaiting = 256

// New returns a Broker that is not attached to a command yet. Close it, or it leaks.
func New(o Options) (*Broker, error) {
	if o.LocalUDP = localPorts(o.LocalUDP); len(o.LocalUDP) > MaxLocalUDP {
		return nil, &Error{"broker", "loopback", fmt.Errorf("at most %d UDP ports of the host's loopback device can be allowed", MaxLocalUDP)}
	}
	if err := possible(); err != nil {
		return nil, err
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, &Error{"broker", "eventfd", err}
	}
	b := &Broker{o: o, pid: uintptr(os.Getpid()), stop: sys.FD(stop), slow: make(chan struct{}, MaxWaiting)}
	b.landlock, b.kcmp = features.Has(features.LandlockTCP), features.Has(features.Kcmp)
	if err := b.publish(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// possible says whether this machine has what a Broker needs.
func possible() error {
	for _, name := range [...]features.Name{features.SeccompNotification, features.PidfdOpen, features.PidfdGetfd} {
		if err := features.Get(name).Err(); err != nil {
			return &Error{"broker", "", err}
		}
	}
	return nil
}

// Attach makes this Broker the network of c, which must not be started yet.
func (b *Broker) Attach(c *nsexec.Cmd) {
	if b.observer = sandbox.Of(c).Observer; b.observer == nil {
		b.observer = &sandbox.Observer{Filter: allowAll(), Look: func(*notify.Notification) {}, Handle: refuse}
	}
	looks := sandbox.Of(c).Observer != nil && b.observer.Answers == nil
	sandbox.Of(c).Supervisor = &sandbox.Supervisor{
		Filter:    traps(b.observer.Filter, looks),
		Early:     looks, // it may be told of execve(2)
		Seal:      seal(),
		Links:     addresses(hasIPv6()),
		Sockets:   b.wanted(),
		NoConnect: b.landlock,
		Started:   b.start,
	}
}

// The indexes of the sandbox's sockets.
const (
	udpSocket = iota // for DNS
	tcpSocket
	routeSocket
	packetSocket
	seedFirst // the first one of a seed

	resolverPort   = 53
	resolveBacklog = 64
)

func (b *Broker) wanted() []sandbox.Socket {
	port53 := []byte{unix.AF_INET, 0, 0, resolverPort, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0} // struct sockaddr_in
	all := []sandbox.Socket{
		udpSocket:   {Domain: unix.AF_INET, Type: unix.SOCK_DGRAM, Addr: port53},
		tcpSocket:   {Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Addr: port53, Backlog: resolveBacklog},
		routeSocket: {Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW, Protocol: unix.NETLINK_ROUTE},
		// It receives no packets until it is bound.
		packetSocket: {Domain: unix.AF_PACKET, Type: unix.SOCK_RAW},
	}
	if b.o.NoUDP {
		all[packetSocket] = sandbox.Socket{Domain: unix.AF_UNIX, Type: unix.SOCK_DGRAM} // in its place
	}
	b.seeds = []*seed{{domain: unix.AF_INET}}
	if supports(unix.AF_INET6) {
		b.seeds = append(b.seeds, &seed{domain: unix.AF_INET6})
	}
	for _, s := range b.seeds {
		all = append(all, seedSockets(s.domain)...)
	}
	b.localSockets = len(all)
	for _, at := range b.o.LocalUDP {
		all = append(all, localSocket(at))
	}
	return all
}

// supports reports whether there are sockets of a family.
func supports(family int) bool {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

// hasIPv6 reports whether the host has a route for IPv6. It sends nothing.
func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	s := sys.FD(fd)
	defer s.Close()
	return unix.Connect(fd, &unix.SockaddrInet6{Port: 9, Addr: documentation6}) == nil
}

// documentation6 is an address that nobody has, 2001:db8::1 of RFC 3849.
var documentation6 = [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}

var errTwice = errors.New("a Broker can serve only one sandbox")

// start begins to serve a sandbox.
func (b *Broker) start(l *os.File, sockets []*os.File) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	refuse := func(err error) error {
		_ = l.Close()
		for _, s := range sockets {
			_ = s.Close()
		}
		return err
	}
	if b.closed {
		return refuse(&Error{"broker", "", os.ErrClosed})
	}
	if b.started {
		return refuse(&Error{"broker", "", errTwice})
	}
	cookie, err := unix.GetsockoptUint64(int(sockets[0].Fd()), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return refuse(&Error{"broker", "network namespace", err})
	}
	if b.o.OwnNetworks {
		var e syscall.Errno
		if b.network, e = networkOfSocket(sys.FD(sockets[udpSocket].Fd())); e != 0 {
			return refuse(&Error{"broker", "network namespace", e})
		}
	}
	udp, err := net.FilePacketConn(sockets[udpSocket])
	if err != nil {
		return refuse(&Error{"broker", "resolver", err})
	}
	tcp, err := net.FileListener(sockets[tcpSocket])
	if err != nil {
		_ = udp.Close()
		return refuse(&Error{"broker", "resolver", err})
	}
	b.started, b.listen, b.sockets, b.cookie = true, l, sockets, cookie
	// With copies, questions would wait although nobody answers any more.
	b.drop(udpSocket)
	b.drop(tcpSocket)
	if b.o.Resolve != nil {
		b.udp, b.tcp = udp, tcp
		b.running.Go(func() { b.o.Resolve(udp, tcp) })
	} else {
		_ = udp.Close()
		_ = tcp.Close()
	}
	for i, s := range b.seeds {
		if err := s.start(int(sockets[seedFirst+2*i].Fd()), int(sockets[seedFirst+2*i+1].Fd())); err != nil {
			return &Error{"broker", "sockets inside", err} // Close does the rest
		}
	}
	if err := b.serveLocal(); err != nil {
		return &Error{"broker", "loopback", err} // Close does the rest
	}
	s := &server{b: b, l: notify.Listener(l.Fd())}
	s.l.WakeHere()
	b.running.Go(s.serve)
	b.servePublished()
	return nil
}

func (b *Broker) drop(which int) { _ = b.sockets[which].Close() }

// Close ends the Broker: from then on the calls that it would have answered fail with ENOSYS, UDP
// is no longer relayed, and published ports are closed. TCP connections of the sandbox stay. Close does not wait for a
// file system that does not answer.
func (b *Broker) Close() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	relay := b.relay
	b.mu.Unlock()
	if !first {
		return
	}
	_, _ = unix.Write(int(b.stop), []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if b.udp != nil {
		_ = b.udp.Close()
		_ = b.tcp.Close()
	}
	if relay != nil {
		_ = relay.link.SetReadDeadline(time.Unix(1, 0))
	}
	for _, l := range b.locals {
		_ = l.conn.Close()
	}
	b.unpublish()
	notify.Ended(b.running.Wait, func() {
		if b.listen != nil {
			_ = b.listen.Close()
		}
		for i, s := range b.sockets {
			if i == packetSocket {
				discard(s)
			}
			_ = s.Close()
		}
		if relay != nil {
			_ = relay.link.Close()
		}
		b.stop.Close()
	})
}

// TurnedAway returns how many connects failed with EAGAIN because MaxWaiting others were waiting for an answer.
func (b *Broker) TurnedAway() int { return int(b.turnedAway.Load()) }

// discard makes the kernel close a file later. Closing a packet socket waits until no processor handles one of its
// packets, which takes 10 ms and more. So the file is sent over a pair of unix sockets that are then closed, and the
// kernel's garbage collector closes it later. Before Linux 6.10, that ran at once, and nothing is gained.
func discard(f *os.File) {
	a, b, err := sys.SeqPacket()
	if err != nil {
		return
	}
	defer a.Close()
	defer b.Close()
	_ = a.Send([]byte{0}, int(f.Fd()), int(b))
}

// allowed asks Decide about a port, and reports the decision.
func (b *Broker) allowed(p netpolicy.Proto, to netip.AddrPort) bool {
	ok := b.may(p, to)
	b.report(p, to, ok)
	return ok
}

func (b *Broker) may(p netpolicy.Proto, to netip.AddrPort) bool {
	return b.o.Decide != nil && b.o.Decide(p, to)
}

func (b *Broker) report(p netpolicy.Proto, to netip.AddrPort, allowed bool) {
	if b.o.Report != nil {
		b.o.Report(p, to, allowed)
	}
}
