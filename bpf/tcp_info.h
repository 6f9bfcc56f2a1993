/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * From a kernel's socket to the fields from which struct tcp_info is calculated. Sockeye does the calculation: see
 * crates/wire/src/walk/tcp_raw.rs. There are hardly any branches, because the verifier's time is part of each start.
 */
#pragma once
#include "socket.h"

#ifdef BY_PROBE_READ
/* The whole socket is copied at once: so many reads would cost more. */
#define TCP_COPY(s, sk)                                    \
	({                                                 \
		COPY((s)->copy, tcp_sock, sk);             \
		(u64)(s)->copy;                            \
	})
#define IN_COPY(copy, structure, field) (((struct structure *)(copy))->field)
#define BITS_IN(copy, sk, structure, field)                                                        \
	(*(volatile u64 *)((copy) + FIELD(structure, field, 0)) << FIELD(structure, field, 4) >>   \
	 FIELD(structure, field, 5))
#define ELEMENT(copy, index) (((volatile u32 *)(copy))[index])
#else
#define TCP_COPY(s, sk) WHOLE(sk)
#define IN_COPY OF
#define BITS_IN(copy, sk, structure, field) BITS(sk, structure, field)
#define ELEMENT ARRAY
#endif

/* The smallest retransmission timeout, if the route has a locked one: dst_metric_locked() and
 * dst_metric_rtt() of include/net/dst.h. It limits tcpi_ato. */
INLINE void take_route(struct tcp_raw *t, u64 sk)
{
	/* include/uapi/linux/rtnetlink.h; metrics are counted from 1, the lowest two bits of the pointer are flags */
	enum { RTAX_LOCK = 1, RTAX_RTO_MIN = 13 };
	u64 route = GET(u64, sk, sock, sk_dst_cache);
	u64 metrics = GET(u64, route, dst_entry, _metrics) & ~3ull;

	t->rto_min_locked = LOAD(u32, metrics + 4 * (RTAX_LOCK - 1)) >> RTAX_RTO_MIN & 1;
	t->route_rto_min_ms = LOAD(u32, metrics + 4 * (RTAX_RTO_MIN - 1));
}

