package nsrun

import (
	"net"
	"strconv"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/netpolicy"
)

// Enforcer says how Config.Net is enforced.
type Enforcer uint8

// The enforcers. KernelEnforcer and BrokerEnforcer make the same decisions.
const (
	// AutoEnforcer is KernelEnforcer if this process may use it, else BrokerEnforcer.
	AutoEnforcer Enforcer = iota
	// KernelEnforcer lets the kernel decide, by BPF programs on a cgroup; it needs root. See
	// package netpolicy/cgroup. Commands have the host's network namespace, so ports are the
	// host's: servers can be bound only to those in Publish.
	KernelEnforcer
	// BrokerEnforcer lets this process decide; it needs no privileges. See package
	// netpolicy/broker. Commands have a network namespace of their own.
	BrokerEnforcer
)

// String returns "auto", "kernel" or "broker".
func (e Enforcer) String() string {
	return nameOf([]string{"auto", "kernel", "broker"}, e, "enforcer?")
}

// Network is what a command could use of the network, and what it tried.
type Network struct {
	// Mode is "none", "host", or the Enforcer of Config.Net: "kernel" or "broker".
	Mode string
	// Decisions are what the command tried to reach, each once, and whether that was allowed. There
	// are none with "host". Nil: it tried nothing.
	Decisions []netpolicy.Decision
	// Omitted is the number of decisions that are not in Decisions.
	Omitted int
	// Rules are the rules that would have been enough, with Request.LearnNet. Nil: none are needed.
	Rules []string
	// Refused is how many times a command that failed, with "none", tried to reach something:
	// connections and datagrams, including lookups of names, as the kernel counted them. Zero: it
	// did not try, it succeeded, or the kernel does not count.
	Refused int
}

// Denied returns the decisions that denied something.
func (n Network) Denied() (list []netpolicy.Decision) {
	for _, d := range n.Decisions {
		if !d.Allowed {
			list = append(list, d)
		}
	}
	return list
}

// TargetText is what a decision is about, in words: "tcp example.org:443 at 192.0.2.1".
func TargetText(d netpolicy.Decision) string {
	host := escape.Quote(d.Host)
	switch {
	case d.Server:
		return "a server at " + d.Proto + " " + net.JoinHostPort(d.Address, strconv.Itoa(int(d.Port)))
	case d.Group:
		return "joining the group " + d.Address
	case d.Address == "":
		return d.Proto + " " + host
	case d.Port == 0 && d.Host != "":
		return d.Proto + " " + host + ", which is " + d.Address + ","
	case d.Host == "":
		return d.Proto + " " + net.JoinHostPort(d.Address, strconv.Itoa(int(d.Port)))
	}
	return d.Proto + " " + net.JoinHostPort(host, strconv.Itoa(int(d.Port))) + " at " + d.Address
}
