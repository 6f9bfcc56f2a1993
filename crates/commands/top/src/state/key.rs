//! Keys and the mouse, decoded from what a terminal sends.

/// A key, or what the mouse did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Escape,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// With the control key.
    Control(char),
    /// The left button, at a column and a row from 0.
    Click(u16, u16),
    WheelUp,
    WheelDown,
}

/// Decodes bytes into keys. A sequence may arrive in pieces: the rest waits for the next ones.
#[derive(Debug, Default)]
pub(crate) struct KeyDecoder {
    pending: Vec<u8>,
}

/// What the first bytes are.
enum First {
    Key(Key),
    /// Nothing that means anything here.
    Unknown,
    /// The begin of a sequence.
    Incomplete,
}

impl KeyDecoder {
    /// Adds bytes, and calls `pressed` with each key.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut pressed: impl FnMut(Key)) {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.pending.len() {
            let (first, length) = first(&self.pending[at..]);
            match first {
                First::Key(key) => pressed(key),
                First::Unknown => {}
                First::Incomplete if self.pending.len() - at > SEQUENCE_MAX => {}
                First::Incomplete => break,
            }
            at += length;
        }
        self.pending.drain(..at);
    }

    /// Whether bytes wait for the rest of a sequence: without one in a moment, it was the escape key.
    pub(crate) const fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes what waits as it is: no more bytes have come.
    pub(crate) fn flush(&mut self, mut pressed: impl FnMut(Key)) {
        let pending = std::mem::take(&mut self.pending);
        if pending.first() == Some(&0x1b) {
            pressed(Key::Escape);
            self.feed(&pending[1..], pressed);
        }
    }
}

/// Longer sequences mean nothing to us.
const SEQUENCE_MAX: usize = 32;

/// Decodes the first key, with the number of its bytes.
fn first(bytes: &[u8]) -> (First, usize) {
    let key = |key| (First::Key(key), 1);
    match bytes[0] {
        0x1b => sequence(bytes),
        b'\r' | b'\n' => key(Key::Enter),
        b'\t' => key(Key::Tab),
        0x08 | 0x7f => key(Key::Backspace),
        control @ 1..=0x1a => key(Key::Control(char::from(control + b'a' - 1))),
        0 | 0x1c..=0x1f => (First::Unknown, 1),
        _ => character(bytes),
    }
}

/// Decodes a character of UTF-8.
fn character(bytes: &[u8]) -> (First, usize) {
    let length = match bytes[0] {
        ..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return (First::Unknown, 1),
    };
    let Some(encoded) = bytes.get(..length) else {
        return (First::Incomplete, bytes.len());
    };
    match std::str::from_utf8(encoded)
        .ok()
        .and_then(|text| text.chars().next())
    {
        Some(character) => (First::Key(Key::Char(character)), length),
        None => (First::Unknown, 1),
    }
}

/// Decodes a sequence that begins with an escape.
fn sequence(bytes: &[u8]) -> (First, usize) {
    let Some(second) = bytes.get(1) else {
        return (First::Incomplete, 1);
    };
    match second {
        b'[' => control_sequence(bytes),
        b'O' => match bytes.get(2) {
            Some(last) => (cursor_key(*last), 3),
            None => (First::Incomplete, 2),
        },
        0x1b => (First::Key(Key::Escape), 1),
        // Two keys that arrived together.
        _ => (First::Key(Key::Escape), 1),
    }
}

/// Decodes `ESC [`, parameters and a final byte.
fn control_sequence(bytes: &[u8]) -> (First, usize) {
    let Some(end) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (First::Incomplete, bytes.len());
    };
    let (parameters, last) = (&bytes[2..2 + end], bytes[2 + end]);
    if parameters.is_empty() && last == b'M' {
        return old_mouse_event(bytes);
    }
    let found = match (parameters, last) {
        ([b'<', mouse @ ..], b'M' | b'm') => mouse_event(mouse, last),
        ([], b'Z') => First::Key(Key::BackTab),
        (_, b'~') => match parameters.split(|byte| *byte == b';').next() {
            Some(b"1" | b"7") => First::Key(Key::Home),
            Some(b"3") => First::Key(Key::Delete),
            Some(b"4" | b"8") => First::Key(Key::End),
            Some(b"5") => First::Key(Key::PageUp),
            Some(b"6") => First::Key(Key::PageDown),
            _ => First::Unknown,
        },
        _ => cursor_key(last),
    };
    (found, end + 3)
}

