// Package netpolicy says which hosts and ports a sandbox may reach, and learns which
// addresses the names in its rules have.
//
//	policy := netpolicy.MustParse("modules.example.org:443", "*.github.com:443", "10.0.0.0/8:5432")
//	policy.HostAddrs = own // of net.InterfaceAddrs
//
// # What a rule opens
//
// A Policy allows what one of its Rules allows, and nothing else.
//
//   - A rule with an address or prefix opens exactly that.
//   - A rule with a name opens the addresses that the Resolver has given to the sandbox
//     for that name, as long as they are valid.
//   - "*" opens every address.
//
// Some addresses are special: loopback, link-local, private and other local ranges,
// multicast, the metadata services of clouds, and the host's own (special.go lists
// them). They are opened neither by a name, nor by "*", nor by a prefix that merely
// happens to hold them: only by a rule whose prefix lies inside the special range. So
// 10.0.0.0/8 and 10.1.2.3 open private addresses, and 0.0.0.0/0 does not; 169.254.0.0/16
// does not open 169.254.169.254, which is a range of its own.
//
// Two forms of IPv6 addresses with an IPv4 address in them (NAT64, 6to4) are special
// where that one is; the others are special altogether. IPv4-mapped ones are IPv4.
//
// # What rules cannot do
//
// They are about addresses. Whoever else is served at an address that was learned for a
// name is reached as well, if its ports are: shared hosts and content networks do that.
// What an allowed server passes on, it passes on. Names below an allowed suffix reach
// that suffix's servers: 2.8 kB of data at once and then 11 bytes a second can leave in
// them (limits.go). A connection that was allowed lasts when its rule or its name has gone.
//
// # Who asks
//
// Policy.Allows is the reference model: plain loops, nobody's hot path. A Table is what
// enforcers ask or mirror: compiled rules and learned addresses, replaced as a whole by
// Update. The enforcers are the packages cgroup (programs in the kernel) and broker (a
// supervisor of system calls); the tests drive all of them with the same cases.
package netpolicy
