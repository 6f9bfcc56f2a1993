/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The walk over a table's heads, a chunk at a time. The including file must define what is done with eight words of them
 * (`eight_heads`).
 */
#pragma once
#include "walk.h"

LOOP(eight_heads, HEADS / 8 / 2, 2)

STEP one_chunk(u64 turn, struct context *context)
{
	struct slot *s = context->slot;
	u32 per_chunk = HEADS * 8 / s->nulls;
	u32 first = s->request.first + (u32)turn * per_chunk;
	u32 bytes;

	if (first > s->mask || first >= s->request.end)
		return 1;
	s->chunk = first;
	s->warmed_to = 0;
	/* After the table there may be nothing; what is left in `heads` from before is after it as well. */
	bytes = (s->mask - first + 1) * s->nulls;
	if (bytes > sizeof(s->heads))
		bytes = sizeof(s->heads);
	if (probe_read_kernel(s->heads, MASKED(bytes, 2 * sizeof(s->heads) - 1), (void *)(s->table + (u64)first * s->nulls))) {
		s->reply.outcome = UNREADABLE;
		return 1;
	}
	REPEAT(HEADS / 8, eight_heads, context);
	if (!s->steps) {
		s->reply.outcome = TANGLED;
		return 1;
	}
	if (s->stop) {
		s->reply.outcome = FULL;
		s->reply.next = s->bucket;
		if (s->start) {
			/* The bucket comes whole with the next run. */
			s->reply.used = s->start;
			s->reply.records = s->started_records;
		} else {
			s->reply.skip = s->earlier_mark;
		}
		return 1;
	}
	s->reply.next = first + per_chunk;
	return 0;
}

LOOP(one_chunk, 8, 8)

/* Walks over the table; without bpf_loop over a part of it. */
INLINE void walk_chunks(struct slot *s, struct context *context)
{
	if (!IS_COMPLETE(REPEAT(1 << 16, one_chunk, context)))
		s->reply.outcome = FULL;
}
