//! Comparison of two profiles.

use crate::format::{short, time};
use crate::profile::{Profile, Reason, Space};
use crate::stack_site::StackSite;
use crate::stacks::unnamed;
use crate::tally;
use sockeye_measure::{Column, Report, Table, Unit, Value};
use std::collections::BTreeMap;

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
            report.say(
                "rows-left-out",
                format!("Left out: {left_out} smaller changes; --rows 0 shows all."),
            );
        }
        self.note_incomparable(&scale, &mut report);
        report
    }

    fn table(&self, part: Part, rows: &[Row], scale: &Scale) -> Table {
        let text = |heading, key| Column::new(heading, key, Unit::Text);
        let mut columns = match part {
            Part::Syscalls => vec![text("call", "call")],
            Part::Waits => vec![text("waits for", "reason"), text("in call", "call")],
            Part::Cpu => vec![text("function", "function"), text("module", "module")],
            Part::Functions if self.for_eyes => vec![text("function", "function")],
            Part::Functions => vec![text("function", "function"), text("module", "module")],
        };
        let words = columns.len();
        let count = if scale.is_rate {
            Unit::PerSecond
        } else {
            Unit::Count
        };
        let keys = match (part, scale.is_rate) {
            (Part::Cpu, _) => ["a_permille", "b_permille", "permille_change"],
            (_, false) => ["a_total_ns", "b_total_ns", "total_ns_change"],
            (_, true) => ["a_ns_per_s", "b_ns_per_s", "ns_per_s_change"],
        };
        let (amount, heads) = match (part, scale.is_rate) {
            (Part::Cpu, _) => (Unit::Permille, ["self A", "self B", "change"]),
            (_, false) => (Unit::Nanoseconds, ["time A", "time B", "change"]),
            (_, true) => (Unit::Nanoseconds, ["time/s A", "time/s B", "change"]),
        };
        columns.push(Column::new(heads[0], keys[0], amount));
        columns.push(Column::new(heads[1], keys[1], amount));
        columns.push(Column::change(heads[2], keys[2], amount));
        let counts = match (part, scale.is_rate) {
            (Part::Cpu, _) => ["a_samples", "b_samples", ""],
            (Part::Waits, false) => ["a_count", "b_count", "count_change"],
            (Part::Waits, true) => ["a_per_s", "b_per_s", "per_s_change"],
            (_, false) => ["a_calls", "b_calls", "calls_change"],
            (_, true) => ["a_calls_per_s", "b_calls_per_s", "calls_per_s_change"],
        };
        let heads = match part {
            Part::Waits => ["count A", "count B", "change"],
            Part::Cpu => ["samples A", "samples B", ""],
            Part::Syscalls | Part::Functions => ["calls A", "calls B", "change"],
        };
        let count = if part == Part::Cpu { Unit::Count } else { count };
        columns.push(Column::new(heads[0], counts[0], count));
        columns.push(Column::new(heads[1], counts[1], count));
        if part != Part::Cpu {
            columns.push(Column::change(heads[2], counts[2], count));
        }
        columns.push(text("", "only_in"));
        let mut table = Table::new(part.name(), columns);
        for row in rows {
            let mut values: Vec<Value> = row
                .words
                .iter()
                .take(words)
                .map(|word| match word {
                    Some(word) if self.for_eyes => Value::Text(short(word, NAME_MAX)),
                    Some(word) => word.as_str().into(),
                    None => Value::Absent,
                })
                .collect();
            let number = |amount: Option<f64>| amount.map(|amount| (amount * 1e3).round() / 1e3).into();
            values.push(number(row.a.map(|one| one.amount)));
            values.push(number(row.b.map(|one| one.amount)));
            values.push(number(Some(row.change_ns())));
            values.push(number(row.a.map(|one| one.count)));
            values.push(number(row.b.map(|one| one.count)));
            if part != Part::Cpu {
                values.push(number(Some(row.change_count())));
            }
            values.push(match (row.a, row.b) {
                (None, Some(_)) if self.for_eyes => "new".into(),
                (Some(_), None) if self.for_eyes => "gone".into(),
                (None, Some(_)) => "b".into(),
                (Some(_), None) => "a".into(),
                _ => Value::Absent,
            });
            table.row(values);
        }
        table
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

    /// Notes where the two cannot be compared directly.
    fn note_incomparable(&self, scale: &Scale, report: &mut Report) {
        let (a, b) = (self.a, self.b);
        if scale.is_rate {
            report.say(
                "other-duration",
                format!(
                    "A is of {}, B of {}: counts and times are those of a second.",
                    time(a.duration_ns),
                    time(b.duration_ns)
                ),
            );
        } else if is_whole(a) && is_whole(b) {
            report.say(
                "whole-runs",
                format!(
                    "Both are whole runs, A of {}, B of {}: counts and times are those of all of them.",
                    time(a.duration_ns),
                    time(b.duration_ns)
                ),
            );
        }
        if a.target != b.target {
            report.say(
                "other-target",
                format!(
                    "They are of different targets: A of {}, B of {}.",
                    a.target, b.target
                ),
            );
        }
        if a.schema_version != b.schema_version {
            report.say(
                "other-version",
                format!(
                    "They are of different versions of the layout: A {}, B {}.",
                    a.schema_version, b.schema_version
                ),
            );
        }
        if a.processors != b.processors {
            report.say(
                "other-processors",
                format!(
                    "A is of a host with {} processors, B of one with {}.",
                    a.processors, b.processors
                ),
            );
        }
        for part in Part::ALL {
            let text = match (part.rows(a).is_some(), part.rows(b).is_some()) {
                (true, false) => "only A has it",
                (false, true) => "only B has it",
                _ => continue,
            };
            report.say("other-parts", format!("Not compared: {}: {text}.", part.words()));
        }
        if let (Some(a), Some(b)) = (&a.cpu, &b.cpu) {
            if a.samples_per_s != b.samples_per_s {
                report.say(
                    "other-rate",
                    format!(
                        "A has {} samples a second, B {}: numbers of samples are not comparable, shares are.",
                        a.samples_per_s, b.samples_per_s
                    ),
                );
            }
            if a.user_only != b.user_only {
                let which = if a.user_only { "B" } else { "A" };
                report.say(
                    "other-samples",
                    format!("Only {which} has samples of the kernel: shares are not of the same."),
                );
            }
        }
        for (name, profile) in [("A", a), ("B", b)] {
            let lost = &profile.losses;
            let lost = [lost.samples, lost.syscalls, lost.waits, lost.functions];
            if lost.iter().any(|number| *number > 0) {
                report.say(
                    "losses",
                    format!("{name} has losses: its figures are too low by what was lost."),
                );
            }
            if let Some(partial) = &profile.partial {
                report.say("partial", format!("{name} ended early: {}.", partial.text));
            }
            for missing in &profile.missing {
                report.say(
                    "missing",
                    format!("{name} lacks something ({}): {}.", missing.part, missing.text),
                );
            }
        }
    }
}

