/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Counts and times the system calls of processes in scope, and the time that their threads are off the processor.
 *
 * A system-call-bound program makes five million calls a second, so the work at each call is as little as possible: one
 * slot of this processor, one counter of this processor, a clock; no hash, no atomic operation, no lookup
 * of the thread. That is done at each switch of threads: `switched` moves the state of the thread that leaves
 * from the processor's slot to `threads`, and back when it runs again, on any processor. As nothing else can change
 * the current thread, and tracepoints run with preemption off, the slot always belongs to the current thread.
 *
 * Even a tracepoint with an empty program costs such a program a third of its time, and the clock another fifth.
 * So calls are counted by `left` alone, and `entered`, which adds their times, can be detached (Sockeye detaches it
 * most of the time while there are that many calls). For calls that are not timed (`start` is 0), and for those that
 * were running at the start, the time off the processor is known all the same.
 *
 * Threads that slept at the start, and have not run since, are listed by `sleepers`, an iterator that
 * runs once.
 */
#include "kernel.h"
#include "numbers.h"

/* include/uapi/linux/bpf.h */
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static void *(*const current_task_btf)(void) = (void *)158;
static long (*const stack_id)(void *ctx, void *map, u64 flags) = (void *)27;
static u64 (*const current_ancestor_cgroup)(int level) = (void *)123;
static long (*const task_stack)(void *task, void *to, u32 bytes, u64 flags) = (void *)141;
static void *(*const task_registers)(void *task) = (void *)175;
#define MAP_TYPE_HASH 1
#define MAP_TYPE_PERCPU_HASH 5
#define MAP_TYPE_PERCPU_ARRAY 6
#define MAP_TYPE_STACKS 7
#define MAP_NO_PREALLOC 1
#define NOEXIST 1
#define USER_STACK (1 << 8)

/* --- constants that Sockeye sets before loading --- */

enum { PROCESSES, CGROUP, SYSTEM };
const volatile u32 scope = SYSTEM;
const volatile u64 scope_cgroup = 0;
const volatile u32 self = 0; /* this process, whose calls never count */
/* The inode of the pid namespace of all process ids; 0: the initial one. Thread ids are
 * always those of the initial one: they are not reported. */
const volatile u32 pid_namespace = 0;
const volatile u32 wants_waits = 1;
/* sched_switch has the state of the thread that leaves (Linux 5.18); later, it may have been woken already. */
const volatile u32 state_is_argument = 1;
/* Whether the kernel has the helper 175 (Linux 5.15), and the size of a thread's stack in the kernel, for where it has not. */
const volatile u32 has_task_registers = 1, stack_bytes = 16384;
/* Offsets in struct pt_regs: first argument, number of the call, instruction and stack pointer, frame pointer. */
const volatile u32 arg_at = 112, nr_at = 120, ip_at = 128, sp_at = 152, bp_at = 32;
/* The bit in thread_info.status (x86: TS_COMPAT) or thread_info.flags (arm64: TIF_32BIT) of threads in 32-bit calls. */
const volatile u64 compat_bit = 2;
/* The number of the call that never returns. */
const volatile u32 rt_sigreturn = 15;
/* Calls that create a thread, which also returns from them, with 0. */
const volatile u32 thread_creating[8] = {};
/* Calls by which the kernel learns that a traced function is reached, or returns (x86: uretprobe, Linux 6.11, and uprobe,
 * 6.18): it makes the program make them. Two consecutive numbers. */
const volatile u32 uretprobe = 335;
/* Calls whose first argument identifies what they wait for: a file descriptor, or the address of a futex. */
#define CALLS_MAX 512
const volatile u8 has_object[CALLS_MAX] = {};

/* --- maps --- */

#define NONE 0xffffffff /* no call */
#define INVALID 0x7fffffff /* a negative number */
#define COMPAT 0x80000000 /* added to the number of a 32-bit call */

#define MAYBE 0xffffffff /* a thread of which nothing was known */

enum { UNKNOWN, OUT, IN };

