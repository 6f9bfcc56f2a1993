//! Prefixes of log lines, part by part, in whatever order and number they are.
//!
//! - `kernel`: `/dev/kmsg`, and the task that printed a line; `times`: dates and times, those of `dmesg` too.
//! - `syslog`: levels, facilities, RFC 5424; `containers`: Kubernetes, Docker, Talos, Open vSwitch; `android`: logcat.
//! - `copies`: what mails, pages and `grep` put before a line.

mod android;
mod containers;
mod copies;
mod kernel;
mod syslog;
mod times;

use super::Message;
use super::repeats::REPEATED;
use android::{logcat, logcat_tag};
use containers::{container, ganesha, klog, logfmt, node, open_vswitch, open_vswitch_in_syslog, pod, stream};
use copies::{file_name, footnote, line_number, message_field, quote, tag_of_page, take_end, viewer_row};
use kernel::{caller, kmsg, second_time, vendor_caller};
use syslog::{facility, is_facility_level, level, priority, rfc_5424, syslog_time, take_syslog};
use times::{
    bracketed, clock_and_tag, half_bracketed, is_weekday, iso_time, late_kernel_time, local_date, seconds,
    slash_time,
};

/// Removes all parts of the prefix, in whatever order and number they are.
pub(super) fn take(message: &mut Message<'_>) {
    take_end(message);
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
    if message.is_kernel_time && message.is_of_logger() {
        message.program = Some("kernel");
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

fn take_one(message: &mut Message<'_>) -> bool {
    match message.text.as_bytes().first() {
        None => false,
        Some(b'[') => bracketed(message) || caller(message) || pod(message) || footnote(message),
        Some(b'<') => priority(message) || tag_of_page(message),
        Some(b'>' | b'|' | b'`' | b'*' | b'-' | b'"' | b'\'') => quote(message),
        Some(b'0'..=b'9') => {
            kmsg(message)
                || rfc_5424(message)
                || open_vswitch(message)
                || iso_time(message)
                || slash_time(message)
                || viewer_row(message)
                || logcat(message)
                || seconds(message)
                || half_bracketed(message)
                || clock_and_tag(message)
                || ganesha(message)
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
            logfmt(message)
                || facility(message)
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
        Some(b'[') => bracketed(message) || caller(message) || vendor_caller(message),
        Some(b'(') => second_time(message) || vendor_caller(message),
        Some(b'0'..=b'9') => half_bracketed(message),
        Some(b'<') => priority(message),
        Some(b'A'..=b'Z') => message.program.is_some() && klog(message) || vendor_caller(message),
        Some(b'.' | b'-') => vendor_caller(message),
        Some(b'c') => vendor_caller(message) || level(message),
        Some(b'k') => message.is_of_logger() && kernel_tag(message),
        Some(b'a'..=b'z') => level(message) || open_vswitch_in_syslog(message) || logfmt(message),
        _ => false,
    }
}

/// `kernel: ` behind the tag of a program that writes the kernel's lines again
fn kernel_tag(message: &mut Message<'_>) -> bool {
    let Some(rest) = message.text.strip_prefix("kernel: ") else {
        return false;
    };
    message.program = Some("kernel");
    message.continue_with(rest);
    true
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
    // A log without the name of the host. The kernel's own lines may begin so: `app[812]: segfault at`.
    if let Some(tag) = host.strip_suffix(':')
        && !message.is_kernel_time
        && is_tag(tag)
        && is_program_with_pid(tag)
    {
        take_tag(message, tag, rest);
        return true;
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
    // Exports leave the colon out.
    if !message.is_kernel_time
        && let Some(text) = rest.strip_prefix("kernel ")
    {
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
    if is_tag(tag) && (!message.is_kernel_time && !is_text_of_openvpn(host, tag) || is_program_with_pid(tag))
    {
        take_tag(message, tag, text);
        return true;
    }
    false
}

/// `sshd[812]`
fn is_program_with_pid(tag: &str) -> bool {
    tag.strip_suffix(']').is_some_and(|tag| {
        tag.rsplit_once('[')
            .is_some_and(|(_, pid)| !pid.is_empty() && all_digits(pid))
    })
}

/// Whether the two words are the begin of a text of OpenVPN, whose log has neither host nor program: `TLS Error: `, `write UDPv4: `.
fn is_text_of_openvpn(host: &str, tag: &str) -> bool {
    matches!(tag, "Error" | "ERROR" | "error" | "WARNING") || matches!(host, "read" | "write" | "TLS")
}

/// Takes the program of `sshd[812]: text`.
fn take_tag<'l>(message: &mut Message<'l>, tag: &'l str, text: &'l str) {
    message.program = Some(tag.split(['[', '(']).next().unwrap_or(tag));
    message.continue_with(text);
}

/// `kernel`, `sshd[812]`, `systemd-networkd[1]`
fn is_tag(tag: &str) -> bool {
    let name = tag.split('[').next().unwrap_or(tag);
    !name.is_empty() && name.len() <= 48 && !name.contains(' ')
}

/// What is before and after the first `: `. A search for one byte is faster than one for two.
fn split_at_colon(text: &str) -> Option<(&str, &str)> {
    let mut colons = memchr::memchr_iter(b':', text.as_bytes());
    let at = colons.find(|at| text.as_bytes().get(at + 1) == Some(&b' '))?;
    Some((&text[..at], &text[at + 2..]))
}

/// What is in the brackets at the start of a text, and what follows them.
fn in_brackets(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.split_once(']')
}

fn all_digits(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

/// Parts of one prefix; malicious lines could have thousands.
const PARTS_MAX: usize = 12;
