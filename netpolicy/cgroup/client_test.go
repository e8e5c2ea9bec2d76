//go:build linux

package cgroup_test

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
)

const resolvedName = "given.test"

// tryResolve asks a DNS server for a name, over "udp" or "tcp".
func tryResolve(network, server string) error {
	c := dns.Client{Net: network, Timeout: socketPatience}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(resolvedName), dns.TypeA), server)
	if err == nil && len(m.Answer) != 1 {
		err = errNoAnswer
	}
	return err
}

// tryTell sends a datagram, and does not wait for an answer.
func tryTell(server string) error {
	c, err := net.Dial("udp", server)
	if err != nil {
		return err
	}
	told = append(told, c) // as long as the helper runs: the server looks for the socket later
	_, err = c.Write([]byte("ask\n"))
	return err
}

var told []net.Conn

// TestResolverServes: a resolver answers the programs of its sandbox, and not those of another one or of the host.
func TestResolverServes(t *testing.T) {
	leaks(t)
	p := load(t)
	nettest.NeedSocketCgroups(t)
	type verdict struct {
		p    netpolicy.Proto
		made bool
	}
	verdicts := make(chan verdict, 1)
	var of atomic.Pointer[cgroup.Enforcer]
	table := newTable(t, resolvedName+":443")
	newResolver := func() *netpolicy.Resolver {
		return &netpolicy.Resolver{Table: table, Hosts: map[string][]netip.Addr{resolvedName: {netip.MustParseAddr("203.0.113.1")}}}
	}
	r := newResolver()
	r.Serves = func(p netpolicy.Proto, client, server netip.AddrPort) bool {
		v := verdict{p, of.Load().Serves(p, client, server)}
		verdicts <- v
		return v.made
	}
	at, _ := serveNames(t, r, 53)
	e := enforce(t, p, table, cgroup.Options{Resolver: at})
	of.Store(e)
	inside := newBox(t, e)
	other := newBox(t, enforce(t, p, newTable(t), cgroup.Options{Resolver: at}))
	outside := newBox(t, nil)
	for proto, network := range map[netpolicy.Proto]string{netpolicy.TCP: "tcp", netpolicy.UDP: "udp"} {
		for range 3 {
			inside.want("resolve "+network+" "+at.String(), "yes")
			if v := <-verdicts; v != (verdict{proto, true}) {
				t.Errorf("of the sandbox: %v", v)
			}
		}
		for name, b := range map[string]*box{"another sandbox": other, "the host": outside} {
			if network == "tcp" {
				if b.do("resolve tcp "+at.String()) == "yes" {
					t.Errorf("%s got an answer", name)
				}
			} else {
				b.want("tell "+at.String(), "yes") // without waiting for an answer that does not come
			}
			if v := <-verdicts; v != (verdict{proto, false}) {
				t.Errorf("of %s: %v", name, v)
			}
		}
	}
	open, _ := serveNames(t, newResolver(), 0) // the control
	outside.want("resolve tcp "+open.String(), "yes")
	outside.want("resolve udp "+open.String(), "yes")
}

// TestServesLater: where this process has no descriptor left to ask the kernel with, a client of the host is not taken
// for one of the sandbox, then and later.
func TestServesLater(t *testing.T) {
	leaks(t)
	p := load(t)
	nettest.NeedSocketCgroups(t)
	at, _ := serveNames(t, &netpolicy.Resolver{Table: newTable(t)}, 53)
	e := enforce(t, p, newTable(t), cgroup.Options{Resolver: at})
	client, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	serves := func() bool {
		return e.Serves(netpolicy.TCP, netip.MustParseAddrPort(client.LocalAddr().String()), at)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	without := serves()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if without || serves() {
		t.Errorf("without descriptors: %v, with them: %v", without, serves())
	}
}
