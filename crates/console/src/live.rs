//! A live screen: `-w` on a terminal redraws it in place, and `q` ends it.
//!
//! [`frame`] is the pure part: text and the size of the terminal give the bytes to write. Each frame is one buffer, so
//! that nothing flickers, and restores in itself what it changes (cursor, line wrapping): however the program ends, the
//! terminal is usable.
//!
//! Keys are read without echo while [`Live`] exists, if standard input is a terminal and we are in its foreground. The
//! terminal's modes are restored when it is dropped, in a panic, and on SIGINT, SIGTERM and SIGHUP, which then end the
//! program as they would without it.
//!
//! A terminal in canonical mode without a screen (`TERM=dumb`), a pipe and a file get one sample after the other.

use crate::locale;
use crate::notes;
use crate::stdout::{self, Size};
use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpgrp};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use sockeye_output::{Envelope, harmless};
use sockeye_sys::interrupts::{Interrupts, end_by};
use sockeye_sys::local_time::LocalTime;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// What a frame shows.
#[derive(Debug, Default)]
pub struct Content<'a> {
    /// The first line: [`title`].
    pub title: &'a str,
    /// Lines of a table, perhaps with colours.
    pub body: &'a [u8],
    /// Number of the first lines of the body that are headings.
    pub headings: usize,
    /// Lines that are shown below the body also if it does not fit.
    pub notes: &'a str,
    /// What a line of the body is, in the plural: `rows`, `lines`. Lines that are indented by four belong to the one before.
    pub unit: &'a str,
    /// What shows others, or fewer: `--top N, or a filter`.
    pub remedy: &'a str,
    /// Rows that the body does not have.
    pub left_out: usize,
}

/// Size and abilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Width, in characters.
    pub columns: usize,
    /// Height, in lines.
    pub rows: usize,
    /// Whether it shows UTF-8.
    pub is_utf8: bool,
}

impl Screen {
    /// Returns the screen of standard output; a size that is unknown is that of the first terminals.
    fn now() -> Self {
        let size = stdout::size();
        let known = |of: fn(&Size) -> Option<usize>, default| size.as_ref().and_then(of).unwrap_or(default);
        Self {
            columns: known(|size| size.columns, 80),
            rows: known(|size| size.rows, 24),
            is_utf8: locale::has_unicode(),
        }
    }
}

/// Returns the bytes that redraw a screen: no line is longer than the screen, and there are not more lines than it has.
#[must_use]
pub fn frame(content: &Content<'_>, screen: Screen) -> Vec<u8> {
    let rows = screen.rows.max(2);
    let body: Vec<&[u8]> = content.body.split_inclusive(|&byte| byte == b'\n').collect();
    // The title, the headings and a row come before notes.
    let notes: Vec<&str> = content.notes.lines().take(rows.saturating_sub(4)).collect();
    let room = rows - 1 - notes.len();
    let fits = body.len() <= room && content.left_out == 0;
    let shown = if fits {
        body.len()
    } else {
        body.len().min(room - 1)
    };
    let cut = body[shown..].iter().skip(content.headings.saturating_sub(shown));
    let cut = cut.filter(|line| !line.starts_with(DETAILS)).count() + content.left_out;
    let left_out = match cut {
        0 => String::new(),
        cut => format!("... {cut} more {}; {}", content.unit, content.remedy),
    };
    let title = fit_title(content.title, screen.columns, screen.is_utf8);
    let mut lines: Vec<&[u8]> = vec![title.as_bytes()];
    lines.extend(
        body[..shown]
            .iter()
            .map(|line| line.strip_suffix(b"\n").unwrap_or(line)),
    );
    if !left_out.is_empty() {
        lines.push(left_out.as_bytes());
    }
    lines.extend(notes.iter().map(|line| line.as_bytes()));

    let mut out = Vec::with_capacity(content.body.len() + 256);
    out.extend_from_slice(BEGIN);
    for (nth, line) in lines.iter().enumerate() {
        if nth > 0 {
            out.extend_from_slice(b"\n");
        }
        push_cut(&mut out, line, screen);
    }
    out.extend_from_slice(END);
    out
}

