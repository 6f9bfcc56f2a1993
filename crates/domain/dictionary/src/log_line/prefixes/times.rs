//! Dates and times: `dmesg` in all its formats, the journal, syslog, also in other languages.

use super::{
    PARTS_MAX, all_digits, first_word, in_brackets, is_program_with_pid, is_tag, split_at_colon,
    take_after_tag, take_tag,
};
use crate::log_line::Message;

/// `2026-11-20T12:00:00,123456+00:00 `, `Fri 2026-11-20 12:00:00 UTC `
pub(super) fn iso_time(message: &mut Message<'_>) -> bool {
    let text = message.text;
    let dated = match text.split_once(' ') {
        Some((day, rest)) if is_weekday(day) => rest,
        _ => text,
    };
    let Some((time, rest)) = dated.split_once(' ') else {
        return false;
    };
    if is_iso(time) {
        message.take_time(time);
        // `dmesg` writes a comma, containers nine digits and `Z`, GitHub seven: neither a host nor a tag follows.
        let fraction = time.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        message.is_kernel_time |= time.contains(',') || time.ends_with('Z') && fraction >= "1234567Z".len();
        message.continue_with(rest);
        return true;
    }
    if is_date(time)
        && let Some((clock, behind)) = rest.split_once(' ')
        && is_clock(clock)
    {
        message.take_time(&dated[..time.len() + 1 + clock.len()]);
        message.continue_with(match behind.split_once(' ') {
            Some((zone, behind)) if is_zone(zone) => behind,
            _ => behind,
        });
        microseconds(message);
        return true;
    }
    false
}

/// `us=123456 `, which OpenVPN writes behind its time from verb 4 on
pub(super) fn microseconds(message: &mut Message<'_>) -> bool {
    let Some((digits, rest)) = message
        .text
        .strip_prefix("us=")
        .and_then(|rest| rest.split_once(' '))
    else {
        return false;
    };
    if !all_digits(digits) {
        return false;
    }
    message.continue_with(rest);
    true
}

/// `2026/11/20 12:00:00.123456 [12.345678] `
pub(super) fn slash_time(message: &mut Message<'_>) -> bool {
    let text = message.text;
    if let Some((date, rest)) = text.split_once(' ')
        && date.len() == 10
        && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/')
        && let Some((clock, rest)) = rest.split_once(' ')
        && is_clock(clock)
        // Programs write their lines so, too; their date is a part of their text.
        && rest
            .strip_prefix('[')
            .is_some_and(|rest| rest.starts_with(|first: char| first == ' ' || first.is_ascii_digit()))
    {
        message.take_time(&text[..date.len() + 1 + clock.len()]);
        message.continue_with(rest);
        return true;
    }
    false
}

/// `1700000000.123456 ` of `journalctl -o short-unix`
pub(super) fn seconds(message: &mut Message<'_>) -> bool {
    if let Some((time, rest)) = message.text.split_once(' ')
        && let Some((whole, fraction)) = time.split_once('.')
        && (whole.len(), fraction.len()) == (10, 6)
        && all_digits(whole)
        && all_digits(fraction)
    {
        message.take_time(time);
        message.continue_with(rest);
        return true;
    }
    false
}

