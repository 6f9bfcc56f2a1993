//! Standard output: writing, the size and colours of its terminal, and waiting while it has a reader.

use crate::args::ColorArg;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, major, minor};
use rustix::io::Errno;
use sockeye_output::Style;
use sockeye_sys::closed_stdout;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Opens standard output without the line buffer of the standard library: writers write large blocks.
///
/// # Errors
/// When no descriptor is left. `EBADF` if standard output was closed when we were started (`>&-`).
pub fn open() -> io::Result<Stdout> {
    // The standard library has opened `/dev/null` in its place.
    if closed_stdout::was_closed() {
        return Err(Errno::BADF.into());
    }
    io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .map(|fd| Stdout(File::from(fd)))
}

/// Returns an error if standard output was closed when we were started (`>&-`). Commands begin with this, also those that
/// write nothing themselves: a program that they start would get `/dev/null` in its place. `record` starts none.
///
/// # Errors
/// `EBADF`.
pub fn check_open() -> anyhow::Result<()> {
    if closed_stdout::was_closed() {
        return Err(io::Error::from(Errno::BADF)).context(WRITING);
    }
    Ok(())
}

/// Writes a complete text.
pub fn write(text: &[u8]) -> anyhow::Result<()> {
    open()
        .and_then(|mut stdout| stdout.write_all(text))
        .context(WRITING)
}

/// Writes each text on a line of its own.
pub fn write_lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> anyhow::Result<()> {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    write(text.as_bytes())
}

/// Context of an error of writing.
pub const WRITING: &str = "write to standard output";

/// Standard output. Writes wait also if it is non-blocking.
#[derive(Debug)]
pub struct Stdout(File);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                // Another process that shares it made it non-blocking (node, ssh).
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.0, PollFlags::OUT, None)?;
                }
                Ok(count) => {
                    WRITTEN.fetch_add(count as u64, Ordering::Relaxed);
                    return Ok(count);
                }
                // What came before is there: a full disk leaves a part of the output.
                Err(error) if is_full(&error) => {
                    let written = WRITTEN.load(Ordering::Relaxed);
                    return Err(if written == 0 {
                        error
                    } else {
                        io::Error::new(
                            error.kind(),
                            format!("{error}; the output is cut off after {written} bytes"),
                        )
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Standard output of a command that ends with a signal also while the reader of its pipe does not read.
#[derive(Debug)]
pub struct InterruptedStdout {
    stdout: Stdout,
    /// Readable once a signal has arrived.
    interrupted: BorrowedFd<'static>,
    /// Whether it is a pipe: others are written to without a look.
    is_pipe: bool,
}

impl InterruptedStdout {
    /// Opens it. `interrupted` is readable once a signal has arrived.
    ///
    /// # Errors
    /// Those of [`open`].
    pub fn open(interrupted: BorrowedFd<'static>) -> io::Result<Self> {
        let stdout = open()?;
        let mode = rustix::fs::fstat(&stdout.0)?.st_mode;
        Ok(Self {
            stdout,
            interrupted,
            is_pipe: FileType::from_raw_mode(mode) == FileType::Fifo,
        })
    }

    /// Waits until the pipe has space. After a signal it waits a second more: a reader that reads gets everything.
    fn wait_for_space(&self) -> io::Result<()> {
        let mut polled = [
            PollFd::new(&self.stdout.0, PollFlags::OUT),
            PollFd::new(&self.interrupted, PollFlags::IN),
        ];
        loop {
            match poll(&mut polled, None) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
                Ok(_) if !polled[0].revents().is_empty() => return Ok(()),
                Ok(_) => {}
            }
            let timeout = Timespec::try_from(AFTER_SIGNAL).map_err(io::Error::other)?;
            return match poll(&mut polled[..1], Some(&timeout)) {
                Err(Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
                Ok(0) => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "what reads it has stopped to read",
                )),
                Ok(_) => Ok(()),
            };
        }
    }
}

impl Write for InterruptedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_pipe {
            return self.stdout.write(bytes);
        }
        self.wait_for_space()?;
        // A pipe that is writable has space for a page.
        self.stdout.write(&bytes[..bytes.len().min(PIPE_BUF)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Returns whether an error is that of [`InterruptedStdout`] after a signal.
pub fn is_blocked(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

/// How long a write waits for a reader after a signal.
const AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// As in limits.h.
const PIPE_BUF: usize = 4096;

/// Standard output for several threads: what one writes with a call of `write_all` is not divided by what others write.
#[derive(Debug, Clone)]
pub struct SharedStdout(Arc<Mutex<Stdout>>);

impl From<Stdout> for SharedStdout {
    fn from(stdout: Stdout) -> Self {
        Self(Arc::new(Mutex::new(stdout)))
    }
}

impl SharedStdout {
    fn lock(&self) -> MutexGuard<'_, Stdout> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for SharedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.lock().write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}

/// Bytes that this process has written to standard output.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Returns whether an error means that no more can be written: the disk, the quota or the limit of the process.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Waits for an interval and returns whether the output still has a reader; returns early if the reader ends.
pub fn pause(interval: Duration) -> bool {
    let stdout = io::stdout();
    wait(&stdout, PollFlags::empty(), Some(interval)).unwrap_or(true)
}

/// Waits until `source` is readable, and returns whether the output still has a reader.
pub fn pause_until(source: &impl AsFd) -> io::Result<bool> {
    let stdout = io::stdout();
    loop {
        let mut polled = [
            PollFd::new(source, PollFlags::IN),
            PollFd::new(&stdout, PollFlags::empty()),
        ];
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return Ok(polled[1].revents().is_empty()),
        }
    }
}

/// Polls until one of `events`, an error or the time limit; returns false for an error.
fn wait(fd: &impl AsFd, events: PollFlags, limit: Option<Duration>) -> io::Result<bool> {
    let until = limit.map(|limit| Instant::now() + limit);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left
            .map(Timespec::try_from)
            .transpose()
            .map_err(io::Error::other)?;
        let mut polled = [PollFd::new(fd, events)];
        match poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => {
                let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
                return Ok(!polled[0].revents().intersects(broken));
            }
        }
    }
}

/// Returns the width of the terminal, in characters; `None` if output is not a terminal or its width is unknown.
pub fn width() -> Option<usize> {
    size()?.columns
}

/// Size of a terminal.
pub struct Size {
    /// Width, in characters; `None` if unknown.
    pub columns: Option<usize>,
    /// Height, in characters; `None` if unknown.
    pub rows: Option<usize>,
    /// Width and height in pixels; `None` if unknown.
    pub pixels: Option<(usize, usize)>,
}

/// Returns the size of the terminal; `None` if output is not a terminal.
pub fn size() -> Option<Size> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    // The kernel reports an unknown size as 0.
    let known = |number: u16| Some(usize::from(number)).filter(|&number| number > 0);
    Some(Size {
        columns: known(size.ws_col),
        rows: known(size.ws_row),
        pixels: known(size.ws_xpixel).zip(known(size.ws_ypixel)),
    })
}

/// Returns whether output has colours, by the flag, the environment and the terminal: [`environment_color`].
pub fn style(color: ColorArg) -> Style {
    let color = match color {
        ColorArg::Auto => environment_color().map_or(ColorArg::Auto, |(color, _)| color),
        color => color,
    };
    let colored = match color {
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto => {
            io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| !is_dumb(&term))
        }
    };
    if colored { Style::Color } else { Style::Plain }
}

