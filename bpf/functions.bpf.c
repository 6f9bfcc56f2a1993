/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Calls of functions: number and duration, by process and function. Each program is attached to many functions at once
 * and gets a cookie that identifies the function.
 *
 * For each thread a stack of its running calls is kept: the function, the time, and the processor's stack pointer. A
 * return belongs to the call with the same function and stack pointer; calls above that one have ended without a return,
 * by longjmp or an exception. They are also found at the next call, which has a stack pointer at or above theirs. Calls
 * that a thread still has when it ends, or executes another program, have ended as well.
 *
 * The kernel has a similar stack for user functions (kernel/events/uprobes.c), because it writes its own address
 * in place of each return address. It assumes a single stack in memory: a program that switches to another one within a
 * call (a signal handler with sigaltstack, coroutines), and calls traced functions there, is killed with SIGILL, because
 * the kernel considers half of the calls ended. `session` protects programs from that: it decides at each entry whether
 * the return is traced (Linux 6.13), and declines while there is a call on another stack.
 */
#define BY_PROBE_READ
#define task_struct task_struct_elsewhere
#define signal_struct signal_struct_elsewhere
#include "kernel.h"
#undef task_struct
#undef signal_struct

/* include/uapi/linux/bpf.h: numbers of helpers */
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_under_cgroup)(void *map, u32 index) = (void *)37;
static long (*const probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static u64 (*const current_task_btf)(void) = (void *)158;
static u64 (*const attach_cookie)(void *context) = (void *)174;
static long (*const find_vma)(u64 task, u64 address, void *call, void *context, u64 flags) = (void *)180;

/* The kfunc `bool bpf_session_is_return(void)` (Linux 6.10): the number is not a helper's, as RDONLY_CAST's. Later kernels
 * may require the context, which does not affect the others. */
#define SESSION_IS_RETURN 0x7f00c458
static u32 (*const session_is_return)(void *context) = (void *)SESSION_IS_RETURN;

#define MAP_TYPE_HASH 1
#define MAP_TYPE_CGROUP_ARRAY 8
#define MAP_NO_PREALLOC (1 << 0)
#define UPDATE_IF_NEW 1

/* --- the kernel's structs --- */

struct pt_regs {
	u64 sp;
} KERNEL;
struct xol_area {
	u64 vaddr;
} KERNEL;
struct uprobes_state {
	u64 xol_area;
} KERNEL;
struct mm_struct {
	struct uprobes_state uprobes_state;
} KERNEL;
struct vm_area_struct {
	u64 vm_start, vm_end;
} KERNEL;
struct task_struct {
	u64 mm, signal;
} KERNEL;
struct signal_struct {
	struct atomic live;
	u64 pids[4];
} KERNEL;

#include "numbers.h"

/* --- settings from Sockeye: crates/wire/src/functions.rs --- */

enum { EVERYBODY = 0, MEMBERS = 1, CGROUP = 2 };
struct settings {
	u32 scope;
	u32 pid_namespace;  /* inode of ours; 0: the initial one */
	u32 return_bytes;   /* bytes that a return removes from the stack: 8 on x86, where the address is there */
	u32 in_kernel;      /* the functions are in the kernel */
	u32 own_process;    /* ours, which is not counted as one of the others */
	u32 paused;         /* no calls count yet; process creation is tracked */
};
struct map fn_settings SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct settings), 1, 0};
/* Processes in scope, and their descendants. */
#define MEMBERS_MAX 65536
struct map fn_members SEC("maps") = {MAP_TYPE_HASH, sizeof(u32), sizeof(u32), MEMBERS_MAX, MAP_NO_PREALLOC};
/* The cgroup in scope. */
struct map fn_cgroup SEC("maps") = {MAP_TYPE_CGROUP_ARRAY, sizeof(u32), sizeof(u32), 1, 0};

/* Of a cookie: the function's number; its returns are not traced; they are, at its return instructions. */
#define ENTRIES_ONLY (1ULL << 32)
#define BY_EXITS (1ULL << 33)

/* --- results --- */

struct key {
	u32 pid, function;
};
struct counts {
	u64 calls, timed, total_ns, self_ns, max_ns, missed_returns;
};
#define COUNTS_MAX 131072
struct map fn_counts SEC("maps") = {MAP_TYPE_HASH, sizeof(struct key), sizeof(struct counts), COUNTS_MAX, MAP_NO_PREALLOC};

