//go:build linux

package nsrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/wall"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

// refused returns how many of the unsent packets were for hosts outside the sandbox. Name servers on loopback addresses
// are the host's: packets to such a port on which nobody listens count, too, if there are no other name servers.
func refused(u sandbox.Unsent) int {
	n := u.NoRoute
	if u.NoPort > 0 && !slices.ContainsFunc(host.ReadResolvConf().Upstreams, func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() }) {
		n += u.NoPort
	}
	return n
}

// network is the network of one command, by rules.
type network struct {
	mode    Enforcer
	table   *netpolicy.Table
	log     netpolicy.Log
	lost    atomic.Int64 // decisions that the log was not told of
	learn   bool
	servers host.ResolvConf
	asked   netip.AddrPort // where the resolver is for the command
	publish []uint16
	mounts  mounts.Plan
	observe atomic.Pointer[func(name string)] // is told of names that are refused; nil: nobody is
	outside *wall.Outside                     // what a command without namespaces reaches; nil: it has a network namespace
	attach  func(*nsexec.Cmd)
	started func(*nsexec.Cmd) // nil: there is nothing to do when it was
	missing []features.Name   // what root's rules would have been enforced with
	looked  atomic.Int64      // how often isClosed was asked
	stop    []func()          // in reverse order

	turnedAway func() int // see broker.Broker; nil: there is no Broker
}

// fallBack makes the broker enforce what the kernel cannot. Only root needs to be told: other users may not load
// programs.
func (n *network) fallBack() {
	n.mode = BrokerEnforcer
	if os.Geteuid() != 0 {
		return
	}
	if n.missing = noKernelRules(); len(n.missing) == 0 { // programs can be loaded: no cgroup can be made
		n.missing = []features.Name{features.CgroupV2}
	}
}

func noKernelRules() (missing []features.Name) {
	for _, name := range [...]features.Name{features.Clone3, features.LandlockScopes, features.BPF, features.CgroupV2} {
		if features.Get(name).Status == features.No {
			missing = append(missing, name)
		}
	}
	return missing
}