/// Whether the name of a terminal, the value of `TERM`, is that of one without colours and movements of the cursor.
pub(crate) fn is_dumb(term: &OsStr) -> bool {
    term.is_empty() || term == "dumb"
}

/// Returns what the variables that all programs share say about colours, in the order of <https://bixense.com/clicolors/>:
/// `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`; with the name of the one that counts. `None` if they leave it to the terminal.
pub fn environment_color() -> Option<(ColorArg, &'static str)> {
    color_of(&|name| std::env::var_os(name))
}

fn color_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<(ColorArg, &'static str)> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty());
    if value("NO_COLOR").is_some() {
        return Some((ColorArg::Never, "NO_COLOR"));
    }
    if value("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return Some((ColorArg::Always, "CLICOLOR_FORCE"));
    }
    value("CLICOLOR")
        .is_some_and(|value| value == "0")
        .then_some((ColorArg::Never, "CLICOLOR"))
}

/// Returns whether what is written is thrown away: standard output is `/dev/null`.
pub fn is_dev_null() -> bool {
    rustix::fs::fstat(io::stdout()).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && (major(stat.st_rdev), minor(stat.st_rdev)) == DEV_NULL
    })
}

/// Major and minor number of `/dev/null` (`Documentation/admin-guide/devices.txt`).
const DEV_NULL: (u32, u32) = (1, 3);

/// Returns whether an error is a broken pipe: the reader of our output ended.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_is_before_force_and_force_before_clicolor() {
        let check = |set: &[(&str, &str)], expected: Option<ColorArg>| {
            let found = color_of(&|name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).into())
            });
            assert_eq!(found.map(|(color, _)| color), expected, "{set:?}");
        };
        check(&[], None);
        check(&[("NO_COLOR", "1")], Some(ColorArg::Never));
        check(&[("NO_COLOR", ""), ("CLICOLOR_FORCE", "")], None);
        check(&[("CLICOLOR_FORCE", "1")], Some(ColorArg::Always));
        check(&[("CLICOLOR_FORCE", "0")], None);
        check(
            &[("NO_COLOR", "0"), ("CLICOLOR_FORCE", "1")],
            Some(ColorArg::Never),
        );
        check(&[("CLICOLOR", "0")], Some(ColorArg::Never));
        check(&[("CLICOLOR", "1")], None);
        check(
            &[("CLICOLOR", "0"), ("CLICOLOR_FORCE", "1")],
            Some(ColorArg::Always),
        );
    }
}
