// Package broker makes the network connections of a sandbox, for users without any
// privilege.
//
// The sandbox has a network namespace of its own with nothing in it but a loopback device. A
// seccomp filter has a thread of this process told of the command's socket(2) for TCP, of connect(2), bind(2),
// listen(2), and of sendto(2), sendmsg(2), sendmmsg(2) with an address; it answers in their place,
// see seccomp_unotify(2).
//
//	b, err := broker.New(broker.Options{Decide: …})
//	b.Attach(cmd)           // an nsexec.Cmd with a network namespace of its own
//	err = cmd.Run()
//	b.Close()
//
// # TCP
//
// A TCP socket is one of the host's network from the beginning. On connect(2) the address is copied once, and
// all that follows is done with the copy. Where it may be reached the Broker connects the socket, and nobody is in
// between from then on: data goes at the speed of the host. What may not be reached is ECONNREFUSED.
//
// Addresses of the sandbox itself (127.0.0.0/8, ::1, 0.0.0.0, ::) are connected inside, and bind(2) and listen(2)
// are for sockets inside: before any of them a socket of the sandbox's network takes the place of the host's. It gets
// the options of the old one (options.go), and is put under the caller's number, or numbers, and into the epoll instances in
// which that was. Where the last socket was used inside the next one is thought to be too, and is
// one of the sandbox, for which nothing has to be exchanged; if that was wrong, one of the host takes its place.
//
// Where a socket is exchanged that was in an epoll instance, a thread of this process ends: none that has children,
// if the kernel tells (CONFIG_PROC_CHILDREN). Where it does not, whoever starts children with a signal for the
// parent's end (SysProcAttr.Pdeathsig) has to keep the thread that starts them locked: for the kernel the thread is
// the parent.
//
// What is not as without a Broker:
//
//   - what a socket was bound to before it is connected to the outside is not kept, but for an address of the
//     host without a port: that it comes from. With a port it is EADDRNOTAVAIL, as is listen(2) there, and UDP;
//   - what is exchanged has no socket filter, no owner for signals (F_SETOWN) and no time stamps any more;
//   - another process that shares a socket which is exchanged keeps the old one;
//   - a call that waits is interrupted by a signal handler up to 100 ms late (before Linux 5.19 any call at once, and a
//     connect(2) that is begun anew after it may be EISCONN);
//   - as long as a connect(2) waits, whoever else has the socket sees that it does not (O_NONBLOCK), and what they set of that is
//     undone behind it;
//   - socket(2), bind(2) and listen(2) are EINTR now and then where a handler without SA_RESTART is called very often: until
//     the call is received the kernel lets any signal interrupt it;
//   - bind(2) is EBADF for a number that RLIMIT_NOFILE has been lowered under;
//   - MSG_FASTOPEN is EOPNOTSUPP, TCP_FASTOPEN_CONNECT has no effect, and sockets get no device of
//     their own, no source route and no other protocol above TCP (SO_BINDTODEVICE, IP_OPTIONS, TCP_ULP, see filter.go);
//   - a host socket shows the host's addresses (getsockname(2), and the ioctls of
//     netdevice(7) on it);
//   - a network namespace that the command makes has no TCP of its own;
//   - for peers inside, the owner of a unix listener is process 0, see SO_PEERCRED in unix(7);
//   - sendmmsg(2) sends nothing where one of its messages is denied.
//
// # UDP
//
// No UDP socket of the host is ever in the sandbox. Messages go over a link of the sandbox, and at its
// other end a relay in this process sends them from sockets of its own, one for each pair of client and
// destination, which take answers from that destination only. What is denied is EPERM at once where the message
// has an address of its own, and else an ICMP error, which is ECONNREFUSED.
//
// The link is made for the first message that a rule allows. Until then connect(2) of a UDP socket, which sends nothing, is
// ENETUNREACH where C libraries only ask for their own address (port 0, or the port of a TCP rule).
//
// A flow that was allowed stays until nothing goes over it for two minutes. A socket that was connected, and
// has sent nothing before its rule went, has none.
//
// For UDP ports of the host's loopback device (Options.LocalUDP) sockets of the sandbox stand under the
// same addresses, and this process relays between them and the host's; what is denied there is lost.
//
// A UDP socket that was made outside, and that the command is given by inheritance or over a unix socket, is
// not one of the sandbox: what is sent on it is decided about, but the address can be another one in the
// moment after.
//
// # Why it holds
//
// The command and all it starts may do the following at any time: write to memory that is being read,
// put another file under a number that is being looked at, fork, pass sockets around, end.
//
//  1. A socket of the host comes into the sandbox in one way: made by the Broker, for TCP, and not connected, or, in
//     an exchange, to an address that it decided about. The only way to connect it is the Broker's connect(2), on its own copy
//     of the socket, to an address that it decided about in its own memory. It reads nothing twice, and asks whether the
//     caller still waits after it has looked at anything that is found by the caller's number. Where it binds one for
//     bind(2) it is to an address without a port, and never to one that has a device.
//  2. listen(2) is done by the Broker on its own copy too, and only if the kernel says that it is of the sandbox's
//     network namespace (SO_NETNS_COOKIE) or a unix one. bind(2) goes on in the kernel, and can come to a socket of the
//     host where another thread puts one under the number meanwhile: a TCP socket that is bound, and neither
//     connected nor listens, gets and sends nothing. It can keep a port of the host from others, and be connected from
//     there to what may be reached, as any program of this user can.
//  3. A connected one can be disconnected (AF_UNSPEC), and is as in the beginning. What its options can do to where
//     its packets go is seen in registers, and refused by the filter; multicast groups are joined by the Broker, on its
//     own copy, and only by sockets of the sandbox.
//  4. Calls that the kernel does itself (SECCOMP_USER_NOTIF_FLAG_CONTINUE) are done with memory and
//     descriptors as they are then, not as they were looked at. For connects of unix and netlink sockets that
//     is so (for bind(2) see 2, and what socket(2) is called with is in registers). They are safe because the
//     command is in a Landlock domain that may not connect TCP at all (Linux 6.7): whatever is put under the number,
//     the kernel refuses it. Without Landlock such connects are EPERM.
//  5. sendto(2) and its like go on in the kernel too. On a UDP socket, which is the sandbox's, they end
//     at the relay, which decides by the packet. On a TCP socket of the host an address
//     means something only with MSG_FASTOPEN, and flags are in a register: the filter sees them.
//  6. Sockets that are neither TCP, UDP, unix nor netlink cannot be made: no raw ones, no SCTP, no MPTCP,
//     nor io_uring, which calls without a filter.
//  7. The filter with the listener lets one call pass that the command must not do: the sendmsg(2) by
//     which the listener leaves, marked in bits that the kernel ignores. A second filter refuses it before the
//     command is executed. Of the answers of several filters the sternest one counts: neither these nor those that
//     the command adds can make one milder.
//  8. Where this process ends, or the Broker is closed, the kernel answers ENOSYS, and nobody
//     relays: nothing goes out but over connections that exist.
package broker
