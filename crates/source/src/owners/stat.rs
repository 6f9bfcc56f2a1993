use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sockeye_model::{Comm, Pgid, Pid, Process};

/// What `/proc/PID/stat` says that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) process: Process,
    /// Whether it has ended and nobody has waited for it yet.
    pub(super) is_dead: bool,
}

impl Stat {
    /// Reads the file beside the folder `/proc/PID/fd`. By way of the open folder it is certain to be the
    /// same process, even when its number has been given out again.
    pub(super) fn beside(descriptors: BorrowedFd<'_>) -> Result<Self, Errno> {
        let file = openat(
            descriptors,
            c"../stat",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut line = [0; 512];
        let len = rustix::io::read(&file, &mut line)?;
        Self::parse(&line[..len]).ok_or(Errno::INVAL)
    }

    /// `pid (comm) state ppid pgrp …`; the name may hold spaces, parentheses and newlines, but nothing
    /// after it holds a parenthesis (fs/proc/array.c, `do_task_stat`).
    fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let pid = number(line[..open].trim_ascii_end())?;
        let mut rest = line
            .get(close + 1..)?
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let state = rest.next()?;
        let pgid = rest.nth(1).and_then(number);
        Some(Self {
            process: Process {
                pid: Pid(pid),
                pgid: pgid.map(Pgid),
                comm: Comm::new(&line.get(open + 1..close)?[..(close - open - 1).min(15)]),
            },
            is_dead: matches!(state, b"Z" | b"X" | b"x"),
        })
    }
}

/// A decimal number that fills the whole text.
pub(super) fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u32, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        number.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[u8], expected: Option<(u32, &[u8], Option<u32>, bool)>) {
        let found = Stat::parse(line);
        let found = found.as_ref().map(|stat| {
            let process = &stat.process;
            (
                process.pid.0,
                process.comm.as_bytes(),
                process.pgid.map(|pgid| pgid.0),
                stat.is_dead,
            )
        });
        assert_eq!(found, expected, "{}", line.escape_ascii());
    }

    #[test]
    fn takes_any_name_apart() {
        check(
            b"17 (nginx) S 1 16 16 0 -1",
            Some((17, b"nginx", Some(16), false)),
        );
        check(
            b"17 (a) b) (c) R 1 16 16",
            Some((17, b"a) b) (c", Some(16), false)),
        );
        check(
            b"17 (a\n\x1b[31m) Z 1 16",
            Some((17, b"a\n\x1b[31m", Some(16), true)),
        );
        check(b"17 () S 1 16", Some((17, b"", Some(16), false)));
        check(b"17 (x) S", Some((17, b"x", None, false)));
        check(b"17 (x) S 0 -1", Some((17, b"x", None, false)));
    }

    #[test]
    fn bad_lines_are_no_process() {
        for line in [
            &b""[..],
            b"17",
            b"17 (x",
            b"x) 17 (",
            b") (",
            b"(x) S 1 2",
            b"17 (x)",
            b"99999999999 (x) S 1 2",
        ] {
            check(line, None);
        }
    }
}