/// Appends a line, cut at the edge of the screen, and erases what an earlier frame had behind it.
fn push_cut(out: &mut Vec<u8>, line: &[u8], screen: Screen) {
    let text = String::from_utf8_lossy(line);
    let mut width = 0;
    // Where the ellipsis begins if the line is too long.
    let (ellipsis, mut end) = (if screen.is_utf8 { "\u{2026}" } else { ">" }, out.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            out.push(0x1b);
            for code in characters.by_ref() {
                out.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                if code.is_ascii_alphabetic() {
                    break;
                }
            }
            continue;
        }
        if width == screen.columns {
            out.truncate(end);
            out.extend_from_slice(ellipsis.as_bytes());
            out.extend_from_slice(b"\x1b[0m");
            return;
        }
        width += 1;
        if width == screen.columns {
            end = out.len();
        }
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    // Behind the last column there is nothing to erase, and some terminals would erase its character.
    if width < screen.columns {
        out.extend_from_slice(b"\x1b[K");
    }
}

/// Returns the first line of a frame: the clock, the host, the interval and what is shown.
#[must_use]
pub fn title(envelope: &Envelope, interval: Duration, shown: &str) -> String {
    title_at(
        LocalTime::at(UNIX_EPOCH + Duration::from_micros(envelope.time_us)),
        envelope,
        interval,
        shown,
    )
}

fn title_at(clock: LocalTime, envelope: &Envelope, interval: Duration, shown: &str) -> String {
    let LocalTime {
        hour, minute, second, ..
    } = clock;
    let host = envelope
        .origin
        .host
        .as_deref()
        .map_or_else(String::new, |host| format!("  {}", harmless(host.as_bytes())));
    let interval = interval.as_secs_f64();
    format!("{hour:02}:{minute:02}:{second:02}{host}  every {interval} s  {shown}{END_HINT}")
}

/// Returns what a title says of columns for which the screen is too narrow.
#[must_use]
pub fn columns_left_out(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "  1 column does not fit".to_owned(),
        _ => format!("  {count} columns do not fit"),
    }
}

/// Returns a title for a screen of this width: it keeps its end, which says how to end.
#[must_use]
pub fn fit_title(title: &str, columns: usize, is_utf8: bool) -> String {
    let length = title.chars().count();
    let begin = title
        .strip_suffix(END_HINT)
        .filter(|_| length > columns)
        .zip(columns.checked_sub(END_HINT.len() + 1))
        .filter(|(_, space)| *space >= CLOCK_LEN);
    match begin {
        Some((begin, space)) => {
            let begin: String = begin.chars().take(space).collect();
            let ellipsis = if is_utf8 { "\u{2026}" } else { ">" };
            format!("{begin}{ellipsis}{END_HINT}")
        }
        None => title.to_owned(),
    }
}

/// Characters of `12:00:00`.
const CLOCK_LEN: usize = 8;

/// End of a [`title`]: the key that ends a live screen.
pub const END_HINT: &str = "  q: end";

/// Context of an error of [`Live::begin`].
pub const BEGINNING: &str = "handle SIGINT, SIGTERM and SIGHUP";

/// A terminal on which frames are drawn.
#[derive(Debug)]
pub struct Live {
    interrupts: Interrupts,
    /// Standard input is a terminal, and has not ended.
    has_keys: bool,
    drawn: bool,
    /// Whether the last frame is drawn again.
    redraws: bool,
    /// Notes that the last frame showed.
    notes: String,
}