/* The thread that runs on this processor. */
struct running {
	u64 task;
	u64 start; /* of its call, if that is timed; else 0 */
	u64 off;   /* how long it was off the processors in this call */
	u64 calls; /* how many returned here, of all threads in scope, for the rate of calls */
	u32 tid, tgid, execs;
	u32 is_newborn; /* it has yet to return from the call that made it, its parent's: the number of that, and 1; or MAYBE */
	u32 verdict;
	u32 nr; /* of the call that is timed */
};
struct map running SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(struct running), 1, 0};

/* Counts of one call by one process on one processor. */
struct cell {
	u64 whose; /* tgid << 32 | nr */
	u64 count, errors;
	u64 timed, on; /* how many were timed, and for how long these were on a processor */
	u64 off;       /* how long all were off the processors */
	u64 max;
};
/* Most have an entry here, at an index made of process and call: the first one keeps it for good. */
#define CELLS 1024
struct map cells SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(struct cell), CELLS, 0};
/* The others have an entry here. */
struct map overflow SEC("maps") = {MAP_TYPE_PERCPU_HASH, sizeof(u64), sizeof(struct cell), 65536, MAP_NO_PREALLOC};

struct error {
	u64 whose;
	u64 number;
};
struct map errors SEC("maps") = {MAP_TYPE_PERCPU_HASH, sizeof(struct error), sizeof(u64), 8192, MAP_NO_PREALLOC};

/* Threads in scope that have been off a processor since the start. */
struct thread {
	u64 task;
	u64 start, off;
	u64 since; /* off the processor; 0: it is on one */
	u32 is_newborn, pad;
	u64 argument;
	u32 tgid, execs, nr, state;
	s32 kernel_stack, user_stack;
};
struct map threads SEC("maps") = {MAP_TYPE_HASH, sizeof(u32), sizeof(struct thread), 16384, 0};

/* Processes: those in scope, if the scope is processes; and those that have executed another program since the start. */
struct process {
	u32 execs;
	u32 from_exec; /* not in scope before its next exec */
};
struct map processes SEC("maps") = {MAP_TYPE_HASH, sizeof(u32), sizeof(struct process), 32768, 0};

struct wait {
	u64 argument;
	u32 tgid, execs, nr, state;
	s32 kernel_stack, user_stack; /* numbers in `stacks`; -1: none; below: -2 - tid, a stack of `sleepers` */
};
struct time {
	u64 count, total, max;
};
struct map waits SEC("maps") = {MAP_TYPE_HASH, sizeof(struct wait), sizeof(struct time), 32768, 0};

#define FRAMES 127
struct map stacks SEC("maps") = {MAP_TYPE_STACKS, sizeof(u32), 8 * FRAMES, 16384, 0};

struct lost {
	u64 calls, waits, stacks, threads;
};
struct map lost SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(struct lost), 1, 0};

#define LOSE(what)                                                \
	do {                                                      \
		u32 first_ = 0;                                   \
		struct lost *lost_ = map_lookup(&lost, &first_);  \
		if (lost_)                                        \
			lost_->what++;                            \
	} while (0)

/* --- a thread runs again --- */

/* A thread's wait is over. */
static __attribute__((noinline)) int wait_ends(struct thread *thread, u64 now)
{
	if (!thread)
		return 0;
	struct wait wait = {
		.argument = thread->argument,
		.tgid = thread->tgid,
		.execs = thread->execs,
		.nr = thread->nr,
		.state = thread->state,
		.kernel_stack = thread->kernel_stack,
		.user_stack = thread->user_stack,
	};
	u64 took = now - thread->since;
	struct time *time = map_lookup(&waits, &wait);
	if (!time) {
		struct time none = {};
		map_update(&waits, &wait, &none, NOEXIST);
		time = map_lookup(&waits, &wait);
		if (!time) {
			LOSE(waits);
			return 0;
		}
	}
	/* Other threads of the process may be here on other processors. */
	__sync_fetch_and_add(&time->count, 1);
	__sync_fetch_and_add(&time->total, took);
#ifdef BY_PROBE_READ
	/* Linux 5.10 has no compare-and-swap: of two threads at once the shorter wait may stay. */
	if (took > *(volatile u64 *)&time->max)
		*(volatile u64 *)&time->max = took;
#else
	for (int tries = 0; tries < 4; tries++) {
		u64 max = *(volatile u64 *)&time->max;
		if (took <= max || __sync_val_compare_and_swap(&time->max, max, took) == max)
			break;
	}
#endif
	return 0;
}

