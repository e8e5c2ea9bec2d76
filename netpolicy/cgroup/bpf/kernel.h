// What the programs use of the kernel's interface: types and numbers as in linux/bpf.h, which
// never change. So nothing has to be installed but clang, and the result is the same everywhere.
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))

// Maps, as their BTF describes them.
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,

	BPF_F_NO_PREALLOC = 1,
	BPF_F_CLONE = 1 << 9,
	BPF_ANY = 0,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_F_CURRENT_NETNS = -1,
};

struct bpf_sock {
	u32 bound_dev_if, family, type, protocol, mark, priority;
	u32 src_ip4, src_ip6[4], src_port;
	u16 dst_port, pad;
	u32 dst_ip4, dst_ip6[4], state;
	int rx_queue_mapping;
};

struct bpf_sock_addr {
	u32 user_family, user_ip4, user_ip6[4], user_port;
	u32 family, type, protocol, msg_src_ip4, msg_src_ip6[4];
	struct bpf_sock *sk __attribute__((aligned(8)));
};

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id;
	u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port;
	u32 data_meta;
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len, gso_segs;
	struct bpf_sock *sk __attribute__((aligned(8)));
};

struct bpf_sockopt {
	struct bpf_sock *sk __attribute__((aligned(8)));
	void *optval __attribute__((aligned(8)));
	void *optval_end __attribute__((aligned(8)));
	int level, optname, optlen, retval;
};

// Whose packet: from source to destination.
union tuple {
	struct { u32 saddr, daddr; u16 sport, dport; } v4;
	struct { u64 saddr[2], daddr[2]; u16 sport, dport; } __attribute__((packed, aligned(4))) v6;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_skb_load_bytes)(const struct __sk_buff *skb, u32 offset, void *to, u32 len) = (void *)26;
static u64 (*bpf_skb_cgroup_id)(struct __sk_buff *skb) = (void *)79;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static struct bpf_sock *(*bpf_sk_lookup_tcp)(void *ctx, union tuple *t, u32 size, u64 netns, u64 flags) = (void *)84;
static struct bpf_sock *(*bpf_sk_lookup_udp)(void *ctx, union tuple *t, u32 size, u64 netns, u64 flags) = (void *)85;
static long (*bpf_sk_release)(struct bpf_sock *sk) = (void *)86;
static struct bpf_sock *(*bpf_sk_fullsock)(struct bpf_sock *sk) = (void *)95;
static u64 (*bpf_sk_cgroup_id)(struct bpf_sock *sk) = (void *)128;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;
static long (*bpf_set_retval)(int retval) = (void *)187;

#define be16(n) ((u16)__builtin_bswap16(n))
#define be32(n) ((u32)__builtin_bswap32(n))

#endif
