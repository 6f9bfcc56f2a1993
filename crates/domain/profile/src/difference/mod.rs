//! Comparison of two profiles.

mod notes;
mod part;
mod rows;
mod table;

use crate::format::{short, time};
use crate::profile::Profile;
use crate::tally;
use part::Part;
use rows::{Row, Scale, compared};
use sockeye_measure::{Report, Unit, Value};

/// Two profiles: `a` before, `b` after.
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a> {
    /// Name of the first, such as its file.
    pub a_name: &'a str,
    /// The first profile.
    pub a: &'a Profile,
    /// Name of the second.
    pub b_name: &'a str,
    /// The second profile.
    pub b: &'a Profile,
    /// Number of rows per table, those that changed most; 0: all.
    pub rows: usize,
    /// Whether it is for people: long names are shortened.
    pub for_eyes: bool,
}

impl Difference<'_> {
    /// Tables of changes, the largest change first, and conclusions.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = Report::of("prof", "diff");
        for (key, label, name) in [("a", "A", self.a_name), ("b", "B", self.b_name)] {
            report.setting(key, label, Unit::Text, name.into());
        }
        report.setting("target", "", Unit::Text, self.b.target.as_str().into());
        for (key, label, profile) in [
            ("a_duration_ns", "A for", self.a),
            ("b_duration_ns", "B for", self.b),
        ] {
            report.setting(key, label, Unit::Nanoseconds, Value::Whole(profile.duration_ns));
        }
        let scale = Scale::of(self.a, self.b);
        report.setting(
            "per_s",
            "figures per second",
            Unit::Text,
            Value::Bool(scale.is_rate),
        );
        let mut changes = Vec::new();
        let mut left_out = 0;
        for part in Part::ALL {
            let (Some(a), Some(b)) = (part.rows(self.a), part.rows(self.b)) else {
                continue;
            };
            let mut rows = compared(part, a, b, &scale);
            rows.retain(Row::changed);
            rows.sort_by(|one, other| {
                let by_size = |row: &Row| (row.change_ns().abs(), row.change_count().abs());
                by_size(other)
                    .partial_cmp(&by_size(one))
                    .unwrap_or(std::cmp::Ordering::Equal)
                    .then_with(|| one.words.cmp(&other.words))
            });
            if let Some(first) = rows.first() {
                changes.push((part, first.clone()));
            }
            if self.rows > 0 && rows.len() > self.rows {
                left_out += rows.len() - self.rows;
                rows.truncate(self.rows);
            }
            report.tables.push(self.table(part, &rows, &scale));
        }
        self.add_largest_change(&changes, &scale, &mut report);
        if left_out > 0 {
            let text = format!("Left out: {left_out} smaller changes; --top 0 shows all.");
            report.say("rows-left-out", text);
        }
        self.note_incomparable(&scale, &mut report);
        report
    }

    /// The first conclusion: what changed most.
    fn add_largest_change(&self, changes: &[(Part, Row)], scale: &Scale, report: &mut Report) {
        // Convert shares to times, so that all can be compared.
        let weight = |(part, row): &(Part, Row)| match part {
            Part::Cpu => row.change_ns().abs() / 1000.0 * self.computed(scale),
            _ => row.change_ns().abs(),
        };
        let biggest = changes
            .iter()
            .max_by(|one, other| weight(one).total_cmp(&weight(other)));
        let Some((part, row)) = biggest.filter(|change| weight(change) > 0.0) else {
            if !report.tables.is_empty() {
                report.say("no-change", "Nothing that both have takes another time.");
            }
            return;
        };
        let per_s = if scale.is_rate { " a second" } else { "" };
        let words: Vec<String> = row.words.iter().flatten().map(|word| short(word, 80)).collect();
        let what = match part {
            Part::Syscalls | Part::Functions => words.first().cloned().unwrap_or_default(),
            Part::Waits => format!("waiting ({})", words.join(" in ")),
            Part::Cpu => format!("computing in {}", words.join(" of ")),
        };
        let (a, b) = (
            row.a.map_or(0.0, |one| one.amount),
            row.b.map_or(0.0, |one| one.amount),
        );
        let text = if *part == Part::Cpu {
            format!("{:.1} % of the samples in B, {:.1} % in A", b / 10.0, a / 10.0)
        } else {
            let change = (b - a).abs() as u64;
            let direction = if b > a { "more" } else { "less" };
            let times = match (a, b) {
                (0.0, _) => "; there was none before".to_owned(),
                (_, 0.0) => "; there is none any more".to_owned(),
                (a, b) if b > a => format!("; {:.1} times as much", b / a),
                (a, b) if a / b >= 9.95 => format!("; 1/{:.0} of it", a / b),
                (a, b) => format!("; {:.0} % of it", b / a * 100.0),
            };
            format!(
                "{} {direction}{per_s}: {} in A, {} in B{times}",
                time(change),
                time(a as u64),
                time(b as u64)
            )
        };
        report.say("biggest-change", format!("The biggest change: {what}: {text}."));
    }

    /// Average computing time of both, from samples.
    fn computed(&self, scale: &Scale) -> f64 {
        let of = |profile: &Profile, scale: f64| {
            let cpu = profile.cpu.as_ref();
            cpu.and_then(|cpu| tally::computed_ns(cpu.samples, cpu.samples_per_s))
                .map_or(0.0, |ns| ns as f64 * scale)
        };
        f64::midpoint(of(self.a, scale.a), of(self.b, scale.b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{call, of, wait};
    use crate::profile::{Cpu, CpuStack, Frame, Partial, Reason};

    fn report_of(a: &Profile, b: &Profile) -> Report {
        Difference {
            a_name: "a.json",
            a,
            b_name: "b.json",
            b,
            rows: 0,
            for_eyes: true,
        }
        .report()
    }

    fn text<'a>(report: &'a Report, code: &str) -> &'a str {
        let found = report.sentences.iter().find(|one| one.code == code);
        found.map_or("", |one| one.text.as_str())
    }

    #[test]
    fn changes_are_ranked() {
        let (mut a, mut b) = (of(1000), of(1010));
        a.syscalls = Some(vec![
            call("openat", 2_000, 800_000),
            call("read", 10, 100),
            call("poll", 1, 5),
        ]);
        b.syscalls = Some(vec![
            call("openat", 10, 20_000),
            call("read", 10, 100),
            call("mmap", 3, 90),
        ]);
        let compared = report_of(&a, &b);
        assert_eq!((compared.command, compared.bench), ("prof", "diff"));
        let rows: Vec<_> = compared.tables[0].rows.iter().map(|row| row[0].clone()).collect();
        assert_eq!(rows, ["openat".into(), "mmap".into(), "poll".into()]);
        assert_eq!(compared.tables[0].rows[0][3], Value::Real(-780_000_000.0));
        assert_eq!(compared.tables[0].rows[1][1], Value::Absent);
        assert_eq!(compared.tables[0].rows[1][7], "new".into());
        assert_eq!(compared.tables[0].rows[2][7], "gone".into());
        assert_eq!(
            text(&compared, "biggest-change"),
            "The biggest change: openat: 780ms less: 800ms in A, 20.0ms in B; 1/40 of it."
        );
        assert_eq!(text(&compared, "other-duration"), "");
    }

    #[test]
    fn different_durations_compare_rates() {
        let (mut a, mut b) = (of(1000), of(2000));
        a.waits = Some(vec![wait(Reason::Network, "recvmsg", 10, 100)]);
        b.waits = Some(vec![wait(Reason::Network, "recvmsg", 20, 600)]);
        let compared = report_of(&a, &b);
        assert!(text(&compared, "other-duration").contains("those of a second"));
        assert_eq!(compared.tables[0].columns[2].key, "a_ns_per_s");
        assert_eq!(compared.tables[0].rows[0][4], Value::Real(200_000_000.0));
        assert_eq!(compared.tables[0].rows[0][7], Value::Real(0.0));
        assert!(
            text(&compared, "biggest-change").contains("waiting (network in recvmsg): 200ms more a second")
        );
        // Commands are compared as a whole.
        for profile in [&mut a, &mut b] {
            profile.processes[0].began = true;
            profile.processes[0].ended = true;
        }
        let compared = report_of(&a, &b);
        assert_eq!(compared.tables[0].columns[2].key, "a_total_ns");
        assert_eq!(compared.tables[0].rows[0][4], Value::Real(500_000_000.0));
        assert!(text(&compared, "whole-runs").contains("whole runs"));
    }

    #[test]
    fn sample_shares_are_compared() {
        let of_samples = |f: u64, g: u64, samples_per_s| {
            let mut profile = of(1000);
            let frame = |name: &str| Frame {
                function: Some(name.to_owned()),
                module: Some("m".to_owned()),
                ..Frame::default()
            };
            profile.frames = vec![frame("f"), frame("g")];
            let stack = |place, samples| CpuStack {
                pid: 7,
                stack: vec![place],
                samples,
            };
            profile.cpu = Some(Cpu {
                samples: f + g,
                samples_per_s,
                stacks: vec![stack(0, f), stack(1, g)],
                ..Cpu::default()
            });
            profile
        };
        let compared = report_of(&of_samples(50, 50, 99), &of_samples(150, 50, 199));
        assert_eq!(compared.tables[0].rows[0][0], "f".into());
        assert_eq!(compared.tables[0].rows[0][4], Value::Real(250.0));
        assert!(text(&compared, "other-rate").contains("99"));
        assert!(text(&compared, "biggest-change").contains("75.0 % of the samples in B, 50.0 % in A"));
        let same = report_of(&of_samples(5, 5, 99), &of_samples(50, 50, 99));
        assert!(same.tables[0].rows.is_empty());
        assert!(!text(&same, "no-change").is_empty());
    }

    #[test]
    fn incomparable_parts_are_reported() {
        let (mut a, mut b) = (of(1000), of(1000));
        a.syscalls = Some(Vec::new());
        b.cpu = Some(Cpu::default());
        b.target = "pid 8".to_owned();
        b.processors = 64;
        b.losses.samples = 1;
        a.schema_version = 0;
        a.partial = Some(Partial {
            code: "interrupted".to_owned(),
            text: "interrupted after 1 s".to_owned(),
        });
        let compared = report_of(&a, &b);
        let codes: Vec<_> = compared.sentences.iter().map(|one| one.code).collect();
        assert_eq!(
            codes,
            [
                "other-target",
                "other-version",
                "other-processors",
                "other-parts",
                "other-parts",
                "partial",
                "losses"
            ]
        );
        let nothing = report_of(&Profile::default(), &Profile::default());
        assert_eq!(nothing.tables, []);
    }
}