impl Live {
    /// Begins a live screen; `None` if standard output is not a terminal with a screen.
    ///
    /// # Errors
    /// If signals cannot be handled.
    pub fn begin() -> io::Result<Option<Self>> {
        if !has_screen() {
            return Ok(None);
        }
        let interrupts = Interrupts::catch()?;
        interrupts.notice_resizes()?;
        restore_on_signals(interrupts)?;
        restore_in_panic();
        notes::collect(true);
        Ok(Some(Self {
            interrupts,
            has_keys: io::stdin().is_terminal(),
            drawn: false,
            redraws: false,
            notes: String::new(),
        }))
    }

    /// Returns the width for the table of the next frame.
    #[must_use]
    pub fn width(&self) -> usize {
        Screen::now().columns
    }

    /// Returns how many rows the next frame shows at most.
    #[must_use]
    pub fn rows(&self) -> usize {
        Screen::now().rows
    }

    /// Draws a frame, with the notes since the last one below the others.
    ///
    /// # Errors
    /// Those of writing.
    pub fn draw(&mut self, content: &Content<'_>) -> anyhow::Result<()> {
        let new = notes::take();
        if !self.redraws {
            self.notes = new;
        }
        let notes = format!("{}{}", content.notes, self.notes);
        if !is_foreground(io::stdout()) {
            // The screen belongs to others.
            let title = content.title.trim_end_matches(END_HINT);
            let sample = [title.as_bytes(), b"\n", content.body, notes.as_bytes()].concat();
            *undrawn() = Some(sample);
            return Ok(());
        }
        *undrawn() = None;
        let text = frame(
            &Content {
                notes: &notes,
                ..*content
            },
            Screen::now(),
        );
        // Locked, so that no frame follows after a signal has restored the terminal.
        let _locked = SAVED.lock();
        self.drawn = true;
        stdout::write(&text)
    }

