//! `sockeye prof` compared with strace: the cost of profiling.
//!
//! Each program measures its own work, so that starting and reporting are only in the figures about them.
//! Unprofiled programs are measured in turn with the profiled ones.

use crate::entry::Program;
use crate::judgement::{Finding, Row, Verdict};
use crate::known_work::{KNOWN_WORK, clock_ns};
use crate::network::{Bound, Rows, number_after, row, verdict_against};
use crate::programs::on_path;
use crate::run::Installed;
use crate::statistics::{median, ratio, scatter};
use crate::wrapped_program::{Namespace, ProgramOutput, WrappedProgram};
use anyhow::{Context, Result, ensure};
use nix::time::ClockId;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The amount of profiled work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes that dd copies one by one: two system calls each
    pub bytes: usize,
    /// Steps of a calculation
    pub steps: usize,
    /// Calls of a function
    pub calls: usize,
}

/// Runs every program unprofiled and profiled, in turn, for some rounds.
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
        .map(|case| Series {
            case,
            path: case.path(sockeye.as_deref(), bench_compare),
            runs: Vec::new(),
            failure: None,
        })
        .collect();
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let count = series.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            // It takes as long as all others together, and its figure is far from any limit.
            if series[turn].case == ProfiledCase::DdStrace && round >= ROUNDS_OF_STRACE {
                continue;
            }
            series[turn].run(&namespace, bench_compare, work);
        }
    }
    let mut table = Rows::default();
    for one in &series {
        table.rows.push(one.row(&series, work));
    }
    Ok(table)
}

/// A program, and its profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProfiledCase {
    Dd,
    DdCounted,
    DdProfiled,
    DdStrace,
    Compute,
    ComputeSampled,
    Call,
    CallWatched,
}

/// In the order of the report.
const SERIES: [ProfiledCase; 8] = [
    ProfiledCase::Dd,
    ProfiledCase::DdCounted,
    ProfiledCase::DdProfiled,
    ProfiledCase::DdStrace,
    ProfiledCase::Compute,
    ProfiledCase::ComputeSampled,
    ProfiledCase::Call,
    ProfiledCase::CallWatched,
];

impl ProfiledCase {
    fn name(self) -> &'static str {
        match self {
            Self::Dd => "dd, alone",
            Self::DdCounted => "dd, system calls counted",
            Self::DdProfiled => "dd, everything profiled",
            Self::DdStrace => "dd, strace -c",
            Self::Compute => "calculation, alone",
            Self::ComputeSampled => "calculation, sampled at 99 Hz",
            Self::Call => "calls, alone",
            Self::CallWatched => "calls, each watched",
        }
    }

    /// The unprofiled case that it is compared with.
    fn alone(self) -> Option<Self> {
        match self {
            Self::Dd | Self::Compute | Self::Call => None,
            Self::DdCounted | Self::DdProfiled | Self::DdStrace => Some(Self::Dd),
            Self::ComputeSampled => Some(Self::Compute),
            Self::CallWatched => Some(Self::Call),
        }
    }

    /// The profiler with its arguments; empty without a profiler.
    fn profiler(self) -> &'static [&'static str] {
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

    /// The program to start.
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

    /// Its arguments.
    fn words(self, bench_compare: &Path, work: Work) -> Vec<String> {
        let this = bench_compare.to_string_lossy();
        let known_work = |what: &str, many: usize| {
            let words = [&*this, KNOWN_WORK, what, &many.to_string()];
            words.map(str::to_owned).to_vec()
        };
        match self {
            Self::Dd | Self::DdCounted | Self::DdProfiled | Self::DdStrace => {
                let count = format!("count={}", work.bytes);
                let words = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count];
                words.map(str::to_owned).to_vec()
            }
            Self::Compute | Self::ComputeSampled => known_work("compute", work.steps),
            Self::Call | Self::CallWatched => known_work("call", work.calls),
        }
    }
}

/// All runs of a case.
#[derive(Debug)]
struct Series {
    case: ProfiledCase,
    path: Option<PathBuf>,
    runs: Vec<Run>,
    /// Why it is not run any more
    failure: Option<String>,
}

