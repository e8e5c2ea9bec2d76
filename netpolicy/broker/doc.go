// Package broker makes the network connections of a sandbox, for users without privileges. It imports netpolicy, which
// describes rules, nsexec and internal/sandbox, which start the sandbox, features, internal/notify, internal/seccomp
// and internal/sys. It does not decide what is allowed (Options.Decide does), and resolves no names.
//
// The sandbox has a network namespace of its own that contains only a loopback device. A seccomp filter sends some system
// calls of the command to a thread of this process: socket(2) for TCP, connect(2), bind(2), listen(2), and sendto(2),
// sendmsg(2) and sendmmsg(2) with an address. The thread answers in their place; see seccomp_unotify(2).
//
//	b, err := broker.New(broker.Options{Decide: …})
//	b.Attach(cmd)           // an nsexec.Cmd with a network namespace of its own
//	err = cmd.Run()
//	b.Close()
//
// # TCP
//
// A TCP socket belongs to the host's network from the beginning. On connect(2) the Broker copies the address once, and
// uses only the copy from then on. If the address may be reached, the Broker connects the socket. After that nobody is in
// between: data flows at the speed of the host. If it may not be reached, connect(2) fails with ECONNREFUSED.
//
// Addresses of the sandbox itself (127.0.0.0/8, ::1, 0.0.0.0, ::) are connected inside, and bind(2) and listen(2) are for
// sockets inside: before any of these a socket of the sandbox's network replaces the host's. It gets the options of the
// old one (options.go), the caller's number or numbers, and its place in the epoll instances. If the last socket was used
// inside, the Broker guesses that the next one will be too, and makes it in the sandbox, so that nothing has to be
// exchanged; if the guess was wrong, a socket of the host replaces it.
//
// When the Broker exchanges a socket that was in an epoll instance, a thread of this process ends. It is a thread without
// children, if the kernel can tell (CONFIG_PROC_CHILDREN). If it cannot, a program that starts children with a signal for
// the parent's end (SysProcAttr.Pdeathsig) has to keep the thread that starts them locked, because for the kernel that
// thread is the parent.
//
// Differences from a network without a Broker:
//
//   - What a socket was bound to before it is connected to the outside is lost, except an address of the host without a
//     port: the connection comes from that address. With a port, connect(2) fails with EADDRNOTAVAIL; so do listen(2) on
//     such an address, and UDP.
//   - An exchanged socket loses its socket filter, its owner for signals (F_SETOWN) and its time stamps.
//   - Another process that shares an exchanged socket keeps the old one.
//   - A signal handler interrupts a waiting call up to 100 ms late. (Before Linux 5.19 it interrupts any call at once, and
//     a connect(2) that is begun again after it may fail with EISCONN.)
//   - While a connect(2) waits, other owners of the socket see it as blocking (without O_NONBLOCK); what they set of that
//     meanwhile is undone afterwards.
//   - socket(2), bind(2) and listen(2) occasionally fail with EINTR if a handler without SA_RESTART is called very often:
//     until the call is received, the kernel lets any signal interrupt it.
//   - bind(2) fails with EBADF for a number that is no longer below RLIMIT_NOFILE.
//   - MSG_FASTOPEN fails with EOPNOTSUPP, TCP_FASTOPEN_CONNECT has no effect, and sockets get no device of their own, no
//     source route and no other protocol above TCP (SO_BINDTODEVICE, IP_OPTIONS, TCP_ULP; see filter.go).
//   - A host socket shows the host's addresses (getsockname(2), and the ioctls of netdevice(7) on it).
//   - A network namespace that the command makes has no TCP of its own.
//   - For peers inside, the owner of a unix listener is process 0; see SO_PEERCRED in unix(7).
//   - sendmmsg(2) sends nothing if one of its messages is denied.
//
// # UDP
//
// No UDP socket of the host is ever in the sandbox. Messages go over a link of the sandbox. At its other end a relay in
// this process sends them from sockets of its own, one for each pair of client and destination, which accept answers from
// that destination only. If a denied message has an address of its own, the call fails with EPERM at once; otherwise the
// sender gets an ICMP error, which is ECONNREFUSED.
//
// The link is made for the first message that a rule allows. Until then connect(2) of a UDP socket, which sends nothing,
// fails with ENETUNREACH where C libraries only ask for their own address (port 0, or the port of a TCP rule).
//
// An allowed flow ends when nothing was sent over it for two minutes. A socket that was connected, and has sent nothing
// before its rule was removed, has no flow.
//
// For UDP ports of the host's loopback device (Options.LocalUDP), sockets of the sandbox have the same addresses, and this
// process relays between them and the host's. What is denied there is lost.
//
// A UDP socket that was made outside, and that the command inherits or receives over a unix socket, does not belong to the
// sandbox. The Broker decides about what is sent on it, but the address can change in the moment after that.
//
// # Why it holds
//
// The command and everything it starts may at any time write to memory that is being read, put another file under a number
// that is being looked at, fork, pass sockets around, and end.
//
//  1. A socket of the host enters the sandbox in one way only: the Broker makes it, for TCP, and it is not connected, or,
//     in an exchange, connected to an address that the Broker decided about. The only way to connect it is the Broker's
//     connect(2), on its own copy of the socket, to an address that it decided about in its own memory. The Broker reads
//     nothing twice. After it has looked at anything that is found by the caller's number, it asks whether the caller
//     still waits. If it binds a host socket for bind(2), it binds it to an address without a port, and never to one that
//     has a device.
//  2. The Broker does listen(2) on its own copy too, and only if the kernel says that the socket belongs to the sandbox's
//     network namespace (SO_NETNS_COOKIE) or is a unix socket. bind(2) continues in the kernel, and can hit a socket of
//     the host if another thread puts one under the number meanwhile. A TCP socket that is bound, and neither connected
//     nor listening, sends and receives nothing. It can keep a port of the host from others, and connect from there to
//     what may be reached, as any program of this user can.
//  3. A connected socket can be disconnected (AF_UNSPEC), and is then as in the beginning. Options that change where its
//     packets go are visible in registers, and the filter refuses them. The Broker joins multicast groups, on its own
//     copy, and only with sockets of the sandbox.
//  4. Calls that continue in the kernel (SECCOMP_USER_NOTIF_FLAG_CONTINUE) use memory and descriptors as they are then,
//     not as the Broker saw them. connect(2) of unix and netlink sockets continues (for bind(2) see 2; the arguments of
//     socket(2) are in registers). This is safe because the command is in a Landlock domain that may not connect TCP at
//     all (Linux 6.7): the kernel refuses whatever is put under the number. Without Landlock the Broker connects such
//     sockets itself, on its own copies of socket and address (local.go): it looks the path up in the caller's root, follows
//     no magic link, and does it without capabilities. A listener then sees the Broker as who connects (SO_PEERCRED), and
//     netlink sockets connect to the kernel only.
//  5. sendto(2) and the like continue in the kernel too. On a UDP socket, which belongs to the sandbox, they end at the
//     relay, which decides by the packet. On a TCP socket of the host an address only means something with MSG_FASTOPEN.
//     Flags are in a register: the filter sees them.
//  6. Sockets that are neither TCP, UDP, unix nor netlink cannot be made: no raw sockets, no SCTP, no MPTCP, and no
//     io_uring, which makes calls that no filter sees.
//  7. The filter with the listener allows one call that the command must not make: the sendmsg(2) that sends the listener
//     out, marked in flag bits that the kernel ignores. A second filter refuses it before the command is executed. Of the
//     answers of several filters the strictest one counts: neither these filters nor those that the command adds can
//     relax one.
//  8. If this process ends, or the Broker is closed, the kernel answers ENOSYS, and nobody relays: data leaves only over
//     connections that exist already.
//
// # What it costs
//
// One thread answers all calls, and goroutines continue what has to wait. A connection costs two answered calls and three
// wake-ups, of which the one for the descriptor is not on the caller's processor: the kernel has no flag for it, as it has
// for answers. A program that alternates between sockets inside and outside has most of them exchanged, for about 100 µs
// each.
package broker
