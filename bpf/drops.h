/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Counts packets that the kernel drops, at the tracepoint kfree_skb: by reason, place in the kernel, network namespace, device
 * and socket.
 *
 * Each drop is counted twice: in `drop_totals`, by its reason alone, and in `drops`, a table of bounded size in which a new key takes
 * the place of the one that was not used for longest. What the totals have and the table lacks was evicted: the kernel
 * does not say so itself. Reasons that are no loss (the receive queue of a closed socket) are in the totals only,
 * because they have a new key for each closed connection.
 *
 * Of each key, the headers of the packets number 1, 2, 4, 8 and so on are kept, the latest four: a cost that vanishes where there are
 * many drops, and addresses from all of the time.
 *
 * Where that takes more of a processor than Sockeye allows, only one of `drop_every` drops, chosen at random, is counted by its key, and
 * counts for as many: what was counted so is apart, since it is an estimate. The totals are always exact.
 *
 * The number of the tracepoint's arguments is asked of the kernel's types, and set before loading.
 */
#define net net_elsewhere
#include "kernel.h"
#undef net
#include "numbers.h"
#include "ring.h"

/* include/uapi/linux/bpf.h: numbers of helpers */
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*const random32)(void) = (void *)7;
static u64 (*const current_pid_tgid)(void) = (void *)14;
#define MAP_TYPE_PERCPU_ARRAY 6
#define MAP_TYPE_LRU_HASH 9
#define NOEXIST 1

/* --- the kernel's structs --- */

struct sk_buff {
	u64 sk, dev;
	u32 len;
	s32 skb_iif;
	u16 protocol, network_header;
	u32 tail;
	u64 head, data;
} KERNEL;
struct sock_common___request {
	u64 skc_listener;
} KERNEL;
struct possible_net {
	u64 net;
};
struct net_device {
	s32 ifindex;
	struct possible_net nd_net;
	char name[16];
} KERNEL;
struct net {
	struct ns_common ns;
	u64 loopback_dev;
} KERNEL;
struct socket___file {
	u64 file;
} KERNEL;

/* --- constants that Sockeye sets before loading --- */

/* Number of the tracepoint's arguments: skb, location; reason (Linux 5.17); rx_sk (6.11). */
const volatile u32 arguments = 2;
/* How a reason is counted: by `INDEX`. */
enum { IN_TOTALS = 0, WITHOUT_SOCKET = 1, BY_SOCKET = 2 };
#define SUBSYSTEMS 4
#define REASONS 256
const volatile u8 treatment[SUBSYSTEMS * REASONS] = {};
/* The reason of a datagram with a wrong checksum; 0: there is none. */
const volatile u32 checksum_reason = 0;
/* The reason of what a packet filter drops; 0: there is none. */
const volatile u32 netfilter_reason = 0;
/* Most keys by which its packets are counted apart. */
const volatile u32 parts_max = 0;
const volatile u32 pid_namespace = 0; /* inode of ours; 0: the initial one */
/* Whether each drop goes to the ring, too. */
const volatile u32 each_packet = 0;

/* --- maps --- */

/* A number of a reason: the subsystem in the upper half, and its number there. Larger numbers share the last one. */
INLINE u32 index_of(u32 reason)
{
	u32 subsystem = reason >> 16, number = reason & 0xffff;

	if (subsystem > SUBSYSTEMS - 1)
		subsystem = SUBSYSTEMS - 1;
	if (number > REASONS - 1)
		number = REASONS - 1;
	return (subsystem * REASONS + number) & (SUBSYSTEMS * REASONS - 1);
}
struct map drop_totals SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(u64), SUBSYSTEMS * REASONS, 0};

struct key {
	u64 place; /* an address in the kernel */
	u64 sk;    /* 0: without socket, or it does not count */
	u32 reason;
	u32 netns; /* inode; 0: unknown */
	s32 ifindex; /* 0: unknown */
	u32 inode; /* of the socket; 0: it has none, or none any more */
	u32 portpair; /* of the socket, or of what a packet filter drops: `part_of` */
	u16 ethertype;
	u8 transport; /* number of the IP protocol; 0: unknown */
	u8 how;       /* the socket is known */
};
enum { NO_SOCKET, BY_RX_SK, BY_SKB };

