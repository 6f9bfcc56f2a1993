//! Captures at a packet rate above that of real loopback traffic: cost and losses.
//!
//! `bench-blast` sends at the highest rate of one core while one program captures; then the other; and so on,
//! in alternating order. A capture slows down the sender, too, by a different amount; so processor time is
//! compared per packet.

use crate::entry::Program;
use crate::judgement::{Finding, Row, Verdict};
use crate::programs::on_path;
use crate::run::Installed;
use crate::statistics::{median, ratio};
use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Results of all programs: rows for the report, and the rate of `bench-blast` meanwhile.
pub struct CapturedTransfers {
    /// For the report
    pub rows: Vec<Row>,
    /// Lines below it
    pub notes: Vec<String>,
}

/// Captures for `seconds` in each round, into files in `folder`, in the current network namespace.
pub fn interleaved(
    installed: &Installed,
    bench_blast: &Path,
    folder: &Path,
    seconds: f64,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> CapturedTransfers {
    let mut programs = [
        CaptureProgram {
            name: "capture",
            path: installed.path(Program::Sockeye),
            arguments: &["capture", "-i", "lo", "-s", SNAPLEN, "-o"],
            ready_text: "capturing on",
            runs: Vec::new(),
            failure: None,
        },
        CaptureProgram {
            name: TCPDUMP,
            path: on_path(TCPDUMP),
            arguments: &["-n", "-i", "lo", "-s", SNAPLEN, "-w"],
            ready_text: "listening on",
            runs: Vec::new(),
            failure: None,
        },
    ];
    // Round 0 warms up caches and does not count.
    for round in 0..=rounds {
        progress(&format!("round {round} of {rounds}"));
        let count = programs.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            let program = &mut programs[turn];
            if program.failure.is_some() {
                continue;
            }
            match program.run(bench_blast, folder, seconds) {
                Ok(run) => program.runs.extend(run.filter(|_| round > 0)),
                Err(error) => {
                    program.runs.clear();
                    program.failure = Some(format!("FAILED: {error:#}"));
                }
            }
        }
    }
    let theirs_ns = programs[1].cpu_ns_per_packet();
    let rows = programs.iter().map(|program| program.row(theirs_ns)).collect();
    let notes = programs.iter().filter_map(CaptureProgram::note).collect();
    CapturedTransfers { rows, notes }
}

/// A capturing program, and its results so far.
struct CaptureProgram {
    name: &'static str,
    path: Option<PathBuf>,
    /// The name of the file follows
    arguments: &'static [&'static str],
    /// Text on stderr that shows the start of the capture
    ready_text: &'static str,
    runs: Vec<Run>,
    /// Why it is not run any more
    failure: Option<String>,
}

#[derive(Clone, Copy)]
struct Run {
    sent: u64,
    dropped: u64,
    cpu_ns: u64,
}

impl CaptureProgram {
    /// One run; `None`: the program is not installed.
    fn run(&self, bench_blast: &Path, folder: &Path, seconds: f64) -> Result<Option<Run>> {
        let Some(path) = &self.path else { return Ok(None) };
        let file = folder.join(self.name);
        let mut child = Command::new(path)
            .args(self.arguments)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", path.display()))?;
        let run = self.capture_traffic(&mut child, bench_blast, seconds);
        if run.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_file(&file);
        run.map(Some)
    }

    /// Sends packets while the program captures, and ends it.
    fn capture_traffic(&self, child: &mut Child, bench_blast: &Path, seconds: f64) -> Result<Run> {
        let stderr = child.stderr.take().context("no stderr")?;
        let mut stderr = BufReader::new(stderr);
        let mut text = String::new();
        while !text.contains(self.ready_text) {
            let count = stderr.read_line(&mut text).context("reading stderr")?;
            if count == 0 {
                bail!("it does not capture: {}", text.lines().next().unwrap_or_default());
            }
        }
        let before = carried_by_loopback()?;
        let blast = Command::new(bench_blast)
            .arg(seconds.to_string())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("starting {}", bench_blast.display()))?;
        if !blast.success() {
            bail!("bench-blast ended with {blast}");
        }
        let sent = carried_by_loopback()? - before;
        wait_until_it_waits(child)?;
        let pid = i32::try_from(child.id()).context("the capture's pid")?;
        let before_ns = children_ns()?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("ending the capture")?;
        stderr.read_to_string(&mut text).context("reading stderr")?;
        let status = child.wait().context("waiting for the capture")?;
        let cpu_ns = children_ns()?.saturating_sub(before_ns);
        let count = |what: &str| counted(&text, what).with_context(|| format!("{}: {text:?}", self.name));
        let (captured, dropped) = (count("captured")?, count("dropped by kernel")?);
        if !status.success() || captured + dropped < sent - sent / 10 {
            bail!("it captured {captured} of {sent} packets and ended with {status}");
        }
        Ok(Run {
            sent,
            dropped,
            cpu_ns,
        })
    }

    /// Median of the processor time per packet.
    fn cpu_ns_per_packet(&self) -> Option<f64> {
        let each_ps: Vec<u64> = self
            .runs
            .iter()
            .filter_map(|run| (run.cpu_ns * 1000).checked_div(run.sent))
            .collect();
        median(&each_ps).map(|ps| ps as f64 / 1000.0)
    }

    fn row(&self, theirs_ns: Option<f64>) -> Row {
        let cpus: Vec<u64> = self.runs.iter().map(|run| run.cpu_ns).collect();
        let verdicts = if self.name == TCPDUMP {
            Vec::new()
        } else {
            vec![self.drops(), self.cost(theirs_ns)]
        };
        let program = self.path.as_deref().and_then(Path::file_name);
        let program = program.map_or(self.name.into(), |name| name.to_string_lossy());
        Row {
            name: self.name.to_owned(),
            command: format!("{program} {} FILE", self.arguments.join(" ")),
            runs: self.runs.len(),
            wall_ns: None,
            wall_scatter: None,
            cpu_ns: median(&cpus),
            peak_bytes: None,
            lines: None,
            to_floor: None,
            absence: match self.path {
                Some(_) => self.failure.clone(),
                None => Some("not installed".to_owned()),
            },
            verdicts,
        }
    }

    fn drops(&self) -> Verdict {
        let (sent, dropped) = self.total();
        Verdict {
            target: "no packet dropped".to_owned(),
            figure: (sent > 0).then(|| format!("{dropped} of {sent} dropped")),
            finding: match sent {
                0 => Finding::NotJudged("no figures".to_owned()),
                _ if dropped == 0 => Finding::Met,
                _ => Finding::Missed,
            },
        }
    }

    fn cost(&self, theirs_ns: Option<f64>) -> Verdict {
        let found = self
            .cpu_ns_per_packet()
            .zip(theirs_ns)
            .and_then(|(ours, theirs)| ratio((ours * 1000.0) as u64, (theirs * 1000.0) as u64));
        Verdict {
            target: "processor time of a packet <= 1.00 x tcpdump".to_owned(),
            figure: found.map(|found| format!("{found:.2} x tcpdump")),
            finding: match found {
                None => Finding::NotJudged("no figures of tcpdump".to_owned()),
                Some(found) if found <= 1.0 => Finding::Met,
                Some(_) => Finding::Missed,
            },
        }
    }

    fn total(&self) -> (u64, u64) {
        let sum = |of: fn(&Run) -> u64| self.runs.iter().map(of).sum();
        (sum(|run| run.sent), sum(|run| run.dropped))
    }

    fn note(&self) -> Option<String> {
        let (sent, dropped) = self.total();
        let each_ns = self.cpu_ns_per_packet()?;
        Some(format!(
            "{}: {each_ns:.0} ns of processor time a packet, {dropped} of {sent} dropped by the kernel",
            self.name
        ))
    }
}

