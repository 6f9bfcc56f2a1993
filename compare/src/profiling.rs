//! `sockeye prof` beside strace: what it costs to be looked at.
//!
//! Each program says itself what its work took, so that starting and reporting are in no figure but the one that is about
//! them. A program alone is one of the series, and runs in turn with those that are looked at.

use crate::attended::{Attended, Namespace, Told};
use crate::exercise::{EXERCISE, clock_ns};
use crate::judgement::{Finding, Row, Verdict};
use crate::network::{Bound, Rows, beside, number_after, row};
use crate::programs::on_path;
use crate::run::Installed;
use crate::statistics::{median, ratio, scatter};
use crate::suite::Program;
use anyhow::{Context, Result, ensure};
use nix::time::ClockId;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much work is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes that dd copies one by one: two system calls each
    pub bytes: usize,
    /// Steps of a calculation
    pub steps: usize,
    /// Calls of a function
    pub calls: usize,
}

/// Every program alone and looked at, in turn, so many rounds.
pub fn interleaved(
    installed: &Installed,
    bench_compare: &Path,
    work: Work,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Rows> {
    let sockeye = installed.path(Program::Sockeye);
    let namespace = Namespace::new(bench_compare)?;
    let mut series: Vec<Series> = SERIES
        .into_iter()
        .map(|looked| Series {
            looked,
            path: looked.path(sockeye.as_deref(), bench_compare),
            runs: Vec::new(),
            failure: None,
        })
        .collect();
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let count = series.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            // It takes as long as all of the others, and its figure is far from any bound.
            if series[turn].looked == Looked::DdStrace && round >= ROUNDS_OF_STRACE {
                continue;
            }
            series[turn].run(&namespace, bench_compare, work);
        }
    }
    let mut told = Rows::default();
    for one in &series {
        told.rows.push(one.row(&series, work));
    }
    Ok(told)
}

/// A program, and who looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    Dd,
    DdCounted,
    DdProfiled,
    DdStrace,
    Compute,
    ComputeSampled,
    Call,
    CallWatched,
}

/// In the order in which they are told.
const SERIES: [Looked; 8] = [
    Looked::Dd,
    Looked::DdCounted,
    Looked::DdProfiled,
    Looked::DdStrace,
    Looked::Compute,
    Looked::ComputeSampled,
    Looked::Call,
    Looked::CallWatched,
];

impl Looked {
    fn name(self) -> &'static str {
        match self {
            Self::Dd => "dd, alone",
            Self::DdCounted => "dd, system calls counted",
            Self::DdProfiled => "dd, everything looked at",
            Self::DdStrace => "dd, strace -c",
            Self::Compute => "calculation, alone",
            Self::ComputeSampled => "calculation, sampled at 99 Hz",
            Self::Call => "calls, alone",
            Self::CallWatched => "calls, each watched",
        }
    }

    /// Of which the time is a multiple.
    fn alone(self) -> Option<Self> {
        match self {
            Self::Dd | Self::Compute | Self::Call => None,
            Self::DdCounted | Self::DdProfiled | Self::DdStrace => Some(Self::Dd),
            Self::ComputeSampled => Some(Self::Compute),
            Self::CallWatched => Some(Self::Call),
        }
    }

    /// Who looks, if anybody does.
    fn looker(self) -> &'static [&'static str] {
        match self {
            Self::Dd | Self::Compute | Self::Call => &[],
            Self::DdCounted => &["prof", "--json", "--only", "syscalls", "--"],
            Self::DdProfiled => &["prof", "--json", "--"],
            Self::DdStrace => &["-c"],
            Self::ComputeSampled => &["prof", "--json", "--only", "cpu", "--hz", "99", "--"],
            Self::CallWatched => &[
                "prof",
                "--json",
                "--only",
                "functions",
                "--functions",
                "*bench_called*",
                "--",
            ],
        }
    }

    /// What is started.
    fn path(self, sockeye: Option<&Path>, bench_compare: &Path) -> Option<PathBuf> {
        match self {
            Self::Dd => on_path("dd"),
            Self::DdStrace => on_path("strace"),
            Self::Compute | Self::Call => Some(bench_compare.to_owned()),
            Self::DdCounted | Self::DdProfiled | Self::ComputeSampled | Self::CallWatched => {
                sockeye.map(Path::to_owned)
            }
        }
    }

    /// What it runs.
    fn words(self, bench_compare: &Path, work: Work) -> Vec<String> {
        let this = bench_compare.to_string_lossy();
        let exercise = |what: &str, many: usize| {
            let words = [&*this, EXERCISE, what, &many.to_string()];
            words.map(str::to_owned).to_vec()
        };
        match self {
            Self::Dd | Self::DdCounted | Self::DdProfiled | Self::DdStrace => {
                let count = format!("count={}", work.bytes);
                let words = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count];
                words.map(str::to_owned).to_vec()
            }
            Self::Compute | Self::ComputeSampled => exercise("compute", work.steps),
            Self::Call | Self::CallWatched => exercise("call", work.calls),
        }
    }
}

