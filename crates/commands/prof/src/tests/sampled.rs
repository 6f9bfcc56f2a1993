//! Sample profiles that use every part.
#![allow(dead_code, reason = "each test uses a part of it")]

use sockeye_profile::{
    Cpu, CpuStack, Errno, Frame, Function, Functions, Losses, Missing, Process, Profile, Reason, Space,
    Syscall, Wait,
};

/// Returns a profile of two processes of a tunnel, ten seconds long.
pub(crate) fn rich() -> Profile {
    let mut frames = FrameTable::default();
    let waits = vec![
        wait(
            &mut frames,
            Reason::Network,
            Some("recvmsg"),
            Some("fd 5 tcp 10.0.0.2:40112 > 10.0.0.1:443"),
            &[
                "main",
                "event_loop",
                "read_reply",
                "libc.so.6:recvmsg",
                "k:tcp_recvmsg_locked",
                "k:schedule_timeout",
            ],
            [2_000, 0, 6_400_000_000, 41_000_000],
        ),
        wait(
            &mut frames,
            Reason::Events,
            Some("epoll_wait"),
            None,
            &[
                "main",
                "event_loop",
                "libc.so.6:epoll_wait",
                "k:ep_poll",
                "k:schedule_hrtimeout_range",
            ],
            [812, 1, 1_900_000_000, 250_000_000],
        ),
        wait(
            &mut frames,
            Reason::Lock,
            Some("futex"),
            Some("futex 0x7f1200a0"),
            &[
                "worker",
                "<alloc::collections::btree::map::BTreeMap<K,V,A> as core::ops::drop::Drop>::drop_slow",
                "k:futex_wait_queue",
            ],
            [14_000, 2, 700_000_000, 9_000_000],
        ),
        wait(
            &mut frames,
            Reason::Processor,
            None,
            None,
            &["main", "encrypt"],
            [5_100, 0, 420_000_000, 4_100_000],
        ),
        wait(
            &mut frames,
            Reason::KernelLock,
            Some("unshare"),
            None,
            &["main", "setup", "k:copy_net_ns", "k:down_read_killable"],
            [12, 0, 610_000_000, 90_000_000],
        ),
        wait(
            &mut frames,
            Reason::Disk,
            Some("fsync"),
            Some("fd 9 /var/log/tunnel.log"),
            &[],
            [40, 0, 55_000_000, 3_000_000],
        ),
    ];
    let stacks = vec![
        stack(
            &mut frames,
            4711,
            &[
                "main",
                "event_loop",
                "encrypt",
                "libcrypto.so.3:BF_cfb64_encrypt",
                "libcrypto.so.3:BF_encrypt",
            ],
            320,
        ),
        stack(
            &mut frames,
            4711,
            &["main", "event_loop", "encrypt", "libcrypto.so.3:BF_cfb64_encrypt"],
            41,
        ),
        stack(
            &mut frames,
            4711,
            &[
                "main",
                "event_loop",
                "write_tun",
                "libc.so.6:write",
                "k:ksys_write",
                "k:tun_chr_write_iter",
                "k:netif_receive_skb",
            ],
            66,
        ),
        stack(
            &mut frames,
            4711,
            &[
                "main",
                "event_loop",
                "write_tun",
                "libc.so.6:write",
                "k:ksys_write",
                "k:native_queued_spin_lock_slowpath",
            ],
            48,
        ),
        stack(
            &mut frames,
            4712,
            &["worker", "compress", "compress", "compress", "deflate"],
            37,
        ),
        stack(
            &mut frames,
            4712,
            &["worker", "libz.so.1:", "k:nf_conntrack:nf_conntrack_in"],
            9,
        ),
        stack(&mut frames, 4712, &[], 4),
    ];
    let samples: u64 = stacks.iter().map(|one| one.samples).sum();
    let mut profile = Profile {
        schema_version: Profile::SCHEMA_VERSION,
        target: "pid 4711".to_owned(),
        duration_ns: 10_004_000_000,
        processors: 2,
        processes: vec![process(4711, "tunnel"), process(4712, "tunnel-worker")],
        syscalls: Some(vec![
            call(
                4711,
                "openat",
                2_019,
                21,
                1_800_000_000,
                &[("ENOENT", 18), ("EACCES", 2), ("ELOOP", 1)],
            ),
            call(4711, "sendto", 2_000, 0, 940_000_000, &[]),
            call(4711, "recvmsg", 4_000, 0, 6_410_000_000, &[]),
            call(4711, "close", 2_011, 0, 210_000_000, &[]),
            call(4711, "epoll_wait", 812, 0, 1_910_000_000, &[]),
            call(4711, "rt_sigtimedwait_time64", 2, 2, 8_000, &[("EAGAIN", 2)]),
            call(4712, "futex", 14_000, 9_000, 702_000_000, &[("EAGAIN", 9_000)]),
            call(4712, "write", 120_000, 0, 96_000_000, &[]),
        ]),
        waits: Some(waits),
        cpu: Some(Cpu {
            samples_per_s: 99,
            samples,
            kernel_samples: 123,
            cut_stacks: 9,
            user_only: false,
            ready_ns: 84_000_000,
            stacks,
        }),
        functions: Some(Functions {
            calls: vec![
                function(
                    "BF_cfb64_encrypt",
                    412_000,
                    Some(4_100_000_000),
                    Some(900_000_000),
                    0,
                ),
                function(
                    "BF_encrypt",
                    3_300_000,
                    Some(3_200_000_000),
                    Some(3_200_000_000),
                    2,
                ),
                function("BF_set_key", 2, None, None, 0),
            ],
            overhead_ns_per_call: Some(1_312.5),
            means: Vec::new(),
            watched: 9,
            calls_of_others: 0,
        }),
        frames: Vec::new(),
        losses: Losses {
            samples: 3,
            unnamed_frames: 17,
            ..Losses::default()
        },
        missing: vec![Missing {
            part: "kernel_functions".to_owned(),
            text: "attach to function tun_net_xmit of the kernel: Operation not permitted (EPERM)".to_owned(),
            remedy: Some("kprobes need CAP_SYS_ADMIN and a kernel that is not locked down".to_owned()),
        }],
        partial: None,
    };
    if let Some(epoll) = profile.syscalls.as_mut().and_then(|calls| calls.get_mut(4)) {
        epoll.unfinished = 1;
    }
    profile.frames = frames.frames;
    profile
}