/* The kernel traces no returns beyond 64 nested calls: MAX_URETPROBE_DEPTH of include/linux/uprobes.h. */
#define DEPTH_MAX 64
struct frame {
	u32 function;
	u16 inner;    /* the same function is on the stack below */
	u16 replaced; /* the kernel has put its own address in place of the return address */
	u64 entered_ns;
	u64 stack;
	u64 children_ns; /* in traced functions that it called */
};
struct thread {
	u32 pid, depth;
	struct frame frames[DEPTH_MAX];
};
/* By the address of the task, which stays the same when a thread executes another program and its id changes. */
#define THREADS_MAX 16384
struct map fn_threads SEC("maps") = {MAP_TYPE_HASH, sizeof(u64), sizeof(struct thread), THREADS_MAX, MAP_NO_PREALLOC};
/* A thread without calls: too large for a program's stack. */
struct map fn_blank SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct thread), 1, 0};

struct losses {
	u64 too_deep, threads, counts, members;
	/* Not losses, but reported with them: processes started by those in scope, and calls of processes that are not
	 * in scope, which were slowed as well. */
	u64 started, others;
};
struct map fn_losses SEC("maps") = {MAP_TYPE_ARRAY, sizeof(u32), sizeof(struct losses), 1, 0};

#define LOST(what)                                                   \
	({                                                           \
		u32 first_ = 0;                                      \
		struct losses *losses_ = map_lookup(&fn_losses, &first_); \
		if (losses_)                                         \
			__sync_fetch_and_add(&losses_->what, 1);     \
	})

/* --- scope --- */

INLINE struct settings *settings_of(void)
{
	u32 first = 0;

	return map_lookup(&fn_settings, &first);
}

INLINE u32 own_number(struct settings *settings)
{
	return settings->pid_namespace ? number_of(current_task(), settings->pid_namespace)
				       : (u32)(current_pid_tgid() >> 32);
}

/* The id of the current process; 0 if it is not in scope. */
INLINE u32 who(struct settings *settings)
{
	u32 pid = own_number(settings);

	if (settings->scope == MEMBERS && !map_lookup(&fn_members, &pid))
		return 0;
	if (settings->scope == CGROUP && current_under_cgroup(&fn_cgroup, 0) != 1)
		return 0;
	return pid;
}

/* --- counting --- */

INLINE struct counts *counts_of(u32 pid, u32 function)
{
	struct key key = {pid, function};
	struct counts *counts = map_lookup(&fn_counts, &key);
	struct counts none = {};

	if (counts)
		return counts;
	/* Another processor may be first. */
	map_update(&fn_counts, &key, &none, UPDATE_IF_NEW);
	counts = map_lookup(&fn_counts, &key);
	if (!counts)
		LOST(counts);
	return counts;
}

INLINE void raise(u64 *max, u64 value)
{
	u64 seen = *(volatile u64 *)max;

	for (int i = 0; i < 16 && seen < value; i++) {
		u64 found = __sync_val_compare_and_swap(max, seen, value);

		if (found == seen)
			break;
		seen = found;
	}
}

INLINE void missed(u32 pid, u32 function)
{
	struct counts *counts = counts_of(pid, function);

	if (counts)
		__sync_fetch_and_add(&counts->missed_returns, 1);
}

/* --- a thread's stack --- */

INLINE struct thread *thread_of(u32 pid, int make)
{
	u64 task = current_task();
	struct thread *thread = map_lookup(&fn_threads, &task), *blank;
	u32 first = 0;

	if (thread || !make)
		return thread;
	blank = map_lookup(&fn_blank, &first);
	if (blank)
		map_update(&fn_threads, &task, blank, UPDATE_IF_NEW);
	thread = map_lookup(&fn_threads, &task);
	if (thread)
		thread->pid = pid;
	return thread;
}

#define FRAME(thread, place) (&(thread)->frames[(place) & (DEPTH_MAX - 1)])

/* The innermost call has ended without a return. */
static __attribute__((noinline)) u32 drop(struct thread *thread)
{
	struct frame *frame;
	u32 depth;

	if (!thread || !thread->depth)
		return 0;
	depth = thread->depth - 1;
	frame = FRAME(thread, depth);
	missed(thread->pid, frame->function);
	if (depth)
		FRAME(thread, depth - 1)->children_ns += frame->children_ns;
	thread->depth = depth;
	return 0;
}