/* A thread runs on this processor again. */
static __attribute__((noinline)) int enters_processor(struct running *running, struct thread *thread, u64 now)
{
	if (!running || !thread)
		return 0;
	u64 off = thread->off;
	if (thread->since) {
		if (thread->nr != NONE)
			off += now - thread->since;
		if (wants_waits)
			wait_ends(thread, now);
	}
	thread->since = 0;
	running->task = thread->task;
	running->start = thread->start;
	running->off = off;
	running->is_newborn = thread->is_newborn;
	running->tgid = thread->tgid;
	running->execs = thread->execs;
	running->verdict = IN;
	return 0;
}

/* --- who is in scope --- */

/* The id of a task's process; 0 if it has none in our namespace. */
INLINE u32 process_of(u64 task)
{
	return pid_namespace ? number_of(task, pid_namespace) : GET(u32, task, task_struct, tgid);
}

/* Looks up the current thread; returns whether it is in scope. */
static __attribute__((noinline)) int decide(struct running *running)
{
	if (!running)
		return 0;
	u64 numbers = current_pid_tgid();
	u32 tid = numbers, tgid = pid_namespace ? process_of(current_task()) : numbers >> 32;
	struct process *process = NULL;
	int in = 0;

	if (tgid && tgid != self) {
		process = map_lookup(&processes, &tgid);
		if (scope == PROCESSES) {
			in = process && !process->from_exec;
		} else if (scope == CGROUP) {
			for (int level = 0; level < 64; level++) {
				u64 id = current_ancestor_cgroup(level);
				if (!id)
					break;
				if (id == scope_cgroup) {
					in = 1;
					break;
				}
			}
		} else {
			/* Kernel threads make no calls, and sleep most of the time. */
			in = !(GET(u32, current_task(), task_struct, flags) & 0x00200000 /* PF_KTHREAD */);
		}
	}
	running->task = current_task();
	running->start = running->off = 0;
	running->is_newborn = MAYBE;
	running->tid = tid;
	running->tgid = tgid;
	running->execs = process ? process->execs : 0;
	running->verdict = in ? IN : OUT;
	/* Occasionally the kernel does not find a thread when it first runs, and finds it a moment later. */
	struct thread *thread = in ? map_lookup(&threads, &tid) : NULL;
	if (thread && thread->task == running->task)
		enters_processor(running, thread, ktime_ns());
	return in;
}

INLINE struct running *running_here(void)
{
	u32 first = 0;
	return map_lookup(&running, &first);
}

/* The thread that runs here, if it is in scope. */
INLINE struct running *running_in_scope(void)
{
	struct running *running = running_here();
	if (!running || running->verdict == OUT)
		return NULL;
	if (running->verdict != IN && !decide(running))
		return NULL;
	return running;
}

/* --- calls --- */

SEC("raw_tp/sys_enter")
int entered(u64 *args)
{
	struct running *running = running_in_scope();
	if (!running)
		return 0;
	running->nr = args[1];
	running->off = 0;
	running->start = ktime_ns();
	return 0;
}

/* The number of a task's call, or NONE. */
INLINE u32 call_of(u64 task, u64 registers)
{
	u32 nr = LOAD(u32, registers + nr_at);
	if ((s32)nr < 0)
		return NONE;
	if (HAS(task_struct, thread_info.status)) {
		if (GET(u32, task, task_struct, thread_info.status) & (u32)compat_bit)
			nr |= COMPAT;
	} else if (GET(u64, task, task_struct, thread_info.flags) & compat_bit) {
		nr |= COMPAT;
	}
	return nr;
}

