//! Prefixes of log lines: all formats of `dmesg`, syslog old and new, the journal, `/dev/kmsg`.

use crate::Entry;

/// A log line without its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'l> {
    /// Time as the log writes it
    pub(crate) time: Option<&'l str>,
    /// Text that the kernel or a program printed
    pub(crate) text: &'l str,
    /// Program that wrote it, if the log has it; may be the kernel
    pub(crate) program: Option<&'l str>,
    /// Whether it is the content of a JSON string
    pub(crate) is_escaped: bool,
}

impl Message<'_> {
    /// Whether this may be a line of `entry`: messages of programs must not match entries of the kernel.
    pub(crate) fn may_match(&self, entry: &Entry<'_>) -> bool {
        match self.program {
            None | Some("kernel" | "audit") => true,
            // The source of a program's entry names the program, of a kernel's entry a kernel file.
            Some(_) => {
                let is_kernel =
                    |source: &str| KERNEL_FOLDERS.split(' ').any(|folder| source.starts_with(folder));
                entry.source.split("; ").any(|source| !is_kernel(source))
            }
        }
    }
}

/// Removes the prefix, part by part.
pub(crate) fn message_of(line: &str) -> Message<'_> {
    let mut message = Message {
        time: None,
        program: None,
        text: line.trim_matches(['\0', '\r', '\n', ' ', '\t']),
        is_escaped: false,
    };
    if message.text.starts_with('{') {
        let message_json = message.text;
        if let Some(text) = json_string(message_json, "\"MESSAGE\"") {
            message.time = json_string(message.text, "\"__REALTIME_TIMESTAMP\"");
            message.text = text;
            message.program = json_string(message_json, "\"SYSLOG_IDENTIFIER\"");
            message.is_escaped = true;
        }
        return message;
    }
    // The journal's export format.
    if let Some(text) = message.text.strip_prefix("MESSAGE=") {
        message.text = text;
    }
    for take in [
        kmsg,
        priority,
        rfc_5424,
        facility,
        iso_time,
        syslog_time,
        host_and_tag,
        level,
        bracketed,
        caller,
        level,
    ] {
        take(&mut message);
    }
    message
}

impl<'l> Message<'l> {
    /// Continues after a removed part; `rest` is what follows.
    fn continue_with(&mut self, rest: &'l str) {
        self.text = rest.trim_start();
    }

    fn take_time(&mut self, time: &'l str) {
        // Prefer a date to the kernel's time since boot.
        self.time.get_or_insert(time);
    }
}

/// `6,1234,5678901,-;text`
fn kmsg(message: &mut Message<'_>) {
    let Some((head, text)) = message.text.split_once(';') else {
        return;
    };
    let mut fields = head.split(',');
    let is_number = |field: Option<&str>| field.is_some_and(|field| !field.is_empty() && all_digits(field));
    if is_number(fields.next()) && is_number(fields.next()) {
        let time = fields.next();
        if let Some(time) = time.filter(|time| all_digits(time) && !time.is_empty()) {
            message.take_time(time);
            message.continue_with(text);
        }
    }
}

/// `<6>`
fn priority(message: &mut Message<'_>) {
    if let Some((number, rest)) = message
        .text
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        && (1..=3).contains(&number.len())
        && all_digits(number)
    {
        message.continue_with(rest);
    }
}

/// `1 2026-11-20T12:00:00Z host kernel - - - text`, the rest of `<4>1 ...`
fn rfc_5424(message: &mut Message<'_>) {
    let Some(rest) = message.text.strip_prefix("1 ") else {
        return;
    };
    let Some((time, rest)) = rest.split_once(' ') else {
        return;
    };
    if !is_iso(time) && time != "-" {
        return;
    }
    let mut rest = rest;
    for field in 0..4 {
        // Host, program, process, message name.
        let Some((word, behind)) = rest.split_once(' ') else {
            return;
        };
        if field == 1 && word != "-" {
            message.program = Some(word);
        }
        rest = behind;
    }
    // Structured data: `-` or `[...][...]`.
    let text = match rest.strip_prefix('-') {
        Some(text) => text,
        None => rest.rsplit_once("] ").map_or(rest, |(_, text)| text),
    };
    if time != "-" {
        message.take_time(time);
    }
    message.continue_with(text.trim_start().trim_start_matches('\u{feff}'));
}