/* Loops are written twice. Kernels with programs for entries and returns at once also have bpf_loop (Linux 5.17),
 * whose body is verified once; verifying plain loops would take a quarter of a second at each start. */
INLINE void drop_all(struct thread *thread)
{
	for (u32 i = 0; i < DEPTH_MAX && thread->depth; i++)
		drop(thread);
}

/* Whether the place of a return address has the address that the kernel writes there (x86): then the call
 * that it belongs to may still be running. `xol_area` is where the kernel has put the code for that. */
static __attribute__((noinline)) u32 is_replaced(u64 place)
{
	u64 mm = GET(u64, current_task(), task_struct, mm);
	u64 area = GET(u64, mm + AT(mm_struct, uprobes_state), uprobes_state, xol_area), word = 0;

	if (!area || probe_read_user(&word, sizeof(word), (void *)place))
		return 0;
	return word == GET(u64, area, xol_area, vaddr);
}

struct stretch {
	u64 start, end;
};

static long take_stretch(u64 task, struct vm_area_struct *memory, struct stretch *stretch)
{
	stretch->start = memory->vm_start;
	stretch->end = memory->vm_end;
	return 0;
}

/* Whether two addresses are on different stacks: not in one mapping. */
static __attribute__((noinline)) u32 are_apart(u64 one, u64 other)
{
	struct stretch stretch = {};

	if (find_vma(current_task_btf(), one, take_stretch, &stretch, 0))
		return 1; /* not to be found out now: to say so is safe */
	return other < stretch.start || other >= stretch.end;
}

/* Closer ones are on the same stack: the smallest stack that the kernel allows for signals (MINSIGSTKSZ) is larger, but
 * two of them may touch. */
#define NEAR 2048
/* Farther ones are on different stacks, as far as an older kernel can show. */
#define FAR (16 << 20)

INLINE u64 distance(u64 one, u64 other)
{
	return one > other ? one - other : other - one;
}

struct going {
	struct settings *settings;
	struct thread *thread;
	u64 stack;
	u32 elsewhere;
};

INLINE long step_going(struct going *going, int is_session)
{
	struct thread *thread = going->thread;
	struct frame *frame;
	u32 has_address;
	u64 place, far;

	if (!thread->depth)
		return 1;
	frame = FRAME(thread, thread->depth - 1);
	has_address = frame->replaced && going->settings->return_bytes == 8;
	place = frame->stack;
	far = distance(place, going->stack);
	if (is_session ? far > NEAR && are_apart(going->stack, place) : far > FAR) {
		if (!has_address || is_replaced(place)) {
			going->elsewhere = frame->replaced;
			return 1;
		}
	} else if (place > going->stack || (place == going->stack && has_address && is_replaced(place))) {
		return 1;
	}
	drop(thread);
	return 0;
}

static long step_gone(u32 i, struct going *going)
{
	return step_going(going, 1);
}

/* The same stack grows down: what began at or below the place of a new call has ended, unless it is a tail call, which
 * begins at its caller's place. 1: there is a call on another stack, which the kernel would consider ended. */
INLINE u32 drop_gone(struct settings *settings, struct thread *thread, u64 stack, int is_session)
{
	struct going going = {.settings = settings, .thread = thread, .stack = stack};

	if (is_session)
		loop(DEPTH_MAX, step_gone, &going, 0);
	else
		for (u32 i = 0; i < DEPTH_MAX && !step_going(&going, 0); i++)
			;
	return going.elsewhere;
}

/* A call of a function that a thread is already in. */
struct search {
	struct thread *thread;
	u64 stack, gone_bytes;
	u32 function, depth, found;
};

/* Whether the thread is in it already. */
static long step_inner(u32 i, struct search *search)
{
	if (i >= search->depth)
		return 1;
	if (FRAME(search->thread, i)->function != search->function)
		return 0;
	search->found = i;
	return 1;
}

/* Which call returns: the innermost at this place. */
static long step_returning(u32 i, struct search *search)
{
	struct frame *frame;
	u32 place = search->depth - 1 - i;

	if (i >= search->depth)
		return 1;
	frame = FRAME(search->thread, place);
	if (frame->function != search->function || search->stack - frame->stack > search->gone_bytes)
		return 0;
	search->found = place;
	return 1;
}

