package nsrun

import (
	"net"
	"strconv"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/netpolicy"
)

// Enforcer says how Config.Net is enforced.
type Enforcer uint8

// The enforcers. Both reach the same verdicts.
const (
	// AutoEnforcer is KernelEnforcer where this process may do that, else BrokerEnforcer.
	AutoEnforcer Enforcer = iota
	// KernelEnforcer has the kernel decide, by programs on a cgroup, see netpolicy/cgroup:
	// for root. Commands have the host's network namespace, so ports are the host's: servers
	// can be bound to those in Publish only.
	KernelEnforcer
	// BrokerEnforcer has this process decide, see netpolicy/broker: for everybody. Commands
	// have a network namespace of their own.
	BrokerEnforcer
)

// String returns "auto", "kernel" or "broker".
func (e Enforcer) String() string {
	switch e {
	case AutoEnforcer:
		return "auto"
	case KernelEnforcer:
		return "kernel"
	case BrokerEnforcer:
		return "broker"
	}
	return "enforcer?"
}

// Network is what a command had of the network.
type Network struct {
	// Mode is "none", "host", or the Enforcer of Config.Net: "kernel" or "broker".
	Mode string
	// Decisions are what the command tried to reach, each once, and whether it might. There
	// are none with "host". Nil: it tried nothing.
	Decisions []netpolicy.Decision
	// Omitted is how many times something was decided that is not among Decisions.
	Omitted int
	// Rules are what would have been enough, with Request.LearnNet. Nil: nothing.
	Rules []string
	// Refused is how many times a command that failed, with "none", tried to reach something:
	// connections and datagrams, as the kernel counted them, lookups of names among them. Zero:
	// it did not, it succeeded, or the kernel does not tell.
	Refused int
}

// Denied are the decisions against what the command tried.
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
