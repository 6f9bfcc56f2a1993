//! Prefixes of log lines: all formats of `dmesg`, syslog old and new, the journal, `/dev/kmsg`, containers, Android, mail.

use super::Message;
use super::repeats::REPEATED;

/// Removes all parts of the prefix, in whatever order and number they are.
pub(super) fn take(message: &mut Message<'_>) {
    if !take_syslog(message) {
        take_parts(message);
    }
    if message.program.is_some() {
        for _ in 0..PARTS_MAX {
            if !take_after_tag(message) {
                break;
            }
        }
    }
    if !message.is_kernel_time && message.is_of_kernel() {
        late_kernel_time(message);
    }
}

fn take_parts(message: &mut Message<'_>) {
    for _ in 0..PARTS_MAX {
        // Behind a time of the kernel only few things stand.
        let took = if message.is_kernel_time {
            take_after_tag(message) || stream(message)
        } else {
            take_one(message)
        };
        if !took {
            break;
        }
    }
    if message.program.is_none() {
        host_and_tag(message);
    }
}

/// `Nov 20 12:00:00 web-1 kernel: `, `2026-11-20T12:00:00.123456+00:00 web-1 sshd[812]: `: the prefix of most lines, in one pass. Only where
/// the other rules have the same result.
fn take_syslog(message: &mut Message<'_>) -> bool {
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

fn take_one(message: &mut Message<'_>) -> bool {
    match message.text.as_bytes().first() {
        None => false,
        Some(b'[') => bracketed(message) || caller(message) || pod(message) || footnote(message),
        Some(b'<') => priority(message),
        Some(b'>' | b'|' | b'`') => quote(message),
        Some(b'0'..=b'9') => {
            kmsg(message)
                || rfc_5424(message)
                || open_vswitch(message)
                || iso_time(message)
                || slash_time(message)
                || logcat(message)
                || seconds(message)
                || half_bracketed(message)
                || clock_and_tag(message)
                || local_date(message)
                || node(message)
                || line_number(message)
        }
        Some(b'A'..=b'Z') => {
            message_field(message)
                || is_weekday(first_word(message.text)) && iso_time(message)
                || syslog_time(message)
                || local_date(message)
                || klog(message)
                || logcat_tag(message)
                || vendor_caller(message)
        }
        Some(_) => {
            facility(message)
                || level(message)
                || stream(message)
                || vendor_caller(message)
                || local_date(message)
                || node(message)
                || container(message)
                || file_name(message)
        }
    }
}

/// What may follow a tag.
fn take_after_tag(message: &mut Message<'_>) -> bool {
    match message.text.as_bytes().first() {
        Some(b'[') => bracketed(message) || caller(message),
        Some(b'0'..=b'9') => half_bracketed(message),
        Some(b'<') => priority(message),
        Some(b'.' | b'(' | b'A'..=b'Z') => vendor_caller(message),
        Some(b'a'..=b'z') => level(message) || open_vswitch_in_syslog(message),
        _ => false,
    }
}

/// `> ` of a mail, `| ` of a table, a backtick of Markdown
fn quote(message: &mut Message<'_>) -> bool {
    let text = message.text;
    match text.as_bytes() {
        // `>` may be the end of a message, too.
        [b'>', ..] => {
            message.is_quoted = true;
            message.continue_with(text.trim_start_matches(['>', ' ']));
        }
        // A table and code end as they begin.
        [b'|', ..] => {
            message.is_quoted = true;
            message.continue_with(text.trim_matches(['|', ' ']));
        }
        [b'`', .., b'`'] => message.continue_with(text.trim_matches('`')),
        _ => return false,
    }
    true
}

/// `6,1234,5678901,-;text`, also with the kernel's release before it (netconsole)
fn kmsg(message: &mut Message<'_>) -> bool {
    let Some((head, text)) = message.text.split_once(';') else {
        return false;
    };
    let head = match head.split_once(',') {
        Some((release, rest)) if release.contains('.') => rest,
        _ => head,
    };
    let mut fields = head.split(',');
    let is_number = |field: Option<&str>| field.is_some_and(|field| !field.is_empty() && all_digits(field));
    if is_number(fields.next())
        && is_number(fields.next())
        && let Some(time) = fields.next().filter(|time| is_number(Some(time)))
    {
        message.take_time(time);
        message.is_kernel_time = true;
        message.continue_with(text);
        return true;
    }
    false
}

/// `<6>`
fn priority(message: &mut Message<'_>) -> bool {
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

/// `1 2026-11-20T12:00:00Z host kernel - - - text`, the rest of `<4>1 ...`
fn rfc_5424(message: &mut Message<'_>) -> bool {
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
fn facility(message: &mut Message<'_>) -> bool {
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
fn facility_level(message: &mut Message<'_>) -> bool {
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
fn is_facility_level(word: &str) -> bool {
    word.len() <= FACILITY_LEVEL_LEN_MAX
        && word.split_once('.').is_some_and(|(facility, level)| {
            FACILITIES.contains(&facility) && (LEVELS.contains(&level) || LONG_LEVELS.contains(&level))
        })
}

/// `2026-11-20T12:00:00.123Z|00206|dpif(handler14)|WARN|`
fn open_vswitch(message: &mut Message<'_>) -> bool {
    let Some((time, behind)) = message.text.split_once('|') else {
        return false;
    };
    let Some((module, rest)) = module_of_open_vswitch(behind).filter(|_| is_iso(time)) else {
        return false;
    };
    message.take_time(time);
    message.program = Some(module);
    message.continue_with(rest);
    true
}

/// `ovs|00206|dpif(handler14)|WARN|` of Open vSwitch's lines in syslog
fn open_vswitch_in_syslog(message: &mut Message<'_>) -> bool {
    let rest = message.text.strip_prefix("ovs|").and_then(module_of_open_vswitch);
    if let Some((_, rest)) = rest {
        message.continue_with(rest);
    }
    rest.is_some()
}

/// The module, and what is behind number, module, thread and level.
fn module_of_open_vswitch(text: &str) -> Option<(&str, &str)> {
    let (number, text) = text.split_once('|')?;
    let (module, text) = text.split_once('|')?;
    let (level, text) = text.split_once('|')?;
    let is_of_it = all_digits(number) && !module.contains(' ') && OPEN_VSWITCH_LEVELS.contains(&level);
    is_of_it.then(|| (module.split('(').next().unwrap_or(module), text))
}

/// `2026-11-20T12:00:00,123456+00:00 `, `Fri 2026-11-20 12:00:00 UTC `
fn iso_time(message: &mut Message<'_>) -> bool {
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
        // `dmesg` writes a comma, containers nine digits and `Z`: neither a host nor a tag follows.
        let fraction = time.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        message.is_kernel_time |= time.contains(',') || fraction == "123456789Z".len();
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
        return true;
    }
    false
}

/// `2026/11/20 12:00:00.123456 [12.345678] `
fn slash_time(message: &mut Message<'_>) -> bool {
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

/// `Nov  3 12:00:00 `, also with a year, a weekday, fractions
fn syslog_time(message: &mut Message<'_>) -> bool {
    let begin = message.text;
    let mut rest = begin;
    let mut next = |accept: &dyn Fn(&str) -> bool| {
        let (word, behind) = rest.trim_start().split_once(' ')?;
        accept(word).then(|| rest = behind)
    };
    let _ = next(&is_weekday);
    if next(&is_month).is_none() || next(&|word| word.len() <= 2 && all_digits(word)).is_none() {
        return false;
    }
    let _ = next(&is_year);
    if next(&is_clock).is_none() {
        return false;
    }
    let _ = next(&is_year);
    let time = begin[..begin.len() - rest.len()].trim_end();
    message.take_time(time);
    message.continue_with(rest);
    facility_level(message);
    true
}

/// `1700000000.123456 ` of `journalctl -o short-unix`
fn seconds(message: &mut Message<'_>) -> bool {
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

/// `host kernel: ` after a time only; `kernel: ` anywhere
fn host_and_tag(message: &mut Message<'_>) -> bool {
    if let Some(rest) = message.text.strip_prefix("kernel:") {
        message.program = Some("kernel");
        message.continue_with(rest);
        return true;
    }
    if message.time.is_none() {
        return false;
    }
    let Some((host, rest)) = message.text.split_once(' ') else {
        return false;
    };
    let mut rest = rest.trim_start();
    // syslogd's own messages have no tag.
    if rest.starts_with(REPEATED) {
        message.continue_with(rest);
        return false;
    }
    if host.starts_with('[') || host.ends_with(':') {
        return false;
    }
    if let Some((word, behind)) = rest.split_once(' ')
        && is_facility_level(word)
    {
        rest = behind;
    }
    if let Some(text) = rest.strip_prefix("kernel:") {
        message.program = Some("kernel");
        message.continue_with(text);
        return true;
    }
    let Some((tag, text)) = split_at_colon(rest) else {
        // A tag without a text.
        if let Some(tag) = rest.strip_suffix(':')
            && is_tag(tag)
            && !message.is_kernel_time
        {
            message.continue_with("");
        }
        return false;
    };
    // Neither driver nor interface is a tag: the kernel's own lines have them at the same place.
    let is_program = tag.strip_suffix(']').is_some_and(|tag| {
        tag.rsplit_once('[')
            .is_some_and(|(_, pid)| !pid.is_empty() && all_digits(pid))
    });
    if is_tag(tag) && (!message.is_kernel_time || is_program) {
        take_tag(message, tag, text);
        return true;
    }
    false
}

/// Takes the program of `sshd[812]: text`.
fn take_tag<'l>(message: &mut Message<'l>, tag: &'l str, text: &'l str) {
    message.program = Some(tag.split(['[', '(']).next().unwrap_or(tag));
    message.continue_with(text);
}

/// `[12345.678901] `, `[Mon Nov 20 12:00:00 2026] `, `[  +0.000012] `, `[Nov20 12:00] `
fn bracketed(message: &mut Message<'_>) -> bool {
    // `dmesg -d` has two times in one pair of brackets, `dmesg -x` and others have several pairs.
    let Some((inside, rest)) = message
        .text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    else {
        return false;
    };
    let inside = inside.trim();
    // `+0,000012` is that of some languages.
    let parts = inside
        .split_once('.')
        .or_else(|| inside.strip_prefix('+')?.split_once(','));
    let is_seconds = parts.is_some_and(|(whole, rest)| {
        let digits = whole.trim_start_matches(['+', '<', ' ']);
        // An address has more dots.
        let fraction = rest.split([' ', '<']).next().unwrap_or("");
        !digits.is_empty() && all_digits(digits) && !fraction.is_empty() && all_digits(fraction)
    });
    let is_date = || {
        let first = inside.split_whitespace().next().unwrap_or("");
        is_weekday(first) || first.get(..3).is_some_and(is_month) || is_iso(first) || is_date(first)
    };
    if !is_seconds && !is_date() {
        return false;
    }
    // `+0.000012` of `dmesg -H` is the time since the line before.
    message.take_time(inside);
    message.is_kernel_time = true;
    message.continue_with(rest.strip_prefix(": ").unwrap_or(rest));
    true
}

/// `64.084614] text`: a page or a copy that lost the first bracket
fn half_bracketed(message: &mut Message<'_>) -> bool {
    let head = &message.text.as_bytes()[..message.text.len().min(HALF_BRACKET_MAX)];
    let Some(end) = head.iter().position(|&byte| byte == b']') else {
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

/// `07:37:02 kernel: text`, `07:37:02 host kernel: text`: a log that is cut to the time
fn clock_and_tag(message: &mut Message<'_>) -> bool {
    let Some((clock, rest)) = message.text.split_once(' ') else {
        return false;
    };
    let is_of_kernel = || {
        let behind_host = rest.split_once(' ').map_or("", |(_, rest)| rest);
        rest.starts_with("kernel:") || behind_host.starts_with("kernel:")
    };
    if message.time.is_some() || !is_full_clock(clock) || !is_of_kernel() {
        return false;
    }
    message.take_time(clock);
    message.continue_with(rest);
    true
}

/// `giu 13 15:33:41 host kernel: `, `13 Mär 15:33:41 `, `févr. 27 12:00:00 `, `11月 27 12:00:00 `: the date of a journal or syslog that is not in English
fn local_date(message: &mut Message<'_>) -> bool {
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

/// `12:00:00`, also with a fraction of the second
fn is_full_clock(word: &str) -> bool {
    word.len() >= 8 && word.is_ascii() && is_clock(word) && word.as_bytes()[5] == b':'
}

/// `[1] text` of a mail, `[] text` whose time was removed
fn footnote(message: &mut Message<'_>) -> bool {
    let Some((inside, rest)) = message
        .text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    else {
        return false;
    };
    // `[12] Timeout` is a bit of a PCIe error, `[5] not valid` the rest of a wrapped line.
    if inside.len() > 1 || !all_digits(inside) || !rest.contains(": ") {
        return false;
    }
    message.continue_with(rest);
    true
}

/// A kernel's time behind what no other rule knows: `web-1 login: [   12.345678] text`
fn late_kernel_time(message: &mut Message<'_>) {
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

/// `[ T1234] `, `[    C0] ` (`CONFIG_PRINTK_CALLER`), `[3:  kworker/3:1: 1234] `
fn caller(message: &mut Message<'_>) -> bool {
    let Some((inside, rest)) = message
        .text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    else {
        return false;
    };
    let inside = inside.trim();
    let number = inside.strip_prefix(['T', 'C']);
    let is_caller = number.is_some_and(|number| !number.is_empty() && all_digits(number));
    let is_task = || {
        let mut fields = inside.splitn(2, ':');
        let cpu = fields.next().unwrap_or("");
        let pid = fields
            .next()
            .and_then(|rest| rest.rsplit(':').next())
            .unwrap_or("");
        !cpu.is_empty() && cpu.len() <= 3 && all_digits(cpu) && !pid.is_empty() && all_digits(pid.trim())
    };
    if is_caller || is_task() {
        message.continue_with(rest);
        return true;
    }
    false
}

/// `I[0:  swapper/0:    1] `, `(0)[1234:kworker/0:1]` of phones
fn vendor_caller(message: &mut Message<'_>) -> bool {
    if message.time.is_none() {
        return false;
    }
    // `[87.840392].(0)[7:kworker/u4:0]`: phones and routers of MediaTek
    let text = match message.text.strip_prefix('.') {
        Some(rest) if rest.starts_with('(') => rest,
        _ => message.text,
    };
    let rest = match text.as_bytes() {
        [b'A'..=b'Z', b'[', b'0'..=b'9', ..] => &text[1..],
        [b'(', b'0'..=b'9', b')' | b'0'..=b'9', ..] => match text.split_once(')') {
            Some((_, rest)) if rest.starts_with('[') => rest,
            _ => return false,
        },
        _ => return false,
    };
    match rest.split_once(']') {
        Some((inside, rest)) if inside.contains(':') => {
            message.continue_with(rest);
            true
        }
        _ => false,
    }
}

/// `warn: `: levels that some formats insert
fn level(message: &mut Message<'_>) -> bool {
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

/// `MESSAGE=text` of `journalctl -o export` and `-o verbose`
fn message_field(message: &mut Message<'_>) -> bool {
    let Some(text) = message.text.strip_prefix("MESSAGE=") else {
        return false;
    };
    message.continue_with(text);
    true
}

/// `stdout F ` of container runtimes
fn stream(message: &mut Message<'_>) -> bool {
    let rest = ["stdout ", "stderr "]
        .iter()
        .find_map(|stream| message.text.strip_prefix(stream))
        .and_then(|rest| rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P ")));
    let Some(rest) = rest else {
        return false;
    };
    message.continue_with(rest);
    true
}

/// `[pod/NAME/CONTAINER] ` of `kubectl logs --prefix`
fn pod(message: &mut Message<'_>) -> bool {
    let rest = message
        .text
        .strip_prefix("[pod/")
        .and_then(|rest| rest.split_once("] "));
    let Some((_, rest)) = rest else {
        return false;
    };
    message.continue_with(rest);
    true
}

/// `I1120 12:00:00.123456       1 log_monitor.go:111] `
fn klog(message: &mut Message<'_>) -> bool {
    let text = message.text;
    let Some((head, rest)) = text.split_once("] ") else {
        return false;
    };
    let mut words = head.split_whitespace();
    let (Some(day), Some(clock)) = (words.next(), words.next()) else {
        return false;
    };
    let is_klog = day.len() == 5
        && day.starts_with(['I', 'W', 'E', 'F'])
        && all_digits(&day[1..])
        && is_clock(clock)
        && words.next_back().is_some_and(|place| place.contains(".go:"));
    if is_klog {
        message.take_time(clock);
        message.is_kernel_time = true;
        message.continue_with(rest);
    }
    is_klog
}

/// `web-1  | ` of `docker compose logs`
fn container(message: &mut Message<'_>) -> bool {
    // A search for one byte is much faster than one for three.
    if message.time.is_some() || !message.text.contains('|') {
        return false;
    }
    let Some((name, rest)) = message.text.split_once(" | ") else {
        return false;
    };
    let name = name.trim_end();
    let is_name = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_name {
        message.continue_with(rest);
    }
    is_name
}

/// `10.5.0.2: kern: ` of `talosctl dmesg`
fn node(message: &mut Message<'_>) -> bool {
    if message.time.is_some() {
        return false;
    }
    let Some((node, rest)) = split_at_colon(message.text) else {
        return false;
    };
    let rest = rest.trim_start();
    let is_facility = FACILITIES.iter().any(|facility| {
        rest.strip_prefix(facility)
            .is_some_and(|rest| rest.starts_with(':'))
    });
    if is_facility && !node.contains(' ') {
        message.continue_with(rest);
        return facility(message);
    }
    false
}

/// `/var/log/kern.log:12:` of `grep`
fn file_name(message: &mut Message<'_>) -> bool {
    if message.time.is_some() {
        return false;
    }
    let Some((name, rest)) = message.text.split_once(':') else {
        return false;
    };
    let is_file =
        !name.contains(' ') && (name.starts_with('/') || name.contains(".log") || name.ends_with(".txt"));
    if !is_file {
        return false;
    }
    message.continue_with(rest);
    line_number(message);
    true
}

/// `12:` of `grep -n`, before a time
fn line_number(message: &mut Message<'_>) -> bool {
    let Some((number, rest)) = message.text.split_once(':') else {
        return false;
    };
    let is_month = || rest.get(..3).is_some_and(is_month);
    let is_year = || rest.len() > 10 && rest.is_char_boundary(10) && is_date(&rest[..10]);
    if all_digits(number)
        && message.time.is_none()
        && (rest.starts_with(['[', '<']) || is_month() || is_year())
    {
        message.continue_with(rest);
        return true;
    }
    false
}

/// `11-20 12:00:00.123  1234  1234 W kernel  : text` of Android
fn logcat(message: &mut Message<'_>) -> bool {
    let text = message.text;
    let Some((day, rest)) = text.split_once(' ') else {
        return false;
    };
    let is_day = day.len() == 5
        && day.bytes().enumerate().all(|(nth, byte)| {
            if nth == 2 {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    let Some((clock, rest)) = rest
        .split_once(' ')
        .filter(|(clock, _)| is_day && is_clock(clock))
    else {
        return false;
    };
    message.take_time(&text[..day.len() + 1 + clock.len()]);
    message.is_kernel_time = true;
    let mut rest = rest.trim_start();
    let mut pid = None;
    // User, process and thread.
    for _ in 0..3 {
        match rest.split_once(' ') {
            Some((word, behind)) if all_digits(word) || word == "root" => {
                pid = Some(word);
                rest = behind.trim_start();
            }
            _ => break,
        }
    }
    message.continue_with(rest);
    let Some((level, rest)) = rest.split_once(' ').filter(|(level, _)| is_android_level(level)) else {
        logcat_tag(message);
        return true;
    };
    let _ = level;
    android_tag(message, rest, pid == Some("0"));
    true
}

/// `W/kernel  ( 1234): text` of Android
fn logcat_tag(message: &mut Message<'_>) -> bool {
    let Some((level, rest)) = message.text.split_once('/') else {
        return false;
    };
    let Some((head, text)) = rest.split_once(": ") else {
        return false;
    };
    let (tag, pid) = head.split_once('(').unwrap_or((head, ""));
    let pid = pid.trim_matches([' ', ')']);
    let is_it = is_android_level(level) && !tag.trim_end().contains(' ') && all_digits(pid);
    if is_it {
        message.program = Some(tag.trim_end());
        message.is_kernel_time = true;
        message.continue_with(text);
    }
    is_it
}

/// `kernel  : text`; the log of the kernel has its first word as the tag.
fn android_tag<'l>(message: &mut Message<'l>, rest: &'l str, is_kernel: bool) {
    let Some((tag, text)) = rest.split_once(": ") else {
        message.continue_with(rest);
        return;
    };
    let tag = tag.trim();
    message.continue_with(text);
    if is_kernel && !matches!(tag, "kernel" | "") {
        message.tag = Some(tag);
    }
    let is_kernel = is_kernel || tag.is_empty();
    message.program = Some(if is_kernel { "kernel" } else { tag });
}

fn is_android_level(word: &str) -> bool {
    word.len() == 1 && "VDIWEFS".contains(word)
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

fn is_weekday(word: &str) -> bool {
    matches!(word, "Mon" | "Tue" | "Wed" | "Thu" | "Fri" | "Sat" | "Sun")
}

fn is_month(word: &str) -> bool {
    MONTHS.contains(&word.as_bytes())
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

/// What is before and after the first `: `. A search for one byte is faster than one for two.
fn split_at_colon(text: &str) -> Option<(&str, &str)> {
    let mut colons = memchr::memchr_iter(b':', text.as_bytes());
    let at = colons.find(|at| text.as_bytes().get(at + 1) == Some(&b' '))?;
    Some((&text[..at], &text[at + 2..]))
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && all_digits(word)
}

fn all_digits(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// `kernel`, `sshd[812]`, `systemd-networkd[1]`
fn is_tag(tag: &str) -> bool {
    let name = tag.split('[').next().unwrap_or(tag);
    !name.is_empty() && name.len() <= 48 && !name.contains(' ')
}

/// Parts of one prefix; malicious lines could have thousands.
const PARTS_MAX: usize = 12;
/// Length of `Wed May 15 11:27:32 2024`.
const DATE_LEN: usize = 24;
/// Length of `1234567.084614]`, with some more digits.
const HALF_BRACKET_MAX: usize = 18;
/// Names of months are longer only where they are not abbreviated; bytes.
const MONTH_LEN_MAX: usize = 14;
/// Where a kernel's time may begin at the latest.
const LATE_TIME_MAX: usize = 120;
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// Longer ones are left to the other rules.
const HOST_LEN_MAX: usize = 64;
const TAG_LEN_MAX: usize = 48;
const FACILITIES: [&str; 12] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
];
const OPEN_VSWITCH_LEVELS: [&str; 5] = ["EMER", "ERR", "WARN", "INFO", "DBG"];
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
/// Length of the longest.
const LEVEL_LEN_MAX: usize = 6;
/// Length of `authpriv.emergency`.
const FACILITY_LEVEL_LEN_MAX: usize = 18;
/// Other names of levels, which are the first words of messages, too.
const LONG_LEVELS: [&str; 5] = ["emergency", "critical", "error", "warning", "panic"];

#[cfg(test)]
mod tests {
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
