// Package cgroup enforces a netpolicy.Table by BPF programs. It needs CAP_BPF and CAP_NET_ADMIN. Nothing is between the
// command and the network: allowed traffic goes at native speed, and other calls fail at once.
//
//	programs, err := cgroup.Load()                 // once: loaded, verified and attached
//	e, err := programs.Enforce(table, cgroup.Options{Resolver: address})
//	resolver.Serves = e.Serves                     // the host's other programs can reach its address, too
//	cmd.Cgroup = e.Cgroup()                        // the command is cloned into the cgroup
//	cmd.Share |= nsexec.Net                        // the network is the host's
//	cmd.Seccomp = append(cmd.Seccomp, cgroup.SocketFilter())
//	…
//	err = e.Close()
//
// # How
//
// The sandbox shares the host's network namespace. The programs (bpf/enforce.c) are attached to a cgroup of ours, in
// which each sandbox gets a child. They see every socket that is made in there. They check an address by the rules of
// the process that names it, and a packet by the rules of the sandbox that made its socket. So a socket that is passed
// to another sandbox reaches only what both may reach, and a socket that is passed outside reaches nothing new.
//
//   - connect(2) and sendto(2) to an address that is not allowed fail with ECONNREFUSED and EPERM. The programs look at
//     the kernel's own copy of the address, so nobody can change it afterwards.
//   - Connecting a UDP socket sends nothing. C libraries do that to learn which address they would have, with port 0 or
//     the TCP port that they were asked for. connect(2) to any address with port 0, and to an address that is allowed
//     by TCP, succeeds, and is not reported. Datagrams that are sent afterwards are checked as packets.
//   - Datagrams to loopback addresses, where the sandbox's own servers may be, are checked as packets only: sendto(2)
//     returns EPERM, and after connect(2) the first write(2) does.
//   - Addresses that were learned for a name expire, even if nobody resolves names any more.
//   - The first packet of each TCP connection, and every datagram, is checked again as it leaves. That catches calls
//     that did not name an address (TCP Fast Open on old kernels), and everything that would send packets to another
//     address than was named: IP options, extension headers. An allowed connection stays when rules or addresses go.
//   - From outside, only answers come in: BPF programs for recvmsg(2) cannot refuse anything, so incoming
//     packets are checked, too.
//   - Ports are the host's, so a server inside could be reached by others, or take the place of one of the host.
//     Therefore bind(2) to a port fails with EPERM, unless the port is published: then the host's own programs can
//     connect to it, and nobody else. bind(2) without a port, where the kernel chooses one, is allowed. Such a server
//     can be reached from inside the same sandbox only. A server that was not bound at all cannot be reached.
//   - UDP sockets share no port: SO_REUSEADDR and SO_REUSEPORT have no effect on them. The kernel would also choose a
//     port that a server of the host lets others share, and the sandbox would get what is sent there.
//   - No multicast or anycast group can be joined (setsockopt(2) fails with EPERM): the host would announce that to its
//     network, in packets of its own.
//   - Only TCP and UDP sockets can be made. The programs never see families other than IP: SocketFilter refuses them.
//   - The programs do not decide about unix sockets. A program for their connect(2) would see a path as it was written,
//     not the file that it leads to. A command reaches a socket with a file if the sandbox's mounts show it: package
//     nsrun blocks those of the host, and shows those in Config.AllowUnix. Abstract sockets belong to the network
//     namespace, so they are the host's: nsexec.Cmd.HideAbstract, a scope of Landlock, closes them, and Start fails if
//     the kernel has no such scope.
//
// # Why it holds
//
// The sandbox cannot leave its cgroup: that takes a writable cgroup file system. Processes in a cgroup that it makes
// below its own get no sockets at all. The programs are attached to the cgroup, not held by a descriptor: if this
// process dies, they stay, with the rules as they were, until everything inside is gone; the next Load removes the
// rest. Learned addresses do not expire then.
//
// The programs do not see a socket that was made outside. Whoever gives one to the sandbox, by inheritance or over a
// unix socket, gives it everything that the socket reaches.
package cgroup
