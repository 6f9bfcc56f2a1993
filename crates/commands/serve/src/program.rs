//! Runs this program again, for answers that other commands give: `sockets`, `check`, `explain`. Each in a process of its own, with
//! a time limit and an output limit: what a request asks for can neither slow nor stop the samples.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_sys::proc_mount;
use std::io::{self, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The output of a command that ended.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// Exit status; `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    /// Its notes and errors.
    pub(crate) notes: String,
}

/// Runs a command with these words, within the limits. Blocks.
///
/// # Errors
/// In words, if it could not be started or exceeded a limit.
pub(crate) fn run(words: &[&str], limits: Limits) -> Result<CommandOutput, String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    sockeye_sys::parent_death::kill_with_parent(&mut command);
    let started = command.spawn();
    let mut child = started.map_err(|error| match proc_mount::problem() {
        Some(problem) => format!("`sockeye {}` cannot be started: {problem}", words[0]),
        None => format!("`sockeye {}` cannot be started: {error}", words[0]),
    })?;
    let result = collect(&mut child, limits);
    if result.is_err() {
        // It may have ended meanwhile.
        drop(child.kill());
    }
    let status = child.wait();
    let (stdout, notes) = result.map_err(|error| format!("`sockeye {}`: {error}", words[0]))?;
    Ok(CommandOutput {
        code: status.ok().and_then(|status| status.code()),
        stdout,
        notes: String::from_utf8_lossy(&notes).into_owned(),
    })
}

/// What a command may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    /// Bytes of its standard output.
    pub(crate) bytes: usize,
}

/// Reads both outputs until they end.
fn collect(child: &mut Child, limits: Limits) -> Result<(Vec<u8>, Vec<u8>), String> {
    let deadline = Instant::now() + limits.time;
    let (mut out, mut notes) = (Pipe::new(child.stdout.take()), Pipe::new(child.stderr.take()));
    while !(out.has_ended() && notes.has_ended()) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("it took more than {} s", limits.time.as_secs()));
        }
        wait(&out, &notes, left).map_err(|error| error.to_string())?;
        out.read_some().map_err(|error| error.to_string())?;
        notes.read_some().map_err(|error| error.to_string())?;
        if out.bytes.len() > limits.bytes {
            return Err(format!("its output has more than {} MB", limits.bytes >> 20));
        }
        notes.bytes.truncate(NOTES_BYTES);
    }
    Ok((out.bytes, notes.bytes))
}

fn wait(out: &Pipe<ChildStdout>, notes: &Pipe<ChildStderr>, left: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    let streams = [out.poll_fd(), notes.poll_fd()];
    let mut polled: Vec<PollFd<'_>> = streams.into_iter().flatten().collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// One output of a command, and what was read of it.
struct Pipe<S> {
    /// `None`: it has ended.
    stream: Option<S>,
    bytes: Vec<u8>,
}

impl<S: Read + std::os::fd::AsFd> Pipe<S> {
    const fn new(stream: Option<S>) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
        }
    }

    const fn has_ended(&self) -> bool {
        self.stream.is_none()
    }

    fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.stream
            .as_ref()
            .map(|stream| PollFd::new(stream, PollFlags::IN))
    }

    /// Reads once, if there is something to read.
    fn read_some(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let mut ready = [PollFd::new(&*stream, PollFlags::IN)];
        if poll(&mut ready, Some(&Timespec::default())) == Ok(0) {
            return Ok(());
        }
        let mut piece = [0; 64 << 10];
        match stream.read(&mut piece)? {
            0 => self.stream = None,
            count => self.bytes.extend_from_slice(&piece[..count]),
        }
        Ok(())
    }
}

/// Bytes of notes that are kept.
const NOTES_BYTES: usize = 8 << 10;
