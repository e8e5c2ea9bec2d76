// Package netcases is one table of what sandboxes try to reach, and what the result must be. internal/nettest drives
// the reference model of netpolicy, its Table and Resolver, and both enforcers with it. Only tests import it; it
// imports nothing of this module.
//
// Everything in it is text. A Try is one of
//
//	HOW HOST:PORT yes|no     a connection or a packet; HOST is a name or an address
//	dns TYPE NAME ANSWER     a question: addresses, or nxdomain, refused, servfail, empty
//	join KIND no             a multicast or anycast group of which the host must not become a member: tcp, udp or udp6
//	                         with -ip or -ip6, and the option that joins
//	open KIND no             a socket that must not come into being, or not be of use
//	update RULE…             the rules are replaced, from then on
//	wait DURATION            time passes; only where there is a clock that can be set
//	make KIND                a socket for a later try with -made: tcp, tcp6 or udp; with -passed
//	                         behind it one that another process of the sandbox makes and passes on
//	mute                     the resolver ends
//	stop                     what enforces ends; not where there is nothing that could
//
// with HOW one of
//
//	tcp            connect
//	tcp-nonblock   connect on a socket that does not block, then poll
//	tcp-fastopen   sendto with MSG_FASTOPEN
//	tcp-sendmsg    sendmsg with MSG_FASTOPEN
//	udp            sendto
//	udp-connect    connect and send
//	udp-probe      connect, and send nothing
//	udp-sendmsg, udp-sendmmsg
//	udp-reconnect  connect to nothing (AF_UNSPEC), then sendto
//	tcp-made, udp-made       on the socket that was made first, which is gone then
//	tcp-keep, udp-keep       connect, and keep it
//	tcp-kept, udp-kept       over what was kept, until the end
//	tcp-again                disconnect what was kept (AF_UNSPEC), and connect it again
//
// A name is looked up first, as programs do: tcp4 and tcp6 and the like say which family is asked for, otherwise it is
// IPv4. The first address is tried. A suffix "-mapped" uses an IPv6 socket and the IPv4 address mapped into IPv6.
package netcases

import "strings"

// A Case is a policy, a world, and what is tried one after the other.
type Case struct {
	Name  string
	Rules string   // separated by spaces
	Own   string   // addresses of the host, separated by spaces
	Hosts string   // of /etc/hosts
	Zone  []string // records, as in zone files; "2: " before one: in answers after the first
	Lies  []string // "NAME LIE": what the server does when it is asked for the name (internal/nettest lists them)
	Tries []string
	// Asked are the names that the server must have been asked for, and no others;
	// separated by spaces, "-" for none at all, "" if it does not matter.
	Asked string
}

// A Try is one line of a Case.
type Try struct {
	How    string   // "tcp", "dns", …
	Family int      // 4 or 6: which addresses of a name
	Mapped bool     // IPv4 through an IPv6 socket
	Target string   // what stands behind How
	Args   []string // the rest
}

func ParseTry(line string) Try {
	f := strings.Fields(line)
	t := Try{How: f[0], Family: 4}
	if len(f) > 1 {
		t.Target, t.Args = f[1], f[2:]
	}
	base, rest, _ := strings.Cut(t.How, "-")
	if rest != "" {
		rest = "-" + rest
	}
	if s, ok := strings.CutSuffix(rest, "-mapped"); ok {
		t.Mapped, rest = true, s
	}
	switch base {
	case "tcp6", "udp6":
		t.Family = 6
	}
	t.How = strings.TrimRight(base, "46") + rest
	return t
}

// Want says whether the try is to succeed. It is for lines that end in yes or no.
func (t Try) Want() (want, ok bool) {
	if len(t.Args) == 0 || t.Step() || t.How == "dns" {
		return false, false
	}
	last := t.Args[len(t.Args)-1]
	return last == "yes", last == "yes" || last == "no"
}

// Step says that the try is none, but a change of what is around it.
func (t Try) Step() bool {
	switch t.How {
	case "update", "wait", "make", "mute", "stop":
		return true
	}
	return false
}

// Count returns how many tries of a table say what must come of them.
func Count(cases []Case) (n int) {
	for _, c := range cases {
		for _, line := range c.Tries {
			if !ParseTry(line).Step() {
				n++
			}
		}
	}
	return n
}