/// Results reported by the program and by the profiler.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    took_ns: u64,
    /// Processor time, if the program reports it
    processor_ns: Option<u64>,
    /// From the start of the profiler to that of the program
    start_ns: Option<u64>,
    /// Calls of read and write, as counted by the profiler
    reads_and_writes: Option<(u64, u64)>,
    /// Cost of watching a call, as reported by the profiler
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
        let words = self.case.words(bench_compare, work);
        let mut arguments: Vec<&str> = self.case.profiler().to_vec();
        // Without a profiler, the program itself is started.
        let own = usize::from(arguments.is_empty());
        arguments.extend(words.iter().skip(own).map(String::as_str));
        let before = clock_ns(ClockId::CLOCK_MONOTONIC)?;
        let ProgramOutput { text, .. } =
            WrappedProgram::start(bench_compare, namespace, TIMEOUT, path, &arguments)?.wait()?;
        let whole =
            |what: &str| number_after(&text, &format!("exercise_{what}"), " ").map(|number| number as u64);
        let run = match self.case.alone().unwrap_or(self.case) {
            ProfiledCase::Dd => Run {
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
                // The loader reads the headers of libraries, and the final message takes some writes.
                let expected = work.bytes as u64..work.bytes as u64 + OTHER_CALLS_MAX;
                expected.contains(&reads) && expected.contains(&writes)
            }),
            "it counts {counted:?} calls of read and write, for {} bytes",
            work.bytes
        );
        Ok(run)
    }

    fn reads_and_writes(&self, text: &str) -> Option<(u64, u64)> {
        let of = |name: &str| match self.case {
            ProfiledCase::DdStrace => strace_calls(text, name),
            ProfiledCase::Dd => None,
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
        let words = self.case.words(Path::new("bench-compare"), work);
        let profiler = self.case.profiler().iter().copied();
        let program = match self.case {
            ProfiledCase::DdStrace => "strace",
            _ => "sockeye",
        };
        let command: Vec<&str> = (!self.case.profiler().is_empty())
            .then_some(program)
            .into_iter()
            .chain(profiler)
            .chain(words.iter().map(String::as_str))
            .collect();
        let find = |case| series.iter().find(|other| other.case == case);
        Row {
            runs: self.runs.len(),
            wall_ns: self.took(),
            wall_scatter: scatter(&self.runs.iter().map(|run| run.took_ns).collect::<Vec<_>>()),
            cpu_ns: self.median(|run| run.processor_ns),
            absence: match self.path {
                Some(_) => self.failure.clone(),
                None => Some("not installed".to_owned()),
            },
            verdicts: self.case.alone().and_then(find).map_or_else(Vec::new, |alone| {
                self.verdicts(alone, find(ProfiledCase::DdStrace), work)
            }),
            ..row(self.case.name().to_owned(), command.join(" "))
        }
    }

    fn verdicts(&self, alone: &Self, strace: Option<&Self>, work: Work) -> Vec<Verdict> {
        let slower = self.took().zip(alone.took());
        let slower = slower.and_then(|(case, alone)| ratio(case, alone));
        let figure = |text: Option<String>, target: &str, finding| Verdict {
            target: target.to_owned(),
            figure: text,
            finding,
        };
        match self.case {
            ProfiledCase::DdCounted => {
                let ours = self.median(|run| run.reads_and_writes.map(|(reads, _)| reads));
                let theirs = strace
                    .and_then(|strace| strace.median(|run| run.reads_and_writes.map(|(reads, _)| reads)));
                vec![
                    verdict_against("time", slower, "alone", Bound::AtMost(1.6)),
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
            ProfiledCase::ComputeSampled => {
                let processor = self
                    .median(|run| run.processor_ns)
                    .zip(alone.median(|run| run.processor_ns))
                    .and_then(|(sampled, alone)| ratio(sampled, alone));
                let start = self.median(|run| run.start_ns);
                vec![
                    verdict_against("processor time", processor, "alone", Bound::AtMost(1.01)),
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
            ProfiledCase::CallWatched => {
                let more = self.took().zip(alone.took());
                let more =
                    more.map(|(watched, alone)| watched.saturating_sub(alone) / work.calls.max(1) as u64);
                let reported = self.median(|run| run.overhead_ns.map(|overhead| overhead as u64));
                vec![figure(
                    more.zip(reported)
                        .map(|(more, reported)| format!("{more} ns, it reports {reported} ns")),
                    "what watching adds to each call",
                    Finding::Informational,
                )]
            }
            _ => vec![figure(
                slower.map(|slower| format!("{slower:.2} x alone")),
                "time",
                Finding::Informational,
            )],
        }
    }
}

/// `2000000 bytes (2.0 MB, 1.9 MiB) copied, 0.908151 s, 2.2 MB/s`
fn dd_seconds(text: &str) -> Option<f64> {
    number_after(text, " copied,", "")
}

/// `50.12    0.000123           0    500003           read`: share, seconds, microseconds per call, calls,
/// errors if any.
fn strace_calls(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

const TIMEOUT: Duration = Duration::from_secs(120);
const ROUNDS_OF_STRACE: usize = 2;
const OTHER_CALLS_MAX: u64 = 100;
const START_NS_MAX: u64 = 300_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_dd_and_strace_is_parsed() {
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