/// Its runs.
#[derive(Debug)]
struct Series {
    looked: Looked,
    path: Option<PathBuf>,
    runs: Vec<Run>,
    /// Why it takes no part any more
    failure: Option<String>,
}

/// What the program says of its work, and whoever looked.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    took_ns: u64,
    /// Its own processor time, where it says so
    processor_ns: Option<u64>,
    /// From the start of whoever looks to that of the program
    start_ns: Option<u64>,
    /// How often it called read and write, by whoever counts
    reads_and_writes: Option<(u64, u64)>,
    /// What watching a call costs, by whoever watches
    overhead_ns: Option<f64>,
}

impl Series {
    fn run(&mut self, namespace: &Namespace, bench_compare: &Path, work: Work) {
        let Some(path) = self.path.clone().filter(|_| self.failure.is_none()) else {
            return;
        };
        match self.once(&path, namespace, bench_compare, work) {
            Ok(run) => self.runs.push(run),
            Err(error) => {
                self.runs.clear();
                self.failure = Some(format!("FAILED: {error:#}"));
            }
        }
    }

    fn once(&self, path: &Path, namespace: &Namespace, bench_compare: &Path, work: Work) -> Result<Run> {
        let words = self.looked.words(bench_compare, work);
        let mut arguments: Vec<&str> = self.looked.looker().to_vec();
        // Who is not looked at is started himself.
        let own = usize::from(arguments.is_empty());
        arguments.extend(words.iter().skip(own).map(String::as_str));
        let before = clock_ns(ClockId::CLOCK_MONOTONIC)?;
        let Told { text, .. } =
            Attended::start(bench_compare, namespace, PATIENCE, path, &arguments)?.wait()?;
        let whole =
            |what: &str| number_after(&text, &format!("exercise_{what}"), " ").map(|number| number as u64);
        let run = match self.looked.alone().unwrap_or(self.looked) {
            Looked::Dd => Run {
                took_ns: (dd_seconds(&text).context("dd says no time")? * 1e9) as u64,
                reads_and_writes: self.reads_and_writes(&text),
                ..Run::default()
            },
            _ => Run {
                took_ns: whole("took").context("it says no time")?,
                processor_ns: whole("processor"),
                start_ns: whole("began").map(|began| began.saturating_sub(before)),
                overhead_ns: number_after(&text, "\"overhead_ns_per_call\"", ""),
                ..Run::default()
            },
        };
        let counted = run.reads_and_writes;
        ensure!(
            counted.is_none_or(|(reads, writes)| {
                // Its loader reads the headers of libraries, and its last words are a write of some pieces.
                let expected = work.bytes as u64..work.bytes as u64 + OTHER_CALLS_MAX;
                expected.contains(&reads) && expected.contains(&writes)
            }),
            "it counts {counted:?} calls of read and write, for {} bytes",
            work.bytes
        );
        Ok(run)
    }

    fn reads_and_writes(&self, text: &str) -> Option<(u64, u64)> {
        let of = |name: &str| match self.looked {
            Looked::DdStrace => strace_calls(text, name),
            Looked::Dd => None,
            _ => number_after(text, &format!("\"name\":\"{name}\""), "\"calls\"").map(|calls| calls as u64),
        };
        of("read").zip(of("write"))
    }

    fn median(&self, of: impl Fn(&Run) -> Option<u64>) -> Option<u64> {
        median(&self.runs.iter().filter_map(of).collect::<Vec<_>>())
    }

    fn took(&self) -> Option<u64> {
        self.median(|run| Some(run.took_ns))
    }