/// `kern  :warn  : ` of `dmesg -x`
fn facility(message: &mut Message<'_>) {
    let mut parts = message.text.splitn(3, ':');
    let (Some(facility), Some(level), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    if FACILITIES.contains(&facility.trim_end()) && LEVELS.contains(&level.trim_end()) {
        message.continue_with(rest);
    }
}

/// `2026-11-20T12:00:00,123456+00:00 `, `Fri 2026-11-20 12:00:00 UTC `
fn iso_time(message: &mut Message<'_>) {
    let text = message.text;
    let dated = match text.split_once(' ') {
        Some((day, rest)) if WEEKDAYS.contains(&day) => rest,
        _ => text,
    };
    let Some((time, rest)) = dated.split_once(' ') else {
        return;
    };
    if is_iso(time) {
        message.take_time(time);
        message.continue_with(rest);
    } else if is_date(time)
        && let Some((clock, behind)) = rest.split_once(' ')
        && is_clock(clock)
    {
        message.take_time(&dated[..time.len() + 1 + clock.len()]);
        message.continue_with(match behind.split_once(' ') {
            Some((zone, behind)) if is_zone(zone) => behind,
            _ => behind,
        });
    }
}

/// `Nov  3 12:00:00 `, also with a year, a weekday, fractions
fn syslog_time(message: &mut Message<'_>) {
    let begin = message.text;
    let mut rest = begin;
    let mut next = |accept: &dyn Fn(&str) -> bool| {
        let (word, behind) = rest.trim_start().split_once(' ')?;
        accept(word).then(|| rest = behind)
    };
    let _ = next(&|word| WEEKDAYS.contains(&word));
    if next(&|word| MONTHS.contains(&word)).is_none()
        || next(&|word| word.len() <= 2 && all_digits(word)).is_none()
    {
        return;
    }
    let _ = next(&is_year);
    if next(&is_clock).is_none() {
        return;
    }
    let _ = next(&is_year);
    let time = begin[..begin.len() - rest.len()].trim_end();
    message.take_time(time);
    message.continue_with(rest);
}

/// `host kernel: ` after a time only; `kernel: ` anywhere
fn host_and_tag(message: &mut Message<'_>) {
    if let Some(rest) = message.text.strip_prefix("kernel: ") {
        message.program = Some("kernel");
        message.continue_with(rest);
        return;
    }
    if message.time.is_none() {
        return;
    }
    let Some((host, rest)) = message.text.split_once(' ') else {
        return;
    };
    // syslogd's own messages have no tag.
    if rest.starts_with(REPEATED) {
        message.continue_with(rest);
        return;
    }
    if host.starts_with('[') || host.ends_with(':') {
        return;
    }
    let Some((tag, text)) = rest.split_once(": ") else {
        // A tag without a text.
        if let Some(tag) = rest.strip_suffix(':')
            && is_tag(tag)
        {
            message.continue_with("");
        }
        return;
    };
    if is_tag(tag) {
        message.program = Some(tag.split(['[', '(']).next().unwrap_or(tag));
        message.continue_with(text);
    }
}

/// `[12345.678901] `, `[Mon Nov 20 12:00:00 2026] `, `[  +0.000012] `, `[Nov20 12:00] `
fn bracketed(message: &mut Message<'_>) {
    // `dmesg -d` has two times in one pair of brackets, `dmesg -x` and others have several pairs.
    while let Some((inside, rest)) = message
        .text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        let inside_trimmed = inside.trim();
        let is_time = inside_trimmed.split_once('.').is_some_and(|(whole, _)| {
            let digits = whole.trim_start_matches(['+', '<', ' ']);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }) || {
            let mut words = inside_trimmed.split_whitespace();
            let first = words.next().unwrap_or("");
            WEEKDAYS.contains(&first) || MONTHS.iter().any(|month| first.starts_with(month)) || is_iso(first)
        };
        if !is_time {
            return;
        }
        message.take_time(inside_trimmed.trim_start_matches('+'));
        message.continue_with(rest);
    }
}

/// `[ T1234] `, `[    C0] ` (`CONFIG_PRINTK_CALLER`)
fn caller(message: &mut Message<'_>) {
    if let Some((inside, rest)) = message
        .text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        let inside = inside.trim();
        let number = inside.strip_prefix(['T', 'C']);
        if number.is_some_and(|number| !number.is_empty() && all_digits(number)) {
            message.continue_with(rest);
        }
    }
}