/* Whether a call creates a thread. */
static __attribute__((noinline)) int creates_thread(u32 nr)
{
	for (u32 i = 0; i < sizeof(thread_creating) / sizeof(thread_creating[0]); i++)
		if (nr && thread_creating[i] == nr)
			return 1;
	return 0;
}

/* A call whose entry is taken by another one. */
static __attribute__((noinline)) struct cell *overflow_cell(u64 whose)
{
	struct cell *cell = map_lookup(&overflow, &whose);
	if (cell)
		return cell;
	struct cell none = {.whose = whose};
	map_update(&overflow, &whose, &none, NOEXIST);
	return map_lookup(&overflow, &whose);
}

static __attribute__((noinline)) int count_error(u64 whose, u64 number)
{
	struct error error = {whose, number};
	u64 *count = map_lookup(&errors, &error);
	if (!count) {
		u64 none = 0;
		map_update(&errors, &error, &none, NOEXIST);
		count = map_lookup(&errors, &error);
	}
	if (count)
		*count += 1;
	else
		LOSE(calls);
	return 0;
}

SEC("raw_tp/sys_exit")
int left(u64 *args)
{
	struct running *running = running_in_scope();
	if (!running)
		return 0;
	u32 nr = call_of(running->task, args[0]), is_newborn = running->is_newborn;
	if (is_newborn) {
		running->is_newborn = 0;
		if (is_newborn != MAYBE || (!args[1] && creates_thread(nr)))
			return 0;
	}
	u64 start = running->start, off = running->off;
	if (nr == NONE) { /* it has brought back the registers of something else, or there is no such call */
		nr = rt_sigreturn;
		if (start && running->nr - uretprobe < 2) {
			running->start = running->off = 0;
			return 0;
		}
		if (start ? (s32)running->nr < 0 : args[1] == (u64)-38 /* ENOSYS */)
			nr = INVALID;
	}
	running->calls++;
	u64 whose = (u64)running->tgid << 32 | nr;
	u32 place = (running->tgid * 61 + nr) & (CELLS - 1);
	struct cell *cell = map_lookup(&cells, &place);
	if (!cell)
		return 0;
	if (cell->whose != whose) {
		if (!cell->whose)
			cell->whose = whose;
		else
			cell = overflow_cell(whose);
		if (!cell) {
			LOSE(calls);
			return 0;
		}
	}
	cell->count++;
	u64 took = off;
	if (start) {
		running->start = 0;
		took = ktime_ns() - start;
		cell->timed++;
		cell->on += took - off;
	}
	if (off) {
		running->off = 0;
		cell->off += off;
	}
	if (took > cell->max)
		cell->max = took;
	u64 error = -args[1];
	if (error - 1 < 4095) {
		cell->errors++;
		count_error(whose, error);
	}
	return 0;
}

/* --- waits --- */

/* include/linux/sched.h */
#define STOPPED 0x04
#define TRACED 0x08
#define DEAD 0x80

INLINE s32 stack_of(void *ctx, u64 flags)
{
	s64 id = stack_id(ctx, &stacks, flags);
	if (id >= 0)
		return id;
	if (id != -14 /* EFAULT: it has none */)
		LOSE(stacks);
	return -1;
}

INLINE u64 object(u32 nr, u64 registers)
{
	u64 argument = 0;
	if (nr < CALLS_MAX && has_object[nr & (CALLS_MAX - 1)] && registers)
		probe_read_kernel(&argument, sizeof(argument), (void *)(registers + arg_at));
	return argument;
}

struct task_struct___stack {
	u64 stack;
} KERNEL;
struct pt_regs {
	u64 sp;
} KERNEL;