struct owner {
	u8 family, state; /* 0: no socket */
	u16 protocol;
	u32 uid, has_uid;
	u16 peer_port; /* big-endian */
	u16 local_port;
	u32 addresses[8]; /* peer's, then ours; of IPv4 the first of each four */
	u32 pid, pad;	  /* of the current process, if it has a descriptor of the socket; 0: it has none */
	char comm[16];
};

#define HEADERS 64
struct sample {
	u64 ns;
	u32 len; /* of the packet, from where the kernel was in it */
	u16 ethertype;
	u16 captured;
	u8 headers[HEADERS]; /* from the network layer's on */
};

#define SAMPLES 4
/* Of how many drops the owner is looked for. */
#define OWNER_TRIES 4
#define SAMPLE_INTERVAL_NS 1000000
struct value {
	u64 count, bytes;
	u64 first_ns, last_ns;
	u64 estimated; /* not in `count` */
	struct owner owner;
	char device[16];
	u64 sampled; /* how many samples were taken; the latest are kept */
	struct sample samples[SAMPLES];
};
#define KEYS 8192
struct map drops SEC("maps") = {MAP_TYPE_LRU_HASH, sizeof(struct key), sizeof(struct value), KEYS, 0};
/* A value without content: too large for a program's stack. */
struct map drop_blank SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct value), 1, 0};

/* In the ring: a dropped packet. */
#define PACKET 0
struct packet {
	u32 kind, pad;
	struct key key;
	struct owner owner;
	char device[16];
	struct sample sample;
};

/* How many keys were made by `part_of`. */
struct map drop_parts SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

/* Some of the descriptors of the current process. Within an interrupt on the same processor it is the same process. */
#define FILES 64 /* a table has at least as many, or a multiple: NR_OPEN_DEFAULT */
struct files {
	u64 file[FILES];
};
struct map drop_files SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(struct files), 1, 0};

/* How many keys were made: those that are not in the table any more were evicted. */
struct map drop_keys SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

/* Of how many drops one is counted by its key. Sockeye sets it. */
struct map drop_every SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(u64), 1, 0};
/* Nanoseconds that counting took, without the way into the program. Measured at one of TIMED runs, for all of them. */
#define TIMED 16
struct map drop_ns SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

/* --- sockets, devices, packets --- */

#define AF_INET 2
#define AF_INET6 10
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

