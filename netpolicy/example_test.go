//go:build linux

package netpolicy_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"

	"github.com/nsrun/nsrun/netpolicy"
)

func ExampleParse() {
	for _, text := range []string{"example.org:443", "*.example.org", "tcp:10.0.0.0/8:5432", "example.org:https"} {
		rule, err := netpolicy.Parse(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(rule)
	}
	// Output:
	// example.org:443
	// *.example.org
	// tcp:10.0.0.0/8:5432
	// rule example.org:https: https is not a port; ports are 1 to 65535
}

// A name opens the addresses that it has, if the rule's ports are meant; private addresses
// need a rule of their own.
func ExamplePolicy_Allows() {
	policy := netpolicy.MustParse("example.org:443", "10.0.0.0/8:5432")
	policy.HostAddrs = []netip.Addr{} // of a host that has none
	public, private := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.1.2.3")

	fmt.Println(policy.Allows(netpolicy.TCP, netip.AddrPortFrom(public, 443)))
	fmt.Println(policy.Allows(netpolicy.TCP, netip.AddrPortFrom(public, 443), "example.org"))
	fmt.Println(policy.Allows(netpolicy.TCP, netip.AddrPortFrom(public, 80), "example.org"))
	fmt.Println(policy.Allows(netpolicy.TCP, netip.AddrPortFrom(private, 443), "example.org"))
	fmt.Println(policy.Allows(netpolicy.TCP, netip.AddrPortFrom(private, 5432)))
	// Output:
	// false
	// true
	// false
	// false
	// true
}

func ExampleParsePolicy() {
	policy, err := netpolicy.ParsePolicy("*.example.org:443")
	if err != nil {
		log.Fatal(err)
	}
	if policy.HostAddrs, err = netpolicy.OwnAddrs(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.AllowsName("www.example.org"), policy.AllowsName("example.org"))
	// Output: true false
}

// A Table has the addresses of names, and forgets them when their time is over.
func ExampleTable() {
	table, err := netpolicy.NewTable(netpolicy.MustParse("example.org:443"))
	if err != nil {
		log.Fatal(err)
	}
	addr := netip.MustParseAddr("203.0.113.1")
	fmt.Println(table.Decide(netpolicy.TCP, netip.AddrPortFrom(addr, 443)).Allowed)

	if _, err := table.Learn("example.org", []netpolicy.Answer{{Addr: addr, TTL: time.Minute}}); err != nil {
		log.Fatal(err)
	}
	verdict := table.Decide(netpolicy.TCP, netip.AddrPortFrom(addr, 443))
	fmt.Println(verdict.Allowed, verdict.Host)
	// Output:
	// false
	// true example.org
}

// Names that no rule allows do not exist for the sandbox.
func ExampleResolver() {
	addr := netip.MustParseAddr("203.0.113.1")
	table, err := netpolicy.NewTable(netpolicy.MustParse("example.org:443"))
	if err != nil {
		log.Fatal(err)
	}
	resolver := &netpolicy.Resolver{
		Table: table,
		Hosts: map[string][]netip.Addr{"example.org": {addr}, "example.com": {addr}},
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	conns, err := net.Listen("tcp", "127.0.0.1:0") // for long answers
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- resolver.Serve(ctx, packets, conns) }()

	sandbox := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, packets.LocalAddr().String())
	}}
	for _, name := range []string{"example.org.", "example.com."} {
		addrs, err := sandbox.LookupNetIP(ctx, "ip4", name)
		e, _ := err.(*net.DNSError)
		fmt.Println(name, addrs, e != nil && e.IsNotFound)
	}
	cancel()
	<-done
	// Output:
	// example.org. [203.0.113.1] false
	// example.com. [] true
}

// A Log has each decision once, and the rules that allow what was reached.
func ExampleLog() {
	table, err := netpolicy.NewTable(netpolicy.Everything(nil))
	if err != nil {
		log.Fatal(err)
	}
	var decisions netpolicy.Log
	to := netip.MustParseAddrPort("203.0.113.1:22")
	for range 3 {
		decisions.Add(netpolicy.TCP, to, table.Decide(netpolicy.TCP, to))
	}

	list, _ := decisions.Decisions()
	for _, d := range list {
		fmt.Println(d.Proto, d.Address, d.Port, d.Allowed, d.Count)
	}
	fmt.Println(decisions.Rules())
	// Output:
	// tcp 203.0.113.1 22 true 3
	// [tcp:203.0.113.1:22]
}