/// `[12345.678901] `, `[Mon Nov 20 12:00:00 2026] `, `[  +0.000012] `, `[<    0.000012>] `, `[Nov20 12:00] `; `[12345.678901@2] ` and
/// `[12345.678901,2] ` with the processor, of kernels for boards
pub(super) fn bracketed(message: &mut Message<'_>) -> bool {
    // `dmesg -d` has two times in one pair of brackets, `dmesg -x` and others have several pairs.
    let Some((inside, rest)) = in_brackets(message.text) else {
        return false;
    };
    let inside = inside.trim();
    // `+0,000012` is that of some languages.
    let parts = inside
        .split_once('.')
        .or_else(|| inside.strip_prefix(['+', '<'])?.split_once(','));
    let is_seconds = parts.is_some_and(|(whole, rest)| {
        let digits = whole.trim_start_matches(['+', '<', ' ']);
        // An address has more dots.
        let fraction = rest.split([' ', '<', '>', '@', ',']).next().unwrap_or("");
        !digits.is_empty() && all_digits(digits) && !fraction.is_empty() && all_digits(fraction)
    });
    let is_date = || {
        let first = inside.split_whitespace().next().unwrap_or("");
        is_weekday(first)
            || first.get(..3).is_some_and(is_month)
            || is_iso(first)
            || is_date(first)
            || is_local_ctime(inside)
    };
    if !is_seconds && !is_date() {
        return false;
    }
    // `+0.000012` of `dmesg -H` is the time since the line before.
    message.take_time(inside);
    message.is_kernel_time = true;
    // Amlogic's kernels write whether interrupts were off: `]- ` or `]d `.
    let flag = inside
        .contains('@')
        .then(|| rest.strip_prefix("- ").or_else(|| rest.strip_prefix("d ")));
    let rest = flag.flatten().unwrap_or(rest);
    message.continue_with(rest.strip_prefix(": ").unwrap_or(rest));
    true
}

/// Whether it is the time of `dmesg -T` in any language: `lun. nov. 20 12:00:00 2026`, `Mo Nov 20 12:00:00 2026`, also with `dmesg -d`.
fn is_local_ctime(inside: &str) -> bool {
    let time = inside.split('<').next().unwrap_or(inside);
    let mut words = time.split_whitespace().rev();
    words.next().is_some_and(is_year)
        && words.next().is_some_and(is_full_clock)
        && (2..=3).contains(&words.count())
}

/// `64.084614] text`: a page or a copy that lost the first bracket
pub(super) fn half_bracketed(message: &mut Message<'_>) -> bool {
    let head = &message.text.as_bytes()[..message.text.len().min(HALF_BRACKET_MAX)];
    // `260.716787! `: the console of a mainframe, whose code page has `!` in the place of `]`
    let Some(end) = head.iter().position(|&byte| byte == b']' || byte == b'!') else {
        return false;
    };
    let (inside, rest) = (&message.text[..end], &message.text[end + 1..]);
    let is_time = inside.split_once('.').is_some_and(|(whole, fraction)| {
        !whole.is_empty() && all_digits(whole) && fraction.len() == 6 && all_digits(fraction)
    });
    if is_time {
        message.take_time(inside);
        message.is_kernel_time = true;
        message.continue_with(rest);
    }
    is_time
}

/// `07:37:02 kernel: text`, `07:37:02 host kernel: text`, `07:37:02 sshd[812]: text`: a log that is cut to the time
pub(super) fn clock_and_tag(message: &mut Message<'_>) -> bool {
    let Some((clock, rest)) = message.text.split_once(' ') else {
        return false;
    };
    let is_of_kernel = || {
        let behind_host = rest.split_once(' ').map_or("", |(_, rest)| rest);
        rest.starts_with("kernel:") || behind_host.starts_with("kernel:")
    };
    if message.time.is_some() || !is_full_clock(clock) {
        return false;
    }
    if let Some((tag, text)) = split_at_colon(rest)
        && is_program_with_pid(tag)
        && is_tag(tag)
    {
        message.take_time(clock);
        take_tag(message, tag, text);
        return true;
    }
    if !is_of_kernel() {
        return false;
    }
    message.take_time(clock);
    message.continue_with(rest);
    true
}