/// Returns [`rich`] with hostile text in every name.
pub(crate) fn hostile() -> Profile {
    let mut profile = rich();
    profile.target = HOSTILE.to_owned();
    for process in &mut profile.processes {
        process.name = HOSTILE.to_owned();
    }
    for frame in &mut profile.frames {
        let name = frame.function.take().unwrap_or_default();
        frame.function = Some(format!("{HOSTILE}{name}"));
        frame.module = Some(HOSTILE.to_owned());
    }
    for wait in profile.waits.iter_mut().flatten() {
        wait.object = Some(HOSTILE.to_owned());
        wait.syscall = Some(HOSTILE.to_owned());
    }
    for call in profile.syscalls.iter_mut().flatten() {
        call.name.push_str(HOSTILE);
    }
    for one in profile.functions.iter_mut().flat_map(|all| &mut all.calls) {
        one.name.push_str(HOSTILE);
        one.module = HOSTILE.to_owned();
    }
    profile
}

pub(crate) const HOSTILE: &str =
    "a;b </text></title><script>alert(1)</script>\" ]]> \n\x1b[31m\u{202e}\u{9b}2J";

/// Returns [`rich`] with this many different stacks.
pub(crate) fn many(number: u32) -> Profile {
    let mut profile = rich();
    let names = 2_000;
    profile.frames = (0..names)
        .map(|nth| Frame {
            function: Some(format!("function_number_{nth}")),
            module: Some("many".to_owned()),
            ..Frame::default()
        })
        .collect();
    // A fixed seed: always the same numbers.
    let mut state = 12_345_u32;
    let mut next = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let stacks: Vec<CpuStack> = (0..number)
        .map(|nth| {
            let mut stack: Vec<u32> = (0..6 + next(40)).map(|depth| depth * 7 + next(3)).collect();
            stack.push(nth % names);
            stack.push(nth / names);
            CpuStack {
                pid: 4711,
                stack,
                samples: u64::from(1 + next(9)),
            }
        })
        .collect();
    if let Some(cpu) = &mut profile.cpu {
        cpu.samples = stacks.iter().map(|one| one.samples).sum();
        cpu.stacks = stacks;
    }
    profile
}

