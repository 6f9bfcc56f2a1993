use super::outcome::{Ending, Kept, Outcome};
use super::report::{Lines, Report, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sockeye_act::netns;
use sockeye_act::program::Program;
use sockeye_model::NetnsName;
use sockeye_output::harmless;
use sockeye_sys::interrupts::Interrupts;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The command in one namespace, of many.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) name: &'a NetnsName,
    pub(super) program: &'a Program<'a>,
    /// Whether it may read what we might.
    pub(super) has_stdin: bool,
    pub(super) report: &'a Report,
    pub(super) interrupts: Interrupts,
    /// Held while a program is started: one that is on its way between `fork` and `execve` would hold the pipes of
    /// another, which would look as if that had left something running.
    pub(super) start: &'a Mutex<()>,
}

impl<'a> Job<'a> {
    /// Runs it to its end. The calling thread is in the namespace from then on: it should end.
    pub(super) fn run(&self) -> Outcome<'a> {
        let begin = Instant::now();
        let mut outcome = Outcome {
            name: self.name,
            ending: Ending::Exited(0),
            warnings: Vec::new(),
            duration: begin.elapsed(),
            stdout: Kept::default(),
            stderr: Kept::default(),
        };
        outcome.ending = self.enter_and_run(&mut outcome);
        outcome.duration = begin.elapsed();
        outcome
    }

    fn enter_and_run(&self, outcome: &mut Outcome<'_>) -> Ending {
        match netns::enter(self.name) {
            Ok(entered) => {
                for failed in &entered.failed_binds {
                    self.warn(outcome, failed.to_string());
                }
            }
            Err(error) => return Ending::NotEntered(error.to_string()),
        }
        let turn = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let started = self.program.start(|command| {
            if !self.has_stdin {
                command.stdin(Stdio::null());
            }
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        });
        drop(turn);
        match started {
            Ok(child) => self.attend(child, outcome),
            Err(error) => Ending::NotStarted(error.to_string()),
        }
    }

    /// Reads what it writes until it ends.
    fn attend(&self, mut child: Child, outcome: &mut Outcome<'_>) -> Ending {
        let name = harmless(self.name.as_os_str().as_bytes());
        let mut stdout = Tap::new(Stream::Stdout, child.stdout.take().map(OwnedFd::from), &name);
        let mut stderr = Tap::new(Stream::Stderr, child.stderr.take().map(OwnedFd::from), &name);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // Without it (before Linux 5.3) its end is noticed by that of its output.
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut is_interrupted = false;
        let mut buffer = vec![0; BUFFER];
        loop {
            let is_worth_waiting = end.is_some() || stdout.is_open() || stderr.is_open();
            if !is_worth_waiting {
                break;
            }
            let interrupt = (!is_interrupted).then(|| self.interrupts.as_fd());
            let [has_stdout, has_stderr, has_ended, has_interrupt] =
                readable([stdout.fd(), stderr.fd(), end.as_ref().map(AsFd::as_fd), interrupt]);
            if has_interrupt {
                is_interrupted = true;
                // ^C reaches it without us; whoever ends us by name means what we run.
                if let (Some(Signal::TERM), Some(pid)) = (self.caught(), pid) {
                    // It has not been waited for: the number is still its own.
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
            if has_stdout {
                stdout.read(&mut buffer, self.report, &mut outcome.stdout);
            }
            if has_stderr {
                stderr.read(&mut buffer, self.report, &mut outcome.stderr);
            }
            if has_ended {
                break;
            }
        }
        // It ended, but what it left running may still hold the pipes, and must not keep us.
        stdout.drain(&mut buffer, self.report, &mut outcome.stdout);
        stderr.drain(&mut buffer, self.report, &mut outcome.stderr);
        if stdout.is_open() || stderr.is_open() {
            let left = "it left something running that still holds its output: not waited for";
            self.warn(outcome, left.to_owned());
        }
        match child.wait() {
            Ok(status) => status.into(),
            Err(error) => Ending::NotStarted(format!("cannot wait for it: {error}")),
        }
    }

    fn warn(&self, outcome: &mut Outcome<'_>, warning: String) {
        outcome.warnings.extend(self.report.warning(self.name, warning));
    }

    fn caught(&self) -> Option<Signal> {
        self.interrupts.caught().and_then(Signal::from_named_raw)
    }
}

/// One output of a program, at our end.
#[derive(Debug)]
struct Tap {
    stream: Stream,
    pipe: Option<std::fs::File>,
    lines: Lines,
}

impl Tap {
    fn new(stream: Stream, pipe: Option<OwnedFd>, name: &str) -> Self {
        Self {
            stream,
            pipe: pipe.map(std::fs::File::from),
            lines: Lines::behind(name),
        }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once, which waits if there is nothing. Gives the number of bytes.
    fn read(&mut self, buffer: &mut [u8], report: &Report, kept: &mut Kept) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        let length = match pipe.read(buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return 0,
            Err(_) => 0,
        };
        let piece = &buffer[..length];
        if report.is_text() {
            let lines = if length == 0 {
                self.lines.end()
            } else {
                self.lines.take(piece)
            };
            if !lines.is_empty() {
                report.lines(self.stream, &lines);
            }
        } else {
            kept.keep(piece);
        }
        // Nobody reads us: then nobody reads it, and it should know at its next write.
        if length == 0 || report.is_over() {
            self.pipe = None;
        }
        length
    }

    /// Reads what is there already.
    fn drain(&mut self, buffer: &mut [u8], report: &Report, kept: &mut Kept) {
        let waiting = self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        let mut left = waiting
            .and_then(|waiting| usize::try_from(waiting).ok())
            .unwrap_or(0);
        while left > 0 && self.is_open() {
            let most = buffer.len().min(left);
            left -= self.read(&mut buffer[..most], report, kept).max(1).min(left);
        }
        // If nobody holds it any more, there is its end.
        if let [true] = readable_now([self.fd()]) {
            self.read(buffer, report, kept);
        }
        if report.is_text() {
            let rest = self.lines.end();
            if !rest.is_empty() {
                report.lines(self.stream, &rest);
            }
        }
    }
}

/// Waits until something can be read from one of them, or has ended.
fn readable<const N: usize>(fds: [Option<BorrowedFd<'_>>; N]) -> [bool; N] {
    polled(fds, None)
}

fn readable_now<const N: usize>(fds: [Option<BorrowedFd<'_>>; N]) -> [bool; N] {
    polled(fds, Some(&Timespec::default()))
}

fn polled<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], limit: Option<&Timespec>) -> [bool; N] {
    let mut asked: Vec<_> = fds
        .into_iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let is_known = loop {
        match poll(&mut asked, limit) {
            Err(Errno::INTR) => {}
            done => break done.is_ok(),
        }
    };
    let mut asked = asked.iter();
    // Without memory to poll with, reading waits as well.
    fds.map(|fd| {
        fd.is_some()
            && asked
                .next()
                .is_some_and(|fd| !is_known || !fd.revents().is_empty())
    })
}

/// So much is read at a time.
const BUFFER: usize = 64 * 1024;
