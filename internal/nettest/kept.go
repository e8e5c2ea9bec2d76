//go:build linux

package nettest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// kept are the sockets that a probe has for later attempts.
type kept struct {
	made      map[string][]int // "tcp", "tcp6", "udp", the first one first
	connected map[string]map[netip.AddrPort]int
	groups    []int // sockets that were to join one
}

// madeKind is the kind of socket that an attempt needs.
func madeKind(a Attempt) string {
	kind := a.How[:3]
	if !a.Addr.Addr().Is4() || a.Mapped {
		kind += "6"
	}
	return kind
}

// make makes a socket for later.
func (k *kept) make(kind string) (err error) {
	kind, how, _ := strings.Cut(kind, "-")
	fd := -1
	switch how {
	case "":
		fd, err = open(kind)
	case "passed":
		fd, err = passed(kind)
	default:
		err = fmt.Errorf("unknown way to make a socket: %q", how)
	}
	if err != nil {
		return err
	}
	if k.made == nil {
		k.made = make(map[string][]int)
	}
	k.made[kind] = append(k.made[kind], fd)
	return nil
}

// take takes the first socket of a kind that was made.
func (k *kept) take(kind string) (int, error) {
	if len(k.made[kind]) == 0 {
		return -1, fmt.Errorf("no socket %q was made", kind)
	}
	fd := k.made[kind][0]
	k.made[kind] = k.made[kind][1:]
	return fd, nil
}

// tryKept connects a socket that is kept, or uses it.
func (k *kept) tryKept(a Attempt) error {
	proto := a.How[:3]
	if strings.HasSuffix(a.How, "-keep") {
		fd, sa, err := k.socket(a)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, sa); err != nil {
			unix.Close(fd)
			return err
		}
		if k.connected == nil {
			k.connected = map[string]map[netip.AddrPort]int{"tcp": {}, "udp": {}}
		}
		k.connected[proto][a.Addr] = fd
	}
	fd, ok := k.connected[proto][a.Addr]
	if !ok {
		return fmt.Errorf("no connected socket for %s %v", proto, a.Addr)
	}
	if a.How == "tcp-again" {
		if err := disconnect(fd); err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(a.Addr.Port()), Addr: a.Addr.Addr().As4()}); err != nil {
			return err
		}
	}
	if err := send(fd); err != nil {
		return err
	}
	return pong(fd)
}

func (k *kept) close() {
	for _, list := range k.made {
		for _, fd := range list {
			unix.Close(fd)
		}
	}
	for _, all := range k.connected {
		for _, fd := range all {
			unix.Close(fd)
		}
	}
	for _, fd := range k.groups {
		unix.Close(fd)
	}
}

// passed is a socket that another process makes and passes on.
func passed(kind string) (int, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ends[0])
	theirs := os.NewFile(uintptr(ends[1]), "socket")
	c := exec.Command("/proc/self/exe", kind)
	c.Env = append(os.Environ(), ProbeEnv+"="+passer)
	c.ExtraFiles = []*os.File{theirs}
	c.Stderr = os.Stderr
	err = c.Run()
	theirs.Close()
	if err != nil {
		return -1, err
	}
	fd, err := Receive(ends[0])
	if err != nil {
		return -1, err
	}
	return fd, impatient(fd)
}

// Receive takes a socket that was sent over a unix one.
func Receive(from int) (int, error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, b[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	if len(messages) != 1 {
		return -1, errors.New("no socket came")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// pass is the other process.
func pass(args []string) error {
	fd, err := open(args[0])
	if err != nil {
		return err
	}
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(fd), nil, 0)
}
