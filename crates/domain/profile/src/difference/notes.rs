//! Notes about what cannot be compared directly.

use super::Difference;
use super::part::Part;
use super::rows::{Scale, is_whole};
use crate::format::time;
use sockeye_measure::Report;

impl Difference<'_> {
    /// Notes where the two cannot be compared directly.
    pub(super) fn note_incomparable(&self, scale: &Scale, report: &mut Report) {
        let (a, b) = (self.a, self.b);
        let (a_time, b_time) = (time(a.duration_ns), time(b.duration_ns));
        let mut note = |applies: bool, code, text: String| {
            if applies {
                report.say(code, text);
            }
        };
        note(
            scale.is_rate,
            "other-duration",
            format!("A is of {a_time}, B of {b_time}: counts and times are those of a second."),
        );
        note(
            !scale.is_rate && is_whole(a) && is_whole(b),
            "whole-runs",
            format!(
                "Both are whole runs, A of {a_time}, B of {b_time}: counts and times are those of all of them."
            ),
        );
        note(
            a.target != b.target,
            "other-target",
            format!(
                "They are of different targets: A of {}, B of {}.",
                a.target, b.target
            ),
        );
        let (a_version, b_version) = (a.schema_version, b.schema_version);
        note(
            a_version != b_version,
            "other-version",
            format!("They are of different versions of the layout: A {a_version}, B {b_version}."),
        );
        let (a_count, b_count) = (a.processors, b.processors);
        note(
            a_count != b_count,
            "other-processors",
            format!("A is of a host with {a_count} processors, B of one with {b_count}."),
        );
        for part in Part::ALL {
            let (in_a, in_b) = (part.rows(a).is_some(), part.rows(b).is_some());
            let only = if in_a { "A" } else { "B" };
            let text = format!("Not compared: {}: only {only} has it.", part.words());
            note(in_a != in_b, "other-parts", text);
        }
        if let (Some(a), Some(b)) = (&a.cpu, &b.cpu) {
            let (a_rate, b_rate) = (a.samples_per_s, b.samples_per_s);
            note(
                a_rate != b_rate,
                "other-rate",
                format!(
                    "A has {a_rate} samples a second, B {b_rate}: numbers of samples are not comparable, shares are."
                ),
            );
            let which = if a.user_only { "B" } else { "A" };
            let text = format!("Only {which} has samples of the kernel: shares are not of the same.");
            note(a.user_only != b.user_only, "other-samples", text);
        }
        for (name, profile) in [("A", a), ("B", b)] {
            let lost = &profile.losses;
            let lost = [lost.samples, lost.syscalls, lost.waits, lost.functions];
            note(
                lost.iter().any(|number| *number > 0),
                "losses",
                format!("{name} has losses: its figures are too low by what was lost."),
            );
            if let Some(partial) = &profile.partial {
                note(true, "partial", format!("{name} ended early: {}.", partial.text));
            }
            for missing in &profile.missing {
                let text = format!("{name} lacks something ({}): {}.", missing.part, missing.text);
                note(true, "missing", text);
            }
        }
    }
}