fn cursor_key(last: u8) -> First {
    First::Key(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        _ => return First::Unknown,
    })
}

/// Skips the mouse as terminals without SGR 1006 report it: three bytes after `ESC [ M`, which are no keys.
fn old_mouse_event(bytes: &[u8]) -> (First, usize) {
    match bytes.len() {
        OLD_MOUSE_BYTES.. => (First::Unknown, OLD_MOUSE_BYTES),
        length => (First::Incomplete, length),
    }
}

const OLD_MOUSE_BYTES: usize = 6;

/// Decodes the mouse (SGR 1006): `button;column;row`, from 1.
fn mouse_event(parameters: &[u8], last: u8) -> First {
    let text = std::str::from_utf8(parameters).unwrap_or_default();
    let mut numbers = text.split(';').map(|number| number.parse::<u16>().ok());
    let (Some(Some(button)), Some(Some(column)), Some(Some(row))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return First::Unknown;
    };
    match (button, last) {
        (0, b'M') => First::Key(Key::Click(column.saturating_sub(1), row.saturating_sub(1))),
        (64, b'M') => First::Key(Key::WheelUp),
        (65, b'M') => First::Key(Key::WheelDown),
        _ => First::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[Key]) {
        let mut whole = Vec::new();
        let mut decoder = KeyDecoder::default();
        decoder.feed(bytes, |key| whole.push(key));
        decoder.flush(|key| whole.push(key));
        assert_eq!(whole, expected);
        let mut pieces = Vec::new();
        let mut decoder = KeyDecoder::default();
        for byte in bytes {
            decoder.feed(&[*byte], |key| pieces.push(key));
        }
        decoder.flush(|key| pieces.push(key));
        assert_eq!(pieces, expected, "byte by byte");
    }

    #[test]
    fn keys_are_decoded_in_one_piece_and_in_many() {
        check(b"q/", &[Key::Char('q'), Key::Char('/')]);
        check(
            b"\x1b[A\x1b[B\x1bOC\x1b[D",
            &[Key::Up, Key::Down, Key::Right, Key::Left],
        );
        check(
            b"\x1b[5~\x1b[6~\x1b[1~\x1b[F\x1b[3~",
            &[Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Delete],
        );
        check(
            b"\x03\r\t\x1b[Z\x7f",
            &[
                Key::Control('c'),
                Key::Enter,
                Key::Tab,
                Key::BackTab,
                Key::Backspace,
            ],
        );
        check(
            "\u{e9}\u{1f41f}".as_bytes(),
            &[Key::Char('\u{e9}'), Key::Char('\u{1f41f}')],
        );
    }

    #[test]
    fn escape_alone_is_a_key_and_before_another_too() {
        check(b"\x1b", &[Key::Escape]);
        check(b"\x1b\x1b[A", &[Key::Escape, Key::Up]);
        check(b"\x1bq", &[Key::Escape, Key::Char('q')]);
    }

    #[test]
    fn mouse_has_positions_from_zero() {
        check(
            b"\x1b[<0;5;3M\x1b[<0;5;3m\x1b[<65;1;1M",
            &[Key::Click(4, 2), Key::WheelDown],
        );
    }

    #[test]
    fn mouse_without_sgr_types_no_keys() {
        check(b"\x1b[M kqj", &[Key::Char('j')]);
        check(b"\x1b[Mkqy\x1b[A", &[Key::Up]);
    }

    #[test]
    fn garbage_is_skipped() {
        check(
            b"\x00\x1f\xff\x1b[200~x\x1b[<0;;1Mq",
            &[Key::Char('x'), Key::Char('q')],
        );
        let mut keys = Vec::new();
        let mut decoder = KeyDecoder::default();
        decoder.feed(&[b"\x1b[".as_slice(), &[b'0'; 100]].concat(), |key| {
            keys.push(key);
        });
        decoder.feed(b"q", |key| keys.push(key));
        assert_eq!(keys.last(), Some(&Key::Char('q')));
    }
}