/// Processor time of all children that were waited for.
fn children_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage(RUSAGE_CHILDREN)")?;
    let total_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(total_us.unsigned_abs() * 1000)
}

/// The number before these words: `600 packets captured; 600 received by filter; 0 dropped by kernel`.
fn counted(text: &str, what: &str) -> Option<u64> {
    let before = &text[..text.find(what)?];
    let mut words = before.split_whitespace().rev();
    words.find_map(|word| word.parse().ok())
}

const TCPDUMP: &str = "tcpdump";
/// Returns the number of packets that loopback has carried. On a busy machine the queue of the processor is full at times, and it drops some.
fn carried_by_loopback() -> Result<u64> {
    let devices =
        fs::read_to_string("/proc/thread-self/net/dev").context("reading the counters of devices")?;
    let of_loopback = devices
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("lo:"));
    // Bytes, packets, and more.
    let packets = of_loopback.and_then(|counters| counters.split_ascii_whitespace().nth(1)?.parse().ok());
    packets.context("there is no loopback device")
}

/// Waits until the program waits for packets: what it has not read by its end is lost.
fn wait_until_it_waits(child: &Child) -> Result<()> {
    let path = format!("/proc/{}/stat", child.id());
    let began = Instant::now();
    let mut looks = 0;
    while looks < 2 && began.elapsed() < DRAIN_MAX {
        std::thread::sleep(LINGER);
        let stat = fs::read_to_string(&path).context("reading the state of the capture")?;
        let sleeps = stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('S'));
        looks = if sleeps { looks + 1 } else { 0 };
    }
    Ok(())
}

/// Headers only, as usual for `analyze`.
const SNAPLEN: &str = "100";
/// Time for the last packets to be delivered.
const LINGER: Duration = Duration::from_millis(300);
/// The longest time that a program gets for what it has not read.
const DRAIN_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_both_programs_are_parsed() {
        let ours = "sockeye: capturing on lo\nsockeye: 12 packets captured; 15 received by filter; 3 dropped by kernel; 1 kB\n";
        let theirs = "tcpdump: listening on lo\n12 packets captured\n30 packets received by filter\n3 packets dropped by kernel\n";
        for text in [ours, theirs] {
            assert_eq!(counted(text, "captured"), Some(12));
            assert_eq!(counted(text, "dropped by kernel"), Some(3));
        }
        assert_eq!(counted("nothing", "captured"), None);
    }

    #[test]
    fn drops_and_cost_are_judged() {
        let capturing = |dropped, cpu_ns| CaptureProgram {
            name: "capture",
            path: Some("/x/sockeye".into()),
            arguments: &["capture"],
            ready_text: "",
            runs: vec![Run {
                sent: 1_000_000,
                dropped,
                cpu_ns,
            }],
            failure: None,
        };
        let findings = |capturing: CaptureProgram, theirs_ns| -> Vec<Finding> {
            let row = capturing.row(theirs_ns);
            row.verdicts.into_iter().map(|verdict| verdict.finding).collect()
        };
        let good = capturing(0, 90_000_000);
        assert_eq!(good.cpu_ns_per_packet(), Some(90.0));
        assert_eq!(findings(good, Some(100.0)), [Finding::Met, Finding::Met]);
        let bad = capturing(1, 110_000_000);
        assert_eq!(findings(bad, Some(100.0)), [Finding::Missed, Finding::Missed]);
        let alone = findings(capturing(0, 1), None);
        assert!(matches!(alone[..], [Finding::Met, Finding::NotJudged(_)]));
    }
}
