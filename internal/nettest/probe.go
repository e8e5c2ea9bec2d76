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

// ProbeEnv makes a test binary whose TestMain begins with Main a probe.
const ProbeEnv = "NSRUN_NETTEST_PROBE"

// patience is how long a probe waits for what may never come.
const patience = 2 * time.Second

// Probe does the attempts that it reads, and writes what came of them, until the end of
// its input. It is what runs inside of a sandbox.
func Probe(in io.Reader, out io.Writer) {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var a Attempt
		if dec.Decode(&a) != nil || enc.Encode(Try(a)) != nil {
			return
		}
	}
}

// A Pipe is a Sandbox with a Probe in it.
type Pipe struct {
	t   testing.TB
	enc *json.Encoder
	dec *json.Decoder
	dns netip.AddrPort
}

// NewPipe returns a Sandbox whose probe reads from in and writes to out; dns is where it
// finds its resolver. A probe that does not answer is fatal to the test.
func NewPipe(t testing.TB, in io.Writer, out io.Reader, dns netip.AddrPort) *Pipe {
	return &Pipe{t, json.NewEncoder(in), json.NewDecoder(out), dns}
}

// Do has the probe do an attempt.
func (p *Pipe) Do(a Attempt) (out Outcome) {
	p.t.Helper()
	if a.How == "dns" {
		a.Addr = p.dns
	}
	err := p.enc.Encode(a)
	if err == nil {
		err = p.dec.Decode(&out)
	}
	if err != nil {
		p.t.Fatalf("the probe is gone: %v", err)
	}
	return out
}

// Try does an attempt in this process. The runtime's signal for preemption is kept from
// the thread: a call on a socket with a timeout is not begun again after a signal
// (signal(7)), and then what the sandbox says is not what is seen.
func Try(a Attempt) Outcome {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var urg, old unix.Sigset_t
	urg.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &urg, &old); err != nil {
		return Outcome{Err: err.Error()}
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	start := time.Now()
	packet, err := try(a)
	out := Outcome{OK: err == nil, Packet: packet, Took: time.Since(start)}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

func try(a Attempt) ([]byte, error) {
	switch base, _, _ := strings.Cut(a.How, "-"); base {
	case "tcp":
		return nil, tryTCP(a)
	case "udp":
		return nil, tryUDP(a)
	case "dns":
		return tryDNS(a)
	case "open":
		return nil, tryOpen(a.Kind)
	}
	return nil, fmt.Errorf("there is no %q", a.How)
}

// open makes a socket for an address that does not wait for ever.
func open(a Attempt, typ int) (int, unix.Sockaddr, error) {
	domain := unix.AF_INET6
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(a.Addr.Port()), Addr: a.Addr.Addr().As16()}
	if a.Addr.Addr().Is4() && !a.Mapped {
		domain, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Addr.Port()), Addr: a.Addr.Addr().As4()}
	}
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	tv := unix.NsecToTimeval(patience.Nanoseconds())
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
	if err != nil {
		unix.Close(fd)
		return -1, nil, err
	}
	return fd, sa, nil
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

func tryTCP(a Attempt) error {
	fd, sa, err := open(a, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch a.How {
	case "tcp":
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

func tryUDP(a Attempt) error {
	fd, sa, err := open(a, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch a.How {
	case "udp":
		err = unix.Sendto(fd, []byte(ping), 0, sa)
	case "udp-connect":
		if err = unix.Connect(fd, sa); err == nil {
			err = send(fd)
		}
	case "udp-sendmsg":
		_, err = unix.SendmsgN(fd, []byte(ping), nil, sa, 0)
	case "udp-sendmmsg":
		err = sendmmsg(fd, sa)
	case "udp-reconnect":
		unspec := make([]byte, 16)
		if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspec[0])), 16); e != 0 {
			return e
		}
		err = unix.Sendto(fd, []byte(ping), 0, sa)
	default:
		err = fmt.Errorf("there is no %q", a.How)
	}
	if err != nil {
		return err
	}
	return pong(fd)
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
	c.SetDeadline(time.Now().Add(10 * time.Second))
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

// kinds are the sockets of "open".
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
