//! Prefixes of Android's logcat.

use super::all_digits;
use super::times::is_clock;
use crate::log_line::Message;

/// `11-20 12:00:00.123  1234  1234 W kernel  : text` of Android
pub(super) fn logcat(message: &mut Message<'_>) -> bool {
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
pub(super) fn logcat_tag(message: &mut Message<'_>) -> bool {
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
        let tag = tag.trim_end();
        message.program = Some(if tag.is_empty() { "kernel" } else { tag });
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
