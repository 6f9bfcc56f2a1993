//! The cause of a wait, derived from the thread's state and its kernel stack.

mod known;

use crate::Reason;
use known::{CALLS, FAULTS, LOCKS, MACHINERY, OTHERS, STARTS, WHOLE};

/// Why a thread was off the processor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// What it waits for.
    pub reason: Reason,
    /// Details where the reason says little: the kernel lock's user, or the function that waits.
    pub detail: Option<String>,
}

/// State of a thread when it left the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Runnable.
    Runnable,
    /// Waiting, interruptibly or not.
    Waiting,
    /// Stopped or traced.
    Stopped,
}

impl TaskState {
    /// From `prev_state` of the tracepoint `sched:sched_switch`, or `task->__state` there
    /// (`include/linux/sched.h`).
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        // TASK_RUNNING; the tracepoint reports TASK_REPORT_MAX for a preempted thread.
        const PREEMPTED: u64 = 0x100;
        // __TASK_STOPPED and __TASK_TRACED.
        const STOPPED: u64 = 0x4 | 0x8;
        if bits == 0 || bits == PREEMPTED {
            Self::Runnable
        } else if bits & STOPPED != 0 {
            Self::Stopped
        } else {
            Self::Waiting
        }
    }
}

impl Cause {
    /// The cause for a thread in this system call with this kernel stack, innermost function first.
    #[must_use]
    pub fn of(syscall: Option<&str>, state: TaskState, kernel: &[&str]) -> Self {
        match state {
            TaskState::Runnable => return Self::plain(Reason::Processor),
            TaskState::Stopped => return Self::plain(Reason::Stopped),
            TaskState::Waiting => {}
        }
        // Remove suffixes of the compiler (`do_select.constprop.0`).
        let stack: Vec<&str> = kernel
            .iter()
            .map(|name| name.split('.').next().unwrap_or(name))
            .collect();
        // 1. A kernel lock, whatever it is needed for.
        let inner = stack.iter().position(|name| !is_wait_machinery(name));
        if let Some(at) = inner.filter(|at| is_lock(stack[*at])) {
            let taker = stack[at..]
                .iter()
                .find(|name| !is_lock(name) && !is_wait_machinery(name));
            return Self {
                reason: Reason::KernelLock,
                detail: taker.map(|name| format!("lock in {name}")),
            };
        }
        // 2. A page fault: the page may come from a disk, but the program did not request disk I/O.
        if stack.iter().any(|name| has(FAULTS, name)) {
            return Self::plain(Reason::Page);
        }
        // 3. The innermost known function.
        for name in &stack {
            if let Some((reason, words)) = meaning(name) {
                return Self {
                    reason,
                    detail: words.map(|words| format!("{words} ({name})")),
                };
            }
        }
        if stack.iter().any(|name| name.starts_with("io_schedule")) {
            return Self::plain(Reason::Disk);
        }
        // 4. The system call, if the stack is empty or unknown.
        if let Some(reason) = syscall.and_then(of_syscall) {
            return Self::plain(reason);
        }
        Self {
            reason: Reason::Other,
            detail: inner.map(|at| stack[at].to_owned()),
        }
    }

    const fn plain(reason: Reason) -> Self {
        Self { reason, detail: None }
    }
}

/// Whether a function is part of every wait, or of very different ones.
fn is_wait_machinery(name: &str) -> bool {
    has_prefix_of(MACHINERY, name)
}

/// Whether a function waits for a kernel lock.
fn is_lock(name: &str) -> bool {
    has_prefix_of(LOCKS, name)
}

fn meaning(name: &str) -> Option<(Reason, Option<&'static str>)> {
    if let Some((words, _)) = OTHERS.iter().find(|(_, starts)| has_prefix_of(starts, name)) {
        return Some((Reason::Other, Some(words)));
    }
    if let Some((reason, _)) = WHOLE.iter().find(|(_, names)| has(names, name)) {
        return Some((*reason, None));
    }
    let plain = name.trim_start_matches('_');
    let (reason, _) = STARTS.iter().find(|(_, starts)| has_prefix_of(starts, plain))?;
    Some((*reason, None))
}