    /// Waits for the next sample, and returns whether there is to be one: not after `q`, and not if the terminal is gone.
    /// If its size changes, `redraw` draws the same again.
    ///
    /// # Errors
    /// Those of `redraw`.
    pub fn pause(
        &mut self,
        interval: Duration,
        redraw: &mut dyn FnMut(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let until = Instant::now() + interval;
        let mut screen = Screen::now();
        loop {
            if self.has_keys {
                read_keys_unechoed();
            }
            let now = Screen::now();
            let is_back = undrawn().is_some() && is_foreground(io::stdout());
            if now != screen || is_back {
                screen = now;
                self.redraws = true;
                let drawn = redraw(self);
                self.redraws = false;
                drawn?;
            }
            let left = until.saturating_duration_since(Instant::now());
            // A SIGWINCH before poll() does not end it.
            let timeout = Timespec::try_from(left.min(SIZE_INTERVAL)).ok();
            let (stdin, stdout) = (io::stdin(), io::stdout());
            let mut polled = vec![
                PollFd::new(&stdout, PollFlags::empty()),
                PollFd::new(&self.interrupts, PollFlags::IN),
            ];
            if self.has_keys && is_foreground(io::stdin()) {
                polled.push(PollFd::new(&stdin, PollFlags::IN));
            }
            match poll(&mut polled, timeout.as_ref()) {
                // A new size, or SIGCONT.
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
                Ok(0) if Instant::now() < until => {}
                Ok(0) => return Ok(true),
                Ok(_) if !polled[0].revents().is_empty() => return Ok(false),
                // The other thread ends the program.
                Ok(_) if !polled[1].revents().is_empty() => std::thread::sleep(GRACE),
                Ok(_) => match read_keys() {
                    Keys::End => return Ok(false),
                    Keys::Gone => self.has_keys = false,
                    Keys::Others => {}
                },
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Ok(mut saved) = SAVED.lock() {
            restore(&mut saved);
        }
        if self.drawn {
            // The last frame stays, and the prompt follows below it.
            let _ = stdout::write(b"\n");
        }
        notes::collect(false);
        // It ends in the background, as any other command there: with its result.
        write_undrawn();
        notes::say(&notes::take());
    }
}

/// Returns whether standard output is a terminal whose screen can be redrawn.
#[must_use]
pub fn has_screen() -> bool {
    let is_screen = std::env::var_os("TERM").is_some_and(|term| !stdout::is_dumb(&term));
    is_screen && io::stdout().is_terminal()
}

/// Waits for `q` on behalf of a program that handles signals itself. The descriptor is readable when a key was pressed or a signal has
/// arrived; the terminal's modes are restored when this is dropped, and in a panic.
#[derive(Debug)]
pub struct EndKey {
    epoll: OwnedFd,
    /// Standard input is a terminal, and has not ended.
    has_keys: bool,
}

impl EndKey {
    /// Begins to read keys, if standard input is a terminal and we are in its foreground.
    ///
    /// # Errors
    /// If the descriptor cannot be created.
    pub fn begin(interrupts: &Interrupts) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, interrupts, data, epoll::EventFlags::IN)?;
        let has_keys = io::stdin().is_terminal() && is_foreground(io::stdin());
        if has_keys {
            epoll::add(&epoll, io::stdin(), data, epoll::EventFlags::IN)?;
            restore_in_panic();
            read_keys_unechoed();
        }
        Ok(Self { epoll, has_keys })
    }

    /// Returns whether a key can be pressed at all.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Reads the keys that were pressed, and returns whether `q` is one of them.
    pub fn is_pressed(&mut self) -> bool {
        let stdin = io::stdin();
        let waits = !poll(
            &mut [PollFd::new(&stdin, PollFlags::IN)],
            Some(&Timespec::default()),
        )
        .is_ok_and(|ready| ready > 0);
        if !self.has_keys || waits {
            return false;
        }
        if !is_foreground(io::stdin()) {
            // What is typed is for the shell.
            std::thread::sleep(GRACE);
            return false;
        }
        let keys = read_keys();
        if keys == Keys::Gone {
            self.has_keys = false;
            let _ = epoll::delete(&self.epoll, &stdin);
        }
        keys == Keys::End
    }
}

impl AsFd for EndKey {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for EndKey {
    fn drop(&mut self) {
        if let Ok(mut saved) = SAVED.lock() {
            restore(&mut saved);
        }
    }
}

/// What was read from the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// `q` or `Q` is among them.
    End,
    /// Only others, which mean nothing.
    Others,
    /// Standard input has ended.
    Gone,
}

/// Reads the keys that were pressed; it waits if there are none.
fn read_keys() -> Keys {
    let mut keys = [0; 64];
    match rustix::io::read(io::stdin(), &mut keys) {
        Ok(0) | Err(Errno::IO) => Keys::Gone,
        Ok(count) if keys[..count].iter().any(|key| b"qQ".contains(key)) => Keys::End,
        _ => Keys::Others,
    }
}

/// Makes standard input return keys at once and without echo, if we are in the foreground.
fn read_keys_unechoed() {
    let stdin = io::stdin();
    let Ok(mut saved) = SAVED.lock() else { return };
    if !is_foreground(io::stdin()) {
        return;
    }
    let Ok(mut modes) = tcgetattr(&stdin) else { return };
    // After ^Z and fg a shell may have set its own.
    if !modes
        .local_modes
        .intersects(LocalModes::ICANON | LocalModes::ECHO)
    {
        return;
    }
    saved.get_or_insert_with(|| modes.clone());
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
}

/// Restores the modes of the terminal.
fn restore(saved: &mut Option<Termios>) {
    if let Some(modes) = saved.take().filter(|_| is_foreground(io::stdin())) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

/// Returns whether the screen that [`has_screen`] found belongs to other processes now: ours is a job in the background.
#[must_use]
pub fn is_in_background() -> bool {
    !is_foreground(io::stdout())
}

/// Whether the terminal is ours to read, to set and to draw on: it would stop a process in the background that does the first two.
fn is_foreground(terminal: impl AsFd) -> bool {
    match tcgetpgrp(terminal) {
        Ok(group) => group == getpgrp(),
        // It is not the terminal that controls us: it stops no process.
        Err(Errno::NOTTY) => true,
        Err(_) => false,
    }
}

/// On SIGINT, SIGTERM and SIGHUP: restores the terminal, and lets the signal end the program.
fn restore_on_signals(interrupts: Interrupts) -> io::Result<()> {
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            loop {
                let mut polled = [PollFd::new(&interrupts, PollFlags::IN)];
                let _ = poll(&mut polled, None);
                let Some(signal) = interrupts.caught().and_then(Signal::from_named_raw) else {
                    continue;
                };
                // A terminal that takes no output must not keep us from ending.
                let until = Instant::now() + GRACE;
                loop {
                    if let Ok(mut saved) = SAVED.try_lock() {
                        restore(&mut saved);
                        if !write_undrawn() && notes::are_collected() {
                            let _ = stdout::write(b"\n");
                        }
                        // The lock is kept: no frame follows.
                        let _ = end_by(signal);
                        std::thread::sleep(GRACE);
                        return;
                    }
                    if Instant::now() >= until {
                        let _ = end_by(signal);
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        })?;
    Ok(())
}

/// Writes the last sample if it was not drawn, and returns whether there was one.
fn write_undrawn() -> bool {
    let sample = undrawn().take();
    if let Some(sample) = &sample {
        let _ = stdout::write(sample);
    }
    sample.is_some()
}

fn undrawn() -> MutexGuard<'static, Option<Vec<u8>>> {
    UNDRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic aborts the program: nothing is dropped.
fn restore_in_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Ok(mut saved) = SAVED.try_lock() {
                restore(&mut saved);
            }
            report(panic);
        }));
    });
}

