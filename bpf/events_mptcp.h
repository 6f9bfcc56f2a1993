/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Who serves a connection of MPTCP. Processes use the connection, never its subflows, which a thread of the kernel closes later. So the process is
 * kept by the token, which both have. It is known too where only subflows are watched, as connections of TCP. A thread of the kernel also opens
 * each subflow after the first one.
 */
#pragma once

#define MAP_TYPE_LRU_HASH 9
/* By token. What is evicted has the owner of its listener again. */
struct map mptcp_users SEC("maps") = {MAP_TYPE_LRU_HASH, sizeof(u32), sizeof(struct actor), 16384, 0};

/* The current process uses a connection: BY_ACCEPTING, it reads or writes; BY_NOTHING, it closes. */
PART int connection_is_used(u64 sk, u32 how)
{
	u32 token = token_of(sk, PROTOCOL_MPTCP);
	struct actor *found = token ? map_lookup(&mptcp_users, &token) : NULL, user = {};

	if (!token || (found && (found->how != BY_NOTHING || how == BY_NOTHING)) ||
	    GET(u32, current_task(), task_struct, flags) & PF_KTHREAD)
		return 0;
	name_current(&user, how);
	map_update(&mptcp_users, &token, &user, 0);
	return 0;
}

/* Who connects: of a further subflow the process that the first one has, of a thread of the kernel otherwise none. */
PART int name_connecting(struct actor *owner, u64 sk)
{
	if (!owner)
		return 0;
	u32 token = token_of(sk, protocol_of(sk));
	if (GET(u32, current_task(), task_struct, flags) & PF_KTHREAD) {
		struct actor *user = token ? map_lookup(&mptcp_users, &token) : NULL;
		if (user && user->how == BY_CONNECT)
			*owner = *user;
		return 0;
	}
	name_current(owner, BY_CONNECT);
	if (token)
		map_update(&mptcp_users, &token, owner, 0);
	return 0;
}

/* Completes what is known of a subflow that the peer opened. */
PART int take_from_connection(struct known *known, u32 token)
{
	if (!known || !token || known->direction != PEERS || known->owner.how == BY_ACCEPTING)
		return 0;
	struct actor *user = map_lookup(&mptcp_users, &token);
	if (user && user->how != BY_NOTHING)
		known->owner = *user;
	else if (user && !known->closer.pid)
		known->closer = *user;
	return 0;
}