// learnHosts makes the table learn what programs read in /etc/hosts by themselves: they never ask the resolver for
// these names, however long they run.
func (n *network) learnHosts() (map[string][]netip.Addr, error) {
	text, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	hosts := netpolicy.ParseHosts(string(text))
	for name, addrs := range hosts {
		if !n.table.AllowsName(name) {
			continue
		}
		answers := make([]netpolicy.Answer, 0, len(addrs))
		for _, a := range addrs {
			answers = append(answers, netpolicy.Answer{Addr: a, TTL: netpolicy.Always})
		}
		if _, err := n.table.Learn(name, answers); err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

// withOwnName adds the name of this machine to those of /etc/hosts, if it is not one of them. Outside, programs have it
// from the C library (nss-myhostname), and not from a server.
func withOwnName(hosts map[string][]netip.Addr) map[string][]netip.Addr {
	all := maps.Clone(hosts)
	if name, err := os.Hostname(); err == nil {
		if name, err = netpolicy.CanonicalName(name); err == nil && all[name] == nil {
			all[name] = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
		}
	}
	return all
}

// byKernel enforces rules by BPF programs. The resolver is on a loopback address of the host, which the programs know.
func (n *network) byKernel(p *cgroup.Programs, resolver *netpolicy.Resolver, publish []uint16) error {
	if err := arePortsFree(publish); err != nil {
		return err
	}
	udp, tcp, addr, err := listenDNS()
	if err != nil {
		return err
	}
	e, err := p.Enforce(n.table, cgroup.Options{Resolver: addr, Publish: publish, AllowAll: n.learn, Decided: func(d cgroup.Decision) {
		switch {
		case d.Hook == cgroup.Bind:
			n.log.AddServer(d.Proto, d.Dst, int(d.Count))
			return
		case d.Hook == cgroup.Join:
			n.log.AddGroup(d.Proto, d.Dst.Addr(), int(d.Count))
			return
		case d.Hook == cgroup.PacketIn || d.Hook == cgroup.Create || d.Dst == addr:
			return // not what the command tried to reach
		}
		if !d.Allowed && d.Hook == cgroup.Connect && d.Proto == netpolicy.TCP && n.isClosed(d.Dst) {
			return
		}
		v := n.table.Decide(d.Proto, d.Dst)
		v.Allowed = d.Allowed
		n.log.AddCount(d.Proto, d.Dst, v, int(d.Count))
	}})
	if err != nil {
		_, _ = udp.Close(), tcp.Close()
		return err
	}
	resolver.Serves = e.Serves // the host's other programs can reach its address, too
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = resolver.Serve(ctx, udp, tcp) }() // without it no name leads anywhere
	n.stop = append(n.stop, cancel)                   // nobody is left who could ask: its end need not be waited for
	n.stop = append(n.stop, func() {
		_ = e.Close()
		n.lost.Store(int64(e.Lost()))
	})
	n.attach = func(cmd *nsexec.Cmd) {
		cmd.Cgroup, cmd.HideAbstract = e.Cgroup(), true
		cmd.Share |= nsexec.Net
		cmd.Seccomp = append(slices.Clone(cmd.Seccomp), cgroup.SocketFilter())
	}
	n.started = func(cmd *nsexec.Cmd) {
		go p.Spare(func(cgroup *os.File) { sandbox.Ready(cmd, cgroup) }, sandbox.Unready)
	}
	n.asked, n.publish = addr, publish
	n.mounts = n.servers.Mount(addr.Addr())
	return nil
}

// mostClosed is how many ports isClosed looks at, because each time all servers of this host are read.
const mostClosed = 100

// isClosed reports whether no server listens at a port of this host's loopback device. To refuse a connection there
// denies nothing: the kernel would, too.
func (n *network) isClosed(to netip.AddrPort) bool {
	return to.Addr().IsLoopback() && n.looked.Add(1) <= mostClosed && !listens("self", netpolicy.TCP, to)
}

// arePortsFree returns an error before the command starts if another program uses a port that its server needs. The
// broker listens itself.
func arePortsFree(publish []uint16) error {
	for _, port := range publish {
		at := netip.AddrPortFrom(loopback, port).String()
		l, err := net.Listen("tcp", at)
		if err != nil {
			return &Error{"publish", at, err}
		}
		if err := l.Close(); err != nil {
			return &Error{"publish", at, err}
		}
	}
	return nil
}

// byBroker makes this process enforce the rules.
func (n *network) byBroker(resolver *netpolicy.Resolver, publish []uint16, ownNetworks bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = append(n.stop, cancel)
	o := broker.Options{
		Decide: func(p netpolicy.Proto, to netip.AddrPort) bool {
			return n.table.Decide(p, to).Allowed
		},
		Report: func(p netpolicy.Proto, to netip.AddrPort, allowed bool) {
			v := n.table.Decide(p, to)
			v.Allowed = allowed
			n.log.Add(p, to, v)
		},
		HostLoopback: func(to netip.AddrPort) bool {
			return !n.learn && n.table.Decide(netpolicy.TCP, to).Allowed
		},
		Resolve:     func(udp net.PacketConn, tcp net.Listener) { _ = resolver.Serve(ctx, udp, tcp) },
		OwnNetworks: ownNetworks,
		NoUDP: !n.learn && !slices.ContainsFunc(n.table.Policy().Rules, func(r netpolicy.Rule) bool {
			return r.Proto != netpolicy.TCP
		}),
	}
	if !n.learn {
		o.LocalUDP = localUDP(n.table.Policy().Rules)
	}
	for _, port := range publish {
		o.Publish = append(o.Publish, broker.Port{Inside: port, Host: netip.AddrPortFrom(loopback, port)})
	}
	b, err := broker.New(o)
	if err != nil {
		return err
	}
	n.stop, n.turnedAway = append(n.stop, b.Close), b.TurnedAway
	n.attach = b.Attach
	n.asked, n.publish = netip.AddrPortFrom(loopback, 53), publish
	n.mounts = n.servers.Mount(loopback)
	return nil
}

// localUDP are the UDP ports on loopback addresses that rules name as single ports; ports of ranges and prefixes stay
// the sandbox's own. Rules for UDP alone come first, then as many as possible of those for any protocol, which usually
// mean TCP.
func localUDP(rules []netpolicy.Rule) (ports []netip.AddrPort) {
	for _, proto := range []netpolicy.Proto{netpolicy.UDP, netpolicy.AnyProto} {
		for _, r := range rules {
			if r.Proto != proto || !r.Prefix.IsSingleIP() || !r.Prefix.Addr().IsLoopback() || r.First == 0 || r.First != r.Last {
				continue
			}
			at := netip.AddrPortFrom(r.Prefix.Addr(), r.First)
			if at == netip.AddrPortFrom(loopback, 53) || slices.Contains(ports, at) {
				continue
			}
			if proto == netpolicy.UDP || len(ports) < broker.MaxLocalUDP {
				ports = append(ports, at)
			}
		}
	}
	return ports
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// close ends it. The command has ended.
func (n *network) close() {
	if n == nil {
		return
	}
	for _, f := range slices.Backward(n.stop) {
		f()
	}
	n.stop = nil
}

// result is the Network of the command's Result.
func (n *network) result() Network {
	res := Network{Mode: n.mode.String()}
	res.Decisions, res.Omitted = n.log.Decisions()
	res.Omitted += int(n.lost.Load())
	if n.learn {
		res.Rules = n.log.Rules()
	}
	return res
}

// noteTurnedAway says how many connects failed because too many others of the command were waiting for an answer.
func (x *Execution) noteTurnedAway() {
	n, most := x.walled.deputy.TurnedAway(), wall.MaxWaiting
	if x.net != nil && x.net.turnedAway != nil {
		n, most = x.net.turnedAway(), broker.MaxWaiting
	}
	if n > 0 {
		x.result.note(NoticeLimit, fmt.Sprintf("%d connections failed (EAGAIN): at most %d can wait for an answer at once", n, most))
	}
}

// kernel holds the programs of a Runner: loading them takes longer than a command.
type kernel struct {
	mu       sync.Mutex
	programs *cgroup.Programs
	err      error // that stays
	users    int   // commands that have them
	closed   bool  // with the last of them they are closed
}

// load starts to load them for a later take.
func (k *kernel) load() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.have()
}

// take returns the programs for a command, which must call release.
func (k *kernel) take() (*cgroup.Programs, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := k.have()
	if err == nil {
		k.users++
	}
	return p, err
}

func (k *kernel) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users--; k.users == 0 && k.closed {
		_ = k.end()
	}
}

