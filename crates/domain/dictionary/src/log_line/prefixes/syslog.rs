//! Prefixes of syslog, old and new: levels, facilities, host and tag.

use super::times::{MONTHS, is_clock, is_iso, is_month, is_weekday, is_year, microseconds};
use super::{all_digits, is_tag, split_at_colon, take_tag};
use crate::log_line::Message;

/// `Nov 20 12:00:00 web-1 kernel: `, `2026-11-20T12:00:00.123456+00:00 web-1 sshd[812]: `: the prefix of most lines, in one pass. Only where
/// the other rules have the same result.
pub(super) fn take_syslog(message: &mut Message<'_>) -> bool {
    let text = message.text;
    let Some(time_len) = syslog_time_len(text.as_bytes()) else {
        return false;
    };
    let behind = &text[time_len + 1..];
    let Some(host_len) = memchr::memchr(b' ', &behind.as_bytes()[..behind.len().min(HOST_LEN_MAX)]) else {
        return false;
    };
    let (host, rest) = (&behind[..host_len], &behind[host_len + 1..]);
    // Names of levels, streams and facilities are no hosts here, and those with dots may be both.
    let is_host = host.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !matches!(host, "stdout" | "stderr");
    let tag_len = rest
        .bytes()
        .take(TAG_LEN_MAX)
        .position(|byte| !(byte.is_ascii_alphanumeric() || b"-_./".contains(&byte)))
        .unwrap_or(0);
    let tag = &rest[..tag_len];
    if !is_host || tag_len == 0 || tag.contains('.') && is_facility_level(tag) {
        return false;
    }
    let mut after = &rest[tag_len..];
    if let Some(pid) = after.strip_prefix('[') {
        let digits = pid.bytes().take_while(u8::is_ascii_digit).count();
        match pid[digits..].strip_prefix(']') {
            Some(behind) if digits > 0 => after = behind,
            _ => return false,
        }
    }
    let Some(said) = after.strip_prefix(": ") else {
        return false;
    };
    message.take_time(&text[..time_len]);
    message.program = Some(tag);
    message.continue_with(said);
    true
}

/// Length of `Nov 20 12:00:00` or `2026-11-20T12:00:00.123456+00:00`, if a blank follows.
fn syslog_time_len(text: &[u8]) -> Option<usize> {
    let len = if text.first()?.is_ascii_uppercase() {
        let (month, rest) = text.split_at_checked(4)?;
        let month = month.strip_suffix(b" ")?;
        if !MONTHS.contains(&month) || !has_form(rest, b"_0 00:00:00 ") {
            return None;
        }
        15
    } else {
        // The sign of the zone is the only byte that differs.
        if !has_form(text, b"0000-00-00T00:00:00.000000") || !matches!(text.get(26), Some(b'+' | b'-')) {
            return None;
        }
        if !has_form(&text[27..], b"00:00 ") {
            return None;
        }
        32
    };
    Some(len)
}

/// Whether the text begins as the form, in which `0` is any digit, and `_` a digit or a blank.
fn has_form(text: &[u8], form: &[u8]) -> bool {
    text.len() >= form.len()
        && form.iter().zip(text).all(|(form, byte)| match form {
            b'0' => byte.is_ascii_digit(),
            b'_' => byte.is_ascii_digit() || *byte == b' ',
            _ => form == byte,
        })
}

/// `<6>`
pub(super) fn priority(message: &mut Message<'_>) -> bool {
    if let Some((number, rest)) = message
        .text
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        && (1..=3).contains(&number.len())
        && all_digits(number)
    {
        message.continue_with(rest);
        return true;
    }
    false
}

/// `Nov  3 12:00:00 `, also with a year, a weekday, fractions
pub(super) fn syslog_time(message: &mut Message<'_>) -> bool {
    let begin = message.text;
    let mut rest = begin;
    let mut next = |accept: &dyn Fn(&str) -> bool| {
        let (word, behind) = rest.trim_start().split_once(' ')?;
        accept(word).then(|| rest = behind)
    };
    let has_weekday = next(&is_weekday).is_some();
    let is_day = |word: &str| word.len() <= 2 && all_digits(word);
    // `Nov 20, 2026 @ 12:00:00.000`: Kibana
    if next(&is_month).is_none() || next(&|word| is_day(word.strip_suffix(',').unwrap_or(word))).is_none() {
        return false;
    }
    let _ = next(&is_year);
    let is_export = next(&|word| word == "@").is_some();
    if next(&is_clock).is_none() {
        return false;
    }
    let has_year = next(&is_year).is_some();
    let time = begin[..begin.len() - rest.len()].trim_end();
    message.take_time(time);
    message.is_kernel_time |= is_export;
    message.continue_with(rest);
    // OpenVPN and others write `ctime()` and their text; `logread` writes facility and level between.
    if !facility_level(message) && has_weekday && has_year {
        message.is_kernel_time = true;
        microseconds(message);
    }
    true
}