/* Calls inside the one that returns have ended. */
static long step_within(u32 i, struct search *search)
{
	if (search->thread->depth <= search->found + 1)
		return 1;
	drop(search->thread);
	return 0;
}

/* The kernel misses returns as well: more calls at a time than it has space for, or one while another program runs. The
 * places of running calls go down; interrupts have separate stacks, and show nothing. */
#define KERNEL_STACK_BYTES (16 << 10)

INLINE void drop_gone_in_kernel(struct thread *thread, u64 stack, u32 function)
{
	for (u32 i = 0; i < DEPTH_MAX && thread->depth; i++) {
		struct frame *frame = FRAME(thread, thread->depth - 1);
		u64 place = frame->stack;

		if (distance(place, stack) > KERNEL_STACK_BYTES || place > stack ||
		    (place == stack && frame->function != function))
			return;
		drop(thread);
	}
}

/* 1: its return is not traced. */
INLINE u32 enter(u64 cookie, u64 stack, int is_session)
{
	struct settings *settings = settings_of();
	u32 pid, function = cookie, depth;
	struct search search = {.found = DEPTH_MAX};
	struct counts *counts;
	struct thread *thread;
	struct frame *frame;

	if (!settings || settings->paused)
		return 1;
	pid = who(settings);
	/* A process without an id in our namespace cannot be reported. */
	if (!pid && (settings->scope != EVERYBODY || (settings->pid_namespace && !settings->in_kernel))) {
		if (!settings->in_kernel && own_number(settings) != settings->own_process)
			LOST(others);
		return 1;
	}
	if (settings->in_kernel && settings->scope == EVERYBODY)
		pid = 0;
	counts = counts_of(pid, function);
	if (counts)
		__sync_fetch_and_add(&counts->calls, 1);
	if (cookie & ENTRIES_ONLY)
		return 1;
	thread = thread_of(pid, 1);
	if (!thread) {
		LOST(threads);
		missed(pid, function);
		return 1;
	}
	if (settings->in_kernel) {
		drop_gone_in_kernel(thread, stack, function);
	} else if (thread->depth) {
		u32 elsewhere = drop_gone(settings, thread, stack, is_session);

		if (elsewhere && is_session && !(cookie & BY_EXITS)) {
			missed(pid, function);
			return 1;
		}
	}
	depth = thread->depth;
	if (depth >= DEPTH_MAX) {
		LOST(too_deep);
		missed(pid, function);
		return 1;
	}
	if (is_session && depth) {
		search.thread = thread;
		search.function = function;
		search.depth = depth;
		loop(DEPTH_MAX, step_inner, &search, 0);
	}
	for (u32 i = 0; !is_session && i < DEPTH_MAX && i < depth; i++)
		if (FRAME(thread, i)->function == function) {
			search.found = i;
			break;
		}
	frame = FRAME(thread, depth);
	frame->function = function;
	frame->inner = search.found < DEPTH_MAX;
	frame->replaced = !(cookie & BY_EXITS);
	frame->stack = stack;
	frame->children_ns = 0;
	thread->depth = depth + 1;
	frame->entered_ns = ktime_ns();
	return !!(cookie & BY_EXITS);
}

/* Either it has returned, so that its place is not on the stack any more, or it is about to return. */
INLINE void leave(u64 cookie, u64 stack, int has_returned, int is_session)
{
	u64 now = ktime_ns(), took, children;
	u32 found;
	struct search search = {.found = DEPTH_MAX, .function = cookie, .stack = stack};
	struct settings *settings = settings_of();
	struct thread *thread = thread_of(0, 0);
	struct counts *counts;
	struct frame *frame;

	if (!settings || !thread)
		return;
	search.gone_bytes = has_returned ? settings->return_bytes : 0;
	search.thread = thread;
	search.depth = thread->depth;
	if (is_session)
		loop(DEPTH_MAX, step_returning, &search, 0);
	for (u32 i = 1; !is_session && i <= DEPTH_MAX && i <= search.depth; i++) {
		frame = FRAME(thread, search.depth - i);
		if (frame->function == search.function && stack - frame->stack <= search.gone_bytes) {
			search.found = search.depth - i;
			break;
		}
	}
	found = search.found;
	/* A call from before the start, or of the process that this one was forked from. */
	if (found >= DEPTH_MAX)
		return;
	if (is_session && thread->depth > found + 1)
		loop(DEPTH_MAX, step_within, &search, 0);
	for (u32 i = 0; !is_session && i < DEPTH_MAX && thread->depth > found + 1; i++)
		drop(thread);
	frame = FRAME(thread, found);
	took = now - frame->entered_ns;
	children = frame->children_ns < took ? frame->children_ns : took;
	thread->depth = found;
	if (found)
		FRAME(thread, found - 1)->children_ns += took;
	counts = counts_of(thread->pid, search.function);
	if (!counts)
		return;
	__sync_fetch_and_add(&counts->timed, 1);
	if (!frame->inner)
		__sync_fetch_and_add(&counts->total_ns, took);
	__sync_fetch_and_add(&counts->self_ns, took - children);
	raise(&counts->max_ns, took);
}

