//! Names of kernel functions and system calls, separated by blanks, and what they wait for.

use crate::Reason;

/// Functions that are part of every wait; tracing functions are innermost.
pub(super) const MACHINERY: &str = "schedule __schedule io_schedule preempt_schedule __cond_resched __traceiter_ __bpf_trace_ \
    bpf_trace_run trace_call_bpf bpf_prog_ bpf_get_stack bpf_get_stackid perf_trace_ bit_wait \
    wait_for_completion __wait_for_common do_wait_for_common";

/// `kernel/locking/`, and the socket lock (`net/core/sock.c`).
pub(super) const LOCKS: &str = "mutex_lock __mutex_lock ww_mutex_lock __ww_mutex_lock rt_mutex_ __rt_mutex_ rt_spin_lock rtlock_ \
    rwsem_down_ rwbase_ down_read down_write __down_read __down_write down_interruptible \
    down_killable down_timeout __down percpu_down_ __percpu_down_read percpu_rwsem_wait __lock_sock \
    lock_sock_nested";

/// Entries of page faults: x86, arm64, and common code.
pub(super) const FAULTS: &str = "exc_page_fault asm_exc_page_fault do_user_addr_fault do_page_fault do_translation_fault \
    do_mem_abort handle_mm_fault __handle_mm_fault handle_page_fault";

/// Waits inside the kernel that have no reason of their own.
pub(super) const OTHERS: [(&str, &str); 6] = [
    (
        "all processors pass a quiet point",
        "synchronize_rcu synchronize_net __wait_rcu_gp",
    ),
    ("all readers leave", "synchronize_srcu __synchronize_srcu"),
    ("what was put off until a quiet point is done", "rcu_barrier"),
    ("work of the kernel's is done", "flush_work __flush_work"),
    (
        "work for a thread of the kernel's",
        "worker_thread kthread_worker_fn smpboot_thread_fn",
    ),
    ("time, by the kernel's will", "msleep"),
];

/// Functions with a name that is a prefix of another one's with a different meaning.
pub(super) const WHOLE: [(Reason, &str); 3] = [
    (
        Reason::Child,
        "do_wait __do_wait kernel_wait4 kernel_waitid wait_for_vfork_done",
    ),
    (Reason::Events, "read_events"),
    (Reason::Peer, "fifo_open wait_for_partner"),
];

/// Prefixes of function names with their reasons, without leading underscores; the first match counts.
pub(super) const STARTS: [(Reason, &str); 8] = [
    // kernel/futex, fs/locks.c, ipc/sem.c
    (
        Reason::Lock,
        "futex_ do_futex locks_lock_inode_wait flock_lock posix_lock fcntl_setlk do_sys_flock \
        do_semtimedop",
    ),
    // fs/select.c, fs/eventpoll.c, and descriptors and signals that report events
    (
        Reason::Events,
        "poll_schedule_timeout do_select do_sys_poll do_poll ep_poll do_epoll_ io_cqring_wait \
        do_io_getevents eventfd_ signalfd_ inotify_read fanotify_read perf_read do_sigtimedwait \
        sigsuspend do_sys_pause x64_sys_pause",
    ),
    // kernel/time
    (Reason::Sleep, "hrtimer_nanosleep do_nanosleep timerfd_read"),
    // net/unix, fs/pipe.c, drivers/tty, ipc
    (
        Reason::Peer,
        "unix_ pipe_ anon_pipe_ n_tty_ tty_ iterate_tty_ pty_ do_msgrcv do_msgsnd do_mq_ wq_sleep \
        vsock_",
    ),
    // net
    (
        Reason::Network,
        "tcp_ udp skb_recv_udp inet_ inet6_ raw_recvmsg raw_sendmsg rawv6_ ping_ sk_wait_data \
        sk_stream_ packet_ tpacket_ netlink_ sctp_ mptcp_ smc_ tls_ xsk_ tun_ tap_do_read l2tp_ \
        sock_recvmsg sock_sendmsg",
    ),
    // mm: waiting for a free page counts as waiting for a page
    (
        Reason::Page,
        "do_swap_page swap_read read_swap_cache swapin_readahead handle_userfault \
        migration_entry_wait try_to_free_ do_try_to_free_pages throttle_direct_reclaim \
        reclaim_throttle mem_cgroup_handle_over_high alloc_pages_slowpath try_charge_memcg",
    ),
    // block, and file systems
    (
        Reason::Disk,
        "folio_wait folio_lock wait_on_page lock_page wait_on_bit out_of_line_wait_on_bit \
        wait_on_buffer submit_bio_wait blk_ blkdev_ rq_qos_ wbt_ iomap_ dio_ blockdev_direct_IO \
        balance_dirty_pages wb_wait_for_completion sync_inodes file_write_and_wait filemap_ nvme_ \
        scsi_ dm_ md_ ext4_ jbd2_ xfs_ xlog_ btrfs_ f2fs_ ovl_ fuse_ request_wait_answer nfs_ nfs4_ \
        rpc_ netfs_ cifs_ smb2_ ceph_ p9_client_",
    ),
    // kernel/signal.c, kernel/freezer.c, kernel/ptrace.c
    (
        Reason::Stopped,
        "do_signal_stop ptrace_stop ptrace_notify do_jobctl_trap do_freezer_trap refrigerator",
    ),
];

/// System calls that wait for one thing only.
pub(super) const CALLS: [(Reason, &str); 7] = [
    (Reason::Sleep, "nanosleep clock_nanosleep"),
    (
        Reason::Lock,
        "futex futex_wait futex_waitv flock semop semtimedop",
    ),
    (
        Reason::Events,
        "poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 pause rt_sigtimedwait \
        rt_sigsuspend io_getevents",
    ),
    (Reason::Child, "wait4 waitid vfork"),
    (Reason::Disk, "fsync fdatasync sync syncfs msync sync_file_range"),
    (Reason::Peer, "msgrcv msgsnd mq_timedreceive mq_timedsend"),
    (Reason::Stopped, "ptrace"),
];
