//! Measures one command from start to exit: wall time, processor time, peak memory.
//!
//! The kernel reports peak memory only for all children of a process together, and includes the image from
//! which a child was forked. So each command is started by a new process, this program once more, that has
//! done nothing else: [`supervise`]. Its own size of 1-2 MB is the smallest measurable value.

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeVal;
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

/// The argument that makes `bench-compare` the process around one command.
pub const SUPERVISE: &str = "--supervise";

/// What is measured of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Time to its exit; the output goes to /dev/null.
    Discarded,
    /// The same, with its lines counted: a command that prints nothing must not win.
    Counted,
    /// Time to its first whole line; the rest is read, so that the command can finish.
    FirstLine,
}

/// The cost of one run of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From before the start until after the exit, or until the first line: see [`Output`].
    pub wall_ns: u64,
    /// User and system time of all its threads.
    pub cpu_ns: u64,
    /// Largest resident set.
    pub peak_bytes: u64,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Cost.
    pub sample: Sample,
    /// Number of printed lines, if counted.
    pub lines: Option<u64>,
    /// The failure, with the start of its stderr; `None` if it exited with 0.
    pub failure: Option<String>,
}

/// Runs a command once, in a new process, and measures it.
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
///
/// The command is killed with all its children by a signal, or when the requesting process is gone.
pub fn supervise(arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut arguments = arguments;
    let word = arguments.next().context("no output word")?;
    let output = Output::from_word(&word.to_string_lossy()).context("bad output word")?;
    let program = PathBuf::from(arguments.next().context("no program")?);
    let stdout = match output {
        Output::Discarded => Stdio::null(),
        Output::Counted | Output::FirstLine => Stdio::piped(),
    };
    let signals = block_signals()?;

    let start = Instant::now();
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        // A new process group, so that a shell can be killed with its children.
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let mut lines = child.stdout.take().map(Lines::new);
    let mut error_line = child.stderr.take().map(StderrStart::new);
    if let End::Signal = read_to_end(&signals, &mut lines, &mut error_line, start)? {
        kill_group(&mut child)?;
        bail!("ended by a signal");
    }
    let status = child.wait().context("waiting for the command")?;
    let mut wall_ns = start.elapsed().as_nanos() as u64;

    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage(RUSAGE_CHILDREN)")?;
    let mut failure = failure(status, &error_line.map(StderrStart::text).unwrap_or_default());
    if output == Output::FirstLine {
        match lines.as_ref().and_then(|lines| lines.first_ns) {
            Some(first_ns) => wall_ns = first_ns,
            None => failure = failure.or_else(|| Some("printed no line".to_owned())),
        }
    }
    let outcome = Outcome {
        sample: Sample {
            wall_ns,
            cpu_ns: nanoseconds(usage.user_time()) + nanoseconds(usage.system_time()),
            peak_bytes: 1024 * usage.max_rss().unsigned_abs(),
        },
        lines: lines.map(|lines| lines.count),
        failure,
    };
    std::io::stdout()
        .write_all(reply(&outcome).as_bytes())
        .context("stdout")
}

/// Blocks these signals so that they can be read; the death of the parent is one of them.
pub(crate) fn block_signals() -> Result<SignalFd> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect();
    signals.thread_block().context("blocking signals")?;
    let parent = getppid();
    set_pdeathsig(Signal::SIGTERM).context("prctl(PR_SET_PDEATHSIG)")?;
    // A parent that died before that call sends no signal.
    ensure!(
        getppid() == parent,
        "the process that waits for the figures is gone"
    );
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signalfd")
}

/// Why reading a command's output ended.
enum End {
    /// The command closed its output.
    Output,
    /// A signal requests the end.
    Signal,
}

/// Reads both pipes until the command has closed them, on this thread: a second one would increase the peak.
fn read_to_end(
    signals: &SignalFd,
    lines: &mut Option<Lines<ChildStdout>>,
    error_line: &mut Option<StderrStart<ChildStderr>>,
    start: Instant,
) -> Result<End> {
    let (mut reading_lines, mut reading_complaint) = (lines.is_some(), error_line.is_some());
    while reading_lines || reading_complaint {
        let lines_fd = lines.as_ref().filter(|_| reading_lines);
        let complaint_fd = error_line.as_ref().filter(|_| reading_complaint);
        let mut awaited = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        awaited.extend(lines_fd.map(|lines| PollFd::new(lines.stdout.as_fd(), PollFlags::POLLIN)));
        awaited
            .extend(complaint_fd.map(|error_line| PollFd::new(error_line.stderr.as_fd(), PollFlags::POLLIN)));
        match poll(&mut awaited, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno).context("poll"),
        }
        let mut ready = awaited.iter().map(|awaited| awaited.any().unwrap_or(true));
        if ready.next() == Some(true) {
            return Ok(End::Signal);
        }
        let lines_ready = reading_lines && ready.next() == Some(true);
        let complaint_ready = reading_complaint && ready.next() == Some(true);
        if let Some(lines) = lines.as_mut().filter(|_| lines_ready) {
            reading_lines = lines.read(|| start.elapsed().as_nanos() as u64)?;
        }
        if let Some(error_line) = error_line.as_mut().filter(|_| complaint_ready) {
            reading_complaint = error_line.read()?;
        }
    }
    Ok(End::Output)
}

