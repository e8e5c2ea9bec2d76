//go:build linux

package broker

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/netpolicy"
)

// maxFlows is how many flows a relay has at once.
const maxFlows = 1024

// A relay sends the UDP messages from a sandbox's link to the host's network, and the answers
// back. Each pair of client and destination is a flow.
type relay struct {
	b     *Broker
	link  *os.File // a packet socket at the other end of the link
	flows flows
	out   [etherSize + linkMTU]byte // one message on its way back, under mu of flows
}

func newRelay(b *Broker, link *os.File) *relay {
	r := &relay{b: b, link: link}
	r.flows.most, r.flows.back = maxFlows, r.back
	return r
}

// run relays what the sandbox sends, until the link's deadline.
func (r *relay) run() {
	frame := make([]byte, etherSize+linkMTU)
	for {
		n, err := r.link.Read(frame)
		if err != nil {
			if errors.Is(err, unix.ENETDOWN) {
				continue // told once, when the device goes down
			}
			break
		}
		if d, ok := parse(frame[:n]); ok && d.to.Addr() != d.from.Addr() && !inside(d.to.Addr()) && inside(d.from.Addr()) {
			r.send(&d)
		}
	}
	r.flows.end()
}

// send relays a message of the sandbox, or answers that it cannot.
func (r *relay) send(d *datagram) {
	if d.protocol == unix.IPPROTO_ICMP || d.protocol == unix.IPPROTO_ICMPV6 || d.to.Addr().IsMulticast() {
		return
	}
	f := r.flow(d)
	if f == nil {
		r.refuse(d)
		return
	}
	var failed error
	_ = f.raw.Control(func(fd uintptr) {
		// Without waiting: what does not fit is lost, as on any other link.
		failed = unix.Send(int(fd), d.payload, unix.MSG_DONTWAIT)
	})
	if failed == unix.ECONNREFUSED {
		r.refuse(d)
	}
}

func (r *relay) refuse(d *datagram) { _, _ = r.link.Write(unreachable(d)) }

// flow returns the flow of a message. Nil: it is not allowed. An existing flow was allowed, and stays so.
func (r *relay) flow(d *datagram) *flow {
	p := pair{d.from, d.to}
	f := r.flows.get(p)
	if f != nil || d.protocol != unix.IPPROTO_UDP || !r.b.allowed(netpolicy.UDP, d.to) {
		return f
	}
	return r.flows.open(p)
}

// back relays one message, if there is one.
func (r *relay) back(f *flow, fd int) bool {
	at := headers(f.client.Addr())
	n, _, err := unix.Recvfrom(fd, r.out[at:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	switch {
	case err == unix.EAGAIN:
		return false
	case err == unix.EINTR:
		return true
	case err == unix.ECONNREFUSED:
		r.refuse(&datagram{from: f.client, to: f.to, ip: f.quote()})
		return true
	case err != nil:
		return true // of one message: what was not delivered, and the like
	case n > len(r.out)-at:
		return true // it does not fit into a packet of the link
	}
	f.used = time.Now()
	frame := r.out[:at+n]
	udp(frame, f.to, f.client)
	_, _ = r.link.Write(frame)
	return true
}

// quote is the beginning of a message of the flow, for an ICMP error.
func (f *flow) quote() []byte {
	frame := make([]byte, headers(f.client.Addr()))
	udp(frame, f.client, f.to)
	return frame[etherSize:]
}

// open makes the link, once, and starts the relay.
func (b *Broker) open() syscall.Errno {
	b.linkOnce.Do(func() { b.linkErr = b.openLink() })
	if b.linkErr != nil {
		return syscall.ENETUNREACH
	}
	return 0
}

func (b *Broker) openLink() error {
	if b.o.NoUDP {
		return unix.ENETUNREACH
	}
	routes, packets := b.sockets[routeSocket], b.sockets[packetSocket]
	if err := talk(routes, link()); err != nil {
		return err
	}
	_ = talk(routes, link6())
	fd := int(packets.Fd())
	all := uint16(unix.ETH_P_ALL)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: relayIndex}); err != nil {
		return err
	}
	// Its own queue begins to work only when the kernel has seen that there is a link, which is later.
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return os.ErrClosed
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(dup, true); err != nil {
		_ = unix.Close(dup)
		return err
	}
	b.relay = newRelay(b, os.NewFile(uintptr(dup), "link"))
	b.running.Go(b.relay.run)
	return nil
}

// talk sends messages to rtnetlink(7), which answers only with errors, and at once.
func talk(f *os.File, messages []byte) error {
	fd := int(f.Fd())
	if _, err := unix.Write(fd, messages); err != nil {
		return err
	}
	var b [1024]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
	if err == unix.EAGAIN {
		return nil
	}
	if err != nil {
		return err
	}
	all, err := syscall.ParseNetlinkMessage(b[:n])
	if err != nil || len(all) == 0 || len(all[0].Data) < 4 {
		return unix.EBADMSG
	}
	return syscall.Errno(-int32(uint32(all[0].Data[0]) | uint32(all[0].Data[1])<<8 | uint32(all[0].Data[2])<<16 | uint32(all[0].Data[3])<<24))
}
