// The programs of the enforcer. They are attached to the parent cgroup of all sandboxes, so
// nothing has to be loaded or attached for another sandbox.
//
//	socket()        create       only TCP and UDP
//	connect()       connect4/6   the address and port are allowed, or it is a server of this sandbox
//	sendto() …      sendmsg4/6   the same
//	bind()          bind4/6      no port, or a published one
//	setsockopt()    setsockopt   joins no multicast or anycast group, and shares no UDP port
//	packets out     egress       the backstop: checks the first packet of TCP, and all of UDP, again
//	packets in      ingress      no connection, and no datagram, from an address that is not allowed
//
// Ports and addresses are in network byte order, IPv4 addresses as IPv4-mapped IPv6 ones.
#include "kernel.h"

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_STREAM = 1,
	SOCK_DGRAM = 2,
	TCP = 6,
	UDP = 17,
	ECONNREFUSED = 111,
	LOOPBACK = 1, // the index of lo in every network namespace
	SECOND = 1000000000,

	EVENTS_A_SECOND = 1000, // for each sandbox; further ones are only counted
};

struct addr {
	u64 hi, lo;
};

// Which hook decided, for reports. Package cgroup has the same list.
enum hook { CONNECT, SEND, BIND, CREATE, EGRESS, INGRESS, JOIN };

enum flags { ALLOW_ALL = 1 };

// A sandbox, by the id of its cgroup. All its rules have the number of a generation: writing
// another number here replaces all of them at once.
struct sandbox {
	u32 generation;
	u16 flags;
	u16 resolver_port;
	struct addr resolver;
	u64 until;    // until then,
	u32 previous; // a first packet may follow the earlier rules, under which connect(2) was called
	u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 10);
	__type(key, u64);
	__type(value, struct sandbox);
} sandboxes SEC(".maps");

// What is known about a bound socket, or a connected UDP socket. Recording something for every
// socket would cost more than everything else that is done for a connection.
struct socket {
	u64 sandbox;      // of bound ones
	u64 connected;    // the sandbox whose rules allowed the peer
	struct addr peer; // stays allowed, even if the rules change
	u16 port;         // of the peer; 0: there is none
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket);
} sockets SEC(".maps");

// Prefix of addresses → set of ports. A longer prefix hides a shorter one, so its set has all ports. The
// addresses of names are here, too, because making a hash table of this size would take milliseconds.
struct block {
	u32 bits;
	u32 generation;
	struct addr addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 3 << 20);
	__type(key, struct block);
	__type(value, u32);
} blocks SEC(".maps");

// Sets of ports: a port with a prefix here is in the set.
struct port {
	u32 bits;
	u32 generation, set;
	u8 proto, zero;
	u16 port;
} __attribute__((packed));

enum { PORT_BITS = 96, BLOCK_BITS = 160 };

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, struct port);
	__type(value, u8);
} ports SEC(".maps");

// Ports of servers in sandboxes that the host can reach.
struct published {
	u64 sandbox;
	u32 port, zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 12);
	__type(key, struct published);
	__type(value, u8);
} published SEC(".maps");

// Decisions: each is reported once, then once a second with the number of repetitions.
struct decision {
	u64 sandbox;
	struct addr addr;
	u16 port;
	u8 proto, hook, allowed, zero[3];
};

struct seen {
	u64 last;
	u64 count; // not reported yet
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 10);
	__type(key, struct decision);
	__type(value, struct seen);
} seen SEC(".maps");

struct event {
	struct decision what;
	u64 count;
	u32 pid, zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} events SEC(".maps");

// How much a sandbox may report.
struct budget {
	u64 since;
	u64 told; // reported since then
	u64 lost; // in total
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 10);
	__type(key, u64);
	__type(value, struct budget);
} budgets SEC(".maps");

// A value that the verifier does not track, so that it verifies one state after a branch, not one for each path.
typedef volatile u8 opaque;

