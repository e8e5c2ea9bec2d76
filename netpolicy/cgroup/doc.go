// Package cgroup enforces a netpolicy.Table by programs in the kernel, for who has
// CAP_BPF and CAP_NET_ADMIN. Nothing stands between a program and the network: what is allowed
// goes at native speed, what is not fails at once.
//
//	programs, err := cgroup.Load()                 // once: loaded, verified and attached
//	e, err := programs.Enforce(table, cgroup.Options{})
//	cmd.Cgroup = e.Cgroup()                        // the command is cloned into the cgroup
//	cmd.Share |= nsexec.Net                        // the network is the host's
//	cmd.Seccomp = append(cmd.Seccomp, cgroup.SocketFilter())
//	…
//	err = e.Close()
//
// # How
//
// The sandbox shares the host's network namespace. The programs (bpf/enforce.c) are attached to a
// cgroup of ours, in which each sandbox gets a child. They see every socket that is made in there. An
// address is judged by the rules of who names it, a packet by those of who made its socket: a socket
// that is passed to another sandbox reaches what both may, and one that is passed outside nothing new.
//
//   - connect(2) and sendto(2) to what is not allowed fail: with ECONNREFUSED, and EPERM. What a
//     program looks at is the kernel's own copy of the address, so nobody can change it afterwards.
//   - A UDP socket that is connected sends nothing. C libraries do that to see which address they would have,
//     with port 0 or the TCP port that they are asked for: to any address with port 0, and to what is allowed
//     by TCP, it is done, and not told. What is sent then is judged as packets.
//   - Datagrams to loopback addresses, where servers of the sandbox's own may be, are judged as packets
//     only: EPERM comes from sendto(2), and after connect(2) from the first write(2).
//   - What was learned for a name expires, even if nobody resolves names any more.
//   - The first packet of each TCP connection and every datagram is looked at again as it leaves. That
//     catches what has not named an address (TCP Fast Open on old kernels), and whatever would
//     send packets elsewhere than it named: IP options, extension headers. A connection
//     that was allowed stays when rules or addresses go.
//   - From outside come only answers: the kernel's programs for recvmsg(2) cannot refuse anything, so
//     incoming packets are looked at, too.
//   - Ports are the host's, so a server inside could be reached by others, or take the place of one
//     of the host. Therefore bind(2) to a port fails with EPERM, unless that is published: then
//     the host's own programs can connect to it, and nobody else. Without a port, where the kernel
//     chooses one, it is allowed; such a server can be reached from inside the same sandbox only, and one that was not bound at
//     all from nowhere.
//   - No multicast or anycast group is joined (setsockopt(2) fails with EPERM): the host would tell its network so, in
//     packets of its own.
//   - Only TCP and UDP sockets can be made. Families other than IP never come to the programs:
//     SocketFilter refuses them.
//   - Unix sockets are not decided about here, and none of the programs is one for their connect(2): it would
//     see a path as it was written, not which file that leads to. A socket with a file is reached where the
//     sandbox's mounts show it: package nsrun blocks those of the host, and shows those in
//     Config.AllowUnix. Abstract ones are the host's where the network namespace is:
//     nsexec.Cmd.HideAbstract, a scope of Landlock, closes them, and Start fails where there is none.
//
// # What holds it
//
// The sandbox cannot leave its cgroup: that takes a cgroup file system that can be written to. What
// it makes below its own cgroup gets no sockets at all. The programs are attached to the cgroup, not
// held by a descriptor: if this process dies, they stay, with the rules as they were, until
// everything inside is gone; the next Load removes what is left of it. Addresses that were learned do not
// expire then.
//
// A socket that was made outside is not seen by the programs: whoever gives one to the sandbox, by
// inheritance or over a unix socket, gives what that socket reaches.
package cgroup