/// The last sample, if it was not drawn, because we were in the background. Locked for moments only.
static UNDRAWN: Mutex<Option<Vec<u8>>> = Mutex::new(None);
/// The terminal's modes before ours. Locked while a frame is written.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Hides the cursor, writes no line into the next one, and goes to the upper left.
const BEGIN: &[u8] = b"\x1b[?25l\x1b[?7l\x1b[H";
/// Erases what follows, and undoes [`BEGIN`].
const END: &[u8] = b"\x1b[J\x1b[?7h\x1b[?25h";
/// Longest time until a new size of the terminal is noticed.
const SIZE_INTERVAL: Duration = Duration::from_millis(500);
/// Indent of the details of a row.
const DETAILS: &[u8] = b"    ";
/// How long a signal waits for the end of a frame.
const GRACE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Screen = Screen {
        columns: 10,
        rows: 5,
        is_utf8: true,
    };

    #[track_caller]
    fn check(content: &Content<'_>, screen: Screen, expected: &str) {
        let text = String::from_utf8(frame(content, screen)).unwrap();
        let inner = text
            .strip_prefix("\x1b[?25l\x1b[?7l\x1b[H")
            .and_then(|text| text.strip_suffix("\x1b[J\x1b[?7h\x1b[?25h"));
        assert_eq!(inner, Some(expected));
    }

    #[test]
    fn frame_erases_the_rest_of_each_line() {
        let content = Content {
            title: "title",
            body: b"A  B\n1  2\n",
            headings: 1,
            unit: "rows",
            remedy: "--top N, or a filter",
            ..Content::default()
        };
        check(&content, SCREEN, "title\x1b[K\nA  B\x1b[K\n1  2\x1b[K");
    }

    #[test]
    fn long_line_is_cut_with_an_ellipsis() {
        let content = Content {
            title: "0123456789",
            body: b"0123456789a\n\x1b[2m0123456789abc\x1b[0m\n",
            unit: "rows",
            remedy: "--top N, or a filter",
            ..Content::default()
        };
        check(
            &content,
            SCREEN,
            "0123456789\n012345678\u{2026}\x1b[0m\n\x1b[2m012345678\u{2026}\x1b[0m",
        );
        let ascii = Screen {
            is_utf8: false,
            ..SCREEN
        };
        check(
            &content,
            ascii,
            "0123456789\n012345678>\x1b[0m\n\x1b[2m012345678>\x1b[0m",
        );
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let body = b"head\n1\n2\n3\n4\n5\n";
        let content = |left_out| Content {
            title: "t",
            body,
            headings: 1,
            unit: "rows",
            remedy: "--top N, or a filter",
            left_out,
            ..Content::default()
        };
        let screen = Screen {
            columns: 80,
            ..SCREEN
        };
        let lines = "t\x1b[K\nhead\x1b[K\n1\x1b[K\n2\x1b[K\n";
        check(
            &content(0),
            screen,
            &format!("{lines}... 3 more rows; --top N, or a filter\x1b[K"),
        );
        check(
            &content(7),
            screen,
            &format!("{lines}... 10 more rows; --top N, or a filter\x1b[K"),
        );
        let tall = Screen { rows: 7, ..screen };
        assert!(
            !String::from_utf8(frame(&content(0), tall))
                .unwrap()
                .contains("more")
        );
        let noted = Content {
            notes: "note\n",
            ..content(0)
        };
        check(
            &noted,
            screen,
            "t\x1b[K\nhead\x1b[K\n1\x1b[K\n... 4 more rows; --top N, or a filter\x1b[K\nnote\x1b[K",
        );
    }

    #[test]
    fn frame_never_exceeds_the_screen() {
        let body = "x".repeat(50) + "\n";
        let body = body.repeat(30);
        for rows in 0..40 {
            for columns in [0, 1, 2, 49, 50, 51] {
                let content = Content {
                    title: "a title",
                    body: body.as_bytes(),
                    headings: 1,
                    notes: "one\ntwo\nthree\n",
                    unit: "rows",
                    remedy: "--top N, or a filter",
                    left_out: 3,
                };
                let screen = Screen {
                    columns,
                    rows,
                    is_utf8: true,
                };
                let text = String::from_utf8(frame(&content, screen)).unwrap();
                assert!(text.lines().count() <= rows.max(2), "{rows}: {text:?}");
                for line in text.lines() {
                    let codes = [
                        "\x1b[?25l",
                        "\x1b[?25h",
                        "\x1b[?7l",
                        "\x1b[?7h",
                        "\x1b[H",
                        "\x1b[J",
                        "\x1b[K",
                        "\x1b[0m",
                    ];
                    let plain = codes
                        .iter()
                        .fold(line.to_owned(), |line, code| line.replace(code, ""));
                    assert!(plain.chars().count() <= columns.max(1), "{columns}: {plain:?}");
                }
            }
        }
    }

    #[test]
    fn narrow_title_keeps_the_key_that_ends() {
        let title = "12:00:00  host  every 1 s  3 flows  q: end";
        for (columns, expected) in [
            (42, title),
            (41, "12:00:00  host  every 1 s  3 flo\u{2026}  q: end"),
            (17, "12:00:00\u{2026}  q: end"),
            // Cut at the edge.
            (16, title),
            (0, title),
        ] {
            assert_eq!(fit_title(title, columns, true), expected, "{columns}");
        }
        assert_eq!(fit_title("without a key", 5, true), "without a key");
        assert_eq!(fit_title(title, 20, false), "12:00:00  h>  q: end");
    }

    #[test]
    fn title_has_clock_host_and_interval() {
        let clock = LocalTime {
            year: 2026,
            month: 1,
            day: 2,
            hour: 3,
            minute: 4,
            second: 5,
        };
        let envelope = Envelope::default();
        assert_eq!(
            title_at(clock, &envelope, Duration::from_millis(500), "3 flows"),
            "03:04:05  every 0.5 s  3 flows  q: end"
        );
    }
}