/* What a thread had in its registers in user space: struct pt_regs, 0 if unknown. */
INLINE u64 registers_of(u64 task, void *trusted)
{
#ifdef BY_PROBE_READ
	/* They are at the end of the thread's stack in the kernel; the helper knows since Linux 5.15. */
	if (!has_task_registers) {
		u64 stack = GET(u64, task, task_struct___stack, stack);
		return stack ? stack + stack_bytes - __builtin_preserve_type_info(*(struct pt_regs *)0, 1) : 0;
	}
#endif
	if (!trusted)
		trusted = current_task_btf();
	return (u64)task_registers(trusted);
}

/* The current thread leaves the processor. */
INLINE void leaves_processor(u64 *args, struct running *running, u64 now)
{
	u32 state;
	if (state_is_argument)
		state = args[3];
	else if (HAS(task_struct, __state))
		state = GET(u32, args[1], task_struct, __state);
	else
		state = GET(s64, args[1], task_struct, state);
	u32 tid = running->tid;
	if (state & DEAD) {
		map_delete(&threads, &tid);
		return;
	}
	if (args[0])
		state = 0;
	u64 registers = registers_of(args[1], NULL);
	u32 nr = registers ? call_of(args[1], registers) : NONE;
	/* Where calls are not timed, this is the only sign that it has returned: another call. */
	if (running->is_newborn && (nr == NONE || nr + 1 == running->is_newborn))
		nr = NONE;
	else if (running->is_newborn != MAYBE || !creates_thread(nr))
		running->is_newborn = 0;
	/* On its way back from a call, which has been counted. */
	if (!running->start && (!state || state & (STOPPED | TRACED)))
		nr = NONE;
	struct thread thread = {
		.task = args[1],
		.start = running->start,
		.off = running->off,
		.is_newborn = running->is_newborn,
		.tgid = running->tgid,
		.execs = running->execs,
		.nr = nr,
		.state = state,
		.kernel_stack = -1,
		.user_stack = -1,
		.since = now,
	};
	if (wants_waits) {
		thread.argument = object(nr, registers);
		/* Skip this program, and its caller. */
		thread.kernel_stack = stack_of(args, 2);
		thread.user_stack = stack_of(args, USER_STACK);
	}
	if (map_update(&threads, &tid, &thread, 0))
		LOSE(threads);
}

SEC("raw_tp/sched_switch")
int switched(u64 *args)
{
	struct running *running = running_here();
	if (!running)
		return 0;
	u64 now = ktime_ns(), next = args[2];
	if (running->verdict == UNKNOWN)
		decide(running);
	if (running->verdict == IN)
		leaves_processor(args, running, now);

	u32 tid = GET(s32, next, task_struct, pid);
	running->tid = tid;
	running->verdict = tid ? UNKNOWN : OUT;
	struct thread *thread = map_lookup(&threads, &tid);
	if (!thread)
		return 0;
	if (thread->task != next) { /* another thread had this id */
		map_delete(&threads, &tid);
		return 0;
	}
	enters_processor(running, thread, now);
	return 0;
}

/* --- creation and exit --- */