fn of_syscall(name: &str) -> Option<Reason> {
    let (reason, _) = CALLS.iter().find(|(_, calls)| has(calls, name))?;
    Some(*reason)
}

/// Whether a list contains the name.
fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Whether the name begins with one of a list.
fn has_prefix_of(starts: &str, name: &str) -> bool {
    starts.split(' ').any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(syscall: &str, stack: &str, reason: Reason, detail: Option<&str>) {
        let kernel: Vec<&str> = stack.split_whitespace().collect();
        let syscall = Some(syscall).filter(|name| !name.is_empty());
        let cause = Cause::of(syscall, TaskState::Waiting, &kernel);
        assert_eq!(
            (cause.reason, cause.detail.as_deref()),
            (reason, detail),
            "{syscall:?}: {stack}"
        );
    }

    #[test]
    fn state_decides_before_the_stack() {
        for (bits, state) in [
            (0, TaskState::Runnable),
            (0x100, TaskState::Runnable),
            (1, TaskState::Waiting),
            (2, TaskState::Waiting),
            (0x102, TaskState::Waiting),
            (0x402, TaskState::Waiting),
            (0x104, TaskState::Stopped),
            (8, TaskState::Stopped),
        ] {
            assert_eq!(TaskState::from_bits(bits), state, "{bits:#x}");
        }
        let stack = ["futex_do_wait", "__futex_wait"];
        let of = |state| Cause::of(Some("futex"), state, &stack).reason;
        assert_eq!(of(TaskState::Runnable), Reason::Processor);
        assert_eq!(of(TaskState::Stopped), Reason::Stopped);
        assert_eq!(of(TaskState::Waiting), Reason::Lock);
    }

    #[test]
    fn stacks_of_linux_6_18_give_reasons() {
        for (syscall, stack, reason) in [
            (
                "accept4",
                "inet_csk_accept inet_accept do_accept __sys_accept4 __x64_sys_accept4 do_syscall_64",
                Reason::Network,
            ),
            (
                "recvfrom",
                "wait_woken sk_wait_data tcp_recvmsg_locked tcp_recvmsg sock_recvmsg __sys_recvfrom",
                Reason::Network,
            ),
            (
                "sendto",
                "wait_woken sk_stream_wait_memory tcp_sendmsg_locked tcp_sendmsg __sys_sendto",
                Reason::Network,
            ),
            (
                "recvfrom",
                "__skb_wait_for_more_packets __skb_recv_udp udp_recvmsg sock_recvmsg __sys_recvfrom",
                Reason::Network,
            ),
            (
                "recvfrom",
                "__skb_wait_for_more_packets __skb_recv_datagram skb_recv_datagram packet_recvmsg sock_recvmsg",
                Reason::Network,
            ),
            (
                "recvfrom",
                "unix_stream_read_generic unix_stream_recvmsg sock_recvmsg __sys_recvfrom",
                Reason::Peer,
            ),
            (
                "sendto",
                "sock_alloc_send_pskb unix_stream_sendmsg __sys_sendto __x64_sys_sendto",
                Reason::Peer,
            ),
            (
                "recvfrom",
                "__skb_wait_for_more_packets __unix_dgram_recvmsg sock_recvmsg __sys_recvfrom",
                Reason::Peer,
            ),
            (
                "accept4",
                "__skb_wait_for_more_packets __skb_recv_datagram skb_recv_datagram unix_accept do_accept",
                Reason::Peer,
            ),
            (
                "read",
                "anon_pipe_read vfs_read ksys_read do_syscall_64",
                Reason::Peer,
            ),
            (
                "write",
                "anon_pipe_write vfs_write ksys_write do_syscall_64",
                Reason::Peer,
            ),
            (
                "openat",
                "wait_for_partner fifo_open do_dentry_open vfs_open path_openat",
                Reason::Peer,
            ),
            (
                "read",
                "wait_woken n_tty_read tty_read vfs_read ksys_read",
                Reason::Peer,
            ),
            ("msgrcv", "do_msgrcv do_syscall_64", Reason::Peer),
            (
                "pselect6",
                "poll_schedule_timeout.constprop.0 do_select core_sys_select do_pselect.constprop.0",
                Reason::Events,
            ),
            (
                "poll",
                "poll_schedule_timeout.constprop.0 do_sys_poll __x64_sys_poll",
                Reason::Events,
            ),
            (
                "epoll_wait",
                "do_epoll_wait __x64_sys_epoll_wait do_syscall_64",
                Reason::Events,
            ),
            (
                "rt_sigtimedwait",
                "do_sigtimedwait.isra.0 __x64_sys_rt_sigtimedwait",
                Reason::Events,
            ),
            ("pause", "__do_sys_pause do_syscall_64", Reason::Events),
            (
                "read",
                "do_wait_intr_irq eventfd_read vfs_read ksys_read",
                Reason::Events,
            ),
            (
                "read",
                "wait_woken inotify_read vfs_read ksys_read",
                Reason::Events,
            ),
            (
                "read",
                "do_wait_intr_irq timerfd_read_iter vfs_read ksys_read",
                Reason::Sleep,
            ),
            (
                "clock_nanosleep",
                "hrtimer_nanosleep common_nsleep_timens __x64_sys_clock_nanosleep",
                Reason::Sleep,
            ),
            (
                "flock",
                "locks_lock_inode_wait __do_sys_flock do_syscall_64",
                Reason::Lock,
            ),
            (
                "semop",
                "__do_semtimedop do_semtimedop do_syscall_64",
                Reason::Lock,
            ),
            (
                "futex",
                "futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex",
                Reason::Lock,
            ),
            ("wait4", "do_wait kernel_wait4 do_syscall_64", Reason::Child),
            (
                "",
                "do_signal_stop get_signal arch_do_signal_or_restart exit_to_user_mode_loop",
                Reason::Stopped,
            ),
            (
                "read",
                "__iomap_dio_rw iomap_dio_rw ext4_file_read_iter vfs_read ksys_read",
                Reason::Disk,
            ),
            (
                "getdents64",
                "ext4_read_bh ext4_bread __ext4_read_dirblock htree_dirblock_to_tree",
                Reason::Disk,
            ),
            (
                "fsync",
                "folio_wait_bit folio_wait_writeback __filemap_fdatawait_range file_write_and_wait_range",
                Reason::Disk,
            ),
            (
                "unlinkat",
                "submit_bio_wait blkdev_issue_discard ext4_free_blocks ext4_ext_remove_space",
                Reason::Disk,
            ),
            (
                "fsync",
                "rq_qos_wait wbt_wait __rq_qos_throttle blk_mq_submit_bio __submit_bio",
                Reason::Disk,
            ),
            (
                "read",
                "folio_wait_bit_common filemap_get_pages filemap_read vfs_read ksys_read",
                Reason::Disk,
            ),
        ] {
            check(syscall, stack, reason, None);
        }
    }

    #[test]
    fn stacks_of_other_kernels_give_reasons() {
        for (syscall, stack, reason) in [
            // 5.10, 4.19: schedule itself is on the stack
            (
                "futex",
                "__schedule schedule futex_wait_queue_me futex_wait do_futex",
                Reason::Lock,
            ),
            (
                "epoll_wait",
                "__schedule schedule schedule_hrtimeout_range_clock ep_poll do_epoll_wait",
                Reason::Events,
            ),
            (
                "select",
                "__schedule schedule schedule_hrtimeout_range_clock poll_schedule_timeout do_select",
                Reason::Events,
            ),
            (
                "read",
                "__schedule schedule pipe_read new_sync_read vfs_read",
                Reason::Peer,
            ),
            (
                "nanosleep",
                "__schedule schedule do_nanosleep hrtimer_nanosleep",
                Reason::Sleep,
            ),
            (
                "write",
                "__schedule schedule io_schedule wait_on_page_bit wait_on_page_writeback ext4_da_write_begin",
                Reason::Disk,
            ),
            (
                "fsync",
                "__schedule schedule jbd2_log_wait_commit ext4_sync_file do_fsync",
                Reason::Disk,
            ),
            (
                "fsync",
                "schedule xlog_wait_on_iclog xfs_log_force_seq xfs_file_fsync",
                Reason::Disk,
            ),
            ("wait4", "schedule __do_wait do_wait kernel_wait4", Reason::Child),
            (
                "vfork",
                "schedule schedule_timeout wait_for_completion_killable wait_for_vfork_done kernel_clone",
                Reason::Child,
            ),
            // our own BPF program is innermost
            (
                "futex",
                "bpf_prog_6deef7357e7b4530_look bpf_trace_run4 __bpf_trace_sched_switch __traceiter_sched_switch __schedule schedule futex_wait_queue",
                Reason::Lock,
            ),
            // page faults, also of the kernel during a system call
            (
                "",
                "io_schedule folio_wait_bit_common filemap_fault __do_fault do_fault __handle_mm_fault handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault",
                Reason::Page,
            ),
            (
                "read",
                "io_schedule __folio_lock_or_retry do_swap_page __handle_mm_fault handle_mm_fault exc_page_fault",
                Reason::Page,
            ),
            (
                "connect",
                "wait_woken inet_wait_for_connect __inet_stream_connect inet_stream_connect",
                Reason::Network,
            ),
            (
                "openat",
                "request_wait_answer __fuse_simple_request fuse_lookup_name",
                Reason::Disk,
            ),
            ("read", "io_schedule something_new vfs_read", Reason::Disk),
        ] {
            check(syscall, stack, reason, None);
        }
    }

    #[test]
    fn kernel_lock_detail_is_its_user() {
        check(
            "openat",
            "schedule_preempt_disabled rwsem_down_write_slowpath down_write path_openat do_filp_open",
            Reason::KernelLock,
            Some("lock in path_openat"),
        );
        check(
            "sendmsg",
            "__schedule schedule schedule_preempt_disabled __mutex_lock.constprop.0 __mutex_lock_slowpath mutex_lock rtnl_newlink rtnetlink_rcv_msg netlink_rcv_skb",
            Reason::KernelLock,
            Some("lock in rtnl_newlink"),
        );
        check(
            "",
            "schedule rwsem_down_read_slowpath down_read do_user_addr_fault exc_page_fault",
            Reason::KernelLock,
            Some("lock in do_user_addr_fault"),
        );
        check(
            "clone",
            "percpu_rwsem_wait __percpu_down_read cgroup_can_fork copy_process",
            Reason::KernelLock,
            Some("lock in cgroup_can_fork"),
        );
        check(
            "recvmsg",
            "schedule __lock_sock lock_sock_nested tcp_recvmsg inet_recvmsg",
            Reason::KernelLock,
            Some("lock in tcp_recvmsg"),
        );
    }

    #[test]
    fn unknown_wait_names_its_function() {
        check(
            "unshare",
            "schedule schedule_timeout __wait_for_common wait_for_completion synchronize_rcu_normal net_exit",
            Reason::Other,
            Some("all processors pass a quiet point (synchronize_rcu_normal)"),
        );
        check(
            "",
            "rcu_barrier cleanup_net process_one_work worker_thread kthread",
            Reason::Other,
            Some("what was put off until a quiet point is done (rcu_barrier)"),
        );
        check(
            "ioctl",
            "schedule vcpu_block kvm_vcpu_ioctl",
            Reason::Other,
            Some("vcpu_block"),
        );
        check("ioctl", "", Reason::Other, None);
        check("nanosleep", "", Reason::Sleep, None);
        check("", "", Reason::Other, None);
    }
}