static inline struct addr v4(u32 ip) {
	return (struct addr){0, (u64)ip << 32 | 0xffff0000};
}

static inline struct addr v6(const u32 ip[4]) {
	return (struct addr){(u64)ip[1] << 32 | ip[0], (u64)ip[3] << 32 | ip[2]};
}

static inline int is_v4(const struct addr *a) {
	return a->hi == 0 && (u32)a->lo == 0xffff0000;
}

static inline int same(const struct addr *a, const struct addr *b) {
	return a->hi == b->hi && a->lo == b->lo;
}

// tell reports a decision to user space, within the sandbox's budget; e->count is 1.
static inline void tell(struct event *e) {
	u64 now = bpf_ktime_get_coarse_ns();
	struct seen *s = bpf_map_lookup_elem(&seen, &e->what);
	if (s) {
		__sync_fetch_and_add(&s->count, 1);
		if (now - s->last < SECOND)
			return;
		s->last = now;
		e->count = __sync_lock_test_and_set(&s->count, 0);
	} else {
		struct seen first = {.last = now};
		bpf_map_update_elem(&seen, &e->what, &first, BPF_ANY);
	}
	struct budget *b = bpf_map_lookup_elem(&budgets, &e->what.sandbox);
	if (!b)
		return;
	if (now - b->since > SECOND) {
		b->since = now;
		b->told = 0;
	}
	e->pid = bpf_get_current_pid_tgid() >> 32;
	if (b->told >= EVENTS_A_SECOND || bpf_ringbuf_output(&events, e, sizeof(*e), 0))
		__sync_fetch_and_add(&b->lost, e->count);
	else
		b->told++;
}

// denied reports that something is not allowed.
static inline int denied(u64 sandbox, const struct addr *a, u16 port, u8 proto, u8 hook) {
	struct event e = {{sandbox, *a, port, proto, hook}, 1};
	tell(&e);
	return 0;
}

static inline u32 set_of(u32 generation, const struct addr *a) {
	struct block k = {BLOCK_BITS, generation, *a};
	u32 *set = bpf_map_lookup_elem(&blocks, &k);
	return set ? *set : 0; // the empty set
}

static inline int in_set(u32 generation, u32 set, u8 proto, u16 port) {
	struct port p = {PORT_BITS, generation, set, proto, 0, port};
	return bpf_map_lookup_elem(&ports, &p) != 0;
}

// in_generation says whether a rule of a generation allows it, by_rule whether one in force does.
static inline int in_generation(u32 generation, const struct addr *a, u8 proto, u16 port) {
	return in_set(generation, set_of(generation, a), proto, port);
}

static inline int by_rule(const struct sandbox *b, const struct addr *a, u8 proto, u16 port) {
	return in_generation(b->generation, a, proto, port);
}

static inline int resolver(const struct sandbox *b, const struct addr *a, u16 port) {
	return b->resolver_port && port == b->resolver_port && same(a, &b->resolver);
}

static inline int loopback(const struct addr *a) {
	if (is_v4(a)) {
		u8 first = a->lo >> 32;
		return first == 127 || a->lo >> 32 == 0; // connecting to 0.0.0.0 means 127.0.0.1
	}
	return a->hi == 0 && (a->lo == (u64)be32(1) << 32 || a->lo == 0);
}

// receiver finds the socket that receives what is sent from one address to the other. The caller
// releases it.
static inline struct bpf_sock *receiver(void *ctx, u32 proto, const struct addr *from, u16 sport, const struct addr *to, u16 dport) {
	union tuple t = {};
	u32 size;
	if (is_v4(to)) {
		t.v4.saddr = from->lo >> 32;
		t.v4.daddr = to->lo >> 32;
		if (!t.v4.daddr)
			t.v4.daddr = be32(0x7f000001);
		t.v4.sport = sport;
		t.v4.dport = dport;
		size = sizeof(t.v4);
	} else {
		t.v6.saddr[0] = from->hi;
		t.v6.saddr[1] = from->lo;
		t.v6.daddr[1] = to->lo ? to->lo : (u64)be32(1) << 32;
		t.v6.daddr[0] = to->hi;
		t.v6.sport = sport;
		t.v6.dport = dport;
		size = sizeof(t.v6);
	}
	if (proto == TCP)
		return bpf_sk_lookup_tcp(ctx, &t, size, BPF_F_CURRENT_NETNS, 0);
	return bpf_sk_lookup_udp(ctx, &t, size, BPF_F_CURRENT_NETNS, 0);
}