INLINE void take_tcp_info(struct tcp_raw *t, u64 sk, u8 state, u64 tcp)
{
	u64 at;
	u32 groups = 0;

	t->state = state;
	t->ca_state = BITS_IN(tcp, sk, inet_connection_sock, icsk_ca_state);
	t->retransmits = IN_COPY(tcp, inet_connection_sock, icsk_retransmits);
	t->probes_out = IN_COPY(tcp, inet_connection_sock, icsk_probes_out);
	t->backoff = IN_COPY(tcp, inet_connection_sock, icsk_backoff);
	t->tstamp_ok = BITS_IN(tcp, sk, tcp_sock, rx_opt.tstamp_ok);
	t->sack_ok = BITS_IN(tcp, sk, tcp_sock, rx_opt.sack_ok);
	t->wscale_ok = BITS_IN(tcp, sk, tcp_sock, rx_opt.wscale_ok);
	t->snd_wscale = BITS_IN(tcp, sk, tcp_sock, rx_opt.snd_wscale);
	t->rcv_wscale = BITS_IN(tcp, sk, tcp_sock, rx_opt.rcv_wscale);
	t->ecn_flags = IN_COPY(tcp, tcp_sock, ecn_flags);
	t->syn_data_acked = BITS_IN(tcp, sk, tcp_sock, syn_data_acked);
	t->usec_ts = HAS(tcp_sock, tcp_usec_ts) ? BITS_IN(tcp, sk, tcp_sock, tcp_usec_ts) : 0;
	t->fastopen_child = HAS(tcp_sock, syn_fastopen_child) ? BITS_IN(tcp, sk, tcp_sock, syn_fastopen_child) : 0;
	t->rate_app_limited = BITS_IN(tcp, sk, tcp_sock, rate_app_limited);
	t->fastopen_client_fail = BITS_IN(tcp, sk, tcp_sock, fastopen_client_fail);
	t->chrono_type = BITS_IN(tcp, sk, tcp_sock, chrono_type);
	t->rto = IN_COPY(tcp, inet_connection_sock, icsk_rto);
	t->ato = BITS_IN(tcp, sk, inet_connection_sock, icsk_ack.ato);
	t->delack_max = IN_COPY(tcp, inet_connection_sock, icsk_delack_max);
	t->rto_min = IN_COPY(tcp, inet_connection_sock, icsk_rto_min);
	take_route(t, sk);
	t->mss_cache = IN_COPY(tcp, tcp_sock, mss_cache);
	t->rcv_mss = IN_COPY(tcp, inet_connection_sock, icsk_ack.rcv_mss);
	t->advmss = IN_COPY(tcp, tcp_sock, advmss);
	t->packets_out = IN_COPY(tcp, tcp_sock, packets_out);
	t->sacked_out = IN_COPY(tcp, tcp_sock, sacked_out);
	t->lost_out = IN_COPY(tcp, tcp_sock, lost_out);
	t->retrans_out = IN_COPY(tcp, tcp_sock, retrans_out);
	t->ack_backlog = IN_COPY(tcp, sock, sk_ack_backlog);
	t->max_ack_backlog = IN_COPY(tcp, sock, sk_max_ack_backlog);
	t->lsndtime = IN_COPY(tcp, tcp_sock, lsndtime);
	t->lrcvtime = IN_COPY(tcp, inet_connection_sock, icsk_ack.lrcvtime);
	t->rcv_tstamp = IN_COPY(tcp, tcp_sock, rcv_tstamp);
	t->pmtu_cookie = IN_COPY(tcp, inet_connection_sock, icsk_pmtu_cookie);
	t->rcv_ssthresh = IN_COPY(tcp, tcp_sock, rcv_ssthresh);
	t->srtt_us = IN_COPY(tcp, tcp_sock, srtt_us);
	t->mdev_us = IN_COPY(tcp, tcp_sock, mdev_us);
	t->snd_ssthresh = IN_COPY(tcp, tcp_sock, snd_ssthresh);
	t->snd_cwnd = IN_COPY(tcp, tcp_sock, snd_cwnd);
	t->reordering = IN_COPY(tcp, tcp_sock, reordering);
	t->rcv_rtt_us = IN_COPY(tcp, tcp_sock, rcv_rtt_est.rtt_us);
	t->rcv_space = IN_COPY(tcp, tcp_sock, rcvq_space.space);
	t->total_retrans = IN_COPY(tcp, tcp_sock, total_retrans);
	t->write_seq = IN_COPY(tcp, tcp_sock, write_seq);
	t->snd_nxt = IN_COPY(tcp, tcp_sock, snd_nxt);
	t->segs_out = IN_COPY(tcp, tcp_sock, segs_out);
	t->segs_in = IN_COPY(tcp, tcp_sock, segs_in);
	t->data_segs_in = IN_COPY(tcp, tcp_sock, data_segs_in);
	t->data_segs_out = IN_COPY(tcp, tcp_sock, data_segs_out);
	/* minmax_get() of include/linux/win_minmax.h: the first sample */
	t->min_rtt_us = GET(u32, sk + AT(tcp_sock, rtt_min), minmax_sample, v);
	t->rate_delivered = IN_COPY(tcp, tcp_sock, rate_delivered);
	t->rate_interval_us = IN_COPY(tcp, tcp_sock, rate_interval_us);
	t->chrono_start = IN_COPY(tcp, tcp_sock, chrono_start);
	at = tcp + AT(tcp_sock, chrono_stat);
	t->chrono_stat[0] = ELEMENT(at, 0);
	t->chrono_stat[1] = ELEMENT(at, 1);
	t->chrono_stat[2] = ELEMENT(at, 2);
	t->delivered = IN_COPY(tcp, tcp_sock, delivered);
	t->delivered_ce = IN_COPY(tcp, tcp_sock, delivered_ce);
	t->dsack_dups = IN_COPY(tcp, tcp_sock, dsack_dups);
	t->reord_seen = IN_COPY(tcp, tcp_sock, reord_seen);
	t->rcv_ooopack = IN_COPY(tcp, tcp_sock, rcv_ooopack);
	t->snd_wnd = IN_COPY(tcp, tcp_sock, snd_wnd);
	t->rcv_wnd = IN_COPY(tcp, tcp_sock, rcv_wnd);
	t->pacing_rate = IN_COPY(tcp, sock, sk_pacing_rate);
	t->max_pacing_rate = IN_COPY(tcp, sock, sk_max_pacing_rate);
	t->bytes_acked = IN_COPY(tcp, tcp_sock, bytes_acked);
	t->bytes_received = IN_COPY(tcp, tcp_sock, bytes_received);
	t->bytes_sent = IN_COPY(tcp, tcp_sock, bytes_sent);
	t->bytes_retrans = IN_COPY(tcp, tcp_sock, bytes_retrans);
	if (HAS(tcp_sock, plb_rehash)) {
		groups |= HAS_REHASH;
		t->plb_rehash = IN_COPY(tcp, tcp_sock, plb_rehash);
		t->timeout_rehash = IN_COPY(tcp, tcp_sock, timeout_rehash);
	}
	if (HAS(tcp_sock, total_rto)) {
		groups |= HAS_RTO_TOTALS;
		t->total_rto = IN_COPY(tcp, tcp_sock, total_rto);
		t->total_rto_recoveries = IN_COPY(tcp, tcp_sock, total_rto_recoveries);
		t->total_rto_time = IN_COPY(tcp, tcp_sock, total_rto_time);
		t->rto_stamp = IN_COPY(tcp, tcp_sock, rto_stamp);
	}
	if (HAS(tcp_sock, received_ce) && HAS(tcp_sock, accecn_fail_mode)) {
		groups |= HAS_ACCECN;
		t->accecn_fail_mode = BITS_IN(tcp, sk, tcp_sock, accecn_fail_mode);
		t->accecn_opt_seen = BITS_IN(tcp, sk, tcp_sock, saw_accecn_opt);
		t->received_ce = IN_COPY(tcp, tcp_sock, received_ce);
		at = tcp + AT(tcp_sock, delivered_ecn_bytes);
		t->delivered_ecn_bytes[0] = ELEMENT(at, 0);
		t->delivered_ecn_bytes[1] = ELEMENT(at, 1);
		t->delivered_ecn_bytes[2] = ELEMENT(at, 2);
		at = tcp + AT(tcp_sock, received_ecn_bytes);
		t->received_ecn_bytes[0] = ELEMENT(at, 0);
		t->received_ecn_bytes[1] = ELEMENT(at, 1);
		t->received_ecn_bytes[2] = ELEMENT(at, 2);
	}
	t->groups = groups;
}