/// `giu 13 15:33:41 host kernel: `, `13 Mär 15:33:41 `, `févr. 27 12:00:00 `, `11月 27 12:00:00 `: the date of a journal or syslog that is not in English
pub(super) fn local_date(message: &mut Message<'_>) -> bool {
    let text = message.text;
    if message.time.is_some() {
        return false;
    }
    let mut words = text.splitn(4, ' ').filter(|word| !word.is_empty());
    let (Some(first), Some(second)) = (words.next(), words.next()) else {
        return false;
    };
    let is_day = |word: &str| {
        (1..=2).contains(&word.trim_end_matches('.').len()) && all_digits(word.trim_end_matches('.'))
    };
    let is_month = |word: &str| {
        let name = word.trim_end_matches(['.', '月', '월']);
        word.len() <= MONTH_LEN_MAX
            && if name.len() == word.trim_end_matches('.').len() {
                name.chars().count() >= 3 && name.chars().all(char::is_alphabetic)
            } else {
                (1..=2).contains(&name.len()) && all_digits(name)
            }
    };
    let is_date = is_month(first) && is_day(second) || is_day(first) && is_month(second);
    if !is_date {
        return false;
    }
    // A day below ten may have another blank before it.
    let rest = text[first.len()..].trim_start()[second.len()..].trim_start();
    let Some((_, rest)) = rest.split_once(' ').filter(|(clock, _)| is_full_clock(clock)) else {
        return false;
    };
    message.take_time(text[..text.len() - rest.len()].trim_end());
    message.continue_with(rest);
    true
}

/// A kernel's time behind what no other rule knows: `web-1 login: [   12.345678] text`
pub(super) fn late_kernel_time(message: &mut Message<'_>) {
    let text = message.text;
    let head = &text[..text.floor_char_boundary(LATE_TIME_MAX)];
    for (at, _) in head.match_indices('[') {
        let Some((inside, rest)) = text[at + 1..].split_once(']') else {
            return;
        };
        let is_time = inside
            .trim_start()
            .split_once('.')
            .is_some_and(|(whole, fraction)| {
                !whole.is_empty() && all_digits(whole) && fraction.len() == 6 && all_digits(fraction)
            })
            // `dmesg -T`
            || inside.len() == DATE_LEN && is_weekday(first_word(inside));
        if is_time {
            message.take_time(inside.trim());
            message.is_kernel_time = true;
            message.continue_with(rest);
            for _ in 0..PARTS_MAX {
                if !take_after_tag(message) {
                    return;
                }
            }
            return;
        }
    }
}

/// `12:00:00`, also with a fraction of the second
fn is_full_clock(word: &str) -> bool {
    word.len() >= 8 && word.is_ascii() && is_clock(word) && word.as_bytes()[5] == b':'
}

pub(super) fn is_iso(word: &str) -> bool {
    word.split_once('T')
        .is_some_and(|(date, clock)| is_date(date) && clock.as_bytes().get(2) == Some(&b':'))
}

pub(super) fn is_date(word: &str) -> bool {
    word.len() == 10
        && word.bytes().enumerate().all(|(nth, byte)| match nth {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// `12:00:00`, `12:00:00.123456`
pub(super) fn is_clock(word: &str) -> bool {
    word.len() >= 5
        && word.as_bytes()[2] == b':'
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b":.,+".contains(&byte))
}

/// `UTC`, `CEST`, `+0100`
fn is_zone(word: &str) -> bool {
    // `TLS Error: ` is a text of OpenVPN.
    let is_name =
        (3..=5).contains(&word.len()) && word != "TLS" && word.bytes().all(|byte| byte.is_ascii_uppercase());
    is_name
        || word
            .strip_prefix(['+', '-'])
            .is_some_and(|offset| offset.len() == 4 && all_digits(offset))
}

pub(super) fn is_weekday(word: &str) -> bool {
    matches!(word, "Mon" | "Tue" | "Wed" | "Thu" | "Fri" | "Sat" | "Sun")
}

pub(super) fn is_month(word: &str) -> bool {
    MONTHS.contains(&word.as_bytes())
}

pub(super) fn is_year(word: &str) -> bool {
    word.len() == 4 && all_digits(word)
}

/// Length of `Wed May 15 11:27:32 2024`.
const DATE_LEN: usize = 24;
/// Length of `1234567.084614]`, with some more digits.
const HALF_BRACKET_MAX: usize = 18;
/// Names of months are longer only where they are not abbreviated; bytes.
const MONTH_LEN_MAX: usize = 14;
/// Where a kernel's time may begin at the latest.
const LATE_TIME_MAX: usize = 120;
pub(super) const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
