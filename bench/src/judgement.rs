//! Figures held against their targets.

use crate::run::{Absence, Figures};
use crate::statistics::{median, ratio, scatter};
use crate::suite::{FLOOR, Target};

/// A line of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is shown.
    pub name: String,
    /// The command line.
    pub command: String,
    /// Rounds measured.
    pub runs: usize,
    /// Median wall time.
    pub wall_ns: Option<u64>,
    /// Half the distance between the quartiles of the wall time, as a share of the median.
    pub wall_scatter: Option<f64>,
    /// Median of user and system time together.
    pub cpu_ns: Option<u64>,
    /// Highest of the peaks.
    pub peak_bytes: Option<u64>,
    /// Lines the command printed.
    pub lines: Option<u64>,
    /// Median wall time as a multiple of the floor's.
    pub to_floor: Option<f64>,
    /// Why the figures are absent.
    pub absence: Option<String>,
    /// One for each target.
    pub verdicts: Vec<Verdict>,
}

/// What became of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The target, in words.
    pub target: String,
    /// The figure that is judged, in words; None if there is none.
    pub figure: Option<String>,
    /// Whether it is reached.
    pub finding: Finding,
}

/// Whether a target is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Yes.
    Met,
    /// No.
    Missed,
    /// This run cannot tell, and why.
    NotJudged(String),
}

/// Judges the figures of one phase, measured on a host with so many sockets.
pub fn judge(phase: &[Figures], sockets: usize) -> Vec<Row> {
    phase.iter().map(|figures| row(figures, phase, sockets)).collect()
}

fn row(figures: &Figures, phase: &[Figures], sockets: usize) -> Row {
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
        to_floor: wall_ratio(figures, phase, FLOOR),
        absence: figures.absence.as_ref().map(|absence| match absence {
            Absence::NotInstalled => "not installed".to_owned(),
            Absence::Failed(why) => format!("FAILED: {why}"),
        }),
        verdicts: figures
            .entry
            .targets
            .iter()
            .map(|target| verdict(*target, figures, phase, sockets))
            .collect(),
    }
}

fn verdict(target: Target, figures: &Figures, phase: &[Figures], sockets: usize) -> Verdict {
    match target {
        Target::Wall { of, at_most, wording } => {
            let found = wall_ratio(figures, phase, of);
            let finding = match found {
                Some(found) => Finding::from(found <= at_most),
                None if figures.samples.is_empty() => Finding::NotJudged("no figures".to_owned()),
                None => Finding::NotJudged(format!("no figures of {of}")),
            };
            let figure = found.map(|found| format!("{found:.2} x {of}"));
            Verdict {
                target: format!("<= {wording}"),
                figure,
                finding,
            }
        }
        Target::Peak { at_most, sockets_min } => {
            let found = peak_bytes(figures);
            let finding = match found {
                None => Finding::NotJudged("no figures".to_owned()),
                Some(_) if sockets < sockets_min => {
                    Finding::NotJudged(format!("{sockets} sockets, {sockets_min} needed"))
                }
                Some(found) => Finding::from(found <= at_most),
            };
            let figure = found.map(megabytes);
            Verdict {
                target: format!("<= {} at {sockets_min} sockets", megabytes(at_most)),
                figure,
                finding,
            }
        }
    }
}

impl From<bool> for Finding {
    fn from(reached: bool) -> Self {
        if reached { Self::Met } else { Self::Missed }
    }
}

/// Bytes as decimal megabytes, with a digit after the point.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
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
    use crate::measure::Sample;
    use crate::suite::{Phase, entries};

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
            figures(Phase::Speed, "sockets, table", 140, 0),
            figures(Phase::Speed, "ss", 400, 0),
            figures(Phase::Speed, "flows", 99, 0),
        ];
        let rows = judge(&phase, 79_200);
        assert_eq!(findings(&rows[1]), [Finding::Met, Finding::Missed]);
        assert_eq!(rows[1].verdicts[1].figure.as_deref(), Some("0.35 x ss"));
        assert_eq!(findings(&rows[3]), [Finding::Met, Finding::Met]);
        assert_eq!(rows[2].to_floor, Some(4.0));
        assert!(rows[0].verdicts.is_empty());
    }

    #[test]
    fn without_a_peer_its_target_is_not_judged() {
        let mut phase = vec![
            figures(Phase::Speed, FLOOR, 100, 0),
            figures(Phase::Speed, "flows", 100, 0),
            figures(Phase::Speed, "ss", 0, 0),
        ];
        phase[2].samples.clear();
        phase[2].absence = Some(Absence::NotInstalled);
        let rows = judge(&phase, 79_200);
        assert_eq!(
            findings(&rows[1]),
            [Finding::Met, Finding::NotJudged("no figures of ss".to_owned())]
        );
        assert_eq!(rows[2].absence.as_deref(), Some("not installed"));
        assert_eq!(rows[2].wall_ns, None);
    }

    #[test]
    fn memory_is_judged_on_a_full_host_only() {
        let small = [figures(Phase::Memory, "flows", 1, 1_000_000)];
        assert!(matches!(
            findings(&judge(&small, 99_999)[0])[..],
            [Finding::NotJudged(_)]
        ));
        assert_eq!(findings(&judge(&small, 100_000)[0]), [Finding::Met]);
        let large = [figures(Phase::Memory, "flows", 1, 12_000_001)];
        assert_eq!(findings(&judge(&large, 100_800)[0]), [Finding::Missed]);
    }
}