/* Returns `enum needs_diag`. As inet_sk_diag_fill() of net/ipv4/inet_diag.c: the name in every state, the algorithm's
 * own information only in states before TIME_WAIT's number. */
INLINE u32 take_congestion(struct congestion *c, u64 sk, u8 state)
{
	u64 operations = GET(u64, sk, inet_connection_sock, icsk_ca_ops);
	u64 name = operations + AT(tcp_congestion_ops, name);
	u64 first = LOAD(u64, name), second = LOAD(u64, name + 8);

	((u64 *)c->algorithm)[0] = first;
	((u64 *)c->algorithm)[1] = second;
	c->is_bbr = 0;
	if (state >= TCP_TIME_WAIT)
		return 0;
	/* "bbr", and of this kernel's own source: another one with this name has other fields, or unknown ones */
	if (HAS(bbr, lt_use_bw) && HAS(bbr, lt_bw) && (first << 32 >> 32) == 0x726262) {
		u64 own = sk + AT(inet_connection_sock, icsk_ca_priv);
		u64 bbr = WHOLE(own);
		/* bbr_bw(): pkts/us << 24; the long-term one is used where a policer was found */
		c->bandwidth = GET(u32, own + AT(bbr, bw), minmax_sample, v);
		if (BITS(own, bbr, lt_use_bw))
			c->bandwidth = OF(bbr, bbr, lt_bw);
		c->min_rtt_us = OF(bbr, bbr, min_rtt_us);
		c->pacing_gain = BITS(own, bbr, pacing_gain);
		c->cwnd_gain = BITS(own, bbr, cwnd_gain);
		c->mss_cache = GET(u32, sk, tcp_sock, mss_cache);
		c->is_bbr = 1;
		return 0;
	}
	return GET(u64, operations, tcp_congestion_ops, get_info) ? NEEDS_CONGESTION : 0;
}

#define TCP_INFO_BYTES_MAX (sizeof(struct tcp_raw) + sizeof(struct congestion))
