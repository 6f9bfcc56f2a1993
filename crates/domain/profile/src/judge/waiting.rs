//! Conclusions from waits.

use super::{is_part, is_rough, waited};
use crate::format::{count, percent, short, threads, time};
use crate::profile::{Profile, Reason};
use crate::tally::{self, WaitTally};
use sockeye_measure::Report;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most of the waiting is for one thing.
pub(super) fn dominating(profile: &Profile, report: &mut Report) {
    let (_, whole) = waited(profile);
    let waits = tally::waits(profile, false);
    let Some(most) = most(&waits, |one| {
        !matches!(one.reason, Reason::Processor | Reason::Stopped)
    }) else {
        return;
    };
    if !is_part(most.total_ns, whole, DOMINATING_PERMILLE_MIN)
        || !is_part(most.total_ns, profile.duration_ns, DURATION_PERMILLE_MIN)
    {
        return;
    }
    let text = format!(
        "{} of all waiting was {}{}: {}, {} threads at a time.",
        percent(most.total_ns, whole),
        most.reason.words(),
        most.places(),
        most.how_often(),
        threads(most.total_ns, profile.duration_ns),
    );
    report.say("dominating-wait", text);
}

/// Runnable threads did not run.
pub(super) fn run_queue(profile: &Profile, report: &mut Report) {
    let (processor, _) = waited(profile);
    if !is_part(processor, profile.duration_ns, QUEUE_DURATION_PERMILLE_MIN) {
        return;
    }
    let computed = profile
        .cpu
        .as_ref()
        .filter(|_| !is_rough(profile, processor))
        .and_then(|cpu| tally::computed_ns(cpu.samples, cpu.samples_per_s));
    let text = match computed {
        Some(computed) => {
            let whole = computed.saturating_add(processor);
            if !is_part(processor, whole, QUEUE_PERMILLE_MIN) {
                return;
            }
            format!(
                "Threads that could run waited {} for a processor: {} of the time that they needed. Others have the \
                 processors ({}), or a quota (cpu.max) ends early.",
                time(processor),
                percent(processor, whole),
                profile.processors,
            )
        }
        None if is_part(processor, profile.duration_ns, QUEUE_PERMILLE_MIN) => format!(
            "Threads that could run waited {} for a processor, {} threads at a time. Others have the processors ({}), or a \
             quota (cpu.max) ends early.",
            time(processor),
            threads(processor, profile.duration_ns),
            profile.processors,
        ),
        None => return,
    };
    report.say("run-queue", text);
}

/// Kernel locks held by other threads.
pub(super) fn kernel_locks(profile: &Profile, report: &mut Report) {
    let waits = tally::waits(profile, false);
    let locks = waits.iter().filter(|one| one.reason == Reason::KernelLock);
    let whole = tally::sum(locks.map(|one| one.total_ns));
    let most = most(&waits, |one| one.reason == Reason::KernelLock);
    if let Some(most) = most.filter(|_| is_part(whole, profile.duration_ns, KERNEL_LOCK_PERMILLE_MIN)) {
        let text = format!(
            "Threads waited {} for kernel locks, {} of it{}: other threads hold them meanwhile.",
            time(whole),
            percent(most.total_ns, whole),
            most.places(),
        );
        report.say("kernel-lock", text);
    }
}

/// Many short waits for locks of the program: its threads block each other.
pub(super) fn contention(profile: &Profile, report: &mut Report) {
    let waits = tally::waits(profile, false);
    // Waits of the whole run at the same place: pool threads that wait for work wait long and rarely.
    let short_ones = |one: &WaitTally<'_>| {
        one.reason == Reason::Lock && one.total_ns / one.count.max(1) <= CONTENDED_NS_MAX
    };
    let Some(most) = most(&waits, short_ones) else {
        return;
    };
    let per_s = most.count as f64 / (profile.duration_ns.max(1) as f64 / 1e9);
    if per_s >= CONTENDED_PER_S_MIN && is_part(most.total_ns, profile.duration_ns, CONTENDED_PERMILLE_MIN) {
        let text = format!(
            "Threads waited {}{} for locks or conditions of their program, {} each: so many short waits are threads that \
                 hand a lock, or work, to each other.",
            often(most.count),
            most.places(),
            time(most.total_ns / most.count.max(1)),
        );
        report.say("lock-contention", text);
    }
}

/// Waits for one thing, from any place in the program.
#[derive(Default)]
struct Dominant<'a> {
    reason: Reason,
    syscall: Option<&'a str>,
    object: Option<&'a str>,
    /// The function that waited longest, if that is most of it
    user: Option<&'a str>,
    kernel: Option<&'a str>,
    count: u64,
    total_ns: u64,
}

fn most<'a>(waits: &[WaitTally<'a>], is_meant: impl Fn(&WaitTally<'a>) -> bool) -> Option<Dominant<'a>> {
    let mut sums = BTreeMap::<_, (u64, u64)>::new();
    for one in waits.iter().filter(|one| is_meant(one)) {
        let sum = sums.entry((one.reason, one.syscall, one.object)).or_default();
        sum.0 = sum.0.saturating_add(one.count);
        sum.1 = sum.1.saturating_add(one.total_ns);
    }
    let (key, (count, total_ns)) = sums
        .into_iter()
        .filter(|(_, (_, total_ns))| *total_ns > 0)
        .min_by_key(|(_, (_, total_ns))| Reverse(*total_ns))?;
    let (reason, syscall, object) = key;
    // The rows are sorted: the first one is the longest.
    let longest = waits
        .iter()
        .find(|one| (one.reason, one.syscall, one.object) == key)
        .filter(|one| is_part(one.total_ns, total_ns, 500));
    Some(Dominant {
        reason,
        syscall,
        object,
        user: longest.and_then(|one| one.place.user),
        kernel: longest.and_then(|one| one.place.kernel),
        count,
        total_ns,
    })
}

impl Dominant<'_> {
    /// Number of waits, and mean duration.
    fn how_often(&self) -> String {
        match self.count {
            // It began before the observation and continues.
            0 => format!("all the time, {}", time(self.total_ns)),
            1 => format!("once, {}", time(self.total_ns)),
            many => format!("{}, {} each on average", often(many), time(self.total_ns / many)),
        }
    }

    /// Where: ` in recvmsg at fd 3 tcp ..., in read_reply / tcp_recvmsg`.
    fn places(&self) -> String {
        let mut text = String::new();
        if let Some(call) = self.syscall {
            text.push_str(&format!(" in {call}"));
        }
        if let Some(object) = self.object {
            text.push_str(&format!(" at {}", short(object, 100)));
        }
        let functions: Vec<String> = [self.user, self.kernel]
            .into_iter()
            .flatten()
            .map(|name| short(name, 60))
            .collect();
        if !functions.is_empty() {
            text.push_str(&format!(" ({})", functions.join(" / ")));
        }
        text
    }
}

fn often(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        many => format!("{} times", count(many)),
    }
}

const DOMINATING_PERMILLE_MIN: u64 = 400;
const DURATION_PERMILLE_MIN: u64 = 100;
/// Part of computing and waiting for a processor
const QUEUE_PERMILLE_MIN: u64 = 100;
const QUEUE_DURATION_PERMILLE_MIN: u64 = 10;
const KERNEL_LOCK_PERMILLE_MIN: u64 = 50;
/// Longer waits are those of threads that wait for work
const CONTENDED_NS_MAX: u64 = 10_000_000;
const CONTENDED_PER_S_MIN: f64 = 1000.0;
const CONTENDED_PERMILLE_MIN: u64 = 50;