/// One of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Syscalls,
    Waits,
    Cpu,
    Functions,
}

impl Part {
    const ALL: [Self; 4] = [Self::Syscalls, Self::Waits, Self::Cpu, Self::Functions];

    const fn name(self) -> &'static str {
        match self {
            Self::Syscalls => "syscalls",
            Self::Waits => "waits",
            Self::Cpu => "cpu",
            Self::Functions => "functions",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Syscalls => "system calls",
            Self::Waits => "waits",
            Self::Cpu => "samples of the processors",
            Self::Functions => "watched functions",
        }
    }

    /// Compared items with amount and count; `None`: the profile has no such part.
    fn rows(self, profile: &Profile) -> Option<BTreeMap<Words, Amount>> {
        let mut rows = BTreeMap::<Words, Amount>::new();
        let mut add = |words: Words, amount: f64, count: f64| {
            let row = rows.entry(words).or_default();
            row.amount += amount;
            row.count += count;
        };
        match self {
            Self::Syscalls => {
                profile.syscalls.as_ref()?;
                for one in tally::calls(profile, false) {
                    add(
                        [Some(one.name.to_owned()), None],
                        one.total_ns as f64,
                        one.calls as f64,
                    );
                }
            }
            Self::Waits => {
                profile.waits.as_ref()?;
                for one in tally::waits(profile, false) {
                    add(
                        wait_words(one.reason, one.syscall, one.place),
                        one.total_ns as f64,
                        one.count as f64,
                    );
                }
            }
            Self::Cpu => {
                let samples = profile.cpu.as_ref()?.samples.max(1) as f64;
                for one in tally::cpu(profile, false).into_iter().filter(|one| one.own > 0) {
                    let module = match one.space {
                        Space::Kernel => Some("kernel".to_owned()),
                        Space::User => one.module.map(str::to_owned),
                    };
                    let function = one.function.map_or_else(|| unnamed(one.module), str::to_owned);
                    add(
                        [Some(function), module],
                        one.own as f64 * 1000.0 / samples,
                        one.own as f64,
                    );
                }
            }
            Self::Functions => {
                profile.functions.as_ref()?;
                for one in tally::functions(profile, false) {
                    let words = [Some(one.name), Some(one.module)];
                    add(words, one.total_ns.unwrap_or(0) as f64, one.calls as f64);
                }
            }
        }
        Some(rows)
    }
}

