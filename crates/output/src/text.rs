//! Escapes for text from outside: names of processes, hosts and paths may contain any byte.

use crate::number::push_short;

/// Appends `text` with escapes, so that it can neither control a terminal nor break a line.
///
/// Control characters and bytes that are not UTF-8 become `\x1b`; C1 controls and the characters that
/// reorder or hide text (bidirectional and zero-width ones, line separators, tags) become `\u{202e}`.
/// All else is unchanged, a backslash too: unit names of systemd contain `\x2d`. JSON has the exact text.
pub fn push_clean(out: &mut Vec<u8>, text: &[u8]) {
    if text.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        push_short(out, text);
        return;
    }
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\0'..='\x1f' | '\x7f' => push_hex_escape(out, character as u8),
                _ if is_hidden(character) => {
                    out.extend_from_slice(format!("\\u{{{:x}}}", character as u32).as_bytes());
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            push_hex_escape(out, byte);
        }
    }
}

/// Returns a name from outside with the escapes of [`push_clean`].
///
/// ```
/// assert_eq!(sockeye_output::harmless(b"web\n1"), r"web\x0a1");
/// ```
#[must_use]
pub fn harmless(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_clean(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns text from outside for a message: as [`harmless`], and with `...` instead of what follows `chars_max` characters.
///
/// ```
/// assert_eq!(sockeye_output::text::harmless_start(b"tcp and port 80", 3), "tcp...");
/// ```
#[must_use]
pub fn harmless_start(text: &[u8], chars_max: usize) -> String {
    let mut shown = harmless(text);
    if let Some((end, _)) = shown.char_indices().nth(chars_max) {
        shown.truncate(end);
        shown.push_str("...");
    }
    shown
}

/// Appends a long name for a table, as [`push_clean`] with `...` in its middle: the differences between names of containers and of scopes are
/// at both ends.
pub fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    let shown = harmless(name);
    let length = shown.chars().count();
    if length <= NAME_CHARS_MAX {
        out.extend_from_slice(shown.as_bytes());
        return;
    }
    let place = |nth: usize| shown.char_indices().nth(nth).map_or(shown.len(), |(at, _)| at);
    let half = (NAME_CHARS_MAX - 3) / 2;
    out.extend_from_slice(&shown.as_bytes()[..place(half)]);
    out.extend_from_slice(b"...");
    out.extend_from_slice(&shown.as_bytes()[place(length - half)..]);
}

/// Longest name in a table, the width that its columns have at most.
const NAME_CHARS_MAX: usize = 47;

/// Appends `text` as a JSON string with its quotes, and returns whether a part was not UTF-8; such parts become U+FFFD.
/// What [`push_clean`] escapes is escaped here too: JSON is safe to print on a terminal.
pub fn push_json(out: &mut Vec<u8>, text: &[u8]) -> bool {
    out.push(b'"');
    let plain = |&byte: &u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    let mut lossy = false;
    if text.iter().all(plain) {
        push_short(out, text);
    } else {
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                push_json_char(out, character);
            }
            if !chunk.invalid().is_empty() {
                lossy = true;
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
    }
    out.push(b'"');
    lossy
}

/// Appends each byte as two hexadecimal digits.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// Returns the number of terminal columns of escaped text. Each character counts as one: double-width and combining
/// characters are rare here, and only shift the text after them.
#[inline]
pub fn display_width(text: &[u8]) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        // Every byte except continuation bytes begins a character.
        text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
    }
}

fn push_json_char(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\r' => out.extend_from_slice(b"\\r"),
        _ if character < ' ' || character == '\x7f' || is_hidden(character) => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn push_hex_escape(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(b"\\x");
    push_hex(out, &[byte]);
}

/// Returns whether this is a C1 control or one of Unicode's format characters, which reorder, join, hide or break text.
pub fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], clean: &str, json: &str) {
        let (mut out, mut quoted) = (Vec::new(), Vec::new());
        push_clean(&mut out, text);
        push_json(&mut quoted, text);
        assert_eq!(String::from_utf8(out).unwrap(), clean);
        assert_eq!(String::from_utf8(quoted).unwrap(), json);
    }

    #[test]
    fn control_and_format_characters_are_escaped() {
        check(b"", "", r#""""#);
        check(b"nginx: worker", "nginx: worker", r#""nginx: worker""#);
        check(
            b"a\x1b[31m\n\t\0b",
            "a\\x1b[31m\\x0a\\x09\\x00b",
            r#""a\u001b[31m\n\t\u0000b""#,
        );
        check(b"\x7f", "\\x7f", r#""\u007f""#);
        check("\u{9b}2J".as_bytes(), "\\u{9b}2J", r#""\u009b2J""#);
        check(
            "a\u{202e}b\u{200b}".as_bytes(),
            "a\\u{202e}b\\u{200b}",
            r#""a\u202eb\u200b""#,
        );
        check("\u{e0041}".as_bytes(), "\\u{e0041}", r#""\udb40\udc41""#);
        check(
            b"\xff\xfeok\xc3",
            "\\xff\\xfeok\\xc3",
            "\"\u{fffd}\u{fffd}ok\u{fffd}\"",
        );
        check("žluťoučký 馬".as_bytes(), "žluťoučký 馬", "\"žluťoučký 馬\"");
        check(br#"q"\x2d"#, r#"q"\x2d"#, r#""q\"\\x2d""#);
    }

    #[test]
    fn start_is_cut_after_the_escapes() {
        assert_eq!(harmless_start(b"a\x1b[31m\n", 80), r"a\x1b[31m\x0a");
        assert_eq!(harmless_start("žluť".as_bytes(), 4), "žluť");
        assert_eq!(harmless_start("žluťoučký".as_bytes(), 4), "žluť...");
        assert_eq!(
            harmless_start("\u{202e}".repeat(1000).as_bytes(), 400)
                .chars()
                .count(),
            403
        );
    }

    #[test]
    fn long_name_is_cut_in_its_middle() {
        let check = |name: &str, expected: &str| {
            let mut out = Vec::new();
            push_name(&mut out, name.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("nginx.service", "nginx.service");
        check(&"ž".repeat(47), &"ž".repeat(47));
        check(&"ž".repeat(48), &format!("{0}...{0}", "ž".repeat(22)));
        check(
            "pod:12345678-1234-1234-1234-123456789abc/fedcba987654",
            "pod:12345678-1234-1234...456789abc/fedcba987654",
        );
    }

    #[test]
    fn every_single_byte_is_escaped_or_printable() {
        for byte in 0..=u8::MAX {
            let mut out = Vec::new();
            push_clean(&mut out, &[byte]);
            assert!(out.iter().all(|b| (0x20..0x7f).contains(b)), "{byte}");
        }
    }

    #[test]
    fn width_is_number_of_characters() {
        assert_eq!(display_width("žlu".as_bytes()), 3);
        assert_eq!(display_width(b"abc"), 3);
    }
}
