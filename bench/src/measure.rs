//! One command, from start to exit: wall time, processor time, peak memory.
//!
//! The kernel tells a process the peak memory only of all its children together, and counts the image from which a child
//! was started into the child's. Therefore each command is started by a process of its own, this program once more, that has done
//! nothing else: [`supervise`]. Its own size, some 1-2 MB, is the least that can be measured.

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// The argument by which `bench-compare` is told to be the process around one command.
pub const SUPERVISE: &str = "--supervise";

/// What happens to a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// It goes to /dev/null, as in every measurement.
    Discarded,
    /// Its lines are counted: a command that is fast because it prints nothing must not win.
    Counted,
}

/// What one run of a command cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From before the start until after the exit.
    pub wall_ns: u64,
    /// User and system time of all its threads.
    pub cpu_ns: u64,
    /// Largest resident set.
    pub peak_bytes: u64,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its cost.
    pub sample: Sample,
    /// Lines it printed, if they were counted.
    pub lines: Option<u64>,
    /// How it failed, with the start of its stderr; None if it exited with 0.
    pub failure: Option<String>,
}

/// Runs a command once, in a process of its own, and measures it.
pub fn measure(program: &Path, arguments: &[&str], output: Output) -> Result<Outcome> {
    let this = std::env::current_exe().context("finding this program")?;
    let reply = Command::new(this)
        .arg(SUPERVISE)
        .arg(output.word())
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting the process around the command")?;
    if !reply.status.success() {
        bail!("measuring {} failed: {}", program.display(), reply.status);
    }
    parse_reply(&String::from_utf8_lossy(&reply.stdout))
        .with_context(|| format!("measuring {}: no figures came back", program.display()))
}

/// The process around one command: `OUTPUT PROGRAM ARGUMENTS...`; prints the figures for [`measure`].
pub fn supervise(arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut arguments = arguments;
    let word = arguments.next().context("no output word")?;
    let output = Output::from_word(&word.to_string_lossy()).context("bad output word")?;
    let program = PathBuf::from(arguments.next().context("no program")?);
    let stdout = match output {
        Output::Discarded => Stdio::null(),
        Output::Counted => Stdio::piped(),
    };

    let start = Instant::now();
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let stderr = child.stderr.take();
    let complaint = std::thread::scope(|scope| {
        // Only the counting run needs a second thread, to drain both pipes; it is no measurement.
        let lines = child
            .stdout
            .take()
            .map(|stdout| scope.spawn(|| count_lines(stdout)));
        let complaint = stderr.map(read_start).unwrap_or_default();
        (lines.and_then(|thread| thread.join().ok()), complaint)
    });
    let status = child.wait().context("waiting for the command")?;
    let wall_ns = start.elapsed().as_nanos() as u64;

    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage(RUSAGE_CHILDREN)")?;
    let sample = Sample {
        wall_ns,
        cpu_ns: nanoseconds(usage.user_time()) + nanoseconds(usage.system_time()),
        peak_bytes: 1024 * usage.max_rss().unsigned_abs(),
    };
    let (lines, complaint) = complaint;
    let outcome = Outcome {
        sample,
        lines,
        failure: failure(status, &complaint),
    };
    std::io::stdout()
        .write_all(reply(&outcome).as_bytes())
        .context("stdout")
}

impl Output {
    fn word(self) -> &'static str {
        match self {
            Self::Discarded => "discarded",
            Self::Counted => "counted",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Discarded, Self::Counted]
            .into_iter()
            .find(|output| output.word() == word)
    }
}

/// One line of figures, and what went wrong on the second, if anything did.
fn reply(outcome: &Outcome) -> String {
    let Sample {
        wall_ns,
        cpu_ns,
        peak_bytes,
    } = outcome.sample;
    let lines = outcome.lines.map_or("-".to_owned(), |lines| lines.to_string());
    let failure = outcome.failure.as_deref().unwrap_or_default();
    format!("{wall_ns} {cpu_ns} {peak_bytes} {lines}\n{failure}")
}

fn parse_reply(text: &str) -> Option<Outcome> {
    let (figures, failure) = text.split_once('\n')?;
    let mut figures = figures.split(' ');
    let mut number = || figures.next()?.parse().ok();
    let sample = Sample {
        wall_ns: number()?,
        cpu_ns: number()?,
        peak_bytes: number()?,
    };
    let lines = match figures.next()? {
        "-" => None,
        lines => Some(lines.parse().ok()?),
    };
    Some(Outcome {
        sample,
        lines,
        failure: (!failure.is_empty()).then(|| failure.to_owned()),
    })
}

fn failure(status: ExitStatus, complaint: &str) -> Option<String> {
    if status.success() {
        return None;
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    // Printable characters only: this goes to a terminal and into a document.
    let first: String = complaint
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(120)
        .collect();
    Some(if first.is_empty() {
        how
    } else {
        format!("{how}: {first}")
    })
}

fn count_lines(mut stdout: impl Read) -> u64 {
    let mut buffer = [0; 64 * 1024];
    let mut lines = 0;
    while let Ok(length) = stdout.read(&mut buffer) {
        if length == 0 {
            break;
        }
        lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    lines
}

/// The first kilobyte; the rest is read too, so that the command never waits for us.
fn read_start(mut stderr: impl Read) -> String {
    let mut start = Vec::new();
    let _ = stderr.by_ref().take(1024).read_to_end(&mut start);
    let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    String::from_utf8_lossy(&start).into_owned()
}

fn nanoseconds(time: TimeVal) -> u64 {
    time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_usec().unsigned_abs() * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: &Outcome) {
        assert_eq!(parse_reply(&reply(outcome)).as_ref(), Some(outcome));
    }

    #[test]
    fn a_reply_survives_the_pipe() {
        let sample = Sample {
            wall_ns: 1,
            cpu_ns: 2,
            peak_bytes: 3,
        };
        check(&Outcome {
            sample,
            lines: None,
            failure: None,
        });
        check(&Outcome {
            sample,
            lines: Some(79_233),
            failure: Some("exit 2: no such option".to_owned()),
        });
    }

    #[test]
    fn a_bad_reply_is_none() {
        for text in ["", "1 2 3", "1 2 3\n", "1 2 x -\n", "1 2 3 x\n"] {
            assert_eq!(parse_reply(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_failure_names_exit_and_complaint() {
        assert_eq!(failure(ExitStatus::from_raw(0), "a warning"), None);
        assert_eq!(
            failure(ExitStatus::from_raw(2 << 8), ""),
            Some("exit 2".to_owned())
        );
        assert_eq!(
            failure(ExitStatus::from_raw(1 << 8), "no\x1b[31m\nmore"),
            Some("exit 1: no[31m".to_owned())
        );
        assert_eq!(
            failure(ExitStatus::from_raw(9), ""),
            Some("killed by signal 9".to_owned())
        );
    }

    #[test]
    fn lines_and_start_of_output() {
        assert_eq!(count_lines(&b"a\nb\nno newline"[..]), 2);
        assert_eq!(read_start(&[b'x'; 5000][..]).len(), 1024);
    }
}
