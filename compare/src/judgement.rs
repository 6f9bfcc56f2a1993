//! Comparison of figures with their targets.

use crate::entry::{Phase, Target};
use crate::run::{Absence, Figures};
use crate::statistics::{median, ratio, scatter};
use crate::suite::FLOOR;

/// A row of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the entry.
    pub name: String,
    /// The command line.
    pub command: String,
    /// Number of measured rounds.
    pub runs: usize,
    /// Median wall time.
    pub wall_ns: Option<u64>,
    /// Half the distance between the quartiles of the wall time, as a part of the median.
    pub wall_scatter: Option<f64>,
    /// Median of user plus system time.
    pub cpu_ns: Option<u64>,
    /// Maximum of the peaks.
    pub peak_bytes: Option<u64>,
    /// Lines that the command printed.
    pub lines: Option<u64>,
    /// Median wall time as a multiple of the floor's.
    pub to_floor: Option<f64>,
    /// Why there are no figures.
    pub absence: Option<String>,
    /// One verdict per target.
    pub verdicts: Vec<Verdict>,
}

/// The verdict about a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The target, in words.
    pub target: String,
    /// The judged figure, in words; `None` if there is none.
    pub figure: Option<String>,
    /// Whether the target is met.
    pub finding: Finding,
}

/// Whether a target is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Yes.
    Met,
    /// No.
    Missed,
    /// Cannot be judged in this run, with the reason.
    NotJudged(String),
    /// For information only, without a target.
    Informational,
}

/// Judges the figures of one phase, measured on a host with this many sockets; `earlier`: figures of earlier
/// phases.
pub fn judge(phase: &[Figures], earlier: &[Figures], sockets: usize) -> Vec<Row> {
    let measured = Measured {
        phase,
        earlier,
        sockets,
    };
    phase.iter().map(|figures| row(figures, measured)).collect()
}

/// What a figure can be compared with.
#[derive(Clone, Copy)]
struct Measured<'a> {
    phase: &'a [Figures],
    earlier: &'a [Figures],
    sockets: usize,
}

fn row(figures: &Figures, measured: Measured<'_>) -> Row {
    let walls: Vec<u64> = figures.samples.iter().map(|sample| sample.wall_ns).collect();
    let cpus: Vec<u64> = figures.samples.iter().map(|sample| sample.cpu_ns).collect();
    Row {
        name: figures.entry.name.to_owned(),
        command: figures.entry.command(),
        runs: figures.samples.len(),
        wall_ns: median(&walls),
        wall_scatter: scatter(&walls),
        cpu_ns: median(&cpus),
        peak_bytes: peak_bytes(figures),
        lines: figures.lines,
        to_floor: wall_ratio(figures, measured.phase, FLOOR),
        absence: figures.absence.as_ref().map(|absence| match absence {
            Absence::NotInstalled => "not installed".to_owned(),
            Absence::Failed(why) => format!("FAILED: {why}"),
            Absence::NotMeasured(why) => format!("not measured: {why}"),
        }),
        verdicts: figures
            .entry
            .targets
            .iter()
            .map(|target| verdict(*target, figures, measured))
            .collect(),
    }
}