/// Objects differ between runs; reasons, system calls and functions do not.
fn wait_words(reason: Reason, syscall: Option<&str>, place: StackSite<'_>) -> Words {
    let call = syscall.or(place.kernel).map(str::to_owned);
    [Some(reason.name().to_owned()), call]
}

type Words = [Option<String>; 2];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Amount {
    /// Nanoseconds; thousandths of all samples
    amount: f64,
    count: f64,
}

/// An item in both profiles.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    words: Words,
    is_share: bool,
    a: Option<Amount>,
    b: Option<Amount>,
}

impl Row {
    fn change_ns(&self) -> f64 {
        self.b.map_or(0.0, |one| one.amount) - self.a.map_or(0.0, |one| one.amount)
    }

    fn change_count(&self) -> f64 {
        self.b.map_or(0.0, |one| one.count) - self.a.map_or(0.0, |one| one.count)
    }

    fn changed(&self) -> bool {
        self.change_ns() != 0.0 || (!self.is_share && self.change_count() != 0.0)
    }
}

/// Factors that make both comparable.
#[derive(Debug, Clone, Copy)]
struct Scale {
    is_rate: bool,
    a: f64,
    b: f64,
}

impl Scale {
    fn of(a: &Profile, b: &Profile) -> Self {
        let seconds = |profile: &Profile| profile.duration_ns as f64 / 1e9;
        let (a_seconds, b_seconds) = (seconds(a), seconds(b));
        // The durations of two runs of ten seconds differ slightly.
        let differ = (a_seconds - b_seconds).abs() > a_seconds.max(b_seconds) * SAME_DURATION;
        let is_rate = a_seconds > 0.0 && b_seconds > 0.0 && differ && !(is_whole(a) && is_whole(b));
        let per = |seconds: f64| if is_rate { 1.0 / seconds } else { 1.0 };
        Self {
            is_rate,
            a: per(a_seconds),
            b: per(b_seconds),
        }
    }
}

/// Whether all observed processes began and ended meanwhile, as with a command: such runs are compared as a
/// whole, because rates would hide that one is slower.
fn is_whole(profile: &Profile) -> bool {
    !profile.processes.is_empty()
        && profile
            .processes
            .iter()
            .all(|process| process.began && process.ended)
}

fn compared(
    part: Part,
    a: BTreeMap<Words, Amount>,
    mut b: BTreeMap<Words, Amount>,
    scale: &Scale,
) -> Vec<Row> {
    // Shares need no scaling.
    let [of_a, of_b] = match part {
        Part::Cpu => [1.0; 2],
        _ => [scale.a, scale.b],
    };
    let scaled = |amount: Amount, by: f64| Amount {
        amount: amount.amount * by,
        count: amount.count * by,
    };
    let row = |words: Words, a: Option<Amount>, b: Option<Amount>| Row {
        words,
        is_share: part == Part::Cpu,
        a: a.map(|amount| scaled(amount, of_a)),
        b: b.map(|amount| scaled(amount, of_b)),
    };
    let mut rows: Vec<Row> = Vec::with_capacity(a.len() + b.len());
    for (words, amount) in a {
        let other = b.remove(&words);
        rows.push(row(words, Some(amount), other));
    }
    rows.extend(
        b.into_iter()
            .map(|(words, amount)| row(words, None, Some(amount))),
    );
    rows
}

/// Durations differ if they do by more than this part
const SAME_DURATION: f64 = 0.05;
/// Longest name from outside, in characters, for people
const NAME_MAX: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{call, of, wait};
    use crate::profile::{Cpu, CpuStack, Frame, Partial};

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