/// `1 2026-11-20T12:00:00Z host kernel - - - text`, the rest of `<4>1 ...`
pub(super) fn rfc_5424(message: &mut Message<'_>) -> bool {
    let Some(rest) = message.text.strip_prefix("1 ") else {
        return false;
    };
    let Some((time, rest)) = rest.split_once(' ') else {
        return false;
    };
    if !is_iso(time) && time != "-" {
        return false;
    }
    let mut rest = rest;
    let mut program = None;
    for field in 0..4 {
        // Host, program, process, message name.
        let Some((word, behind)) = rest.split_once(' ') else {
            return false;
        };
        if field == 1 && word != "-" {
            program = Some(word);
        }
        rest = behind;
    }
    // Structured data: `-` or `[...][...]`.
    let text = match rest.strip_prefix('-') {
        Some(text) => text,
        None => after_structured_data(rest),
    };
    if time != "-" {
        message.take_time(time);
    }
    message.continue_with(text.trim_start().trim_start_matches('\u{feff}'));
    // Without a name of the program it is the kernel's, as far as the log shows.
    message.program = Some(program.unwrap_or("kernel"));
    false
}

/// The text after `[id name="value"][...]`; values may have brackets.
fn after_structured_data(text: &str) -> &str {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => is_quoted = !is_quoted,
            b']' if !is_quoted && !text[at + 1..].starts_with('[') => return &text[at + 1..],
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    text
}

/// `kern  :warn  : ` of `dmesg -x`, `kern: warning: ` of Talos, `kern.warn ` of BusyBox
pub(super) fn facility(message: &mut Message<'_>) -> bool {
    if facility_level(message) {
        return true;
    }
    let first = message.text.as_bytes().first();
    // Comparing the first byte before costs no call.
    let mut facilities = FACILITIES
        .iter()
        .filter(|facility| facility.as_bytes().first() == first);
    if !facilities.any(|facility| message.text.starts_with(facility)) {
        return false;
    }
    let mut parts = message.text.splitn(3, ':');
    let (Some(facility), Some(level), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let level = level.trim();
    if FACILITIES.contains(&facility.trim_end()) && (LEVELS.contains(&level) || LONG_LEVELS.contains(&level))
    {
        message.continue_with(rest);
        return true;
    }
    false
}

/// `kern.warn `, `daemon.err hostapd: `: what is not the kernel's is a program's, also without its PID.
pub(super) fn facility_level(message: &mut Message<'_>) -> bool {
    let Some((word, rest)) = message.text.split_once(' ') else {
        return false;
    };
    if !is_facility_level(word) {
        return false;
    }
    message.continue_with(rest);
    if !word.starts_with("kern.")
        && message.program.is_none()
        && let Some((tag, text)) = split_at_colon(message.text)
        && is_tag(tag)
    {
        take_tag(message, tag, text);
    }
    true
}

/// `kern.warn`
pub(super) fn is_facility_level(word: &str) -> bool {
    word.len() <= FACILITY_LEVEL_LEN_MAX
        && word.split_once('.').is_some_and(|(facility, level)| {
            FACILITIES.contains(&facility) && (LEVELS.contains(&level) || LONG_LEVELS.contains(&level))
        })
}

/// `warn: `: levels that some formats insert
pub(super) fn level(message: &mut Message<'_>) -> bool {
    let head = &message.text.as_bytes()[..message.text.len().min(LEVEL_LEN_MAX + 1)];
    if let Some(end) = head.iter().position(|&byte| byte == b':')
        && let Some(rest) = message.text[end + 1..].strip_prefix(' ')
        && LEVELS.contains(&&message.text[..end])
    {
        message.continue_with(rest);
        return true;
    }
    false
}

/// Longer ones are left to the other rules.
const HOST_LEN_MAX: usize = 64;
const TAG_LEN_MAX: usize = 48;
pub(super) const FACILITIES: [&str; 12] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
];
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
/// Length of the longest.
const LEVEL_LEN_MAX: usize = 6;
/// Length of `authpriv.emergency`.
const FACILITY_LEVEL_LEN_MAX: usize = 18;
/// Other names of levels, which are the first words of messages, too.
const LONG_LEVELS: [&str; 5] = ["emergency", "critical", "error", "warning", "panic"];

#[cfg(test)]
mod tests {
    use super::super::take_parts;
    use super::*;
    use crate::log_line::message_of;

    /// Regression: `hostapd` was taken for the driver `hostap`.
    #[test]
    fn line_of_a_program_without_its_pid_is_no_kernel_message() {
        let message =
            message_of("Thu Feb  8 08:11:04 2024 daemon.err hostapd: rmdir[ctrl]: Permission denied");
        assert_eq!(
            (message.program, message.text),
            (Some("hostapd"), "rmdir[ctrl]: Permission denied")
        );
        let message =
            message_of("Thu Feb  8 08:11:04 2024 kern.info kernel: [147631.01] br-lan: port 5 disabled");
        assert!(message.is_of_kernel());
        assert_eq!(message.text, "br-lan: port 5 disabled");
        let message = message_of("kern.warn eth0: link down");
        assert_eq!((message.program, message.text), (None, "eth0: link down"));
    }