// own_server says whether the sandbox has a TCP server there. Another server may take its place at
// any moment, so the first packet is checked again.
static inline int own_server(struct bpf_sock_addr *ctx, u64 sandbox, const struct addr *a, u16 port) {
	if (!loopback(a))
		return 0;
	struct addr any = {};
	struct bpf_sock *sk = receiver(ctx, TCP, &any, 0, a, port);
	if (!sk)
		return 0;
	struct socket *s = bpf_sk_storage_get(&sockets, sk, 0, 0);
	int own = s && s->sandbox == sandbox;
	bpf_sk_release(sk);
	return own;
}

// own_receiver says whether a packet goes to a socket of this sandbox.
static inline int own_receiver(struct __sk_buff *skb, u64 sandbox, u32 proto, const struct addr *from, u16 sport, const struct addr *to, u16 dport) {
	struct bpf_sock *sk = receiver(skb, proto, from, sport, to, dport);
	if (!sk)
		return 0;
	int own = bpf_sk_cgroup_id(sk) == sandbox;
	bpf_sk_release(sk);
	return own;
}

// Two sandboxes must allow an address: connecting and sending ask the one of the program that names it,
// egress asks the one that made the socket.

// connecting decides about connect(2).
static inline int connecting(struct bpf_sock_addr *ctx, struct addr a) {
	u64 sandbox = bpf_get_current_cgroup_id();
	struct sandbox *b = bpf_map_lookup_elem(&sandboxes, &sandbox);
	if (!b)
		goto refuse;
	u16 port = ctx->user_port;
	opaque proto = ctx->protocol;
	if (resolver(b, &a, port))
		return 1;
	int all = b->flags & ALLOW_ALL;
	// Connecting a UDP socket sends nothing: egress decides about what is sent, and reports it. C libraries
	// connect to port 0, or to the TCP port that they were asked for, to learn their own address.
	if (proto == UDP && (!port || all))
		return 1;
	u32 generation = b->generation, set = set_of(generation, &a);
	opaque ok = all != 0;
	if (in_set(generation, set, proto, port))
		ok = 1;
	if (!ok && proto == UDP && (loopback(&a) || in_set(generation, set, TCP, port)))
		return 1; // only egress sees who receives it on a loopback address; what it drops is an error here, too
	if (!ok && proto == TCP && own_server(ctx, sandbox, &a, port))
		return 1;
	struct event e = {{sandbox, a, port, proto, CONNECT, ok}, 1};
	tell(&e);
	if (!ok)
		goto refuse;
	if (proto == UDP) {
		struct bpf_sock *sk = ctx->sk;
		struct socket *s = sk ? bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
		if (s) {
			s->port = 0;
			s->connected = sandbox;
			s->peer = a;
			s->port = port;
		}
	}
	return 1;
refuse:
	bpf_set_retval(-ECONNREFUSED);
	return 0;
}

// sending decides about a message with an address, which is always UDP.
static inline int sending(struct bpf_sock_addr *ctx, struct addr a) {
	u64 sandbox = bpf_get_current_cgroup_id();
	struct sandbox *b = bpf_map_lookup_elem(&sandboxes, &sandbox);
	if (!b)
		return 0;
	u16 port = ctx->user_port;
	if (b->flags & ALLOW_ALL || resolver(b, &a, port))
		return 1;
	opaque ok = by_rule(b, &a, UDP, port);
	if (!ok && loopback(&a))
		return 1; // as in connecting
	struct event e = {{sandbox, a, port, UDP, SEND, ok}, 1};
	tell(&e);
	return ok & 1;
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx) {
	return connecting(ctx, v4(ctx->user_ip4));
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx) {
	u32 ip[4] = {ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]};
	return connecting(ctx, v6(ip));
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *ctx) {
	return sending(ctx, v4(ctx->user_ip4));
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *ctx) {
	u32 ip[4] = {ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]};
	return sending(ctx, v6(ip));
}