// have returns the programs, and loads them if needed; k.mu is held.
func (k *kernel) have() (*cgroup.Programs, error) {
	if k.programs != nil || k.err != nil {
		return k.programs, k.err
	}
	if k.closed {
		return nil, ErrClosed
	}
	programs, err := cgroup.Load()
	if lasting(err) {
		k.err = err
	}
	k.programs = programs
	return programs, err
}

// lasting reports whether loading the programs would fail again: this process may not load them, or the kernel does not
// know them (EINVAL).
func lasting(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

// close closes the programs: now, or when the last command that has them ends.
func (k *kernel) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.users > 0 {
		return nil
	}
	return k.end()
}

// end closes the programs, which no command has; k.mu is held.
func (k *kernel) end() error {
	p := k.programs
	if k.programs = nil; p == nil {
		return nil
	}
	return p.Close()
}

// listenDNS listens on port 53 of a loopback address that nobody uses.
func listenDNS() (udp net.PacketConn, tcp net.Listener, at netip.AddrPort, err error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // on a loopback device
	for range 20 {
		// Not in 127.0.0.0/16, where servers of the host are.
		n := rand.Uint32()
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n) | 1}), 53)
		if udp, err = net.ListenPacket("udp4", at.String()); err == nil {
			if tcp, err = plain.Listen(context.Background(), "tcp4", at.String()); err == nil {
				return udp, tcp, at, nil
			}
			_ = udp.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, nil, at, &Error{"listen for DNS", at.String(), err}
}