/// `warn: `, `WARNING `: levels that some formats insert
fn level(message: &mut Message<'_>) {
    if let Some((word, rest)) = message.text.split_once(": ")
        && LEVELS.contains(&word)
    {
        message.continue_with(rest);
    }
}

/// Repeats of the line before: `last message repeated 3 times`.
pub(crate) fn repeats(text: &str) -> Option<u64> {
    let rest = text.strip_prefix(REPEATED)?;
    rest.strip_suffix(" times")
        .or_else(|| rest.strip_suffix(" time"))
        .and_then(|number| number.parse().ok())
        .or_else(|| rest.split(' ').next()?.parse().ok())
}

/// `message repeated 5 times: [ text]`: the text, and its number.
pub(crate) fn repeated(text: &str) -> (&str, u64) {
    let found = text
        .strip_prefix("message repeated ")
        .and_then(|rest| rest.split_once(" times: ["))
        .and_then(|(number, rest)| Some((number.parse::<u64>().ok()?.max(1), rest.strip_suffix(']')?)));
    match found {
        Some((times, text)) => (message_of(text.trim()).text, times),
        None => (text, 1),
    }
}

/// `net_ratelimit: 12 callbacks suppressed`: unknown messages of any kind.
pub(crate) fn suppressed(text: &str) -> Option<u64> {
    let (head, rest) = text.split_once(": ")?;
    let number = rest.strip_suffix(" callbacks suppressed")?;
    head.ends_with("ratelimit").then(|| number.parse().ok())?
}

/// The content of the string with this key, with its escapes.
fn json_string<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let rest = line[line.find(key)? + key.len()..]
        .trim_start()
        .strip_prefix(':')?;
    let rest = rest.trim_start().strip_prefix('"')?;
    let mut is_escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(&rest[..end])
}

/// Resolves the escapes of `json_string`; invalid ones stay as they are.
pub(crate) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('n' | 'r' | 't') => out.push(' '),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let character = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(character.unwrap_or('\u{fffd}'));
            }
            Some(character) => out.push(character),
            None => {}
        }
    }
    message_of(&out).text.to_owned()
}

/// `kernel`, `sshd[812]`, `systemd-networkd[1]`
fn is_tag(tag: &str) -> bool {
    let name = tag.split('[').next().unwrap_or(tag);
    !name.is_empty() && name.len() <= 48 && !name.contains(' ')
}

fn is_iso(word: &str) -> bool {
    word.split_once('T')
        .is_some_and(|(date, clock)| is_date(date) && clock.as_bytes().get(2) == Some(&b':'))
}