INLINE u32 is_full(u64 sk)
{
	u8 state = GET(u8, sk, sock_common, skc_state);

	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

/* Not of a closed one. */
INLINE u32 inode_of(u64 sk)
{
	u64 socket = GET(u64, sk, sock, sk_socket);

	return socket ? (u32)GET(u64, socket + AT(socket_alloc, vfs_inode) - AT(socket_alloc, socket), inode, i_ino) : 0;
}

INLINE void describe(struct owner *owner, u64 sk)
{
	u32 pair = GET(u32, sk, sock_common, skc_portpair);

	owner->family = (u8)GET(u16, sk, sock_common, skc_family);
	owner->state = GET(u8, sk, sock_common, skc_state);
	if (owner->family == AF_INET || owner->family == AF_INET6) {
		owner->peer_port = (u16)pair;
		owner->local_port = (u16)(pair >> 16);
	}
	if (owner->family == AF_INET) {
		u64 addresses = GET(u64, sk, sock_common, skc_addrpair);

		owner->addresses[0] = (u32)addresses;
		owner->addresses[4] = (u32)(addresses >> 32);
	} else if (owner->family == AF_INET6) {
		probe_read_kernel(&owner->addresses[0], 16, (void *)(sk + AT(sock_common, skc_v6_daddr)));
		probe_read_kernel(&owner->addresses[4], 16, (void *)(sk + AT(sock_common, skc_v6_rcv_saddr)));
	}
	if (!is_full(sk)) {
		owner->protocol = 6; /* only TCP has others */
		return;
	}
	owner->protocol = (u16)GET_ANY(sk, sock, sk_protocol);
	owner->uid = GET(u32, sk, sock, sk_uid);
	owner->has_uid = 1;
}

/* Most descriptors that are searched: FILES times as many. */
#define TABLES 64

/* Whether a file is among FILES descriptors from this address on; -1: they cannot be read. The verifier follows a function that is not static once,
 * wherever it is called. */
__attribute__((noinline)) int is_among(u64 from, u64 file)
{
	u32 first = 0;
	u64 found = 0;
	struct files *files = map_lookup(&drop_files, &first);

	if (!files || probe_read_kernel(files, sizeof(struct files), (void *)from))
		return -1;
	/* Without branches, of which each would be a state to the verifier; one after the other, since the stack is small. */
	_Pragma("unroll") for (u32 i = 0; i < FILES; i++) {
		u64 difference = *(volatile u64 *)&files->file[i] ^ file;

		found |= ~(difference | -difference);
		asm volatile("" : "+r"(found));
	}
	return (int)(found >> 63);
}

/* Whether the current process has a descriptor of a file. */
__attribute__((noinline)) int has_file(u64 file)
{
	u64 table = GET(u64, GET(u64, current_task(), task_struct, files), files_struct, fdt);
	u32 max = table ? GET(u32, table, fdtable, max_fds) : 0;
	u64 from = table ? GET(u64, table, fdtable, fd) : 0;

	if (!file)
		return 0;
	_Pragma("nounroll") for (u32 number = 0; number < TABLES; number++, from += sizeof(struct files)) {
		int found;

		if (number * FILES >= max)
			return 0;
		found = is_among(from, file);
		if (found)
			return found > 0;
	}
	return 0;
}

/* Names the current process as owner of a socket, if it has a descriptor of it: one that an interrupt has only borrowed has none. That is how a
 * sender is known whose socket does not live until it is listed. */
INLINE void name_owner(struct owner *owner, u64 sk)
{
	u64 socket = GET(u64, sk, sock, sk_socket), task, leader;

	if (!socket || !has_file(GET(u64, socket, socket___file, file)))
		return;
	task = current_task();
	leader = GET(u64, task, task_struct, group_leader);
	probe_read_kernel(owner->comm, sizeof(owner->comm), (void *)(leader + AT(task_struct, comm)));
	owner->pid = pid_namespace ? number_of(task, pid_namespace) : current_pid_tgid() >> 32;
}

INLINE u64 netns_of_device(u64 device)
{
	return GET(u64, device, net_device, nd_net.net);
}

/* Whether a namespace that was read in an skb's device is one. In receive queues of UDP and TCP something else is in the place of the
 * device: then its namespace has no loopback device that names it. */
INLINE u32 is_netns(u64 netns)
{
	u64 loopback = netns ? GET(u64, netns, net, loopback_dev) : 0;

	return loopback && netns_of_device(loopback) == netns;
}

/* The network namespace of the current process. */
INLINE u64 netns_of_current(void)
{
	u64 proxy = GET(u64, current_task(), task_struct, nsproxy);

	return proxy ? GET(u64, proxy, nsproxy, net_ns) : 0;
}

/* What is there of a packet from the network layer's header on, wherever the kernel was in it: it moves `data` behind a header when it has
 * read it. */
struct from_network {
	u64 at, bytes; /* in memory that is contiguous; 0 bytes: without that header */
	u32 len;       /* of the packet; without that header, what is left */
};

INLINE void find_network(struct from_network *from, u64 skb)
{
	u64 head = GET(u64, skb, sk_buff, head);
	u32 tail = GET(u32, skb, sk_buff, tail), offset = GET(u16, skb, sk_buff, network_header);

	from->at = head + offset;
	from->len = GET(u32, skb, sk_buff, len);
	from->bytes = 0;
	if (!offset || offset == 0xffff || offset >= tail)
		return;
	from->bytes = tail - offset;
	from->len += (u32)(GET(u64, skb, sk_buff, data) - head) - offset;
}

INLINE u16 swap16(u16 value)
{
	return (u16)(value << 8 | value >> 8);
}

INLINE void take_sample(struct sample *sample, const struct from_network *from, u16 ethertype, u64 now)
{
	u64 bytes = from->bytes;

	sample->ns = now;
	sample->len = from->len;
	sample->ethertype = ethertype;
	/* The verifier has to see that the register that is compared is the one that is used. */
	asm volatile("" : "+r"(bytes));
	if (bytes > HEADERS)
		bytes = HEADERS;
	asm volatile("" : "+r"(bytes));
	sample->captured = 0;
	if (!probe_read_kernel(sample->headers, bytes, (void *)from->at))
		sample->captured = (u16)bytes;
}

/* What distinguishes packets for different rules of a packet filter: the destination's port, or type and code of ICMP, and 16 bits of a
 * hash of both addresses. 0: nothing does. Each part has samples of its own, so that its rule can be found. `at` is the network layer's header, with so many
 * bytes. A function of its own: its variables are not among those of the program, of which there is little space. */
__attribute__((noinline)) u32 part_of(u64 at, u64 bytes, u32 ethertype, u32 protocol)
{
	u64 transport;
	u32 hash = 0, ports;

	if (ethertype == 0x0800 && bytes >= 20) {
		transport = at + (LOAD(u8, at) & 15) * 4;
		hash = LOAD(u32, at + 12) * 31 + LOAD(u32, at + 16);
		if (LOAD(u16, at + 6) & 0xff1f)
			transport = 0; /* a later fragment */
	} else if (ethertype == 0x86dd && bytes >= 40) {
		transport = at + 40;
		_Pragma("unroll") for (u32 i = 8; i < 40; i += 8) {
			u64 half = LOAD(u64, at + i);

			hash = (hash * 31 + (u32)half) * 31 + (u32)(half >> 32);
		}
	} else {
		return 0;
	}
	hash ^= hash >> 16;
	if (!transport || bytes < transport - at + 4)
		return hash << 16;
	ports = LOAD(u32, transport);
	if (protocol == 1 || protocol == 58)
		return hash << 16 | (ports & 0xffff);
	if (protocol == 6 || protocol == 17 || protocol == 132 || protocol == 136 || protocol == 33)
		return hash << 16 | ports >> 16;
	return hash << 16;
}

INLINE void packet_to_ring(struct key *key, const struct value *value, const struct from_network *from, u64 sk, u64 device, u64 now)
{
	struct packet *packet = record_of(PACKET, sizeof(struct packet));

	if (!packet)
		return;
	packet->pad = 0;
	packet->key = *key;
	__builtin_memset(&packet->owner, 0, sizeof(packet->owner));
	__builtin_memset(&packet->device, 0, sizeof(packet->device));
	if (sk) {
		describe(&packet->owner, sk);
		packet->owner.pid = value->owner.pid;
		__builtin_memcpy(packet->owner.comm, value->owner.comm, sizeof(packet->owner.comm));
	}
	if (device)
		probe_read_kernel(packet->device, 16, (void *)(device + AT(net_device, name)));
	take_sample(&packet->sample, from, key->ethertype, now);
	submit(packet, sizeof(struct packet));
}

/* --- the program --- */

INLINE void count_drop(u64 *context, u32 reason, u32 how, u64 weight, u64 now)
{
	u64 skb = context[0], sk = 0, device, netns = 0, before, *parts = NULL;
	u32 first = 0, portpair;
	struct key key = {};
	struct from_network from;
	struct value *value;

	if (arguments > 3) {
		sk = context[3];
		key.how = BY_RX_SK;
	}
	if (!sk) {
		sk = GET(u64, skb, sk_buff, sk);
		key.how = BY_SKB;
	}
	/* A SYN-ACK belongs to a request, of which there is one for each SYN: it counts for its listener. */
	if (sk && GET(u8, sk, sock_common, skc_state) == TCP_NEW_SYN_RECV) {
		u64 listener = GET(u64, sk, sock_common___request, skc_listener);

		if (listener)
			sk = listener;
	}
	if (sk)
		netns = GET(u64, sk, sock_common, skc_net);
	device = GET(u64, skb, sk_buff, dev);
	if (device) {
		u64 of_device = netns_of_device(device);

		if ((of_device && of_device == netns) || is_netns(of_device))
			netns = of_device;
		else
			device = 0;
	}
	/* A checksum that is verified when the datagram is read: the socket is nearly always in the namespace of the process. */
	if (!netns && checksum_reason && reason == checksum_reason)
		netns = netns_of_current();
	key.place = context[1];
	key.reason = reason;
	key.netns = netns ? GET(u32, netns, net, ns.inum) : 0;
	key.ifindex = device ? GET(s32, device, net_device, ifindex) : GET(s32, skb, sk_buff, skb_iif);
	key.ethertype = swap16(GET(u16, skb, sk_buff, protocol));
	if (how == WITHOUT_SOCKET)
		sk = 0;
	if (sk) {
		key.sk = sk;
		key.portpair = GET(u32, sk, sock_common, skc_portpair);
		key.inode = is_full(sk) ? inode_of(sk) : 0;
	} else {
		key.how = NO_SOCKET;
	}
	find_network(&from, skb);
	if ((key.ethertype == 0x0800 || key.ethertype == 0x86dd) && from.bytes >= 20)
		key.transport = LOAD(u8, from.at + (key.ethertype == 0x0800 ? 9 : 6));

	portpair = key.portpair;
	if (netfilter_reason && reason == netfilter_reason) {
		u32 part = part_of(from.at, from.bytes, key.ethertype, key.transport);

		if (!sk)
			key.portpair = part;
		else if (!(portpair & 0xffff))
			key.portpair |= part & 0xffff;
	}
	value = map_lookup(&drops, &key);
	if (!value && key.portpair != portpair) {
		parts = map_lookup(&drop_parts, &first);
		if (!parts || *parts >= parts_max) {
			parts = NULL;
			key.portpair = portpair;
			value = map_lookup(&drops, &key);
		}
	}
	if (!value) {
		struct value *blank = map_lookup(&drop_blank, &first);

		if (!blank)
			return;
		/* Another processor may make it at the same time. */
		if (!map_update(&drops, &key, blank, NOEXIST)) {
			u64 *keys = map_lookup(&drop_keys, &first);

			if (keys)
				__sync_fetch_and_add(keys, 1);
			if (parts)
				__sync_fetch_and_add(parts, 1);
		}
		value = map_lookup(&drops, &key);
		if (!value)
			return;
		value->first_ns = now;
		if (sk)
			describe(&value->owner, sk);
		if (device)
			probe_read_kernel(value->device, 16, (void *)(device + AT(net_device, name)));
	}
	before = value->count + value->estimated;
	/* The first ones may be dropped in an interrupt. */
	if (sk && before < OWNER_TRIES && !value->owner.pid)
		name_owner(&value->owner, sk);
	if (weight > 1)
		__sync_fetch_and_add(&value->estimated, weight);
	else
		__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->bytes, weight * from.len);
	value->last_ns = now;
	/* The first ones, and later the latest: at most so many a second that it costs nothing. */
	if (weight > 1 || before < SAMPLES || now - value->samples[(value->sampled - 1) & (SAMPLES - 1)].ns >= SAMPLE_INTERVAL_NS) {
		u32 number = value->sampled++ & (SAMPLES - 1);

		take_sample(&value->samples[number], &from, key.ethertype, now);
	}
	if (each_packet)
		packet_to_ring(&key, value, &from, sk, device, now);
}

SEC("tp_btf/kfree_skb")
int dropped(u64 *context)
{
	u64 now, nth, weight = 1, *total, *number;
	u32 reason = 0, first = 0, offset, how;

	if (arguments > 2)
		reason = (u32)context[2];
	offset = index_of(reason);
	total = map_lookup(&drop_totals, &offset);
	if (!total)
		return 0;
	nth = *total;
	__sync_fetch_and_add(total, 1);
	/* The verifier does not know what the helper left there. */
	how = treatment[offset & (SUBSYSTEMS * REASONS - 1)];
	if (how == IN_TOTALS)
		return 0;
	number = map_lookup(&drop_every, &first);
	if (number && *number > 1) {
		weight = *number;
		if (random32() % (u32)weight)
			return 0;
	}
	now = ktime_ns();
	count_drop(context, reason, how, weight, now);
	/* Of those that are chosen at random each is timed. */
	if (weight > 1 || !(nth & (TIMED - 1))) {
		number = map_lookup(&drop_ns, &first);
		if (number)
			__sync_fetch_and_add(number, (ktime_ns() - now) * (weight > 1 ? 1 : TIMED));
	}
	return 0;
}

char license_[] SEC("license") = "GPL";