#[derive(Default)]
struct FrameTable {
    frames: Vec<Frame>,
}

impl FrameTable {
    /// Returns the index of a frame: `function`, `module:function`, `k:function`, `k:module:function`.
    fn index(&mut self, name: &str) -> u32 {
        let (space, name) = match name.strip_prefix("k:") {
            Some(rest) => (Space::Kernel, rest),
            None => (Space::User, name),
        };
        let own = if space == Space::Kernel {
            "kernel"
        } else {
            "tunnel"
        };
        let split = name
            .split_once(':')
            .filter(|(_, rest)| !rest.starts_with(':') && !name.starts_with('<'));
        let (module, function) = split.unwrap_or((own, name));
        let frame = Frame {
            function: (!function.is_empty()).then(|| function.to_owned()),
            module: Some(module.to_owned()),
            offset: function.is_empty().then_some(0x1234),
            space,
        };
        let place = self.frames.iter().position(|known| *known == frame);
        let place = place.unwrap_or_else(|| {
            self.frames.push(frame);
            self.frames.len() - 1
        });
        place as u32
    }
}

fn process(pid: u32, name: &str) -> Process {
    Process {
        pid,
        name: name.to_owned(),
        began: false,
        ended: false,
    }
}

fn call(pid: u32, name: &str, calls: u64, errors: u64, total_ns: u64, errnos: &[(&str, u64)]) -> Syscall {
    Syscall {
        pid,
        name: name.to_owned(),
        calls,
        errors,
        errnos: errnos
            .iter()
            .map(|(name, count)| Errno {
                name: (*name).to_owned(),
                count: *count,
            })
            .collect(),
        total_ns,
        max_ns: total_ns / 9,
        timed: None,
        unfinished: 0,
    }
}

fn wait(
    frames: &mut FrameTable,
    reason: Reason,
    call: Option<&str>,
    object: Option<&str>,
    stack: &[&str],
    [count, unfinished, total_ns, max_ns]: [u64; 4],
) -> Wait {
    Wait {
        pid: if stack.first() == Some(&"worker") {
            4712
        } else {
            4711
        },
        reason,
        syscall: call.map(str::to_owned),
        object: object.map(str::to_owned),
        stack: stack.iter().map(|name| frames.index(name)).collect(),
        count,
        unfinished,
        total_ns,
        max_ns,
    }
}

fn stack(frames: &mut FrameTable, pid: u32, stack: &[&str], samples: u64) -> CpuStack {
    CpuStack {
        pid,
        stack: stack.iter().map(|name| frames.index(name)).collect(),
        samples,
    }
}

fn function(name: &str, calls: u64, total_ns: Option<u64>, self_ns: Option<u64>, missed: u64) -> Function {
    Function {
        pid: 4711,
        name: name.to_owned(),
        module: "libcrypto.so.3".to_owned(),
        calls,
        total_ns,
        self_ns,
        max_ns: total_ns.map(|total| total / 1000),
        missed_returns: missed,
        unfinished: 0,
    }
}
