//! What a profile does not show, and what would help.

use crate::format::{count, counted, percent, time};
use crate::profile::{Losses, Profile};
use crate::tally;
use sockeye_measure::Report;

/// Reports missing parts, losses, inexact figures, and the cost of observation.
pub(crate) fn add_gaps(profile: &Profile, report: &mut Report) {
    for missing in &profile.missing {
        let remedy = missing
            .remedy
            .as_ref()
            .map_or(String::new(), |remedy| format!("; {remedy}"));
        let text = format!("Not looked at ({}): {}{remedy}.", missing.part, missing.text);
        report.say("missing", text);
    }
    losses(&profile.losses, report);
    estimates(profile, report);
    if let Some(cpu) = &profile.cpu {
        if cpu.user_only {
            report.say(
                "user-only",
                "Samples are of the processes' own code only: what the kernel computed for them is not in the figures.",
            );
        }
        if (1..SAMPLES_FEW).contains(&cpu.samples) {
            let text = format!(
                "Only {}: shares of the computing are rough. Look longer (-d), or more often (--hz).",
                counted(cpu.samples, "sample"),
            );
            report.say("few-samples", text);
        }
        if cpu.cut_stacks >= CUT_MIN && cpu.cut_stacks.saturating_mul(1000 / CUT_PERMILLE_MIN) >= cpu.samples
        {
            let text = format!(
                "{} of the stacks end after one frame: code without frame pointers. --unwind auto shows its callers by unwind \
                     tables; built with -fno-omit-frame-pointer (Rust: -C force-frame-pointers) it shows them without. \
                     `python3 -X perf` (3.12 or later) and `node --perf-basic-prof` name the functions of scripts.",
                percent(cpu.cut_stacks, cpu.samples),
            );
            report.say("cut-stacks", text);
        }
    }
    functions(profile, report);
}

/// System calls so frequent that only some of them are timed.
fn estimates(profile: &Profile, report: &mut Report) {
    let mut partly: Vec<_> = tally::calls(profile, false)
        .into_iter()
        .filter(|call| {
            let untimed = call.calls.saturating_sub(call.timed);
            untimed >= ESTIMATED_MIN && untimed >= call.calls / ESTIMATED_PART
        })
        .collect();
    partly.sort_by_key(|call| std::cmp::Reverse(call.calls));
    let (calls, timed) = partly.iter().fold((0_u64, 0_u64), |(calls, timed), call| {
        (calls.saturating_add(call.calls), timed.saturating_add(call.timed))
    });
    let names: Vec<&str> = partly.iter().take(NAMES_MAX).map(|call| call.name).collect();
    if calls > 0 {
        let text = format!(
            "Times of {} are estimates: so many calls are not all timed, not to slow them ({} of {} were). Counts and \
                 errors are exact.",
            names.join(", "),
            count(timed),
            count(calls),
        );
        report.say("estimated-times", text);
    }
}

fn losses(losses: &Losses, report: &mut Report) {
    let mut lost = |number: u64, begin: &str, noun: &str, text: &str| {
        if number > 0 {
            report.say("lost", format!("{begin}{}: {text}", counted(number, noun)));
        }
    };
    lost(
        losses.samples,
        "Lost: up to ",
        "sample",
        "the kernel's buffer was full; sample less often (--hz).",
    );
    lost(
        losses.syscalls,
        "Not counted: ",
        "system call",
        "the table was full; select fewer processes (-p, --cgroup).",
    );
    lost(
        losses.waits,
        "Not counted: ",
        "wait",
        "the table was full; select fewer processes (-p, --cgroup).",
    );
    lost(
        losses.stacks,
        "Not kept: ",
        "stack",
        "the totals are complete, but some have no stack.",
    );
    lost(
        losses.functions,
        "Not followed: ",
        "call",
        "of watched functions, nested too deep, or in too many threads: counted, but not timed.",
    );
    lost(
        losses.events,
        "Lost: ",
        "event",
        "of the begin and exec of processes, and the files they map; names of functions may be missing.",
    );
    lost(
        losses.unnamed_frames,
        "Without a name: ",
        "frame",
        "the files have no symbols, or are gone; packages with debug symbols name them.",
    );
}

