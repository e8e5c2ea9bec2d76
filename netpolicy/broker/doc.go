// Package broker makes the network connections of a sandbox, for users without privileges. It imports netpolicy, which
// describes rules, nsexec and internal/sandbox, which start the sandbox, features, internal/clients, internal/notify,
// internal/seccomp and internal/sys. It does not decide what is allowed (Options.Decide does), and resolves no names.
//
// The sandbox has a network namespace of its own that contains only a loopback device. A seccomp filter sends some
// system calls of the command to a thread of this process: socket(2) for TCP, connect(2), bind(2), listen(2), and
// sendto(2), sendmsg(2) and sendmmsg(2) with an address. The thread answers in their place; see seccomp_unotify(2).
//
//	b, err := broker.New(broker.Options{Decide: …})
//	b.Attach(cmd)           // an nsexec.Cmd with a network namespace of its own
//	err = cmd.Run()
//	b.Close()
//
// # TCP
//
// A TCP socket belongs to the host's network from the beginning. On connect(2) the Broker copies the address once, and
// uses only the copy from then on. If the address is allowed, the Broker connects the socket. After that nothing is in
// between: data flows at the speed of the host. If the address is not allowed, connect(2) fails with ECONNREFUSED.
//
// Connections to addresses of the sandbox itself (127.0.0.0/8, ::1, 0.0.0.0, ::) stay inside, and so do bind(2) and
// listen(2). Before any of these, a socket of the sandbox's network replaces the host's. It gets the options of the old
// one (options.go), the caller's descriptor number or numbers, and its place in the epoll instances. If the last socket
// was used inside, the Broker guesses that the next one will be too, and makes it in the sandbox, so that nothing has
// to be exchanged; if the guess was wrong, a socket of the host replaces it.
//
// When the Broker exchanges a socket that was in an epoll instance, a thread of this process ends. The Broker chooses a
// thread without children, if the kernel can tell (CONFIG_PROC_CHILDREN). If it cannot, a program that starts children
// with a signal for the parent's end (SysProcAttr.Pdeathsig) has to lock the thread that starts them
// (runtime.LockOSThread), because for the kernel that thread is the parent.
//
// Differences from a network without a Broker:
//
//   - If a socket is bound and then connected to the outside, it loses what it was bound to, except an address of the
//     host without a port: the connection comes from that address. With a port, connect(2) fails with EADDRNOTAVAIL; so
//     do listen(2) on such an address, and UDP.
//   - An exchanged socket loses its socket filter, its owner for signals (F_SETOWN) and its time stamps.
//   - Another process that shares an exchanged socket keeps the old one.
//   - At most 256 calls of connect(2) wait at once, because each takes descriptors of this process. More fail with
//     EAGAIN.
//   - A signal handler interrupts a waiting call up to 100 ms late. (Before Linux 5.19 it interrupts any call at once,
//     and a connect(2) that is begun again after it may fail with EISCONN.)
//   - While a connect(2) waits, other owners of the socket see it as blocking (without O_NONBLOCK). If they change that
//     flag meanwhile, the change is undone afterwards.
//   - socket(2), bind(2) and listen(2) occasionally fail with EINTR if a handler without SA_RESTART is called very
//     often: until the call is received, the kernel lets any signal interrupt it.
//   - bind(2) fails with EBADF for a number that is no longer below RLIMIT_NOFILE.
//   - MSG_FASTOPEN fails with EOPNOTSUPP, TCP_FASTOPEN_CONNECT has no effect, and sockets get no device of their own,
//     no source route and no other protocol above TCP (SO_BINDTODEVICE, IP_OPTIONS, TCP_ULP; see filter.go).
//   - A host socket shows the host's addresses (getsockname(2), and the ioctls of netdevice(7) on it).
//   - In a network namespace that the command makes (Options.OwnNetworks), sockets reach nothing outside of it, even if
//     rules allow it.
//   - Peers inside see process 0 as the owner of a unix listener; see SO_PEERCRED in unix(7).
//   - sendmmsg(2) sends nothing if one of its messages is denied.
//
// # UDP
//
// No UDP socket of the host is ever in the sandbox. Messages go over a link of the sandbox. At its other end a relay in
// this process sends them from sockets of its own, one for each pair of client and destination, which accept answers
// from that destination only. If a denied message has an address of its own, the call fails with EPERM at once;
// otherwise the sender gets an ICMP error, which is ECONNREFUSED.
//
// The link is made for the first message that a rule allows. Until then, connect(2) of a UDP socket, which sends
// nothing, fails with ENETUNREACH if a C library calls it only to learn its own address (port 0, or the port of a TCP
// rule).
//
// An allowed flow ends when nothing was sent over it for two minutes. A socket that was connected, and has sent nothing
// before its rule was removed, has no flow.
//
// For UDP ports of the host's loopback device (Options.LocalUDP), sockets of the sandbox have the same addresses, and
// this process relays between them and the host's. Denied messages there are dropped.
//
// A UDP socket that was made outside, and that the command inherits or receives over a unix socket, does not belong to
// the sandbox. The Broker decides about messages on it, but the command can change the address just after the decision.
//
// # Why it holds
//
// The command and everything it starts may at any time write to memory that is being read, put another file under a
// number that is being looked at, fork, pass sockets around, and end.
//
//  1. A socket of the host enters the sandbox in one way only: the Broker makes it, for TCP, and it is not connected,
//     or, in an exchange, connected to an address that the Broker decided about. Only the Broker can connect it, by
//     connect(2) on its own copy of the socket, to an address that it decided about in its own memory. The Broker reads
//     nothing twice. After it has looked at anything that it found by the caller's descriptor number, it asks the
//     kernel whether the caller still waits. If it binds a host socket for bind(2), it binds it to an address without a
//     port, and never to one that has a device.
//  2. The Broker calls listen(2) on its own copy too, and only if the kernel says that the socket belongs to the
//     sandbox's network namespace (SO_NETNS_COOKIE) or is a unix socket. bind(2) continues in the kernel, and can hit a
//     socket of the host if another thread puts one under the number meanwhile. A TCP socket that is bound, and neither
//     connected nor listening, sends and receives nothing. It can keep others from using a port of the host, and
//     connect from there to what is allowed, as any program of this user can.
//  3. A connected socket can be disconnected (AF_UNSPEC), and is then as it was before. Options that change where its
//     packets go are visible in registers, and the filter refuses them. The Broker joins multicast groups, on its own
//     copy, and only with sockets of the sandbox.
//  4. Calls that continue in the kernel (SECCOMP_USER_NOTIF_FLAG_CONTINUE) use memory and descriptors as they are then,
//     not as the Broker saw them. connect(2) of unix and netlink sockets continues (for bind(2) see 2; the arguments of
//     socket(2) are in registers). This is safe because the command is in a Landlock domain that may not connect TCP at
//     all (Linux 6.7): the kernel refuses whatever socket the command puts under the number. Without Landlock the
//     Broker connects such sockets itself, on its own copies of socket and address (local.go): it looks the path up in
//     the caller's root, follows no magic link, and does it without capabilities. A listener then sees the Broker as
//     the client (SO_PEERCRED), and netlink sockets connect to the kernel only.
//  5. sendto(2) and the like continue in the kernel too. On a UDP socket, which belongs to the sandbox, they end at the
//     relay, which decides by the packet. On a TCP socket of the host an address only means something with
//     MSG_FASTOPEN. Flags are in a register: the filter sees them.
//  6. Sockets that are neither TCP, UDP, unix nor netlink cannot be made: no raw sockets, no SCTP, no MPTCP, and no
//     io_uring, which makes calls that no filter sees.
//  7. The filter with the listener allows one call that the command must not make: the sendmsg(2) that sends the
//     listener out, marked in flag bits that the kernel ignores. A second filter refuses that call before the command
//     is executed. If several filters answer, the kernel takes the strictest answer (seccomp(2)): neither these filters
//     nor those that the command adds can relax one.
//  8. If this process ends, or the Broker is closed, the kernel answers ENOSYS, and nothing is relayed: data leaves
//     only over connections that exist already.
//
// # Cost
//
// One thread answers all calls; goroutines handle calls that have to wait. A connection costs two answered calls and
// three wake-ups. The wake-up for the descriptor is not on the caller's processor: the kernel has no flag for that, as
// it has for answers. If a program alternates between sockets inside and outside, the Broker has to exchange most of
// them, which takes about 100 µs each.
package broker