    /// Regression: `TLS Error: ` was taken for a host and a program.
    #[test]
    fn log_of_a_program_with_ctime_has_neither_host_nor_tag() {
        for line in [
            "Tue Apr 09 23:36:58 2019 TLS Error: TLS handshake failed",
            "Tue Apr  9 23:36:58 2019 us=123456 TLS Error: TLS handshake failed",
            "2026-11-20 12:00:00 TLS Error: TLS handshake failed",
            "2026-11-20 12:00:00 us=123456 TLS Error: TLS handshake failed",
        ] {
            let message = message_of(line);
            assert_eq!(
                (message.program, message.text),
                (None, "TLS Error: TLS handshake failed"),
                "{line}"
            );
        }
        let message = message_of("Tue Apr 09 23:35:58 2019 read UDP: Unknown error (code=10054)");
        assert_eq!(message.text, "read UDP: Unknown error (code=10054)");
        let message = message_of("2026-11-20 12:00:00 write UDP: Unknown error (code=10054)");
        assert_eq!(message.text, "write UDP: Unknown error (code=10054)");
        // `logread -t` and others: a program with its number is one.
        let message = message_of("Tue Apr  9 23:36:58 2019 web-1 pppd[812]: LCP terminated by peer");
        assert_eq!(message.program, Some("pppd"));
    }

    #[test]
    fn page_with_an_opening_quotation_mark_has_its_prefix_removed() {
        let message =
            message_of("\"Tue Aug  6 00:06:27 2019 daemon.warn pppd[2391]: Timeout waiting for PADO packets");
        assert_eq!(
            (message.program, message.text),
            (Some("pppd"), "Timeout waiting for PADO packets")
        );
    }

    #[test]
    fn program_may_stand_without_its_host() {
        let message = message_of("Feb 02 10:34:17 ModemManager[2761]: <wrn> [modem0] text");
        assert_eq!(
            (message.program, message.text),
            (Some("ModemManager"), "<wrn> [modem0] text")
        );
        let message = message_of("[12.345678] app[812]: segfault at 0 ip 0");
        assert_eq!(
            (message.program, message.text),
            (None, "app[812]: segfault at 0 ip 0")
        );
    }

    #[test]
    fn clock_alone_may_stand_before_a_program() {
        let message = message_of("19:44:36 NetworkManager[1650]: <warn> Activation (wlan0) failed.");
        assert_eq!(
            (message.program, message.text, message.time),
            (
                Some("NetworkManager"),
                "<warn> Activation (wlan0) failed.",
                Some("19:44:36")
            )
        );
    }

    /// The fast way must have the result of the rules.
    #[test]
    fn prefix_of_most_lines_is_read_as_by_the_rules() {
        let bodies = [
            "TCP: out of memory",
            "[12.345678] TCP: out of memory",
            "[ 12.345678] [ T12] TCP: out of memory",
            "<4>[12.3] x: y",
            "",
            " two  blanks",
            "warn: x",
            "I[0: swapper/0: 1] x",
            "Nov 20 12:00:00 b c: d",
        ];
        let mut fast = 0;
        for time in [
            "Nov 20 12:00:00",
            "Nov  3 12:00:00",
            "Nov 3 12:00:00",
            "Nox 20 12:00:00",
            "2026-11-20T12:00:00.123456+00:00",
            "2026-11-20T12:00:00.123456-08:00",
            "2026-11-20T12:00:00Z",
        ] {
            for host in [
                "web-1",
                "web-1.example.org",
                "kern.warn",
                "stdout",
                "mail",
                "kern",
                "Web",
                "10",
                "[x]",
                "a:",
            ] {
                for tag in [
                    "kernel:",
                    "sshd[812]:",
                    "sshd[]:",
                    "sshd[812]",
                    "kern.warn kernel:",
                    "a.b:",
                    "kern.warn:",
                    "a/b[1]:",
                    "x y:",
                    "warn:",
                    "last message repeated 3 times:",
                ] {
                    for body in bodies {
                        let line = format!("{time} {host} {tag} {body}");
                        let text = line.trim_end();
                        let begin = || Message {
                            text,
                            ..Message::default()
                        };
                        let (mut by_rules, mut found) = (begin(), begin());
                        take_parts(&mut by_rules);
                        if take_syslog(&mut found) {
                            fast += 1;
                            assert_eq!(found, by_rules, "{line}");
                        }
                    }
                }
            }
        }
        assert!(fast > 400, "{fast}");
    }
}