SEC("raw_tp/sched_process_fork")
int forked(u64 *args)
{
	struct running *running = running_in_scope();
	if (!running)
		return 0;
	u32 tid = GET(s32, args[1], task_struct, pid), tgid = process_of(args[1]);
	u32 is_process = tid == GET(u32, args[1], task_struct, tgid);
	u64 registers = registers_of(args[0], NULL);
	struct process child = {};
	if (scope == PROCESSES && is_process && map_update(&processes, &tgid, &child, 0))
		LOSE(threads);
	struct thread newborn = {
		.task = args[1],
		.tgid = tgid,
		.execs = is_process ? 0 : running->execs,
		.nr = NONE,
		.is_newborn = (registers ? call_of(args[0], registers) : NONE) + 1,
		.kernel_stack = -1,
		.user_stack = -1,
	};
	if (map_update(&threads, &tid, &newborn, 0))
		LOSE(threads);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int executed(u64 *args)
{
	u32 tid = GET(s32, args[0], task_struct, pid), tgid = process_of(args[0]);
	struct process *stopped = map_lookup(&processes, &tgid);
	struct running *running = running_here();
	if (stopped && stopped->from_exec && running) {
		stopped->from_exec = 0;
		running->verdict = UNKNOWN;
	}
	running = running_in_scope();
	if (!running)
		return 0;
	u32 former = args[1];
	if (former != tid)
		map_delete(&threads, &former); /* it has taken its leader's number */
	struct process *known = map_lookup(&processes, &tgid);
	struct process process = {.execs = (known ? known->execs : 0) + 1};
	if (map_update(&processes, &tgid, &process, 0))
		LOSE(threads);
	running->tid = tid;
	running->execs = process.execs;
	return 0;
}

SEC("raw_tp/sched_process_exit")
int exited(u64 *args)
{
	u64 signal = GET(u64, args[0], task_struct, signal);
	if (GET(s32, signal, signal_struct, live.counter) > 0)
		return 0;
	u32 tgid = process_of(args[0]);
	map_delete(&processes, &tgid);
	return 0;
}

/* --- threads that slept at the start --- */

struct sleeper {
	u32 tid, tgid;
	u32 nr, state;
	u64 ip, sp, bp;
	u64 frames;
	u64 stack[FRAMES];
};
/* Too big for the stack. */
struct map sleeper_buffer SEC("maps") = {MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(struct sleeper), 1, 0};

struct iterator {
	void *meta;
	void *task;
};
struct bpf_iter_meta {
	void *seq;
};

SEC("iter/task")
int sleepers(struct iterator *iterator)
{
	void *task = iterator->task;
	struct bpf_iter_meta *meta = iterator->meta;
	u32 first = 0;
	struct sleeper *note = map_lookup(&sleeper_buffer, &first);
	if (!task || !note)
		return 0;
	u32 tid = GET(s32, (u64)task, task_struct, pid), tgid = process_of((u64)task);
	u32 flags = GET(u32, (u64)task, task_struct, flags);
	if (!tgid || tgid == self || flags & 0x00200000 /* PF_KTHREAD */)
		return 0;
	struct process *process = map_lookup(&processes, &tgid);
	if (scope != SYSTEM && (!process || process->from_exec))
		return 0;
	if (HAS(task_struct, on_cpu) && GET(s32, (u64)task, task_struct, on_cpu))
		return 0;
	u32 state;
	if (HAS(task_struct, __state))
		state = GET(u32, (u64)task, task_struct, __state);
	else
		state = GET(s64, (u64)task, task_struct, state);
	if (state & DEAD)
		return 0;
	u64 registers = registers_of((u64)task, task);
	u32 nr = registers ? call_of((u64)task, registers) : NONE;
	note->ip = note->sp = note->bp = 0;
	if (registers) {
		probe_read_kernel(&note->ip, 8, (void *)(registers + ip_at));
		probe_read_kernel(&note->sp, 8, (void *)(registers + sp_at));
		probe_read_kernel(&note->bp, 8, (void *)(registers + bp_at));
	}
	struct thread thread = {
		.task = (u64)task,
		.since = ktime_ns(),
		.argument = object(nr, registers),
		.tgid = tgid,
		.nr = nr,
		.state = state,
		.kernel_stack = -2 - (s32)tid,
		.user_stack = -1,
	};
	/* A thread that exists already has been seen since, and more is known about it. */
	long failed = map_update(&threads, &tid, &thread, NOEXIST);
	if (failed == -17 /* EEXIST */)
		return 0;
	if (failed) {
		LOSE(threads);
		return 0;
	}
	note->tid = tid;
	note->tgid = tgid;
	note->nr = nr;
	note->state = state;
	long bytes = task_stack(task, note->stack, sizeof(note->stack), 0);
	note->frames = bytes > 0 ? (u64)bytes / 8 : 0;
	seq_write(meta->seq, note, sizeof(*note));
	return 0;
}

char license_[] SEC("license") = "GPL";