/* --- programs --- */

/* Entry and return (Linux 6.13). */
SEC("kprobe/session")
int fn_session(struct pt_regs *registers)
{
	if (session_is_return(registers)) {
		leave(attach_cookie(registers), registers->sp, 1, 1);
		return 0;
	}
	return enter(attach_cookie(registers), registers->sp, 1);
}

/* For kernels with two programs. Always 0: some kernels treat anything else as a request not to be called again. */
SEC("kprobe/entered")
int fn_entered(struct pt_regs *registers)
{
	enter(attach_cookie(registers), registers->sp, 0);
	return 0;
}

SEC("kprobe/left")
int fn_left(struct pt_regs *registers)
{
	leave(attach_cookie(registers), registers->sp, 1, 0);
	return 0;
}

/* At the return instructions of a function. */
SEC("kprobe/leaving")
int fn_leaving(struct pt_regs *registers)
{
	leave(attach_cookie(registers), registers->sp, 0, 0);
	return 0;
}

SEC("kprobe/session_leaving")
int fn_session_leaving(struct pt_regs *registers)
{
	leave(attach_cookie(registers), registers->sp, 0, 1);
	return 0;
}

/* The address of the arguments of a function traced by fentry and fexit: the same at both, for one call.
 * To the verifier it is a pointer, which must not be used in arithmetic; what is read from memory is a number. */
INLINE u64 place_of(u64 *arguments)
{
	u64 place = 0;

	probe_read_kernel(&place, sizeof(place), &arguments);
	return place;
}

SEC("fentry/began")
int fn_began(u64 *arguments)
{
	enter(attach_cookie(arguments), place_of(arguments), 0);
	return 0;
}

SEC("fexit/ended")
int fn_ended(u64 *arguments)
{
	leave(attach_cookie(arguments), place_of(arguments), 0, 0);
	return 0;
}

/* sched_process_fork(struct task_struct *parent, struct task_struct *child): of a process, or of a thread. */
SEC("raw_tp/fork")
int fn_fork(u64 *arguments)
{
	struct settings *settings = settings_of();
	u32 parent, child, value = 1;

	if (!settings || settings->scope != MEMBERS)
		return 0;
	parent = number_of(arguments[0], settings->pid_namespace);
	child = number_of(arguments[1], settings->pid_namespace);
	if (!child || child == parent || !map_lookup(&fn_members, &parent))
		return 0;
	LOST(started);
	if (map_update(&fn_members, &child, &value, 0))
		LOST(members);
	return 0;
}

/* sched_process_exec(struct task_struct *task, pid_t old_pid, struct linux_binprm *binary) */
SEC("raw_tp/exec")
int fn_exec(u64 *arguments)
{
	struct thread *thread = thread_of(0, 0);

	if (thread)
		drop_all(thread);
	return 0;
}

/* sched_process_exit(struct task_struct *task, ...), in the thread that ends. */
SEC("raw_tp/exit")
int fn_exit(u64 *arguments)
{
	struct settings *settings = settings_of();
	u64 task = arguments[0], signal;
	struct thread *thread = map_lookup(&fn_threads, &task);
	u32 pid;

	if (thread) {
		drop_all(thread);
		map_delete(&fn_threads, &task);
	}
	if (!settings || settings->scope != MEMBERS)
		return 0;
	signal = GET(u64, task, task_struct, signal);
	/* The last thread: its process id may be reused soon. */
	if (!GET(s32, signal, signal_struct, live)) {
		pid = number_of(task, settings->pid_namespace);
		map_delete(&fn_members, &pid);
	}
	return 0;
}

char license_[] SEC("license") = "GPL";
