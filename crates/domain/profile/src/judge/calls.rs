//! Conclusions from system calls.

use super::{is_part, waited};
use crate::format::{count, counted, percent, time};
use crate::profile::{Profile, Syscall};
use crate::tally::{self, CallTally};
use sockeye_measure::Report;
use std::collections::{BTreeMap, HashMap};

/// A few calls with the same count each: something is done for each of many items.
pub(super) fn repeated(profile: &Profile, report: &mut Report) {
    // For programs that are started repeatedly, all runs together show it.
    let names: HashMap<u32, &str> = profile
        .processes
        .iter()
        .map(|process| (process.pid, process.name.as_str()))
        .collect();
    let mut programs = BTreeMap::<&str, Vec<&Syscall>>::new();
    for one in profile.syscalls.iter().flatten() {
        let name = names.get(&one.pid).copied().unwrap_or_default();
        programs.entry(name).or_default().push(one);
    }
    let several = programs.len() > 1;
    let rounds = programs.into_iter().filter_map(|(name, rows)| {
        let calls = tally::calls_of(rows.into_iter(), false);
        Some((name, CallRound::find(&calls)?))
    });
    let Some((name, round)) = rounds.max_by_key(|(_, round)| round.total_ns) else {
        return;
    };
    let prefix = if several && !name.is_empty() {
        format!("{name}: ")
    } else {
        String::new()
    };
    let text = format!(
        "{prefix}{}: about {} times each, {} of all its system calls and {} of the time in them ({}): {}.",
        round.words(),
        count(rounded(round.times)),
        percent(round.calls, round.calls_of_all),
        percent(round.total_ns, round.total_ns_of_all),
        time(round.total_ns),
        round.meaning(),
    );
    report.say("repeated-calls", text);
}

/// Calls that belong together, because their counts match.
#[derive(Debug)]
struct CallRound<'a> {
    /// Call names and number per round; those with one first, then by time
    members: Vec<(&'a str, u64)>,
    times: u64,
    calls: u64,
    calls_of_all: u64,
    total_ns: u64,
    total_ns_of_all: u64,
}