fn verdict(target: Target, figures: &Figures, measured: Measured<'_>) -> Verdict {
    let judged = |found: Option<f64>, at_most: f64, of: &str| match found {
        Some(found) => Finding::from(found <= at_most),
        None if figures.samples.is_empty() => Finding::NotJudged("no figures".to_owned()),
        None => Finding::NotJudged(format!("no figures of {of}")),
    };
    match target {
        Target::Wall { of, at_most, wording } => {
            let found = wall_ratio(figures, measured.phase, of);
            Verdict {
                target: format!("<= {wording}"),
                figure: found.map(|found| format!("{} x {of}", multiple(found))),
                finding: judged(found, at_most, of),
            }
        }
        Target::About { of, wording } => {
            let found = wall_ratio(figures, measured.phase, of);
            Verdict {
                target: wording.to_owned(),
                figure: found.map(|found| format!("{} x {of}", multiple(found))),
                finding: Finding::Informational,
            }
        }
        Target::Growth {
            from,
            at_most,
            wording,
        } => {
            let before = measured
                .earlier
                .iter()
                .find(|other| other.entry.phase == from && other.entry.name == figures.entry.name);
            let found = before.and_then(|before| ratio(wall_median(figures)?, wall_median(before)?));
            Verdict {
                target: format!("<= {wording}"),
                figure: found.map(|found| format!("grows to {}", multiple(found))),
                finding: judged(found, at_most, "the earlier phase"),
            }
        }
        Target::FloorAnd {
            floors,
            more_ns,
            times,
            wording,
        } => {
            let mut all = measured.phase.iter().chain(measured.earlier);
            let floor = all.find(|other| other.entry.phase == Phase::Speed && other.entry.name == FLOOR);
            let at_most = floor
                .and_then(wall_median)
                .map(|floor| (floor as f64 * floors + more_ns as f64) * times);
            let found = wall_median(figures);
            let finding = match (found, at_most) {
                (Some(found), Some(at_most)) => Finding::from(found as f64 <= at_most),
                (None, _) => Finding::NotJudged("no figures".to_owned()),
                (_, None) => Finding::NotJudged(format!("no figures of {FLOOR}")),
            };
            Verdict {
                target: format!("<= {wording}"),
                figure: found.zip(at_most).map(|(found, at_most)| {
                    format!("{} of {}", milliseconds(found), milliseconds(at_most as u64))
                }),
                finding,
            }
        }
        Target::First { below_ns } => {
            let found = wall_median(figures);
            Verdict {
                target: format!("< {}", milliseconds(below_ns)),
                figure: found.map(milliseconds),
                finding: found.map_or_else(
                    || Finding::NotJudged("no figures".to_owned()),
                    |found| Finding::from(found < below_ns),
                ),
            }
        }
        Target::Within { at_most_ns } => {
            let found = wall_median(figures);
            Verdict {
                target: format!("<= {}", milliseconds(at_most_ns)),
                figure: found.map(milliseconds),
                finding: found.map_or_else(
                    || Finding::NotJudged("no figures".to_owned()),
                    |found| Finding::from(found <= at_most_ns),
                ),
            }
        }
        Target::Written { below } => Verdict {
            target: format!("writes < {}", megabytes(below)),
            figure: figures.written_bytes.map(megabytes),
            finding: figures.written_bytes.map_or_else(
                || Finding::NotJudged("no file".to_owned()),
                |written| Finding::from(written < below),
            ),
        },
        Target::PeakOver { of, more_bytes } => {
            let found = peak_bytes(figures);
            let reference = measured
                .phase
                .iter()
                .find(|other| other.entry.name == of)
                .and_then(peak_bytes);
            let finding = match (found, reference) {
                (Some(found), Some(reference)) => Finding::from(found <= reference + more_bytes),
                (None, _) => Finding::NotJudged("no figures".to_owned()),
                (_, None) => Finding::NotJudged(format!("no figures of {of}")),
            };
            Verdict {
                target: format!("<= {of} + {}", megabytes(more_bytes)),
                figure: found.map(megabytes),
                finding,
            }
        }
        Target::Peak { at_most, sockets_min } => {
            let found = peak_bytes(figures);
            let finding = match found {
                None => Finding::NotJudged("no figures".to_owned()),
                Some(_) if measured.sockets < sockets_min => {
                    Finding::NotJudged(format!("{} sockets, {sockets_min} needed", measured.sockets))
                }
                Some(found) => Finding::from(found <= at_most),
            };
            Verdict {
                target: format!("<= {} at {sockets_min} sockets", megabytes(at_most)),
                figure: found.map(megabytes),
                finding,
            }
        }
    }
}

/// A ratio with two digits that say something, however small: targets go down to 1/200.
fn multiple(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    }
}

impl From<bool> for Finding {
    fn from(reached: bool) -> Self {
        if reached { Self::Met } else { Self::Missed }
    }
}

/// Nanoseconds as milliseconds, with two digits after the point.
pub fn milliseconds(ns: u64) -> String {
    format!("{:.2} ms", ns as f64 / 1e6)
}

/// Bytes as decimal megabytes, with a digit after the point.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Bytes as decimal kilobytes, whole ones.
pub fn kilobytes(bytes: u64) -> String {
    format!("{:.0} kB", bytes as f64 / 1e3)
}

fn wall_ratio(figures: &Figures, phase: &[Figures], of: &str) -> Option<f64> {
    let other = phase.iter().find(|other| other.entry.name == of)?;
    ratio(wall_median(figures)?, wall_median(other)?)
}

fn wall_median(figures: &Figures) -> Option<u64> {
    let walls: Vec<u64> = figures.samples.iter().map(|sample| sample.wall_ns).collect();
    median(&walls)
}