static inline int is_published(u64 sandbox, u16 port) {
	struct published p = {sandbox, port};
	return bpf_map_lookup_elem(&published, &p) != 0;
}

// binding decides about the port of a server. The sandbox shares the host's ports, so an unpublished
// one could take the place of a server of the host, or be reached by others.
static inline int binding(struct bpf_sock_addr *ctx, struct addr a) {
	u64 sandbox = bpf_get_current_cgroup_id();
	struct bpf_sock *sk = ctx->sk;
	if (!sk || !bpf_map_lookup_elem(&sandboxes, &sandbox))
		return 0;
	u16 port = ctx->user_port;
	if (port && (ctx->protocol != TCP || !is_published(sandbox, port)))
		return denied(sandbox, &a, port, ctx->protocol, BIND);
	struct socket *s = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (s)
		s->sandbox = sandbox;
	return 1;
}

SEC("cgroup/bind4")
int bind4(struct bpf_sock_addr *ctx) {
	return binding(ctx, v4(ctx->user_ip4));
}

SEC("cgroup/bind6")
int bind6(struct bpf_sock_addr *ctx) {
	u32 ip[4] = {ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]};
	return binding(ctx, v6(ip));
}

// Sockets of other families than IPv4 and IPv6 do not come here: SocketFilter refuses them.
SEC("cgroup/sock_create")
int create(struct bpf_sock *ctx) {
	u64 sandbox = bpf_get_current_cgroup_id();
	if (!bpf_map_lookup_elem(&sandboxes, &sandbox))
		return 0;
	if ((ctx->type == SOCK_STREAM && ctx->protocol == TCP) || (ctx->type == SOCK_DGRAM && ctx->protocol == UDP))
		return 1;
	struct addr none = {};
	return denied(sandbox, &none, 0, ctx->protocol, CREATE);
}

// Options with which a socket joins a group, or selects senders in it: those of IPv4, those of IPv6, and those of
// both.
enum {
	SOL_IP = 0,
	SOL_IPV6 = 41,
	IP_ADD_MEMBERSHIP = 35,
	IP_UNBLOCK_SOURCE = 37,
	IP_BLOCK_SOURCE = 38,
	IP_ADD_SOURCE_MEMBERSHIP = 39,
	IP_MSFILTER = 41,
	IPV6_JOIN_GROUP = 20,
	IPV6_JOIN_ANYCAST = 27,
	MCAST_JOIN_GROUP = 42,
	MCAST_BLOCK_SOURCE = 43,
	MCAST_UNBLOCK_SOURCE = 44,
	MCAST_JOIN_SOURCE_GROUP = 46,
	MCAST_MSFILTER = 48,
	SOL_SOCKET = 1,
	SO_REUSEADDR = 2,
	SO_REUSEPORT = 15,
};

static inline int joins(int level, int name) {
	if (level == SOL_IP && (name == IP_ADD_MEMBERSHIP || name == IP_ADD_SOURCE_MEMBERSHIP || name == IP_BLOCK_SOURCE || name == IP_UNBLOCK_SOURCE || name == IP_MSFILTER))
		return 1;
	if (level == SOL_IPV6 && (name == IPV6_JOIN_GROUP || name == IPV6_JOIN_ANYCAST))
		return 1;
	return (level == SOL_IP || level == SOL_IPV6) && (name == MCAST_JOIN_GROUP || name == MCAST_JOIN_SOURCE_GROUP || name == MCAST_BLOCK_SOURCE ||
			name == MCAST_UNBLOCK_SOURCE || name == MCAST_MSFILTER);
}

