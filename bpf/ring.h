/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * A ring of records, with a count of all that were made, of those that found no space, and of those that were left out because Sockeye
 * asked for fewer: what Sockeye has read, what was lost and what was left out is what was made. Each record begins with its kind, a 32-bit number below KINDS.
 *
 * Most records do not wake Sockeye, which looks every 20 ms: a wake-up for each costs more than all the rest.
 */
#pragma once

/* include/uapi/linux/bpf.h: numbers of helpers (Linux 5.8) */
static void *(*const ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*const ring_submit)(void *record, u64 flags) = (void *)132;
static u64 (*const ring_query)(void *ring, u64 what) = (void *)134;
#define MAP_TYPE_PERCPU_ARRAY_ 6
#define MAP_TYPE_RING 27
#define RING_NO_WAKEUP 1
#define RING_FORCE_WAKEUP 2
#define RING_AVAILABLE 0

#define KINDS 32
struct ring_counts {
	u64 made[KINDS], lost[KINDS], left_out[KINDS];
};
struct map ring_counts SEC("maps") = {MAP_TYPE_PERCPU_ARRAY_, sizeof(u32), sizeof(struct ring_counts), 1, 0};
/* Sockeye sets the size. */
struct map ring SEC("maps") = {MAP_TYPE_RING, 0, 0, 1 << 22, 0};

/* How many unread bytes wake Sockeye before its 20 ms are over: a part of the ring, which Sockeye sets. */
const volatile u64 ring_wake_bytes = 1 << 20;

/* Space for a record of this kind, and of this size, a constant; NULL if there is none. */
INLINE void *record_of(u32 kind, u64 bytes)
{
	u32 first = 0;
	struct ring_counts *counts = map_lookup(&ring_counts, &first);
	if (!counts)
		return NULL;
	/* A program that interrupts this one, on the same processor, counts here as well. */
	__sync_fetch_and_add(&counts->made[kind & (KINDS - 1)], 1);
	u32 *record = ring_reserve(&ring, bytes, 0);
	if (record)
		*record = kind;
	else
		__sync_fetch_and_add(&counts->lost[kind & (KINDS - 1)], 1);
	return record;
}

/* Counts a record that is not made. */
INLINE void leave_out(u32 kind)
{
	u32 first = 0;
	struct ring_counts *counts = map_lookup(&ring_counts, &first);
	if (!counts)
		return;
	__sync_fetch_and_add(&counts->made[kind & (KINDS - 1)], 1);
	__sync_fetch_and_add(&counts->left_out[kind & (KINDS - 1)], 1);
}

/* Hands a record over. It wakes Sockeye if it is the one that makes the unread ones many. */
INLINE void submit(void *record, u64 bytes)
{
	u64 unread = ring_query(&ring, RING_AVAILABLE);
	ring_submit(record, unread >= ring_wake_bytes && unread - bytes < ring_wake_bytes ? RING_FORCE_WAKEUP : RING_NO_WAKEUP);
}
