/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Retransmissions that were not needed: the peer had got the segments, and congestion control takes back what it did for the loss.
 */
#pragma once

SEC("tp_btf/tcp_cong_state_set")
int congestion_state_changes(u64 *args)
{
	u64 sk = ADDRESS(args[0]);
	u8 before = (u8)BITS(sk, inet_connection_sock, icsk_ca_state), after = (u8)args[1];

	/* tcp_undo_cwnd_reduction() of net/ipv4/tcp_input.c clears the mark; where the loss was one it is still there. */
	if (before < CA_RECOVERY || after >= CA_RECOVERY || GET(u32, sk, tcp_sock___live, undo_marker))
		return 0;
	u8 state = GET(u8, sk, sock_common, skc_state);
	write_event(UNDONE, sk, known_of(sk), STATES(state, state), -1);
	return 0;
}