fn is_date(word: &str) -> bool {
    word.len() == 10
        && word.bytes().enumerate().all(|(nth, byte)| match nth {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// `12:00:00`, `12:00:00.123456`
fn is_clock(word: &str) -> bool {
    word.len() >= 5
        && word.as_bytes()[2] == b':'
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b":.,+".contains(&byte))
}

/// `UTC`, `CEST`, `+0100`
fn is_zone(word: &str) -> bool {
    let is_name = (3..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase());
    is_name
        || word
            .strip_prefix(['+', '-'])
            .is_some_and(|offset| offset.len() == 4 && all_digits(offset))
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && all_digits(word)
}

fn all_digits(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Folders of the kernel's source that print messages, separated by blanks.
const KERNEL_FOLDERS: &str =
    "arch/ block/ drivers/ fs/ include/ init/ io_uring/ ipc/ kernel/ lib/ mm/ net/ security/ virt/";
const REPEATED: &str = "last message repeated ";
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const FACILITIES: [&str; 12] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
];
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, time: Option<&str>) {
        let message = message_of(line);
        assert_eq!(
            (message.text, message.time),
            ("TCP: out of memory", time),
            "{line}"
        );
    }

    #[test]
    fn prefixes_of_all_formats_are_removed() {
        check("TCP: out of memory", None);
        check("[12345.678901] TCP: out of memory", Some("12345.678901"));
        check("[    5.678901] TCP: out of memory", Some("5.678901"));
        check("<4>[12345.678901] TCP: out of memory", Some("12345.678901"));
        check("[12345.678901] [ T1234] TCP: out of memory", Some("12345.678901"));
        check("[12345.678901][    C0] TCP: out of memory", Some("12345.678901"));
        check(
            "[Fri Nov 20 12:00:00 2026] TCP: out of memory",
            Some("Fri Nov 20 12:00:00 2026"),
        );
        check("[Nov20 12:00] TCP: out of memory", Some("Nov20 12:00"));
        check("[  +0.000012] TCP: out of memory", Some("0.000012"));
        check(
            "[12345.678901 <    0.000012>] TCP: out of memory",
            Some("12345.678901 <    0.000012>"),
        );
        check(
            "kern  :warn  : [12345.678901] TCP: out of memory",
            Some("12345.678901"),
        );
        check(
            "kern  :warn  : [Fri Nov 20 12:00:00 2026] TCP: out of memory",
            Some("Fri Nov 20 12:00:00 2026"),
        );
        check(
            "2026-11-20T12:00:00,123456+00:00 TCP: out of memory",
            Some("2026-11-20T12:00:00,123456+00:00"),
        );
        check(
            "Nov 20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("Nov 20 12:00:00"),
        );
        check(
            "Nov  3 12:00:00 web-1 kernel: [ 12.345678] TCP: out of memory",
            Some("Nov  3 12:00:00"),
        );
        check(
            "2026-11-20T12:00:00.123456+00:00 web-1 kernel: [12.3] TCP: out of memory",
            Some("2026-11-20T12:00:00.123456+00:00"),
        );
        check(
            "<4>1 2026-11-20T12:00:00Z web-1 kernel - - - TCP: out of memory",
            Some("2026-11-20T12:00:00Z"),
        );
        check(
            "<4>1 2026-11-20T12:00:00Z web-1 kernel - - [a@1 b=\"c\"] TCP: out of memory",
            Some("2026-11-20T12:00:00Z"),
        );
        check(
            "<4>Nov 20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("Nov 20 12:00:00"),
        );
        check(
            "2026-11-20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("2026-11-20 12:00:00"),
        );
        check(
            "Fri 2026-11-20 12:00:00 UTC web-1 kernel: TCP: out of memory",
            Some("2026-11-20 12:00:00"),
        );
        check("4,1234,5678901,-;TCP: out of memory", Some("5678901"));
        check("4,1234,5678901,-,caller=T1;TCP: out of memory", Some("5678901"));
        check("MESSAGE=TCP: out of memory", None);
        check("kernel: TCP: out of memory", None);
        check("  TCP: out of memory\r\n", None);
        check(
            r#"{"PRIORITY":"4","MESSAGE":"TCP: out of memory","__REALTIME_TIMESTAMP":"17"}"#,
            Some("17"),
        );
    }

    #[test]
    fn other_text_stays() {
        for line in [
            "eth0: link up",
            "Neighbour table overflow",
            "[drm] ready",
            "IPv6: eth0: IPv6 duplicate address fe80::1 detected!",
            "1 packet lost",
            "Nov is a month",
            "",
        ] {
            assert_eq!(message_of(line).text, line);
        }
    }

    #[test]
    fn program_messages_match_no_kernel_entry() {
        let line = "Nov 20 12:00:00 web-1 app[9]: eth0: link down";
        assert_eq!(message_of(line).program, Some("app"));
        let line = "Nov 20 12:00:00 web-1 kernel: eth0: link down";
        assert_eq!(message_of(line).program, Some("kernel"));
        let line = "<4>1 2026-11-20T12:00:00Z web-1 app 9 - - eth0: link down";
        assert_eq!(message_of(line).program, Some("app"));
    }

    #[test]
    fn repeat_lines_are_parsed() {
        assert_eq!(repeats("last message repeated 3 times"), Some(3));
        assert_eq!(repeats("the last message"), None);
        let line = "Nov 20 12:00:01 web-1 last message repeated 3 times";
        assert_eq!(repeats(message_of(line).text), Some(3));
        assert_eq!(
            repeated("message repeated 5 times: [ TCP: out of memory]"),
            ("TCP: out of memory", 5)
        );
        assert_eq!(repeated("message repeated 0 times: [ TCP]"), ("TCP", 1));
        assert_eq!(repeated("TCP"), ("TCP", 1));
        assert_eq!(suppressed("net_ratelimit: 12 callbacks suppressed"), Some(12));
        assert_eq!(suppressed("TCP: 12 callbacks"), None);
    }

    #[test]
    fn json_escapes_are_resolved() {
        assert_eq!(unescaped(r#"a \"b\" \u0041\\"#), "a \"b\" A\\");
        assert_eq!(unescaped(r"\ud800\u12"), "\u{fffd}\u{12}");
        assert_eq!(unescaped("\\"), "");
    }
}
