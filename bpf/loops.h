/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Loops of many iterations: bpf_loop (Linux 5.17), or without it two nested loops.
 *
 * The verifier follows every iteration of a bounded loop, but checks a function that is not static only once. So the
 * inner loop is such a function: a million iterations then cost the verifier no more than two thousand.
 *
 * The including file defines LOOP_SLOT and LOOP_CONTEXT: the structs of its slot, and of what it passes to a step.
 */
#pragma once
#include "kernel.h"

#ifdef BY_PROBE_READ
#define STEP INLINE long
/* To be written after the definition of a step; `outer` times `inner` is how often it is called at most. */
#define LOOP(step, outer, inner)                                                            \
	__attribute__((noinline)) int step##_some(u32 number, u32 first)                    \
	{                                                                                   \
		struct LOOP_SLOT *s = map_lookup(&slots, &number);                          \
		struct LOOP_CONTEXT context = {.slot = s, .number = number};                \
		if (!s)                                                                     \
			return 1;                                                           \
		_Pragma("nounroll") for (u32 turn = 0; turn < (inner); turn++)              \
			if (step(first + turn, &context))                                   \
				return 1;                                                   \
		return 0;                                                                   \
	}                                                                                   \
	INLINE int step##_all(u32 number)                                                   \
	{                                                                                   \
		_Pragma("nounroll") for (u32 turn = 0; turn < (outer); turn++)              \
			if (step##_some(number, turn * (inner)))                            \
				return 1;                                                   \
		return 0;                                                                   \
	}
/* The same with three loops, for steps that are long: their number times the length is what the verifier follows. */
#define LONG_LOOP(step, outer, middle, inner)                                               \
	LOOP(step, middle, inner)                                                           \
	__attribute__((noinline)) int step##_more(u32 number, u32 first)                    \
	{                                                                                   \
		_Pragma("nounroll") for (u32 turn = 0; turn < (middle); turn++)             \
			if (step##_some(number, first + turn * (inner)))                    \
				return 1;                                                   \
		return 0;                                                                   \
	}                                                                                   \
	INLINE int step##_most(u32 number)                                                  \
	{                                                                                   \
		_Pragma("nounroll") for (u32 turn = 0; turn < (outer); turn++)              \
			if (step##_more(number, turn * (middle) * (inner)))                 \
				return 1;                                                   \
		return 0;                                                                   \
	}
/* Calls the step until it returns another number than 0; IS_COMPLETE: whether it did so. */
#define REPEAT(times, step, context) step##_all((context)->number)
#define REPEAT_LONG(times, step, context) step##_most((context)->number)
#define IS_COMPLETE(ended) (ended)
#else
#define STEP static long
#define LOOP(step, outer, inner)
#define LONG_LOOP(step, outer, middle, inner)
#define REPEAT_LONG(times, step, context) loop(times, step, context, 0)
#define REPEAT(times, step, context) loop(times, step, context, 0)
#define IS_COMPLETE(ended) ((void)(ended), 1)
#endif