// When a socket joins a group, the host announces that to its network (IGMP, MLD). Egress does not see these packets,
// and the caller chooses their content.
SEC("cgroup/setsockopt")
int setsockopt(struct bpf_sockopt *ctx) {
	int name = ctx->optname, level = ctx->level;
	// With these, the kernel may also choose a UDP port that a server of the host shares, and the socket that came last
	// receives what is sent there. TCP ports are not chosen so. The options have no effect: no port can be named anyway.
	if (level == SOL_SOCKET && (name == SO_REUSEADDR || name == SO_REUSEPORT) && ctx->sk && ctx->sk->protocol == UDP) {
		ctx->optlen = -1;
		return 1;
	}
	if (!joins(level, name)) {
		ctx->optlen = 0; // the caller's own is used, however large
		return 1;
	}
	u64 sandbox = bpf_get_current_cgroup_id();
	struct bpf_sock *sk = ctx->sk;
	if (!sk || !bpf_map_lookup_elem(&sandboxes, &sandbox))
		return 0;
	// The group: an address, or an interface followed by a struct sockaddr_storage.
	struct addr group = {};
	u8 *value = ctx->optval, *end = ctx->optval_end;
	u32 *ip = (void *)value;
	if (name >= MCAST_JOIN_GROUP) {
		struct { u32 interface, zero; u16 family, port; u32 ip4, ip6[4]; } *of = (void *)value;
		if ((void *)(of + 1) <= (void *)end)
			group = level == SOL_IP ? v4(of->ip4) : v6(of->ip6);
	} else if (level == SOL_IP) {
		if (value + 4 <= end)
			group = v4(*ip);
	} else if (value + 16 <= end)
		group = v6(ip);
	return denied(sandbox, &group, 0, sk->protocol, JOIN);
}

struct packet {
	struct addr from, to;
	u16 sport, dport;
	u32 proto;
	int opens; // the first packet of a TCP connection
};

// parse reads a packet's headers. It returns zero for packets that no program needs to send: not TCP
// or UDP, a fragment, or one with options, which can send it elsewhere.
static inline int parse(struct __sk_buff *skb, struct packet *p) {
	u32 header;
	// IPv6 comes first, because its states include what the verifier knows about IPv4 addresses.
	if (__builtin_expect(skb->protocol == be16(0x86dd), 1)) {
		struct { u32 version; u16 len; u8 next, hops; struct addr from, to; } ip;
		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)))
			return 0;
		p->proto = ip.next;
		p->from = ip.from;
		p->to = ip.to;
		header = sizeof(ip);
		if (p->proto == 0) {
			// From the kernel itself, for packets above 64 KiB that are divided later.
			struct { u8 next, len, type, size; u32 jumbo; } hop;
			if (bpf_skb_load_bytes(skb, sizeof(ip), &hop, sizeof(hop)) || hop.len || hop.type != 0xc2 || hop.size != 4)
				return 0;
			p->proto = hop.next;
			header += sizeof(hop);
		}
	} else if (skb->protocol == be16(0x0800)) {
		struct { u8 version, tos; u16 len, id, fragment; u8 ttl, proto; u16 sum; u32 from, to; } ip;
		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.version != 0x45 || ip.fragment & be16(0x3fff))
			return 0;
		p->proto = ip.proto;
		p->from = v4(ip.from);
		p->to = v4(ip.to);
		header = sizeof(ip);
	} else
		return 0;
	struct { u16 sport, dport; u32 seq, ack; u8 offset, flags; } tcp = {};
	if (p->proto == TCP) {
		if (bpf_skb_load_bytes(skb, header, &tcp, 14))
			return 0;
		p->opens = (tcp.flags & 0x12) == 0x02;
	} else if (p->proto != UDP || bpf_skb_load_bytes(skb, header, &tcp, 4))
		return 0;
	p->sport = tcp.sport;
	p->dport = tcp.dport;
	return 1;
}

