// Package broker makes the network connections of a sandbox, for users without any
// privilege.
//
// The sandbox has a network namespace of its own with nothing in it but a loopback device. A
// seccomp filter has a thread of this process told of the command's connect(2), listen(2),
// and of sendto(2), sendmsg(2), sendmmsg(2) with an address; it
// answers in their place, see seccomp_unotify(2).
//
//	b, err := broker.New(broker.Options{Decide: …})
//	b.Attach(cmd)           // an nsexec.Cmd with a network namespace of its own
//	err = cmd.Run()
//	b.Close()
//
// # TCP
//
// The address is copied once, and all that follows is done with the copy. Where it may be reached
// the Broker connects a socket of the host's network, gives it the options of the caller's one, and puts
// it under the caller's number, or numbers, and into the epoll instances in which that was. From then on
// nobody is in between: data goes at the speed of the host. What may not be reached is ECONNREFUSED.
// Addresses of the sandbox itself (127.0.0.0/8, ::1, 0.0.0.0, ::) are connected inside.
//
// Where a socket was in an epoll instance before connect(2), a thread of this process ends. Whoever starts
// children with a signal for the parent's end (SysProcAttr.Pdeathsig) has to keep the
// thread that starts them locked: for the kernel the thread is the parent.
//
// What is not as without a Broker:
//
//   - what a socket was bound to before connect(2) (address, port, device) is not kept;
//   - another process that shares the unconnected socket keeps the unconnected one;
//   - a call that waits is interrupted by a signal handler up to 100 ms late;
//   - MSG_FASTOPEN is EOPNOTSUPP, and TCP_FASTOPEN_CONNECT has no effect;
//   - a host socket shows the host's addresses (getsockname(2), and the ioctls of
//     netdevice(7) on it);
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
//  1. A socket of the host comes into the sandbox in one way: connected, by the Broker, to an address that
//     it decided about in its own memory. It reads nothing twice, and asks whether the caller still
//     waits after it has looked at anything that is found by the caller's number.
//  2. Such a socket can be disconnected (AF_UNSPEC), and is then good for another connect or a
//     listen. listen(2) is done by the Broker on its own copy of the socket, and only if the kernel says
//     that it is of the sandbox's network namespace (SO_NETNS_COOKIE) or a unix one. So bind(2) needs no
//     trap: a socket of the host that is bound neither gets nor sends anything. It can keep a port of the host
//     from others, as any program of this user can.
//  3. connect(2) on a disconnected one is the Broker's, and is decided as the first.
//  4. Calls that the kernel does itself (SECCOMP_USER_NOTIF_FLAG_CONTINUE) are done with memory and
//     descriptors as they are then, not as they were looked at. For connects of unix and netlink sockets that
//     is so. They are safe because the command is in a Landlock domain that may not connect TCP at all
//     (Linux 6.7): whatever is put under the number, the kernel refuses it. Without Landlock such connects
//     are EPERM.
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