impl<'a> CallRound<'a> {
    fn find(calls: &[CallTally<'a>]) -> Option<Self> {
        let sum = |number: fn(&CallTally<'_>) -> u64| tally::sum(calls.iter().map(number));
        let (calls_of_all, total_ns_of_all) = (sum(|one| one.calls), sum(|one| one.total_ns));
        let bases = calls
            .iter()
            .map(|one| one.calls)
            .filter(|times| *times >= TIMES_MIN);
        let rounds = bases.map(|times| {
            let mut members: Vec<(&CallTally<'a>, u64)> = calls
                .iter()
                .filter_map(|one| Some((one, multiple(one.calls, times)?)))
                .collect();
            // The sort is stable: it keeps the order by time.
            members.sort_by_key(|(_, each)| *each);
            let add =
                |number: fn(&CallTally<'_>) -> u64| tally::sum(members.iter().map(|(one, _)| number(one)));
            Self {
                times,
                calls: add(|one| one.calls),
                total_ns: add(|one| one.total_ns),
                members: members.iter().map(|(one, each)| (one.name, *each)).collect(),
                calls_of_all,
                total_ns_of_all,
            }
        });
        rounds
            .filter(|round| {
                let once = round.members.iter().filter(|(_, each)| *each == 1).count();
                round.members.len() >= MEMBERS_MIN
                    && once >= ONCE_MIN
                    && is_part(round.calls, calls_of_all, CALLS_PERMILLE_MIN)
                    && is_part(round.total_ns, total_ns_of_all, TIME_PERMILLE_MIN)
            })
            // Of equal candidates the lowest count: the others include calls from elsewhere.
            .max_by_key(|round| (round.total_ns, std::cmp::Reverse(round.times)))
    }

    fn words(&self) -> String {
        let mut words: Vec<String> = self
            .members
            .iter()
            .take(MEMBERS_SHOWN)
            .map(|(name, each)| match each {
                1 => (*name).to_owned(),
                many => format!("{name} ({many} each)"),
            })
            .collect();
        if self.members.len() > MEMBERS_SHOWN {
            words.push(format!("and {} more", self.members.len() - MEMBERS_SHOWN));
        }
        words.join(", ")
    }

    /// What such a round probably does, by the names of its calls.
    fn meaning(&self) -> &'static str {
        let has = |names: &[&str]| self.members.iter().any(|(name, _)| names.contains(name));
        let asks = has(&["sendto", "sendmsg", "write"]) && has(&["recvmsg", "recvfrom", "read", "recvmmsg"]);
        if has(&["execve"]) || has(&["wait4", "waitid"]) && has(&["clone", "clone3", "fork", "vfork"]) {
            "a process is started for each, one by one"
        } else if has(&["connect"]) {
            "a connection is made for each, one by one"
        } else if has(&["setns"]) {
            "a namespace is entered for each, one by one"
        } else if has(OPENING) && asks {
            "items are opened and queried one by one"
        } else if has(OPENING) && has(&["read", "pread64", "getdents64"]) {
            "something is opened and read one by one"
        } else if has(OPENING) {
            "something is opened one by one"
        } else if asks {
            "items are queried one by one"
        } else {
            "the same few calls for each of many, one by one"
        }
    }
}

/// Calls per round; `None`: the call does not belong to it.
fn multiple(calls: u64, times: u64) -> Option<u64> {
    // The start of a program adds some calls.
    let spread = times / SPREAD_PART + (times / 10).min(BEGINNING_MAX);
    (1..=EACH_MAX).find(|each| {
        let expected = times.saturating_mul(*each);
        calls >= expected.saturating_sub(spread / 2) && calls <= expected.saturating_add(spread)
    })
}

/// Rounds to two digits: `2,019` are about 2,000.
fn rounded(number: u64) -> u64 {
    let mut unit = 1_u64;
    while number / unit >= 100 {
        unit *= 10;
    }
    (number + unit / 2)
        .checked_div(unit)
        .map_or(number, |digits| digits.saturating_mul(unit))
}

/// One call has most of the time, and not because it waits.
pub(super) fn dominating(profile: &Profile, report: &mut Report) {
    let calls = tally::calls(profile, false);
    let Some(most) = calls.first() else {
        return;
    };
    let whole = tally::sum(calls.iter().map(|one| one.total_ns));
    if !is_part(most.total_ns, whole, DOMINATING_PERMILLE_MIN)
        || !is_part(most.total_ns, profile.duration_ns, DURATION_PERMILLE_MIN)
        || most.timed_base == 0
    {
        return;
    }
    let waits = profile.waits.as_ref().map(|waits| {
        let within = waits
            .iter()
            .filter(|one| one.syscall.as_deref() == Some(most.name));
        tally::sum(within.map(|one| one.total_ns))
    });
    // For a call in progress at the beginning, its whole time is known, but not all of its waiting.
    let rest = waits.map(|waits| most.total_ns.saturating_sub(waits));
    let works = match (waits, rest) {
        // The waits report it.
        (Some(waits), _) if is_part(waits, most.total_ns, 500) => return,
        (_, Some(rest)) if is_part(in_kernel(profile), rest, WORKING_PERMILLE_MIN) => {
            "; mostly not waiting: the kernel works for it"
        }
        _ => "",
    };
    let text = format!(
        "{} takes {} of the time in system calls: {}, {}{works}.",
        most.name,
        percent(most.total_ns, whole),
        counted(most.timed_base, "call"),
        match most.timed_base {
            1 => time(most.total_ns),
            many => format!(
                "{} together, {} each on average",
                time(most.total_ns),
                time(most.total_ns / many)
            ),
        },
    );
    report.say("dominating-call", text);
}

/// Approximate time in the kernel; 0 with too few samples.
fn in_kernel(profile: &Profile) -> u64 {
    profile
        .cpu
        .as_ref()
        .filter(|cpu| cpu.kernel_samples >= WORKING_SAMPLES_MIN)
        .and_then(|cpu| tally::computed_ns(cpu.kernel_samples, cpu.samples_per_s))
        .unwrap_or(0)
}

/// Calls that mostly fail.
pub(super) fn errors(profile: &Profile, report: &mut Report) {
    let per_s = |number: u64| number as f64 / (profile.duration_ns.max(1) as f64 / 1e9);
    let calls = tally::calls(profile, false);
    let mut failing: Vec<_> = calls
        .iter()
        .filter_map(|call| Some((call, call.errnos.first()?)))
        .filter(|(call, errno)| match errno.name.as_str() {
            // An existing lock, a timeout, or a silent peer are no faults by themselves.
            "ETIMEDOUT" | "EINPROGRESS" | "EINTR" => false,
            name if name.starts_with("ERESTART") => false,
            "EAGAIN" => {
                call.name != "futex"
                    && per_s(errno.count) >= POLLING_PER_S_MIN
                    && is_part(errno.count, call.calls, POLLING_PERMILLE_MIN)
            }
            _ => errno.count >= ERRORS_MIN && is_part(errno.count, call.calls, ERRORS_PERMILLE_MIN),
        })
        .collect();
    failing.sort_by_key(|(_, errno)| std::cmp::Reverse(errno.count));
    for (call, errno) in failing.into_iter().take(ERRORS_SHOWN) {
        let meaning = match errno.name.as_str() {
            "ENOENT" => ": something is looked for that does not exist there",
            "EAGAIN" => ": it is repeated while no data is available",
            "ECONNREFUSED" => ": no listener there",
            "EACCES" | "EPERM" => ": it may not",
            "EMFILE" | "ENFILE" => ": there are no file descriptors left",
            _ => "",
        };
        let text = format!(
            "{} failed with {} {} of {} times{meaning}.",
            call.name,
            errno.name,
            count(errno.count),
            count(call.calls),
        );
        report.say("many-errors", text);
    }
}

/// So many short calls that their overhead dominates.
pub(super) fn many(profile: &Profile, report: &mut Report) {
    let calls = tally::calls(profile, false);
    let per_s = |number: u64| number as f64 / (profile.duration_ns.max(1) as f64 / 1e9);
    let moving = calls.iter().filter(|call| MOVING.contains(&call.name));
    let short = moving.filter(|call| {
        per_s(call.calls) >= MANY_PER_S_MIN
            && call.timed_base > 0
            && call.total_ns / call.timed_base <= SHORT_NS_MAX
    });
    if let Some(call) = short.max_by_key(|call| call.calls) {
        let text = format!(
            "{} was called {} times a second, {} each: if each moves little, larger blocks need fewer calls.",
            call.name,
            count(per_s(call.calls) as u64),
            time(call.total_ns / call.timed_base.max(1)),
        );
        report.say("many-short-calls", text);
    }
    // Waiting time of threads is part of their calls' time.
    let (_, waited) = waited(profile);
    let in_calls = tally::sum(calls.iter().map(|one| one.total_ns));
    let number = tally::sum(calls.iter().map(|one| one.calls));
    if profile.waits.is_some()
        && per_s(number) >= MANY_PER_S_MIN
        && is_part(
            in_calls.saturating_sub(waited),
            profile.duration_ns,
            KERNEL_PERMILLE_MIN,
        )
    {
        let text = format!(
            "{} system calls a second; without waiting they took {}, {} processors on average.",
            count(per_s(number) as u64),
            time(in_calls.saturating_sub(waited)),
            crate::format::threads(in_calls.saturating_sub(waited), profile.duration_ns),
        );
        report.say("call-bound", text);
    }
}

const OPENING: &[&str] = &["open", "openat", "openat2", "socket", "opendir"];
const MOVING: &[&str] = &[
    "read", "write", "pread64", "pwrite64", "sendto", "recvfrom", "sendmsg", "recvmsg", "readv", "writev",
];
/// Fewer rounds belong to a program's start
const TIMES_MIN: u64 = 200;
/// Counts differ by at most one in this number
const SPREAD_PART: u64 = 20;
/// Calls of a program's start: its libraries
const BEGINNING_MAX: u64 = 32;
/// Largest number of one call in a round
const EACH_MAX: u64 = 4;
const MEMBERS_MIN: usize = 3;
/// Least number of calls that occur once in a round
const ONCE_MIN: usize = 2;
const MEMBERS_SHOWN: usize = 8;
const CALLS_PERMILLE_MIN: u64 = 500;
const TIME_PERMILLE_MIN: u64 = 250;
const DOMINATING_PERMILLE_MIN: u64 = 500;
const DURATION_PERMILLE_MIN: u64 = 100;
/// The kernel was seen to work, not only not to wait
const WORKING_SAMPLES_MIN: u64 = 5;
const WORKING_PERMILLE_MIN: u64 = 300;
const ERRORS_MIN: u64 = 100;
const ERRORS_PERMILLE_MIN: u64 = 500;
const ERRORS_SHOWN: usize = 3;
/// Reading until no data is left gives one error per round
const POLLING_PERMILLE_MIN: u64 = 800;
const POLLING_PER_S_MIN: f64 = 1000.0;
const MANY_PER_S_MIN: f64 = 50_000.0;
/// Enough time to copy a few kilobytes
const SHORT_NS_MAX: u64 = 1_500;
/// Half a processor
const KERNEL_PERMILLE_MIN: u64 = 500;