    fn row(&self, series: &[Self], work: Work) -> Row {
        let words = self.looked.words(Path::new("bench-compare"), work);
        let looker = self.looked.looker().iter().copied();
        let program = match self.looked {
            Looked::DdStrace => "strace",
            _ => "sockeye",
        };
        let command: Vec<&str> = (!self.looked.looker().is_empty())
            .then_some(program)
            .into_iter()
            .chain(looker)
            .chain(words.iter().map(String::as_str))
            .collect();
        let find = |looked| series.iter().find(|other| other.looked == looked);
        Row {
            runs: self.runs.len(),
            wall_ns: self.took(),
            wall_scatter: scatter(&self.runs.iter().map(|run| run.took_ns).collect::<Vec<_>>()),
            cpu_ns: self.median(|run| run.processor_ns),
            absence: match self.path {
                Some(_) => self.failure.clone(),
                None => Some("not installed".to_owned()),
            },
            verdicts: self.looked.alone().and_then(find).map_or_else(Vec::new, |alone| {
                self.verdicts(alone, find(Looked::DdStrace), work)
            }),
            ..row(self.looked.name().to_owned(), command.join(" "))
        }
    }

    fn verdicts(&self, alone: &Self, strace: Option<&Self>, work: Work) -> Vec<Verdict> {
        let slower = self.took().zip(alone.took());
        let slower = slower.and_then(|(looked, alone)| ratio(looked, alone));
        let figure = |text: Option<String>, target: &str, finding| Verdict {
            target: target.to_owned(),
            figure: text,
            finding,
        };
        match self.looked {
            Looked::DdCounted => {
                let ours = self.median(|run| run.reads_and_writes.map(|(reads, _)| reads));
                let theirs = strace
                    .and_then(|strace| strace.median(|run| run.reads_and_writes.map(|(reads, _)| reads)));
                vec![
                    beside("time", slower, "alone", Bound::AtMost(1.6)),
                    figure(
                        ours.zip(theirs)
                            .map(|(ours, theirs)| format!("{ours} reads, strace {theirs}")),
                        "counts equal strace's",
                        match ours.zip(theirs) {
                            Some((ours, theirs)) => Finding::from(ours == theirs),
                            None => Finding::NotJudged("no figures of strace".to_owned()),
                        },
                    ),
                ]
            }
            Looked::ComputeSampled => {
                let processor = self
                    .median(|run| run.processor_ns)
                    .zip(alone.median(|run| run.processor_ns))
                    .and_then(|(sampled, alone)| ratio(sampled, alone));
                let start = self.median(|run| run.start_ns);
                vec![
                    beside("processor time", processor, "alone", Bound::AtMost(1.01)),
                    figure(
                        start.map(|start| format!("{:.0} ms", start as f64 / 1e6)),
                        "from the start to the program's, everything attached: <= 300 ms",
                        match start {
                            Some(start) => Finding::from(start <= START_NS_MAX),
                            None => Finding::NotJudged("no figures".to_owned()),
                        },
                    ),
                ]
            }
            Looked::CallWatched => {
                let more = self.took().zip(alone.took());
                let more =
                    more.map(|(watched, alone)| watched.saturating_sub(alone) / work.calls.max(1) as u64);
                let said = self.median(|run| run.overhead_ns.map(|overhead| overhead as u64));
                vec![figure(
                    more.zip(said)
                        .map(|(more, said)| format!("{more} ns, it says {said} ns")),
                    "what watching adds to each call",
                    Finding::Told,
                )]
            }
            _ => vec![figure(
                slower.map(|slower| format!("{slower:.2} x alone")),
                "time",
                Finding::Told,
            )],
        }
    }
}

/// `2000000 bytes (2.0 MB, 1.9 MiB) copied, 0.908151 s, 2.2 MB/s`
fn dd_seconds(text: &str) -> Option<f64> {
    number_after(text, " copied,", "")
}

/// `50.12    0.000123           0    500003           read`: share, seconds, microseconds a call, calls, maybe errors.
fn strace_calls(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

const PATIENCE: Duration = Duration::from_secs(120);
const ROUNDS_OF_STRACE: usize = 2;
const OTHER_CALLS_MAX: u64 = 100;
const START_NS_MAX: u64 = 300_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dd_and_strace_say_is_read() {
        let dd = "2000000+0 records in\n2000000 bytes (2.0 MB, 1.9 MiB) copied, 0.908151 s, 2.2 MB/s\n";
        assert_eq!(dd_seconds(dd), Some(0.908_151));
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
                      ------ ----------- ----------- --------- --------- ----------------\n \
                      51.60    3.012345           6    500003           read\n  \
                      0.00    0.000012           1         9         2 openat\n";
        assert_eq!(strace_calls(strace, "read"), Some(500_003));
        assert_eq!(strace_calls(strace, "openat"), Some(9));
        assert_eq!(strace_calls(strace, "write"), None);
    }
}
