/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * A reader that sleeps: it finds the ring empty for a while, says so, and sleeps until the first record wakes it. So what happens after a while
 * of nothing is shown at once, and nothing is done meanwhile. While there are records all the time it does not sleep, and none wakes it: a wake-up
 * costs the process that makes the record some microseconds.
 */
#pragma once
#include "ring.h"

/* Not 0: Sockeye sleeps. */
struct map ring_sleep SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(u64), 1, 0};

/* Whether Sockeye is to be woken. Two programs at the same time may both find that, which is no harm. */
INLINE int ends_sleep(void)
{
	u32 first = 0;
	volatile u64 *sleeps = map_lookup(&ring_sleep, &first);
	if (!sleeps || !*sleeps)
		return 0;
	*sleeps = 0;
	return 1;
}

/* As submit(), and wakes Sockeye if it sleeps. */
INLINE void submit_waking(void *record, u64 bytes)
{
	if (ends_sleep())
		ring_submit(record, RING_FORCE_WAKEUP);
	else
		submit(record, bytes);
}
