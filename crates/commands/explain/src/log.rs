//! Reads a log into the dictionary's search.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sockeye_dictionary::Log;
use sockeye_sys::interrupts::Interrupts;
use std::io::{self, Read};
use std::os::fd::AsFd;

/// Reads a log line by line; returns whether it was read to its end, and not ended by a signal.
pub(crate) fn read(
    mut input: impl Read + AsFd,
    log: &mut Log<'_>,
    interrupts: &Interrupts,
) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK_LEN];
    // The beginning of a line that ends in a later chunk.
    let mut partial: Vec<u8> = Vec::new();
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
        for piece in chunk[..length].split_inclusive(|&byte| byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if partial.is_empty() && is_whole {
                log.line(piece);
                continue;
            }
            // No log has longer lines: the rest is dropped.
            let free = LINE_LEN_MAX.saturating_sub(partial.len());
            partial.extend_from_slice(&piece[..piece.len().min(free)]);
            if is_whole {
                log.line(&partial);
                partial.clear();
            }
        }
    }
}

const CHUNK_LEN: usize = 256 * 1024;
const LINE_LEN_MAX: usize = 16 * 1024;