fn functions(profile: &Profile, report: &mut Report) {
    let Some(functions) = &profile.functions else {
        return;
    };
    // A missing part has its own message.
    if functions.watched == 0 && !profile.missing.iter().any(|missing| missing.part == "functions") {
        report.say(
            "nothing-watched",
            "No function has such a name: nothing was watched.",
        );
    }
    let sum = |number: fn(&crate::profile::Function) -> u64| tally::sum(functions.calls.iter().map(number));
    // Calls that could not be followed are reported separately.
    let missed = sum(|one| one.missed_returns).saturating_sub(profile.losses.functions);
    if missed > 0 {
        let text = format!(
            "{} of watched functions never returned as far as was seen (longjmp, exceptions, exec, exit): their time is \
                 not counted.",
            counted(missed, "call"),
        );
        report.say("missed-returns", text);
    }
    if !functions.means.is_empty() {
        let text = format!(
            "Watched {} by {}.",
            counted(functions.watched, "function"),
            functions.means.join(" and ")
        );
        report.say("means", text);
    }
    let calls = sum(|one| one.calls);
    let overhead = functions.overhead_ns_per_call;
    if let Some(overhead) = overhead.filter(|cost| cost.is_finite() && calls > 0) {
        let cost = (overhead * calls as f64) as u64;
        let text = format!(
            "Watching cost about {} a call (measured here): {} for the {} calls, by which the program was \
                 slower; most of it is within their times.",
            time(overhead as u64),
            time(cost),
            count(calls),
        );
        report.say("overhead", text);
    }
    if functions.calls_of_others > 0 {
        let text = format!(
            "{} of the same functions by processes that are not looked at were slowed as well.",
            counted(functions.calls_of_others, "call"),
        );
        report.say("others-slowed", text);
    }
}

/// Calls in progress at the beginning are never timed: one per thread
const ESTIMATED_MIN: u64 = 100;
/// If at most one call in this number is untimed, the error is small
const ESTIMATED_PART: u64 = 10;
const NAMES_MAX: usize = 4;
const SAMPLES_FEW: u64 = 50;
const CUT_MIN: u64 = 5;
const CUT_PERMILLE_MIN: u64 = 250;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cpu, Function, Functions, Missing};

    fn codes(profile: &Profile) -> Vec<&'static str> {
        let mut report = Report::default();
        add_gaps(profile, &mut report);
        report.sentences.iter().map(|one| one.code).collect()
    }

    #[test]
    fn complete_profile_has_no_gaps() {
        assert_eq!(codes(&Profile::default()), [""; 0]);
        let cpu = Cpu {
            samples: 1000,
            cut_stacks: 10,
            ..Cpu::default()
        };
        let profile = Profile {
            cpu: Some(cpu),
            ..Profile::default()
        };
        assert_eq!(codes(&profile), [""; 0]);
    }

    #[test]
    fn all_gaps_are_reported() {
        let profile = Profile {
            cpu: Some(Cpu {
                samples: 20,
                cut_stacks: 10,
                user_only: true,
                ..Cpu::default()
            }),
            functions: Some(Functions {
                calls: vec![Function {
                    calls: 1000,
                    missed_returns: 8,
                    ..Function::default()
                }],
                overhead_ns_per_call: Some(1_234.5),
                means: Vec::new(),
                watched: 0,
                calls_of_others: 4,
            }),
            losses: Losses {
                samples: 1,
                syscalls: 2,
                waits: 3,
                stacks: 4,
                functions: 5,
                events: 6,
                unnamed_frames: 7,
            },
            missing: vec![Missing {
                part: "syscalls".to_owned(),
                text: "attach a BPF program: EPERM".to_owned(),
                remedy: Some("run as root".to_owned()),
            }],
            ..Profile::default()
        };
        let mut report = Report::default();
        add_gaps(&profile, &mut report);
        let codes: Vec<_> = report.sentences.iter().map(|one| one.code).collect();
        let expected = [
            "missing",
            "lost",
            "lost",
            "lost",
            "lost",
            "lost",
            "lost",
            "lost",
            "user-only",
            "few-samples",
            "cut-stacks",
            "nothing-watched",
            "missed-returns",
            "overhead",
            "others-slowed",
        ];
        assert_eq!(codes, expected);
        assert_eq!(
            report.sentences[0].text,
            "Not looked at (syscalls): attach a BPF program: EPERM; run as root."
        );
        assert!(report.sentences[1].text.starts_with("Lost: up to 1 sample: "));
        // Five of them were not followed.
        assert!(
            report.sentences[12]
                .text
                .starts_with("3 calls of watched functions never returned")
        );
        assert!(report.sentences[13].text.contains("1.23us a call"));
        assert!(report.sentences[13].text.contains("1.23ms for the 1,000 calls"));
    }
}
