//! The terminal: its modes, its keys, and frames that never wait for it.
//!
//! A frame is written as far as the terminal takes it; the rest follows when there is room. Meanwhile no other frame is made: a slow
//! terminal gets fewer frames, each of them as the model is at that time.

use crate::state::key::{Key, KeyDecoder};
use crossterm::cursor::MoveTo;
use crossterm::queue;
use crossterm::style::{Attribute, Color as Ink, Print, SetAttribute, SetForegroundColor};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A terminal that shows frames. Its modes and its contents are restored when this is dropped, and in a panic.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Where frames are written.
    out: Output,
    /// Where keys are read, if that is not standard input.
    tty: Option<OwnedFd>,
    decoder: KeyDecoder,
    /// What the terminal shows once `pending` is written.
    shown: Buffer,
    pending: Vec<u8>,
}

/// Where frames are written.
#[derive(Debug)]
enum Output {
    /// The terminal, opened once more: what others write to it is not affected by our mode.
    Nonblocking(OwnedFd),
    /// It could not be opened (it belongs to another user): pieces that a terminal takes, if it takes any.
    Stdout,
}

impl Screen {
    /// Enters the alternate screen.
    ///
    /// # Errors
    /// If the terminal's modes cannot be set.
    pub(crate) fn begin() -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let out = match open("/proc/self/fd/1", flags, Mode::empty()) {
            Ok(terminal) if terminal.is_terminal() => Output::Nonblocking(terminal),
            _ => Output::Stdout,
        };
        let tty = if io::stdin().is_terminal() {
            None
        } else {
            open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        restore_in_panic();
        let mut screen = Self {
            out,
            tty,
            decoder: KeyDecoder::default(),
            shown: Buffer::default(),
            pending: Vec::new(),
        };
        screen.enter()?;
        Ok(screen)
    }

    /// Shows the alternate screen, with nothing on it.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        crossterm::terminal::enable_raw_mode()?;
        self.shown = Buffer::default();
        self.pending = ENTER.to_vec();
        self.flush()
    }

    /// Shows what was there before, and restores the modes.
    pub(crate) fn leave(&mut self) {
        // What is left of a frame would take the time that there is.
        self.pending = LEAVE.to_vec();
        let until = std::time::Instant::now() + GRACE;
        while !self.pending.is_empty() && std::time::Instant::now() < until {
            let mut polled = [PollFd::new(&self.out, PollFlags::OUT)];
            let _ = poll(&mut polled, Timespec::try_from(GRACE).ok().as_ref());
            if self.flush().is_err() {
                break;
            }
        }
        let _ = crossterm::terminal::disable_raw_mode();
    }

    /// Whether a frame can be drawn: the terminal has taken the last one.
    pub(crate) const fn is_ready(&self) -> bool {
        self.pending.is_empty()
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, frame: Buffer) -> io::Result<()> {
        self.pending = encode(&self.shown, &frame);
        self.shown = frame;
        self.flush()
    }

    /// Writes as much as the terminal takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let written = match &self.out {
                Output::Nonblocking(terminal) => write(terminal, &self.pending),
                Output::Stdout => {
                    let stdout = io::stdout();
                    let mut polled = [PollFd::new(&stdout, PollFlags::OUT)];
                    match poll(&mut polled, Some(&Timespec::default())) {
                        Ok(1..) => write(&stdout, &self.pending[..self.pending.len().min(PIECE)]),
                        _ => Err(Errno::AGAIN),
                    }
                }
            };
            match written {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Returns where keys come from.
    pub(crate) fn keyboard(&self) -> Keyboard<'_> {
        Keyboard(self.tty.as_ref())
    }

    /// Reads the keys that have arrived; an end of input is an error.
    pub(crate) fn read_keys(&mut self) -> io::Result<Vec<Key>> {
        let mut bytes = [0; 1024];
        let count = match &self.tty {
            Some(tty) => read(tty, &mut bytes),
            None => read(io::stdin(), &mut bytes),
        };
        let mut keys = Vec::new();
        match count {
            Ok(0) | Err(Errno::IO) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.decoder.feed(&bytes[..count], |key| keys.push(key)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(keys)
    }

    /// Whether an escape waits for the rest of its sequence.
    pub(crate) const fn is_within_key(&self) -> bool {
        self.decoder.is_waiting()
    }

    /// Returns what has waited long enough.
    pub(crate) fn late_keys(&mut self) -> Vec<Key> {
        let mut keys = Vec::new();
        self.decoder.flush(|key| keys.push(key));
        keys
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Nonblocking(terminal) => terminal.as_fd(),
            Self::Stdout => rustix::stdio::stdout(),
        }
    }
}