fn peak_bytes(figures: &Figures) -> Option<u64> {
    figures.samples.iter().map(|sample| sample.peak_bytes).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Phase;
    use crate::measure::Sample;
    use crate::suite::entries;

    fn figures(phase: Phase, name: &str, wall_ns: u64, peak_bytes: u64) -> Figures {
        let entry = *entries(phase)
            .find(|entry| entry.name == name)
            .expect("in the suite");
        let samples = vec![
            Sample {
                wall_ns,
                cpu_ns: wall_ns,
                peak_bytes
            };
            5
        ];
        Figures {
            entry,
            samples,
            lines: Some(1),
            written_bytes: None,
            absence: None,
        }
    }

    fn findings(row: &Row) -> Vec<Finding> {
        row.verdicts
            .iter()
            .map(|verdict| verdict.finding.clone())
            .collect()
    }

    #[test]
    fn ratios_meet_and_miss() {
        let phase = [
            figures(Phase::Speed, FLOOR, 100, 0),
            figures(Phase::Speed, "sockets, table", 60, 0),
            figures(Phase::Speed, "ss", 160, 0),
            figures(Phase::Speed, "flows", 40, 0),
        ];
        let rows = judge(&phase, &[], 79_200);
        assert_eq!(findings(&rows[1]), [Finding::Met, Finding::Missed]);
        assert_eq!(rows[1].verdicts[1].figure.as_deref(), Some("0.38 x ss"));
        assert_eq!(findings(&rows[3]), [Finding::Met, Finding::Met]);
        assert_eq!(rows[2].to_floor, Some(1.6));
        assert!(rows[0].verdicts.is_empty());
    }

    #[test]
    fn without_a_peer_its_target_is_not_judged() {
        let mut phase = vec![
            figures(Phase::Speed, FLOOR, 100, 0),
            figures(Phase::Speed, "flows", 45, 0),
            figures(Phase::Speed, "ss", 0, 0),
        ];
        phase[2].samples.clear();
        phase[2].absence = Some(Absence::NotInstalled);
        let rows = judge(&phase, &[], 79_200);
        assert_eq!(
            findings(&rows[1]),
            [Finding::Met, Finding::NotJudged("no figures of ss".to_owned())]
        );
        assert_eq!(rows[2].absence.as_deref(), Some("not installed"));
        assert_eq!(rows[2].wall_ns, None);
    }

    #[test]
    fn informational_target_is_not_judged() {
        let phase = [
            figures(Phase::Speed, "sockets with owners", 90, 0),
            figures(Phase::Speed, FLOOR, 100, 0),
            figures(Phase::Speed, "ss with owners", 2_000, 0),
        ];
        let owners = &judge(&phase, &[], 79_200)[0];
        assert_eq!(
            findings(owners),
            [
                Finding::Met,
                Finding::NotJudged("no figures of lsof".to_owned()),
                Finding::Informational
            ]
        );
        assert_eq!(
            owners.verdicts[2].figure.as_deref(),
            Some("0.0450 x ss with owners")
        );
    }

    #[test]
    fn growth_is_from_the_earlier_phase() {
        let check = |few_ns: u64, many_ns: u64| {
            let name = "flows of every namespace";
            let few = [
                figures(Phase::FewNamespaces, "sockets of every namespace", 1, 0),
                figures(Phase::FewNamespaces, name, few_ns, 0),
            ];
            let many = [
                figures(Phase::Namespaces, name, many_ns, 0),
                figures(Phase::Namespaces, "ss, namespace by namespace", 20_000, 0),
            ];
            findings(&judge(&many, &few, 8_000)[0])
        };
        assert_eq!(check(100, 140), [Finding::Missed, Finding::Met]);
        assert_eq!(check(72, 100), [Finding::Met, Finding::Met]);
        assert_eq!(check(50, 100), [Finding::Met, Finding::Missed]);
        let alone = [figures(Phase::Namespaces, "flows of every namespace", 1, 0)];
        assert!(matches!(
            findings(&judge(&alone, &[], 8_000)[0])[..],
            [Finding::NotJudged(_), Finding::NotJudged(_)]
        ));
    }

    #[test]
    fn the_first_record_is_judged_by_the_clock() {
        let check = |wall_ns| {
            let phase = [figures(Phase::Empty, "first record", wall_ns, 0)];
            judge(&phase, &[], 1).remove(0).verdicts.remove(0)
        };
        assert_eq!(check(9_999_999).finding, Finding::Met);
        let missed = check(10_000_000);
        assert_eq!(missed.finding, Finding::Missed);
        assert_eq!(
            (missed.figure.as_deref(), missed.target.as_str()),
            (Some("10.00 ms"), "< 10.00 ms")
        );
    }

    #[test]
    fn small_ratios_keep_their_digits() {
        assert_eq!(multiple(0.004_97), "0.0050");
        assert_eq!(multiple(0.45), "0.45");
        assert_eq!(multiple(41.507), "41.51");
    }

    #[test]
    fn memory_is_judged_on_a_full_host_only() {
        let small = [figures(Phase::Memory, "flows", 1, 1_000_000)];
        assert!(matches!(
            findings(&judge(&small, &[], 99_999)[0])[..],
            [Finding::NotJudged(_)]
        ));
        assert_eq!(findings(&judge(&small, &[], 100_000)[0]), [Finding::Met]);
        let large = [figures(Phase::Memory, "flows", 1, 12_000_001)];
        assert_eq!(findings(&judge(&large, &[], 100_800)[0]), [Finding::Missed]);
        let owners = [figures(Phase::Memory, "sockets with owners", 1, 40_000_000)];
        assert_eq!(findings(&judge(&owners, &[], 100_800)[0]), [Finding::Met]);
    }
}
