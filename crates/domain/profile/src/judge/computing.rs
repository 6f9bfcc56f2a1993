//! Conclusions from samples and watched functions.

use super::is_part;
use crate::format::{count, percent, short, threads, time};
use crate::profile::{Profile, Space};
use crate::tally;
use sockeye_measure::Report;

/// A watched function has much of the time.
pub(super) fn watched(profile: &Profile, report: &mut Report) {
    let functions = tally::functions(profile, false);
    let Some(most) = functions.first() else {
        return;
    };
    let Some(total) = most.total_ns else {
        return;
    };
    if is_part(total, profile.duration_ns, WATCHED_PERMILLE_MIN) {
        let text = format!(
            "{} ({}) was called {} times and took {} together: {} of the {} looked at.",
            short(&most.name, 80),
            most.module,
            count(most.calls),
            time(total),
            of_duration(total, profile.duration_ns),
            time(profile.duration_ns),
        );
        report.say("watched-function", text);
    }
}

/// More than 100 % means several threads at a time.
fn of_duration(total: u64, duration: u64) -> String {
    if total <= duration {
        percent(total, duration)
    } else {
        format!("{} times", threads(total, duration))
    }
}

/// One function has most of the computing time.
pub(super) fn hot(profile: &Profile, report: &mut Report) {
    let Some(cpu) = &profile.cpu else {
        return;
    };
    let functions = tally::cpu(profile, false);
    let Some(most) = functions.first() else {
        return;
    };
    let is_enough = most.own >= HOT_SAMPLES_MIN && is_part(most.own, cpu.samples, HOT_PERMILLE_MIN);
    let Some(function) = most
        .function
        .filter(|function| is_enough && !is_spinning(function))
    else {
        return;
    };
    let location = match (most.space, most.module) {
        (Space::Kernel, _) => " in the kernel".to_owned(),
        (Space::User, Some(module)) => format!(" ({module})"),
        (Space::User, None) => String::new(),
    };
    let text = format!(
        "{} of the computing is in {}{location}: {} of {} samples.",
        percent(most.own, cpu.samples),
        short(function, 80),
        count(most.own),
        count(cpu.samples),
    );
    report.say("hot-function", text);
}

/// Processors that spin until another one releases a lock.
pub(super) fn spinning(profile: &Profile, report: &mut Report) {
    let Some(cpu) = &profile.cpu else {
        return;
    };
    let functions = tally::cpu(profile, false);
    let spinning = functions
        .iter()
        .filter(|one| one.space == Space::Kernel && one.function.is_some_and(is_spinning));
    let samples = tally::sum(spinning.map(|one| one.own));
    if samples >= SPINNING_SAMPLES_MIN && is_part(samples, cpu.samples, SPINNING_PERMILLE_MIN) {
        let text = format!(
            "{} of the computing ({} samples) was spinning on kernel locks that other processors held.",
            percent(samples, cpu.samples),
            count(samples),
        );
        report.say("spin-locks", text);
    }
}

fn is_spinning(function: &str) -> bool {
    SPINNING.contains(&function)
}

/// Kernel functions that spin; taking a free lock does not call them.
const SPINNING: &[&str] = &[
    "native_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "mutex_spin_on_owner",
    "rwsem_spin_on_owner",
];
const WATCHED_PERMILLE_MIN: u64 = 100;
const HOT_SAMPLES_MIN: u64 = 20;
const HOT_PERMILLE_MIN: u64 = 300;
const SPINNING_SAMPLES_MIN: u64 = 20;
const SPINNING_PERMILLE_MIN: u64 = 50;
