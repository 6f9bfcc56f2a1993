//! Conclusions from a profile: sentences, the most important first, each with a stable code.
//!
//! Each sentence follows from the figures; the thresholds are constants next to the rule.

mod calls;
mod computing;
mod waiting;

use crate::format::{counted, percent, threads, time};
use crate::profile::{Profile, Reason};
use crate::tally;
use sockeye_measure::Report;

/// Adds all conclusions.
pub(crate) fn judge(profile: &Profile, report: &mut Report) {
    time_split(profile, report);
    calls::repeated(profile, report);
    waiting::dominating(profile, report);
    calls::dominating(profile, report);
    computing::watched(profile, report);
    computing::hot(profile, report);
    waiting::run_queue(profile, report);
    waiting::kernel_locks(profile, report);
    waiting::contention(profile, report);
    computing::spinning(profile, report);
    calls::errors(profile, report);
    calls::many(profile, report);
}

/// Computing, waiting, and waiting for a processor.
fn time_split(profile: &Profile, report: &mut Report) {
    let computed = profile
        .cpu
        .as_ref()
        .and_then(|cpu| tally::computed_ns(cpu.samples, cpu.samples_per_s));
    let (processor, waited) = waited(profile);
    let duration = profile.duration_ns;
    let is_timed = profile.waits.is_some();
    let text = match computed {
        // A short run may have no sample, or one by chance: that says nothing about its computing.
        Some(_) if is_timed && is_rough(profile, processor.saturating_add(waited)) => {
            let samples = profile.cpu.as_ref().map_or(0, |cpu| cpu.samples);
            let waits = match waited.saturating_add(processor) {
                0 => "no thread waited".to_owned(),
                _ => format!(
                    "threads waited {}, and {} for a processor",
                    time(waited),
                    time(processor)
                ),
            };
            format!(
                "In {} {waits}; it was too short to show how long they computed ({}).",
                time(duration),
                counted(samples, "sample"),
            )
        }
        Some(computed) if is_timed => {
            let whole = computed.saturating_add(processor).saturating_add(waited);
            if whole == 0 {
                return;
            }
            let own = if profile.cpu.as_ref().is_some_and(|cpu| cpu.user_only) {
                "computed in their own code"
            } else {
                "computed"
            };
            format!(
                "In {} there were {} threads on average: they {own} {}, waited {} ({}), and waited for a processor {} ({}).",
                time(duration),
                threads(whole, duration),
                match computed {
                    0 => "too little to be sampled".to_owned(),
                    _ => format!(
                        "{} of the time (about {})",
                        percent(computed, whole),
                        time(computed)
                    ),
                },
                percent(waited, whole),
                time(waited),
                percent(processor, whole),
                time(processor),
            )
        }
        Some(computed) if computed > 0 => {
            let often = match profile.cpu.as_ref() {
                // The samples amount to more than the run's time.
                Some(cpu) if cpu.samples < SAMPLES_ROUGH => format!("by {}", counted(cpu.samples, "sample")),
                _ => format!("{} processors on average", threads(computed, duration)),
            };
            format!(
                "In {} about {} were computed: {often}. How long was waited is not known.",
                time(duration),
                time(computed),
            )
        }
        _ if waited.saturating_add(processor) > 0 => format!(
            "In {} threads waited {} together ({} threads on average), and {} for a processor. How long they computed is not \
             known.",
            time(duration),
            time(waited),
            threads(waited, duration),
            time(processor),
        ),
        _ => return,
    };
    report.say("where-time-went", text);
}

/// Whether the samples are so few that their time may be twice as long or 0, and matters compared with the
/// waiting time.
fn is_rough(profile: &Profile, waited: u64) -> bool {
    profile.cpu.as_ref().is_some_and(|cpu| {
        let period = tally::computed_ns(1, cpu.samples_per_s).unwrap_or(0);
        cpu.samples < SAMPLES_ROUGH && is_part(period, waited.max(1), ROUGH_PERMILLE)
    })
}

/// Waiting time for a processor, and for everything else.
fn waited(profile: &Profile) -> (u64, u64) {
    let mut sums = (0_u64, 0_u64);
    for (reason, ns) in tally::reasons(profile) {
        let sum = if reason == Reason::Processor {
            &mut sums.0
        } else {
            &mut sums.1
        };
        *sum = sum.saturating_add(ns);
    }
    sums
}

