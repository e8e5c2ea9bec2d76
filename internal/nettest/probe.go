//go:build linux

package nettest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ProbeEnv makes a test binary whose TestMain begins with Main a probe, or one of its helpers.
const (
	ProbeEnv = "NSRUN_NETTEST_PROBE"
	passer   = "pass"   // see pass
	renamer  = "rename" // see rename
)

// patience is how long a probe waits for what may never come.
const patience = 30 * time.Second

// Probe does the attempts that it reads, and writes what came of them, until the end of
// its input. It is what runs inside of a sandbox.
func Probe(in io.Reader, out io.Writer) {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var k kept
	for {
		var a Attempt
		if dec.Decode(&a) != nil || enc.Encode(k.try(a)) != nil {
			return
		}
	}
}

// A Pipe is a Sandbox with a Probe in it.
type Pipe struct {
	t       testing.TB
	enc     *json.Encoder
	dec     *json.Decoder
	o       PipeOptions
	stopped bool
}

// PipeOptions say what is around a probe.
type PipeOptions struct {
	DNS  netip.AddrPort // where its resolver is
	Mute func()         // ends the resolver
	Stop func()         // ends what enforces, and maybe the probe with it
}

// NewPipe returns a Sandbox whose probe reads from in and writes to out. A probe that does
// not answer is fatal to the test, except after Stop.
func NewPipe(t testing.TB, in io.Writer, out io.Reader, o PipeOptions) *Pipe {
	return &Pipe{t: t, enc: json.NewEncoder(in), dec: json.NewDecoder(out), o: o}
}

// Mute ends the resolver.
func (p *Pipe) Mute() { p.o.Mute() }

// Stop ends what enforces.
func (p *Pipe) Stop() {
	p.stopped = true
	p.o.Stop()
}

// Do has the probe do an attempt.
func (p *Pipe) Do(a Attempt) (out Outcome) {
	p.t.Helper()
	if a.How == "dns" {
		a.Addr = p.o.DNS
	}
	err := p.enc.Encode(a)
	if err == nil {
		err = p.dec.Decode(&out)
	}
	if err != nil && p.stopped {
		return Outcome{Err: "the probe is gone with what enforces"}
	}
	if err != nil {
		p.t.Fatalf("the probe is gone: %v", err)
	}
	return out
}

// Try does an attempt that needs none before it in this process.
func Try(a Attempt) Outcome {
	var k kept
	defer k.close()
	return k.try(a)
}

