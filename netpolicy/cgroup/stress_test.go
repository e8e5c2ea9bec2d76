//go:build linux

package cgroup_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
)

// TestUpdates: while the rules change a hundred times a second, no verdict is wrong. With
// NSRUN_LONG for a minute, or as long as that says (10m).
func TestUpdates(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	long := 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv("NSRUN_LONG")); err == nil {
		long = d
	} else if os.Getenv("NSRUN_LONG") != "" {
		long = time.Minute
	}
	var policies [2]netpolicy.Policy
	for i := range policies {
		rules := []string{"203.0.113.0/24:80"}
		if i == 1 {
			rules = append(rules, "192.0.2.0/24:80")
		}
		for n := range 50 {
			rules = append(rules, fmt.Sprintf("[2001:db8:%x::/48]:%d", n, 1000+n+i))
		}
		policies[i] = policy(t, rules...)
	}
	table, err := netpolicy.NewTable(policies[0])
	if err != nil {
		t.Fatal(err)
	}
	e := enforce(t, p, table, cgroup.Options{Decided: func(cgroup.Decision) {}})
	var boxes [8]*box
	for i := range boxes {
		boxes[i] = newBox(t, e)
		if _, err := io.WriteString(boxes[i].in, "storm "+strconv.Itoa(i)+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	updates := 0
	for end := time.Now().Add(long); time.Now().Before(end) || updates < 50; updates++ {
		<-tick.C
		if err := table.Update(policies[updates%2]); err != nil {
			t.Fatal(err)
		}
	}
	tries := 0
	for _, b := range boxes {
		var n int
		answer := b.do("enough")
		if _, err := fmt.Sscanf(answer, "%d tries", &n); err != nil {
			t.Error(answer)
		}
		b.want("tcp 203.0.113.1:80", "yes")
		tries += n
	}
	t.Logf("%d tries, %d updates", tries, updates)
}

// tryStorm connects and sends at random, to addresses that are always allowed, never allowed, or allowed at times. It
// ends at the next line of input, but not before it has tried often enough.
func tryStorm(in *bufio.Reader, seed string) error {
	enough := make(chan error, 1)
	go func() {
		_, err := in.ReadString('\n')
		enough <- err
	}()
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(n, 1))
	for tries, over := 0, false; ; tries++ {
		select {
		case err := <-enough:
			if err != nil {
				return err
			}
			over = true
		default:
		}
		if over && tries >= 125 {
			return fmt.Errorf("%d tries", tries)
		}
		last := byte(random.Uint32())
		for i, ip := range [...]netip.Addr{
			netip.AddrFrom4([4]byte{203, 0, 113, last}), netip.AddrFrom4([4]byte{198, 51, 100, last}), netip.AddrFrom4([4]byte{192, 0, 2, last}),
		} {
			dst := netip.AddrPortFrom(ip, 80)
			if random.Uint32()&1 != 0 {
				dst = netip.AddrPortFrom(netip.AddrFrom16(ip.As16()), 80)
			}
			tcp, udp := stormOnce(dst)
			// Where the first packet is lost, the rule may be gone when it is sent again.
			lost := tcp == unix.EINPROGRESS
			right := i == 2 && (tcp == nil || tcp == unix.ECONNREFUSED || lost) && (udp == nil || udp == unix.EPERM) ||
				i == 1 && tcp == unix.ECONNREFUSED && udp == unix.EPERM || i == 0 && tcp == nil && udp == nil
			if !right {
				if !over {
					<-enough
				}
				return fmt.Errorf("%v: %v, %v", dst, tcp, udp)
			}
		}
	}
}

// stormOnce connects, and sends a datagram.
func stormOnce(dst netip.AddrPort) (tcp, udp error) {
	s, err := socket(dst, unix.SOCK_STREAM)
	if err != nil {
		return err, nil
	}
	_ = unix.SetsockoptLinger(s, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	tcp = unix.Connect(s, sockaddr(dst))
	unix.Close(s)
	if s, err = socket(dst, unix.SOCK_DGRAM); err != nil {
		return tcp, err
	}
	udp = unix.Sendto(s, []byte("ask\n"), 0, sockaddr(dst))
	unix.Close(s)
	if errors.Is(tcp, unix.EINTR) {
		tcp = nil // under way: what is refused is refused at once
	}
	return tcp, udp
}

// TestMany: as many rules and addresses as there can be.
func TestMany(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	rules, addrs := 10_000, 100_000
	table := manyTable(t, rules, addrs)
	start := time.Now()
	e := enforce(t, p, table, cgroup.Options{})
	t.Logf("%d rules and %d addresses: %v", rules, addrs, time.Since(start))
	b := newBox(t, e)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := random.IntN(rules)
		b.want("tcp "+ruleAddr(n)+":80", "yes")
		b.want("udp "+ruleAddr(n)+":80", "operation not permitted")
		b.want("tcp "+learnedAddr(random.IntN(addrs)).String()+":80", "yes")
		b.want("tcp "+learnedAddr(addrs+random.IntN(addrs)).String()+":80", "connection refused")
	}
	start = time.Now()
	if err := table.Update(policy(t, "203.0.113.1:80")); err != nil {
		t.Fatal(err)
	}
	t.Logf("replaced: %v", time.Since(start))
	b.want("tcp 203.0.113.1:80", "yes")
	b.want("tcp "+ruleAddr(1)+":80", "connection refused")
	b.want("tcp "+learnedAddr(1).String()+":80", "connection refused")
}

func ruleAddr(n int) string { return fmt.Sprintf("203.%d.%d.77", n>>8, n&255) }

func learnedAddr(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{64, byte(n >> 16), byte(n >> 8), byte(n)})
}

// manyTable has so many rules, and has learned so many addresses.
func manyTable(t testing.TB, rules, addrs int) *netpolicy.Table {
	t.Helper()
	list := []string{"a.test:80"}
	for n := range rules {
		list = append(list, "tcp:"+ruleAddr(n)+":80")
	}
	table := newTable(t, list...)
	var answers []netpolicy.Answer
	for n := range addrs {
		answers = append(answers, netpolicy.Answer{Addr: learnedAddr(n), TTL: time.Hour})
	}
	if _, err := table.Learn("a.test", answers); err != nil {
		t.Fatal(err)
	}
	return table
}