/// Whether a time is at least this part of the whole.
fn is_part(ns: u64, of: u64, permille: u64) -> bool {
    u128::from(ns) * 1000 >= u128::from(of) * u128::from(permille) && ns > 0
}

const SAMPLES_ROUGH: u64 = 5;
/// One sample is this part of the waiting time
const ROUGH_PERMILLE: u64 = 20;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::profile::{Cpu, CpuStack, Errno, Frame, Function, Functions, Process, Space, Syscall, Wait};

    pub(crate) fn of(duration_ms: u64) -> Profile {
        Profile {
            schema_version: 1,
            target: "pid 7".to_owned(),
            duration_ns: duration_ms * 1_000_000,
            processors: 2,
            processes: vec![Process {
                pid: 7,
                name: "ip".to_owned(),
                ..Process::default()
            }],
            ..Profile::default()
        }
    }

    pub(crate) fn call(name: &str, calls: u64, total_us: u64) -> Syscall {
        Syscall {
            pid: 7,
            name: name.to_owned(),
            calls,
            total_ns: total_us * 1000,
            max_ns: total_us * 1000,
            ..Syscall::default()
        }
    }

    fn failing(name: &str, calls: u64, errno: &str, count: u64) -> Syscall {
        Syscall {
            errors: count,
            errnos: vec![Errno {
                name: errno.to_owned(),
                count,
            }],
            ..call(name, calls, calls.min(1_000_000))
        }
    }

    pub(crate) fn wait(reason: Reason, call: &str, count: u64, total_ms: u64) -> Wait {
        Wait {
            pid: 7,
            reason,
            syscall: (!call.is_empty()).then(|| call.to_owned()),
            count,
            total_ns: total_ms * 1_000_000,
            ..Wait::default()
        }
    }

    fn sentences_of(profile: &Profile) -> Vec<(&'static str, String)> {
        let mut report = Report::default();
        judge(profile, &mut report);
        report
            .sentences
            .into_iter()
            .map(|one| (one.code, one.text))
            .collect()
    }

    #[track_caller]
    fn check_says(profile: &Profile, code: &str, words: &[&str]) {
        let sentences_of = sentences_of(profile);
        let Some((_, text)) = sentences_of.iter().find(|(known, _)| *known == code) else {
            panic!("no {code} in {sentences_of:#?}");
        };
        for word in words {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[track_caller]
    fn check_silent(profile: &Profile, code: &str) {
        let sentences_of = sentences_of(profile);
        assert!(
            sentences_of.iter().all(|(known, _)| *known != code),
            "{sentences_of:#?}"
        );
    }

    #[test]
    fn empty_profile_gives_no_sentence() {
        assert_eq!(sentences_of(&Profile::default()), []);
        assert_eq!(sentences_of(&of(1000)), []);
    }

    fn sampled(samples: u64) -> Cpu {
        Cpu {
            samples,
            samples_per_s: 100,
            stacks: vec![CpuStack {
                pid: 7,
                stack: vec![0],
                samples,
            }],
            ..Cpu::default()
        }
    }

    #[test]
    fn time_split_is_reported() {
        let mut profile = of(10_000);
        profile.cpu = Some(sampled(100));
        check_says(
            &profile,
            "where-time-went",
            &["about 1.00s", "0.10 processors", "not known"],
        );
        profile.waits = Some(vec![
            wait(Reason::Network, "recvmsg", 10, 8_000),
            wait(Reason::Processor, "", 10, 1_000),
        ]);
        check_says(
            &profile,
            "where-time-went",
            &[
                "1.0 threads",
                "computed 10 %",
                "waited 80 % (8.00s)",
                "processor 10 %",
            ],
        );
        profile.cpu = None;
        check_says(
            &profile,
            "where-time-went",
            &["waited 8.00s", "0.80 threads", "1.00s for a processor"],
        );
    }

    #[test]
    fn single_sample_of_a_short_run_is_ignored() {
        let mut profile = of(3);
        profile.cpu = Some(sampled(1));
        profile.waits = Some(vec![wait(Reason::Processor, "", 1, 1)]);
        check_says(
            &profile,
            "where-time-went",
            &["too short", "1 sample)", "1.00ms for a processor"],
        );
        check_says(&profile, "run-queue", &["0.33 threads at a time"]);
        let mut profile = of(2_000);
        profile.cpu = Some(sampled(0));
        profile.waits = Some(vec![wait(Reason::Network, "recvfrom", 1, 2_000)]);
        check_says(
            &profile,
            "where-time-went",
            &["computed too little to be sampled", "waited 100 %"],
        );
        check_says(
            &profile,
            "dominating-wait",
            &["recvfrom: once, 2.00s, 1.0 threads"],
        );
    }

    #[test]
    fn call_in_progress_is_not_kernel_work() {
        let mut profile = of(1_000);
        profile.syscalls = Some(vec![call("clock_nanosleep", 1, 1_970_000)]);
        profile.waits = Some(vec![wait(Reason::Sleep, "clock_nanosleep", 0, 870)]);
        let (_, text) = sentences_of(&profile)
            .into_iter()
            .find(|(code, _)| *code == "dominating-call")
            .unwrap();
        assert!(
            text.contains("1 call, 1.97s.") && !text.contains("works"),
            "{text}"
        );
        check_says(&profile, "dominating-wait", &["all the time, 870ms"]);
        profile.cpu = Some(Cpu {
            kernel_samples: 90,
            ..sampled(90)
        });
        check_says(&profile, "dominating-call", &["the kernel works for it"]);
    }

    #[test]
    fn repeated_open_and_query_is_found() {
        let mut profile = of(1000);
        profile.syscalls = Some(vec![
            call("openat", 2_019, 300_000),
            call("sendto", 2_000, 240_000),
            call("recvmsg", 4_000, 200_000),
            call("close", 2_020, 100_000),
            call("getdents64", 12, 160_000),
        ]);
        check_says(
            &profile,
            "repeated-calls",
            &[
                "openat, sendto, close, recvmsg (2 each)",
                "about 2,000 times",
                "84 %",
                "opened and queried one by one",
            ],
        );
        // A server's usual mixture gives no such sentence.
        profile.syscalls = Some(vec![
            call("epoll_wait", 2_000, 900_000),
            call("read", 3_100, 30_000),
            call("write", 5_300, 30_000),
        ]);
        check_silent(&profile, "repeated-calls");
        // Neither do a few calls of a short run.
        profile.syscalls = Some(vec![
            call("openat", 20, 300),
            call("read", 20, 300),
            call("close", 20, 300),
        ]);
        check_silent(&profile, "repeated-calls");
    }

    #[test]
    fn processes_are_judged_separately() {
        let mut profile = of(1000);
        let other = |name: &str, calls| Syscall {
            pid: 9,
            ..call(name, calls, 10)
        };
        profile.syscalls = Some(vec![
            call("openat", 500, 10),
            other("sendto", 500),
            other("close", 505),
        ]);
        check_silent(&profile, "repeated-calls");
    }

    #[test]
    fn dominating_call_or_wait_is_found() {
        let mut profile = of(1000);
        profile.syscalls = Some(vec![call("unshare", 10, 900_000), call("read", 10, 50_000)]);
        check_says(
            &profile,
            "dominating-call",
            &["unshare", "95 %", "10 calls", "90.0ms"],
        );
        profile.waits = Some(vec![wait(Reason::Other, "unshare", 10, 890)]);
        check_silent(&profile, "dominating-call");
        check_says(
            &profile,
            "dominating-wait",
            &["100 %", "in unshare", "10 times", "89.0ms"],
        );
        profile.syscalls = Some(vec![call("read", 10, 900)]);
        profile.waits = None;
        check_silent(&profile, "dominating-call");
    }

    #[test]
    fn run_queue_wait_is_found() {
        let mut profile = of(10_000);
        profile.cpu = Some(sampled(100));
        profile.waits = Some(vec![wait(Reason::Processor, "", 10, 900)]);
        check_says(&profile, "run-queue", &["900ms", "47 %"]);
        profile.waits = Some(vec![wait(Reason::Processor, "", 10, 90)]);
        check_silent(&profile, "run-queue");
    }

    #[test]
    fn lock_contention_is_found() {
        let mut profile = of(1000);
        profile.waits = Some(vec![wait(Reason::Lock, "futex", 5_000, 900)]);
        check_says(&profile, "lock-contention", &["5,000 times", "180us"]);
        // Threads of a pool that sleep until there is work.
        profile.waits = Some(vec![wait(Reason::Lock, "futex", 16, 16_000)]);
        check_silent(&profile, "lock-contention");
        profile.waits = Some(vec![wait(Reason::KernelLock, "unshare", 10, 200)]);
        check_says(&profile, "kernel-lock", &["200ms", "unshare"]);
        profile.waits = Some(vec![wait(Reason::KernelLock, "unshare", 10, 20)]);
        check_silent(&profile, "kernel-lock");
    }

    #[test]
    fn repeated_errors_are_found() {
        let mut profile = of(1000);
        profile.syscalls = Some(vec![failing("openat", 2_012, "ENOENT", 1_998)]);
        check_says(
            &profile,
            "many-errors",
            &["openat", "1,998", "2,012", "ENOENT", "does not exist"],
        );
        profile.syscalls = Some(vec![failing("recvfrom", 50_000, "EAGAIN", 49_000)]);
        check_says(&profile, "many-errors", &["EAGAIN", "no data is available"]);
        // Reading until no data is left gives one error each time.
        profile.syscalls = Some(vec![failing("recvfrom", 50_000, "EAGAIN", 25_000)]);
        check_silent(&profile, "many-errors");
        profile.syscalls = Some(vec![failing("futex", 50_000, "EAGAIN", 49_000)]);
        check_silent(&profile, "many-errors");
        profile.syscalls = Some(vec![failing("openat", 20, "ENOENT", 20)]);
        check_silent(&profile, "many-errors");
    }

    #[test]
    fn many_short_calls_are_found() {
        let mut profile = of(1000);
        profile.syscalls = Some(vec![call("write", 400_000, 160_000)]);
        check_says(&profile, "many-short-calls", &["write", "400,000", "400ns"]);
        profile.syscalls = Some(vec![call("write", 400, 160)]);
        check_silent(&profile, "many-short-calls");
    }

    #[test]
    fn hot_function_is_found() {
        let mut profile = of(1000);
        let frame = |name: &str, space| Frame {
            function: Some(name.to_owned()),
            module: Some("libcrypto.so.3".to_owned()),
            offset: None,
            space,
        };
        profile.frames = vec![
            frame("BF_encrypt", Space::User),
            frame("native_queued_spin_lock_slowpath", Space::Kernel),
        ];
        profile.cpu = Some(sampled(80));
        check_says(
            &profile,
            "hot-function",
            &["100 %", "BF_encrypt", "libcrypto.so.3"],
        );
        check_silent(&profile, "spin-locks");
        profile.cpu = Some(sampled(9));
        check_silent(&profile, "hot-function");
        let mut cpu = sampled(80);
        cpu.stacks[0].stack = vec![0, 1];
        profile.cpu = Some(cpu);
        check_says(&profile, "spin-locks", &["100 %", "80"]);
        check_silent(&profile, "hot-function");
        profile.functions = Some(Functions {
            calls: vec![Function {
                pid: 7,
                name: "BF_cfb64_encrypt".to_owned(),
                module: "libcrypto.so.3".to_owned(),
                calls: 3_000,
                total_ns: Some(420_000_000),
                self_ns: Some(420_000_000),
                ..Function::default()
            }],
            ..Functions::default()
        });
        check_says(
            &profile,
            "watched-function",
            &["BF_cfb64_encrypt", "3,000 times", "420ms", "42 %"],
        );
    }

    #[test]
    fn extreme_numbers_do_not_panic() {
        let mut profile = of(0);
        profile.duration_ns = u64::MAX;
        profile.syscalls = Some(vec![failing("a", u64::MAX, "ENOENT", u64::MAX); 3]);
        for one in profile.syscalls.iter_mut().flatten() {
            one.total_ns = u64::MAX;
        }
        profile.waits = Some(vec![
            Wait {
                total_ns: u64::MAX,
                count: u64::MAX,
                ..wait(Reason::Lock, "futex", 1, 1)
            };
            3
        ]);
        profile.cpu = Some(Cpu {
            samples: u64::MAX,
            samples_per_s: 1,
            kernel_samples: u64::MAX,
            ..sampled(u64::MAX)
        });
        sentences_of(&profile);
        profile.duration_ns = 0;
        sentences_of(&profile);
    }
}
