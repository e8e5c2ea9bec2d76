// Package netpolicy describes which hosts and ports a sandbox may reach, and learns which addresses the names in its rules
// have. It imports internal/escape only. It does not enforce anything: packages cgroup and broker do.
//
//	policy := netpolicy.MustParse("modules.example.org:443", "*.github.com:443", "10.0.0.0/8:5432")
//	policy.HostAddrs = own // of net.InterfaceAddrs
//
// # What a rule opens
//
// A Policy allows what one of its Rules allows, and nothing else.
//
//   - A rule with an address or prefix opens exactly that.
//   - A rule with a name opens the addresses that the Resolver has given to the sandbox for that name, while they are
//     valid.
//   - "*" opens every address.
//
// Some addresses are special: loopback, link-local, private and other local ranges, multicast, the metadata services of
// clouds, and the host's own (special.go lists them). Neither a name, nor "*", nor a prefix that merely contains them opens
// them: only a rule whose prefix lies inside the special range does. So 10.0.0.0/8 and 10.1.2.3 open private addresses, and
// 0.0.0.0/0 does not; 169.254.0.0/16 does not open 169.254.169.254, which is a range of its own.
//
// Two forms of IPv6 addresses that contain an IPv4 address (NAT64, 6to4) are special if that address is. All other such
// forms are special. IPv4-mapped addresses are IPv4.
//
// # What rules cannot do
//
// Rules are about addresses. A rule with a name also reaches other hosts at the same address, if their ports are the same:
// shared hosts and content networks have such addresses. What an allowed server passes on, it passes on. Names below an
// allowed suffix reach that suffix's name servers: 2.8 kB of data at once and then 11 bytes a second can leave in them
// (limits.go). An established connection outlives its rule and its name.
//
// # Who asks
//
// Policy.Allows is the reference model: plain loops, on nobody's hot path. Enforcers ask or mirror a Table: compiled rules
// and learned addresses, which Update replaces as a whole. The enforcers are the packages cgroup (programs in the kernel)
// and broker (a supervisor of system calls). The tests drive all of them with the same cases.
package netpolicy
