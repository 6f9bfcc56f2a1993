/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * From a kernel's socket to the fields from which struct tcp_info is calculated. Sockeye does the calculation: see
 * crates/wire/src/walk/tcp_raw.rs. There are hardly any branches, because the verifier's time is part of each start.
 */
#pragma once
#include "socket.h"

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

INLINE void take_tcp_info(struct tcp_raw *t, u64 sk, u8 state)
{
	u64 tcp = WHOLE(sk), at;
	u32 groups = 0;

	t->state = state;
	t->ca_state = BITS(sk, inet_connection_sock, icsk_ca_state);
	t->retransmits = OF(tcp, inet_connection_sock, icsk_retransmits);
	t->probes_out = OF(tcp, inet_connection_sock, icsk_probes_out);
	t->backoff = OF(tcp, inet_connection_sock, icsk_backoff);
	t->tstamp_ok = BITS(sk, tcp_sock, rx_opt.tstamp_ok);
	t->sack_ok = BITS(sk, tcp_sock, rx_opt.sack_ok);
	t->wscale_ok = BITS(sk, tcp_sock, rx_opt.wscale_ok);
	t->snd_wscale = BITS(sk, tcp_sock, rx_opt.snd_wscale);
	t->rcv_wscale = BITS(sk, tcp_sock, rx_opt.rcv_wscale);
	t->ecn_flags = OF(tcp, tcp_sock, ecn_flags);
	t->syn_data_acked = BITS(sk, tcp_sock, syn_data_acked);
	t->usec_ts = HAS(tcp_sock, tcp_usec_ts) ? BITS(sk, tcp_sock, tcp_usec_ts) : 0;
	t->fastopen_child = HAS(tcp_sock, syn_fastopen_child) ? BITS(sk, tcp_sock, syn_fastopen_child) : 0;
	t->rate_app_limited = BITS(sk, tcp_sock, rate_app_limited);
	t->fastopen_client_fail = BITS(sk, tcp_sock, fastopen_client_fail);
	t->chrono_type = BITS(sk, tcp_sock, chrono_type);
	t->rto = OF(tcp, inet_connection_sock, icsk_rto);
	t->ato = BITS(sk, inet_connection_sock, icsk_ack.ato);
	t->delack_max = OF(tcp, inet_connection_sock, icsk_delack_max);
	t->rto_min = OF(tcp, inet_connection_sock, icsk_rto_min);
	take_route(t, sk);
	t->mss_cache = OF(tcp, tcp_sock, mss_cache);
	t->rcv_mss = OF(tcp, inet_connection_sock, icsk_ack.rcv_mss);
	t->advmss = OF(tcp, tcp_sock, advmss);
	t->packets_out = OF(tcp, tcp_sock, packets_out);
	t->sacked_out = OF(tcp, tcp_sock, sacked_out);
	t->lost_out = OF(tcp, tcp_sock, lost_out);
	t->retrans_out = OF(tcp, tcp_sock, retrans_out);
	t->ack_backlog = OF(tcp, sock, sk_ack_backlog);
	t->max_ack_backlog = OF(tcp, sock, sk_max_ack_backlog);
	t->lsndtime = OF(tcp, tcp_sock, lsndtime);
	t->lrcvtime = OF(tcp, inet_connection_sock, icsk_ack.lrcvtime);
	t->rcv_tstamp = OF(tcp, tcp_sock, rcv_tstamp);
	t->pmtu_cookie = OF(tcp, inet_connection_sock, icsk_pmtu_cookie);
	t->rcv_ssthresh = OF(tcp, tcp_sock, rcv_ssthresh);
	t->srtt_us = OF(tcp, tcp_sock, srtt_us);
	t->mdev_us = OF(tcp, tcp_sock, mdev_us);
	t->snd_ssthresh = OF(tcp, tcp_sock, snd_ssthresh);
	t->snd_cwnd = OF(tcp, tcp_sock, snd_cwnd);
	t->reordering = OF(tcp, tcp_sock, reordering);
	t->rcv_rtt_us = OF(tcp, tcp_sock, rcv_rtt_est.rtt_us);
	t->rcv_space = OF(tcp, tcp_sock, rcvq_space.space);
	t->total_retrans = OF(tcp, tcp_sock, total_retrans);
	t->write_seq = OF(tcp, tcp_sock, write_seq);
	t->snd_nxt = OF(tcp, tcp_sock, snd_nxt);
	t->segs_out = OF(tcp, tcp_sock, segs_out);
	t->segs_in = OF(tcp, tcp_sock, segs_in);
	t->data_segs_in = OF(tcp, tcp_sock, data_segs_in);
	t->data_segs_out = OF(tcp, tcp_sock, data_segs_out);
	/* minmax_get() of include/linux/win_minmax.h: the first sample */
	t->min_rtt_us = GET(u32, sk + AT(tcp_sock, rtt_min), minmax_sample, v);
	t->rate_delivered = OF(tcp, tcp_sock, rate_delivered);
	t->rate_interval_us = OF(tcp, tcp_sock, rate_interval_us);
	t->chrono_start = OF(tcp, tcp_sock, chrono_start);
	at = tcp + AT(tcp_sock, chrono_stat);
	t->chrono_stat[0] = ARRAY(at, 0);
	t->chrono_stat[1] = ARRAY(at, 1);
	t->chrono_stat[2] = ARRAY(at, 2);
	t->delivered = OF(tcp, tcp_sock, delivered);
	t->delivered_ce = OF(tcp, tcp_sock, delivered_ce);
	t->dsack_dups = OF(tcp, tcp_sock, dsack_dups);
	t->reord_seen = OF(tcp, tcp_sock, reord_seen);
	t->rcv_ooopack = OF(tcp, tcp_sock, rcv_ooopack);
	t->snd_wnd = OF(tcp, tcp_sock, snd_wnd);
	t->rcv_wnd = OF(tcp, tcp_sock, rcv_wnd);
	t->pacing_rate = OF(tcp, sock, sk_pacing_rate);
	t->max_pacing_rate = OF(tcp, sock, sk_max_pacing_rate);
	t->bytes_acked = OF(tcp, tcp_sock, bytes_acked);
	t->bytes_received = OF(tcp, tcp_sock, bytes_received);
	t->bytes_sent = OF(tcp, tcp_sock, bytes_sent);
	t->bytes_retrans = OF(tcp, tcp_sock, bytes_retrans);
	if (HAS(tcp_sock, plb_rehash)) {
		groups |= HAS_REHASH;
		t->plb_rehash = OF(tcp, tcp_sock, plb_rehash);
		t->timeout_rehash = OF(tcp, tcp_sock, timeout_rehash);
	}
	if (HAS(tcp_sock, total_rto)) {
		groups |= HAS_RTO_TOTALS;
		t->total_rto = OF(tcp, tcp_sock, total_rto);
		t->total_rto_recoveries = OF(tcp, tcp_sock, total_rto_recoveries);
		t->total_rto_time = OF(tcp, tcp_sock, total_rto_time);
		t->rto_stamp = OF(tcp, tcp_sock, rto_stamp);
	}
	if (HAS(tcp_sock, received_ce) && HAS(tcp_sock, accecn_fail_mode)) {
		groups |= HAS_ACCECN;
		t->accecn_fail_mode = BITS(sk, tcp_sock, accecn_fail_mode);
		t->accecn_opt_seen = BITS(sk, tcp_sock, saw_accecn_opt);
		t->received_ce = OF(tcp, tcp_sock, received_ce);
		at = tcp + AT(tcp_sock, delivered_ecn_bytes);
		t->delivered_ecn_bytes[0] = ARRAY(at, 0);
		t->delivered_ecn_bytes[1] = ARRAY(at, 1);
		t->delivered_ecn_bytes[2] = ARRAY(at, 2);
		at = tcp + AT(tcp_sock, received_ecn_bytes);
		t->received_ecn_bytes[0] = ARRAY(at, 0);
		t->received_ecn_bytes[1] = ARRAY(at, 1);
		t->received_ecn_bytes[2] = ARRAY(at, 2);
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