// goes_on recognises most packets: those of an existing TCP connection, with nothing unusual. parse
// looks at the others.
static inline int goes_on(struct __sk_buff *skb) {
	struct { u8 version, tos; u16 len, id, fragment; u8 ttl, proto; u16 sum; u32 from, to; u16 sport, dport; u32 seq, ack; u8 offset, flags; } *v4 = (void *)(long)skb->data;
	struct { u32 version; u16 len; u8 next, hops; struct addr from, to; u16 sport, dport; u32 seq, ack; u8 offset, flags; } *v6 = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	if (skb->protocol == be16(0x0800))
		return (void *)(v4 + 1) <= end && v4->version == 0x45 && v4->proto == TCP && !(v4->fragment & be16(0x3fff)) && (v4->flags & 0x12) != 0x02;
	if (skb->protocol == be16(0x86dd))
		return (void *)(v6 + 1) <= end && v6->next == TCP && (v6->flags & 0x12) != 0x02;
	return 0;
}

// to_peer says whether this sandbox's rules allowed a socket of the sandbox to connect to this address: not
// those of another sandbox that got the socket.
static inline int to_peer(struct __sk_buff *skb, u64 sandbox, const struct addr *a, u16 port) {
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	struct socket *s = bpf_sk_storage_get(&sockets, sk, 0, 0);
	return s && s->connected == sandbox && s->port && s->port == port && same(&s->peer, a);
}

SEC("cgroup_skb/egress")
int egress(struct __sk_buff *skb) {
	struct packet p = {};
	if (goes_on(skb))
		return 1;
	if (!parse(skb, &p))
		return 0;
	if (p.proto == TCP && !p.opens)
		return 1;
	u64 sandbox = bpf_skb_cgroup_id(skb);
	struct sandbox *b = bpf_map_lookup_elem(&sandboxes, &sandbox);
	if (!b)
		return 0;
	if (resolver(b, &p.to, p.dport))
		return 1;
	opaque ok = b->flags & ALLOW_ALL;
	if (ok) {
		if (p.proto == TCP)
			return 1;
	} else {
		if (by_rule(b, &p.to, p.proto, p.dport))
			return 1;
		if (p.proto == UDP ? to_peer(skb, sandbox, &p.to, p.dport)
				: bpf_ktime_get_coarse_ns() < b->until && in_generation(b->previous, &p.to, TCP, p.dport))
			return 1;
		if (loopback(&p.to) && own_receiver(skb, sandbox, p.proto, &p.from, p.sport, &p.to, p.dport))
			return 1;
	}
	struct event e = {{sandbox, p.to, p.dport, p.proto, ok ? SEND : EGRESS, ok}, 1};
	tell(&e);
	return ok & 1;
}

SEC("cgroup_skb/ingress")
int ingress(struct __sk_buff *skb) {
	struct packet p = {};
	if (goes_on(skb))
		return 1;
	if (!parse(skb, &p))
		return 0;
	if (p.proto == TCP && !p.opens)
		return 1;
	u64 sandbox = bpf_skb_cgroup_id(skb);
	if (skb->ifindex == LOOPBACK) {
		if (p.proto == TCP && is_published(sandbox, p.dport))
			return 1;
		// The sender's socket is the one that receives packets to the sender.
		if (own_receiver(skb, sandbox, p.proto, &p.to, p.dport, &p.from, p.sport))
			return 1;
	}
	if (p.proto == UDP) {
		struct sandbox *b = bpf_map_lookup_elem(&sandboxes, &sandbox);
		if (!b)
			return 0;
		if (resolver(b, &p.from, p.sport) || by_rule(b, &p.from, UDP, p.sport) || b->flags & ALLOW_ALL || to_peer(skb, sandbox, &p.from, p.sport))
			return 1;
	}
	return denied(sandbox, &p.from, p.sport, p.proto, INGRESS);
}