fn kill_group(child: &mut Child) -> Result<()> {
    let group = i32::try_from(child.id()).context("the command's pid")?;
    killpg(Pid::from_raw(group), Signal::SIGKILL).context("killing the command")?;
    child.wait().context("waiting for the killed command")?;
    Ok(())
}

impl Output {
    fn word(self) -> &'static str {
        match self {
            Self::Discarded => "discarded",
            Self::Counted => "counted",
            Self::FirstLine => "first-line",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Discarded, Self::Counted, Self::FirstLine]
            .into_iter()
            .find(|output| output.word() == word)
    }
}

/// One line of figures, and the failure on the second, if any.
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

fn failure(status: ExitStatus, error_line: &str) -> Option<String> {
    if status.success() {
        return None;
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    // Printable characters only: this is written to a terminal and into a document.
    let first: String = error_line
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

/// Counts the lines of a command's output, with the time of the first.
struct Lines<R> {
    stdout: R,
    count: u64,
    first_ns: Option<u64>,
}

impl<R: Read> Lines<R> {
    fn new(stdout: R) -> Self {
        Self {
            stdout,
            count: 0,
            first_ns: None,
        }
    }

    /// Reads once after poll(); false at the end.
    fn read(&mut self, clock_ns: impl FnOnce() -> u64) -> Result<bool> {
        let mut buffer = [0; 64 * 1024];
        let length = read_once(&mut self.stdout, &mut buffer).context("reading the command's output")?;
        let lines = buffer[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        if lines > 0 && self.first_ns.is_none() {
            self.first_ns = Some(clock_ns());
        }
        self.count += lines;
        Ok(length > 0)
    }
}

/// The first kilobyte of stderr; the rest is read and discarded, so that the command is not blocked.
struct StderrStart<R> {
    stderr: R,
    start: Vec<u8>,
}

impl<R: Read> StderrStart<R> {
    fn new(stderr: R) -> Self {
        Self {
            stderr,
            start: Vec::new(),
        }
    }

    /// Reads once after poll(); false at the end.
    fn read(&mut self) -> Result<bool> {
        let mut buffer = [0; 1024];
        let length = read_once(&mut self.stderr, &mut buffer).context("reading the command's stderr")?;
        let room = STDERR_BYTES_MAX.saturating_sub(self.start.len());
        self.start.extend_from_slice(&buffer[..length.min(room)]);
        Ok(length > 0)
    }

    fn text(self) -> String {
        String::from_utf8_lossy(&self.start).into_owned()
    }
}

const STDERR_BYTES_MAX: usize = 1024;

fn read_once(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
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
    fn words_of_output_round_trip() {
        for output in [Output::Discarded, Output::Counted, Output::FirstLine] {
            assert_eq!(Output::from_word(output.word()), Some(output));
        }
        assert_eq!(Output::from_word("all"), None);
    }

    #[test]
    fn lines_are_counted_and_the_first_is_timed_when_it_is_whole() {
        let pieces = b"a be".chain(&b"ginning\nb\n"[..]).chain(&b"c\nno newline"[..]);
        let mut lines = Lines::new(pieces);
        let mut clock_ns = 0;
        loop {
            clock_ns += 10;
            if !lines.read(|| clock_ns).expect("memory") {
                break;
            }
        }
        assert_eq!((lines.count, lines.first_ns), (3, Some(20)));
    }

    #[test]
    fn output_without_a_line_has_no_first_line() {
        let mut lines = Lines::new(&b"no newline"[..]);
        while lines.read(|| 1).expect("memory") {}
        assert_eq!((lines.count, lines.first_ns), (0, None));
    }

    #[test]
    fn a_long_complaint_is_cut() {
        let mut error_line = StderrStart::new(&[b'x'; 5000][..]);
        while error_line.read().expect("memory") {}
        assert_eq!(error_line.text().len(), 1024);
    }
}
