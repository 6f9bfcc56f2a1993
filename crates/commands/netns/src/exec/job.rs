//! The program in one of many namespaces.

use super::outcome::{Captured, Ending, Outcome};
use super::report::{Lines, Report, Stream};
use crate::output::names::clean_name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sockeye_act::netns;
use sockeye_act::program::Program;
use sockeye_model::NetnsName;
use sockeye_sys::interrupts::Interrupts;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The program in one namespace.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) name: &'a NetnsName,
    pub(super) program: &'a Program<'a>,
    /// Whether the program reads our stdin.
    pub(super) has_stdin: bool,
    pub(super) report: &'a Report,
    pub(super) interrupts: Interrupts,
    /// Locked while a program is started: between `fork` and `execve` it has copies of the pipes of other programs, which
    /// would look as if those had left processes running.
    pub(super) start: &'a Mutex<()>,
}

impl<'a> Job<'a> {
    /// Runs the program to its end. The calling thread stays in the namespace and should end.
    pub(super) fn run(&self) -> Outcome<'a> {
        let begin = Instant::now();
        let mut outcome = Outcome::new(self.name, Ending::Exited(0));
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
        let lock = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let started = self.program.start(|command| {
            if !self.has_stdin {
                command.stdin(Stdio::null());
            }
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        });
        drop(lock);
        match started {
            Ok(child) => self.read_output(child, outcome),
            Err(error) => Ending::NotStarted(error.to_string()),
        }
    }

    /// Reads the output of the program until it ends.
    fn read_output(&self, mut child: Child, outcome: &mut Outcome<'_>) -> Ending {
        let name = clean_name(self.name);
        let mut stdout = Pipe::new(Stream::Stdout, child.stdout.take().map(OwnedFd::from), &name);
        let mut stderr = Pipe::new(Stream::Stderr, child.stderr.take().map(OwnedFd::from), &name);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // Without a pidfd (before Linux 5.3) the program ends when its output does.
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut is_interrupted = false;
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            if end.is_none() && !stdout.is_open() && !stderr.is_open() {
                break;
            }
            let interrupt = (!is_interrupted).then(|| self.interrupts.as_fd());
            let [has_stdout, has_stderr, has_ended, has_interrupt] = readable(
                [stdout.fd(), stderr.fd(), end.as_ref().map(AsFd::as_fd), interrupt],
                None,
            );
            if has_interrupt {
                is_interrupted = true;
                // The terminal sends SIGINT to the program too; other signals come only to us, and are passed on.
                if let (Some(signal @ (Signal::TERM | Signal::HUP)), Some(pid)) = (self.caught(), pid) {
                    // It was not waited for yet, so that the pid is still its own.
                    let _ = kill_process(pid, signal);
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
        // Background processes of the program may hold the pipes: do not wait for them.
        stdout.drain(&mut buffer, self.report, &mut outcome.stdout);
        stderr.drain(&mut buffer, self.report, &mut outcome.stderr);
        if stdout.is_open() || stderr.is_open() {
            let left = "it left a process running that still holds its output: not waited for";
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

/// Our end of a pipe from a program.
#[derive(Debug)]
struct Pipe {
    stream: Stream,
    pipe: Option<std::fs::File>,
    lines: Lines,
}

impl Pipe {
    fn new(stream: Stream, pipe: Option<OwnedFd>, name: &str) -> Self {
        Self {
            stream,
            pipe: pipe.map(std::fs::File::from),
            lines: Lines::after(name),
        }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once; blocks if there is nothing to read. Returns the number of bytes.
    fn read(&mut self, buffer: &mut [u8], report: &Report, captured: &mut Captured) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        let length = match pipe.read(buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return 0,
            Err(_) => 0,
        };
        let bytes = &buffer[..length];
        if report.is_text() {
            let lines = if length == 0 {
                self.lines.end()
            } else {
                self.lines.push(bytes)
            };
            if !lines.is_empty() {
                report.lines(self.stream, &lines);
            }
        } else {
            captured.push(bytes);
        }
        // Without a reader of our output, the program gets SIGPIPE at its next write.
        if length == 0 || report.is_closed() {
            self.pipe = None;
        }
        length
    }

    /// Reads what the pipe already contains.
    fn drain(&mut self, buffer: &mut [u8], report: &Report, captured: &mut Captured) {
        let waiting = self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        let mut left = waiting
            .and_then(|waiting| usize::try_from(waiting).ok())
            .unwrap_or(0);
        while left > 0 && self.is_open() {
            let most = buffer.len().min(left);
            left -= self.read(&mut buffer[..most], report, captured).max(1).min(left);
        }
        // The end of the file, if no process holds the pipe any more.
        if let [true] = readable([self.fd()], Some(&Timespec::default())) {
            self.read(buffer, report, captured);
        }
        if report.is_text() {
            let rest = self.lines.end();
            if !rest.is_empty() {
                report.lines(self.stream, &rest);
            }
        }
    }
}

/// Waits until one of them is readable or has ended, at most for `limit`; returns which are.
fn readable<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], limit: Option<&Timespec>) -> [bool; N] {
    let mut polled: Vec<_> = fds
        .into_iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let is_known = loop {
        match poll(&mut polled, limit) {
            Err(Errno::INTR) => {}
            done => break done.is_ok(),
        }
    };
    let mut polled = polled.iter();
    // If polling failed for lack of memory, reading blocks instead.
    fds.map(|fd| {
        fd.is_some()
            && polled
                .next()
                .is_some_and(|fd| !is_known || !fd.revents().is_empty())
    })
}

/// Bytes of one read.
const BUFFER_LEN: usize = 64 * 1024;