// try does an attempt. The runtime's signal for preemption is kept from the thread: a call on a socket with a timeout
// is not begun again after a signal (signal(7)), and then what the sandbox says is not what is seen.
func (k *kept) try(a Attempt) Outcome {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var urg, old unix.Sigset_t
	urg.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &urg, &old); err != nil {
		return Outcome{Err: err.Error()}
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	packet, err := k.do(a)
	out := Outcome{OK: err == nil, Packet: packet}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

func (k *kept) do(a Attempt) ([]byte, error) {
	switch a.How {
	case "tcp-keep", "udp-keep", "tcp-kept", "udp-kept", "tcp-again":
		return nil, k.tryKept(a)
	}
	switch base, _, _ := strings.Cut(a.How, "-"); base {
	case "tcp", "udp":
		fd, sa, err := k.socket(a)
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		if base == "tcp" {
			return nil, tryTCP(a, fd, sa)
		}
		return nil, tryUDP(a, fd, sa)
	case "make":
		return nil, k.make(a.Kind)
	case "dns":
		return tryDNS(a)
	case "open":
		return nil, tryOpen(a.Kind)
	case "join":
		return nil, k.join(a.Kind)
	}
	return nil, fmt.Errorf("there is no %q", a.How)
}

// socket is a new socket for an attempt, or the one that was made for it, and its address.
func (k *kept) socket(a Attempt) (fd int, sa unix.Sockaddr, err error) {
	sa = &unix.SockaddrInet6{Port: int(a.Addr.Port()), Addr: a.Addr.Addr().As16()}
	if a.Addr.Addr().Is4() && !a.Mapped {
		sa = &unix.SockaddrInet4{Port: int(a.Addr.Port()), Addr: a.Addr.Addr().As4()}
	}
	if strings.HasSuffix(a.How, "-made") {
		fd, err = k.take(madeKind(a))
	} else {
		fd, err = open(madeKind(a))
	}
	return fd, sa, err
}

// open makes a socket that does not wait for ever: "tcp", "udp", "tcp6", "udp6".
func open(kind string) (int, error) {
	domain, typ := unix.AF_INET, unix.SOCK_STREAM
	if strings.HasSuffix(kind, "6") {
		domain = unix.AF_INET6
	}
	if strings.HasPrefix(kind, "udp") {
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := impatient(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func impatient(fd int) error {
	tv := unix.NsecToTimeval(patience.Nanoseconds())
	return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
}

func eintr(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

const ping = "are you there?"

// pong reads the echo.
func pong(fd int) error {
	var buf [64]byte
	n := 0
	err := eintr(func() (err error) { n, err = unix.Read(fd, buf[:]); return err })
	if err == nil && string(buf[:max(n, 0)]) != ping {
		err = fmt.Errorf("%q came back", buf[:n])
	}
	return err
}

func send(fd int) error {
	return eintr(func() error { _, err := unix.Write(fd, []byte(ping)); return err })
}

func tryTCP(a Attempt, fd int, sa unix.Sockaddr) error {
	switch a.How {
	case "tcp", "tcp-made":
		if err := unix.Connect(fd, sa); err != nil {
			return err
		}
	case "tcp-nonblock":
		if err := connectNonblock(fd, sa); err != nil {
			return err
		}
	case "tcp-fastopen":
		if err := unix.Sendto(fd, []byte(ping), unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL, sa); err != nil {
			return err
		}
		return pong(fd)
	case "tcp-sendmsg":
		if _, err := unix.SendmsgN(fd, []byte(ping), nil, sa, unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL); err != nil {
			return err
		}
		return pong(fd)
	default:
		return fmt.Errorf("there is no %q", a.How)
	}
	if err := send(fd); err != nil {
		return err
	}
	return pong(fd)
}

func connectNonblock(fd int, sa unix.Sockaddr) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := unix.Connect(fd, sa); err != nil && err != unix.EINPROGRESS {
		return err
	}
	pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n := 0
	if err := eintr(func() (err error) { n, err = unix.Poll(pfd, int(patience.Milliseconds())); return err }); err != nil {
		return err
	}
	if n == 0 {
		return unix.ETIMEDOUT
	}
	if e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || e != 0 {
		return errors.Join(err, unix.Errno(e))
	}
	return unix.SetNonblock(fd, false)
}

func tryUDP(a Attempt, fd int, sa unix.Sockaddr) (err error) {
	switch a.How {
	case "udp", "udp-made":
		err = unix.Sendto(fd, []byte(ping), 0, sa)
	case "udp-connect":
		if err = unix.Connect(fd, sa); err == nil {
			err = send(fd)
		}
	case "udp-probe":
		return unix.Connect(fd, sa)
	case "udp-sendmsg":
		_, err = unix.SendmsgN(fd, []byte(ping), nil, sa, 0)
	case "udp-sendmmsg":
		err = sendmmsg(fd, sa)
	case "udp-reconnect":
		if err = disconnect(fd); err == nil {
			err = unix.Sendto(fd, []byte(ping), 0, sa)
		}
	default:
		err = fmt.Errorf("there is no %q", a.How)
	}
	if err != nil {
		return err
	}
	return pong(fd)
}

// disconnect is connect(2) to nothing.
func disconnect(fd int) error {
	unspec := make([]byte, 16)
	if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspec[0])), 16); e != 0 {
		return e
	}
	return nil
}

// sendmmsg sends one packet with sendmmsg(2).
func sendmmsg(fd int, sa unix.Sockaddr) error {
	var name [28]byte
	size := 16
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		binary.NativeEndian.PutUint16(name[:], unix.AF_INET)
		binary.BigEndian.PutUint16(name[2:], uint16(sa.Port))
		copy(name[4:], sa.Addr[:])
	case *unix.SockaddrInet6:
		size = 28
		binary.NativeEndian.PutUint16(name[:], unix.AF_INET6)
		binary.BigEndian.PutUint16(name[2:], uint16(sa.Port))
		copy(name[8:], sa.Addr[:])
	}
	data := []byte(ping)
	iov := unix.Iovec{Base: &data[0]}
	iov.SetLen(len(data))
	var m struct {
		unix.Msghdr
		n uint32
		_ [4]byte
	}
	m.Name, m.Namelen, m.Iov = &name[0], uint32(size), &iov
	m.SetIovlen(1)
	if _, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 1, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

func tryDNS(a Attempt) ([]byte, error) {
	network := "udp"
	if a.TCP {
		network = "tcp"
	}
	c, err := net.DialTimeout(network, a.Addr.String(), patience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 65535)
	if !a.TCP {
		if _, err := c.Write(a.Packet); err != nil {
			return nil, err
		}
		n, err := c.Read(buf)
		return buf[:n], err
	}
	// In pieces, as hostile or poor clients do.
	b := append(binary.BigEndian.AppendUint16(nil, uint16(len(a.Packet))), a.Packet...)
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return nil, err
		}
	}
	if _, err := io.ReadFull(c, buf[:2]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(buf))
	_, err = io.ReadFull(c, buf[:n])
	return buf[:n], err
}

var kinds = map[string][3]int{
	"raw":          {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW},
	"raw6":         {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW},
	"icmp":         {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
	"packet":       {unix.AF_PACKET, unix.SOCK_RAW, 0x0300},
	"packet-dgram": {unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300},
	"vsock":        {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	"alg":          {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	"sctp":         {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
	"dccp":         {unix.AF_INET, 6, unix.IPPROTO_DCCP},
	"mptcp":        {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	"udplite":      {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE},
	"xdp":          {unix.AF_XDP, unix.SOCK_RAW, 0},
	"bluetooth":    {unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
	"can":          {unix.AF_CAN, unix.SOCK_RAW, 1},
	"tipc":         {unix.AF_TIPC, unix.SOCK_RDM, 0},
	"smc":          {43, unix.SOCK_STREAM, 0},
	"rds":          {unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
}

func tryOpen(kind string) error {
	if kind == "abstract" {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrUnix{Name: abstract})
	}
	k, ok := kinds[kind]
	if !ok {
		return fmt.Errorf("there is no socket %q", kind)
	}
	fd, err := unix.Socket(k[0], k[1]|unix.SOCK_CLOEXEC, k[2])
	if err == nil {
		unix.Close(fd)
	}
	return err
}