/// The descriptor is that of frames.
impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }
}

/// Where keys come from.
#[derive(Debug)]
pub(crate) struct Keyboard<'a>(Option<&'a OwnedFd>);

impl AsFd for Keyboard<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {
            Some(terminal) => terminal.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }
}

/// Returns the bytes that turn a screen that shows `shown` into one that shows `next`.
fn encode(shown: &Buffer, next: &Buffer) -> Vec<u8> {
    let mut out = Vec::new();
    let blank;
    let before = if shown.area == next.area {
        shown
    } else {
        // Another size: the terminal has moved its lines about.
        out.extend_from_slice(CLEAR);
        blank = Buffer::empty(Rect { ..next.area });
        &blank
    };
    let mut style = (Color::Reset, Modifier::empty());
    let mut after = None;
    for (x, y, cell) in before.diff(next) {
        if after != Some((x, y)) {
            let _ = queue!(out, MoveTo(x, y));
        }
        push_style(&mut out, &mut style, cell);
        let _ = queue!(out, Print(cell.symbol()));
        // A wide character moves the cursor by two; where it is then is not relied on.
        after = (cell.symbol().len() == 1).then_some((x + 1, y));
    }
    if style != (Color::Reset, Modifier::empty()) {
        let _ = queue!(out, SetAttribute(Attribute::Reset));
    }
    out
}

fn push_style(out: &mut Vec<u8>, style: &mut (Color, Modifier), cell: &Cell) {
    let wanted = (cell.fg, cell.modifier);
    if *style == wanted {
        return;
    }
    let _ = queue!(out, SetAttribute(Attribute::Reset));
    for (modifier, attribute) in [
        (Modifier::DIM, Attribute::Dim),
        (Modifier::BOLD, Attribute::Bold),
        (Modifier::REVERSED, Attribute::Reverse),
    ] {
        if cell.modifier.contains(modifier) {
            let _ = queue!(out, SetAttribute(attribute));
        }
    }
    let ink = match cell.fg {
        Color::Green => Some(Ink::DarkGreen),
        Color::Yellow => Some(Ink::DarkYellow),
        Color::Blue => Some(Ink::DarkBlue),
        Color::Magenta => Some(Ink::DarkMagenta),
        Color::Cyan => Some(Ink::DarkCyan),
        _ => None,
    };
    if let Some(ink) = ink {
        let _ = queue!(out, SetForegroundColor(ink));
    }
    *style = wanted;
}

/// A panic of a release build aborts the program: nothing is dropped.
fn restore_in_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = io::stdout().write_all(LEAVE);
            let _ = io::stdout().flush();
            let _ = crossterm::terminal::disable_raw_mode();
            report(panic);
        }));
    });
}

/// The alternate screen, without a cursor and without wrapping; the mouse reports buttons, in decimal numbers.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h\x1b[0m\x1b[2J";
/// Undoes [`ENTER`]. The first bytes end a sequence that was cut.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[?1049l";
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";
/// What a terminal that can be written to takes at once.
const PIECE: usize = 256;
/// How long a slow terminal may take until it is left.
const GRACE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::style::Style;

    #[test]
    fn only_what_changed_is_written() {
        let mut first = Buffer::empty(Rect::new(0, 0, 10, 2));
        first.set_string(0, 0, "abc", Style::new());
        let mut second = first.clone();
        second.set_string(1, 0, "x", Style::new().fg(Color::Cyan));
        assert_eq!(encode(&second, &second), b"");
        let text = String::from_utf8(encode(&first, &second)).unwrap();
        assert!(
            text.starts_with("\x1b[1;2H\x1b[0m") && text.ends_with("x\x1b[0m"),
            "{text:?}"
        );
    }

    #[test]
    fn rest_of_a_frame_is_not_written_when_the_terminal_is_left() {
        let (mut reader, writer) = io::pipe().unwrap();
        drop(Screen {
            out: Output::Nonblocking(writer.into()),
            tty: None,
            decoder: KeyDecoder::default(),
            shown: Buffer::default(),
            pending: b"the rest of a frame".to_vec(),
        });
        let mut written = Vec::new();
        io::Read::read_to_end(&mut reader, &mut written).unwrap();
        assert_eq!(written, LEAVE);
    }

    #[test]
    fn another_size_is_drawn_anew() {
        let first = Buffer::empty(Rect::new(0, 0, 10, 2));
        let mut second = Buffer::empty(Rect::new(0, 0, 5, 2));
        second.set_string(0, 1, "ab", Style::new());
        assert_eq!(encode(&first, &second), b"\x1b[0m\x1b[2J\x1b[2;1Hab");
    }
}
