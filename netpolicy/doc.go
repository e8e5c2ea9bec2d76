// Package netpolicy describes which hosts and ports a sandbox may reach, and learns the addresses of the names in its
// rules. It imports internal/escape and internal/sys only. It does not enforce anything: packages cgroup and broker do.
//
//	policy := netpolicy.MustParse("modules.example.org:443", "*.github.com:443", "10.0.0.0/8:5432")
//	policy.HostAddrs = own // of net.InterfaceAddrs
//
// # What a rule opens
//
// A Policy allows what one of its Rules allows, and nothing else. The zero Policy allows nothing.
//
//   - A rule with an address or prefix opens exactly that.
//   - A rule with a name opens the addresses that the Resolver has returned to the sandbox for that name, while they
//     are valid.
//   - "*" opens every address.
//
// Some addresses are special: loopback, link-local, private and other local ranges, multicast, the metadata services of
// clouds, and the host's own (special.go lists them). A name, "*", or a prefix that merely contains them does not open
// them. Only a rule whose prefix lies inside the special range does. So 10.0.0.0/8 and 10.1.2.3 open private addresses,
// and 0.0.0.0/0 does not; 169.254.0.0/16 does not open 169.254.169.254, which is a range of its own.
//
// Two forms of IPv6 addresses that contain an IPv4 address (NAT64, 6to4) are special if that address is. All other such
// forms are special. IPv4-mapped addresses are IPv4.
//
// # What rules cannot do
//
// Rules are about addresses. A rule with a name also reaches other hosts at the same address, if their ports are the
// same: shared hosts and content networks have such addresses. Rules do not limit what an allowed server forwards.
// Queries for names below an allowed suffix reach that suffix's name servers: they can carry out 2.8 kB of data at once
// and then 11 bytes a second (limits.go). An established connection outlives its rule and its name.
//
// # Who enforces it
//
// Policy.Allows is the reference model: plain loops, which no enforcer runs for each connection. Enforcers use or
// mirror a Table, which has compiled rules and learned addresses. Update replaces all rules at once. The enforcers are
// the packages cgroup (BPF programs) and broker (a supervisor of system calls). The tests drive all of them
// with the same cases.
package netpolicy
