/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Zero windows: a side announces that it takes no more data, and later that it does again. What the peer announces is in the segments
 * that arrive, what we announce in those that leave.
 */
#pragma once

struct windows {
	u64 zero_since[3]; /* by side; 0: it is open */
};
#ifdef BY_PROBE_READ
struct map zero_windows SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct windows), 16384, 0};
#else
struct map zero_windows SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct windows), 1 << 18, MAP_NO_PREALLOC};
#endif
struct tcp_sock___window {
	u32 snd_wnd;
} KERNEL;

/* In `started` of the record is since when the window was zero, in `first_fin` whose it is. */
INLINE void write_window(u32 kind, u64 sk, u32 side, u64 since)
{
	u8 state = GET(u8, sk, sock_common, skc_state);

	if (!(wanted & 1u << kind) || (is_filtered && !matches(sk)))
		return;
	struct event *record = record_of_socket(kind, sizeof(*record), sk);
	if (!record)
		return;
	record->old_state = record->state = state;
	record->reason = -1;
	fill(record, sk, 0);
	fill_known(record, known_of(sk));
	record->is_tracked = since != 0;
	record->known.opened = since;
	record->known.first_fin = side;
	submit_waking(record, sizeof(*record));
}

/* A side has announced a window. */
PART int window_is_announced(u64 sk, u32 side, u32 is_zero)
{
	struct windows *windows = map_lookup(&zero_windows, &sk);

	if (side != OURS && side != PEERS)
		return 0;
	if (is_zero) {
		if (!windows) {
			struct windows none = {};
			if (map_update(&zero_windows, &sk, &none, 0))
				count_untracked(UNTRACKED_SOCKETS);
			windows = map_lookup(&zero_windows, &sk);
		}
		if (!windows || windows->zero_since[side])
			return 0;
		windows->zero_since[side] = ktime_ns();
		write_window(WINDOW_IS_ZERO, sk, side, 0);
	} else if (windows && windows->zero_since[side]) {
		u64 since = windows->zero_since[side];
		windows->zero_since[side] = 0;
		write_window(WINDOW_IS_OPEN, sk, side, since);
	}
	return 0;
}

SEC("tp_btf/tcp_probe")
int segment_arrives(u64 *args)
{
	u64 sk = ADDRESS(args[0]), skb = args[1];
	u16 window = tcp_window(skb);

	/* The window before is still in the socket. */
	if ((window && GET(u32, sk, tcp_sock___window, snd_wnd)) || tcp_flags(skb) & (FLAG_RST | FLAG_SYN))
		return 0;
	window_is_announced(sk, PEERS, !window);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int segment_leaves(u64 *args)
{
	u64 skb = args[0], sk = GET(u64, skb, sk_buff, sk);

	if (!sk || !is_full(sk) || GET(u8, sk, sock_common, skc_state) == TCP_LISTEN || protocol_of(sk) != PROTOCOL_TCP)
		return 0;
	u32 is_zero = !tcp_window(skb);
	if (tcp_flags(skb) & (FLAG_RST | FLAG_SYN))
		return 0;
	window_is_announced(sk, OURS, is_zero);
	return 0;
}

/* A connection ends: so does its zero window. */
SEC("tp_btf/tcp_destroy_sock")
int window_is_destroyed(u64 *args)
{
	u64 sk = ADDRESS(args[0]);
	struct windows *windows = map_lookup(&zero_windows, &sk);

	if (!windows)
		return 0;
	if (windows->zero_since[OURS])
		write_window(WINDOW_IS_OPEN, sk, OURS, windows->zero_since[OURS]);
	if (windows->zero_since[PEERS])
		write_window(WINDOW_IS_OPEN, sk, PEERS, windows->zero_since[PEERS]);
	map_delete(&zero_windows, &sk);
	return 0;
}
