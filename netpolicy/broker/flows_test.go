//go:build linux

package broker

import (
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestFlowsEnd: flows end while an answer arrives over one, whose reader waits for the mutex that the end holds.
func TestFlowsEnd(t *testing.T) {
	peer, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	var b [16]byte
	entered, leave := make(chan struct{}), make(chan struct{})
	s := flows{most: 2, back: func(f *flow, fd int) bool {
		n, _ := unix.Read(fd, b[:])
		if n > 0 && f.client.Port() == 1 { // with the mutex held
			close(entered)
			<-leave
		}
		return n > 0
	}}
	send := func(f *flow) {
		if _, err := peer.WriteToUDPAddrPort([]byte("back"), f.conn.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := s.open(pair{netip.AddrPortFrom(to.Addr(), 1), to}), s.open(pair{netip.AddrPortFrom(to.Addr(), 2), to})
	if first == nil || second == nil {
		t.Fatal("no flow")
	}
	send(first)
	<-entered
	ended := make(chan struct{})
	go func() { s.end(); close(ended) }()
	testenv.Eventually(t, "end waits for the mutex", func() bool { return waiting("(*flows).end(") })
	send(second)
	testenv.Eventually(t, "a reader waits for the mutex", func() bool { return waiting("(*flows).answer(") })
	close(leave)
	testenv.Eventually(t, "flows end", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// waiting reports whether a goroutine waits for a mutex in a function.
func waiting(function string) bool {
	text := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
		if strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, function) {
			return true
		}
	}
	return false
}
