//! Reads a log into the dictionary's search. Two threads read the lines of a large piece side by side; the search takes them in order, those
//! of the other thread while that reads on.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sockeye_dictionary::{LineReader, Log};
use sockeye_sys::interrupts::Interrupts;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Reads a log line by line; returns whether it was read to its end, and not ended by a signal.
pub(crate) fn read(mut input: impl Read + AsFd, log: &mut Log, interrupts: &Interrupts) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK_LEN];
    // The beginning of a line that ends in a later chunk.
    let mut partial: Vec<u8> = Vec::new();
    let mut readers = Readers::of(log);
    loop {
        let mut polled = [
            PollFd::new(&input, PollFlags::IN),
            PollFd::new(interrupts, PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_interrupted = interrupts.caught().is_some();
        // A read could block forever.
        let outcome = if is_interrupted {
            Ok(0)
        } else {
            input.read(&mut chunk)
        };
        let length = match outcome {
            Ok(length) => length,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        if length == 0 {
            if !partial.is_empty() {
                log.line(&partial);
            }
            return Ok(!is_interrupted);
        }
        let mut rest = &chunk[..length];
        if !partial.is_empty() {
            let (end, behind) = split_after_line(rest);
            push_bounded(&mut partial, end);
            rest = behind;
            if end.ends_with(b"\n") {
                log.line(&partial);
                partial.clear();
            }
        }
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        readers.take(&rest[..whole], log);
        push_bounded(&mut partial, &rest[whole..]);
    }
}

/// Readers of lines, one for each thread.
struct Readers {
    here: LineReader,
    /// `None`: there is one processor
    there: Option<LineReader>,
    /// Part of a piece that is read here, so that both threads end at the same time: taking lines costs more or less, by the log
    share: usize,
}

impl Readers {
    fn of(log: &Log) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            here: log.reader(),
            there: (processors > 1).then(|| log.reader()),
            share: SHARES / 4,
        }
    }

    /// Takes whole lines.
    fn take(&mut self, lines: &[u8], log: &mut Log) {
        let Some(reader) = self.there.as_mut().filter(|_| lines.len() >= PARALLEL_LEN_MIN) else {
            for_each_line(lines, |line| log.take(self.here.read(line)));
            return;
        };
        // This thread also takes all lines, the other one only reads.
        let (_, behind) = split_after_line(&lines[lines.len() / SHARES * self.share..]);
        let (here, there) = lines.split_at(lines.len() - behind.len());
        let (sender, receiver) = mpsc::sync_channel(BATCHES);
        let read = move || {
            let mut rest = there;
            while !rest.is_empty() {
                let (_, behind) = split_after_line(&rest[rest.len().min(there.len() / BATCHES)..]);
                let (batch, _) = rest.split_at(rest.len() - behind.len());
                let mut read = Vec::with_capacity(batch.len() / LINE_LEN_TYPICAL);
                for_each_line(batch, |line| read.push(reader.read(line)));
                rest = behind;
                if sender.send(read).is_err() {
                    return Instant::now();
                }
            }
            Instant::now()
        };
        thread::scope(|scope| {
            let spawned = thread::Builder::new().spawn_scoped(scope, read);
            for_each_line(here, |line| log.take(self.here.read(line)));
            let Ok(spawned) = spawned else {
                // No thread could be started.
                for_each_line(there, |line| log.take(self.here.read(line)));
                return;
            };
            let mut waited = Duration::ZERO;
            loop {
                let begun = Instant::now();
                let Ok(read) = receiver.recv() else { break };
                waited += begun.elapsed();
                read.into_iter().for_each(|line| log.take(line));
            }
            if let Ok(ended) = spawned.join() {
                let more = waited > ended.elapsed();
                let share = if more { self.share + 1 } else { self.share - 1 };
                self.share = share.clamp(1, SHARES / 2);
            }
        });
    }
}

fn for_each_line<'l>(lines: &'l [u8], mut each: impl FnMut(&'l [u8])) {
    let mut rest = lines;
    while !rest.is_empty() {
        let (line, behind) = split_after_line(rest);
        each(line);
        rest = behind;
    }
}

/// The first line with its end, and what is behind it.
fn split_after_line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'\n', text);
    text.split_at(end.map_or(text.len(), |end| end + 1))
}

/// Adds a piece to a line. No log has longer lines: the rest is dropped.
fn push_bounded(partial: &mut Vec<u8>, piece: &[u8]) {
    let free = LINE_LEN_MAX.saturating_sub(partial.len());
    partial.extend_from_slice(&piece[..piece.len().min(free)]);
}

const CHUNK_LEN: usize = 256 * 1024;
const LINE_LEN_MAX: usize = 16 * 1024;
/// For less the start of a thread costs more than it saves.
const PARALLEL_LEN_MIN: usize = 48 * 1024;
const LINE_LEN_TYPICAL: usize = 80;
/// Parts that a piece is divided into for [`Readers::share`].
const SHARES: usize = 32;
/// In so many batches the other thread hands over what it read of a piece.
const BATCHES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_dictionary::Dictionary;

    /// Lines that are about lines before them, on both sides of every batch.
    #[test]
    fn two_threads_find_what_one_finds() {
        let mut lines = String::new();
        for nth in 0..4_000 {
            lines += &match nth % 7 {
                0 => format!("[{nth}.5] e1000e 0000:00:1f.6 eth{}: NIC Link is Down\n", nth % 9),
                1 => format!("Nov 20 12:00:00 web-1 kernel: last message repeated {nth} times\n"),
                2 => format!("[{nth}.5] bnxt_en 0000:3b:00.0 p1p1: Frobnication {nth} failed\n"),
                3 => format!("[{nth}.5] frob: request {nth} timed out\n"),
                4 => format!("Nov 20 12:00:00 web-1 sshd[{nth}]: Accepted publickey for root\n"),
                5 => format!("[{nth}.5] ------------[ cut here ]------------\n"),
                _ => format!("[{nth}.5]  tcp_sendmsg+0x{nth:x}/0x5000\n"),
            };
        }
        let found = |threads: usize| {
            let mut log = Dictionary::new().log();
            let mut readers = Readers::of(&log);
            readers.there = (threads > 1).then(|| log.reader());
            // Each piece changes the share of the next.
            for _ in 0..5 {
                readers.take(lines.as_bytes(), &mut log);
            }
            log.finish();
            format!("{:?} {:?} {:?}", log.count(), log.met(), log.unknown())
        };
        assert!(lines.len() > 4 * PARALLEL_LEN_MIN);
        let one = found(1);
        assert!(one.contains("broadcom-driver-error"), "{one:.400}");
        assert_eq!(found(2), one);
    }
}
