//! What the kernel itself puts before a message: records of `/dev/kmsg`, and which task or processor printed it.

use super::{all_digits, in_brackets};
use crate::log_line::Message;

/// `6,1234,5678901,-;text`, also with the kernel's release before it (netconsole)
pub(super) fn kmsg(message: &mut Message<'_>) -> bool {
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

/// `[ T1234] `, `[    C0] ` (`CONFIG_PRINTK_CALLER`), `[3:  kworker/3:1: 1234] `
pub(super) fn caller(message: &mut Message<'_>) -> bool {
    let Some((inside, rest)) = in_brackets(message.text) else {
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

/// `(250066.492253]) ` behind a time: the clock of a virtual machine behind that of its host (Qubes)
pub(super) fn second_time(message: &mut Message<'_>) -> bool {
    let inner = message
        .text
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(") "));
    let Some((inside, rest)) = inner else {
        return false;
    };
    let time = inside.trim_end_matches(']').trim_start();
    let is_time = time
        .split_once('.')
        .is_some_and(|(whole, fraction)| fraction.len() == 6 && all_digits(whole) && all_digits(fraction));
    if is_time {
        message.continue_with(rest);
    }
    is_time
}

/// `I[0:  swapper/0:    1] `, `(0)[1234:kworker/0:1]`, `(CPU:2-pid:1234:kworker/2:1) `, `[pid:1234,cpu2,kworker/2:1,0]`, `c2   1234 `,
/// `[20261120_12:00:00.123456]@2 ` of phones
pub(super) fn vendor_caller(message: &mut Message<'_>) -> bool {
    if message.time.is_none() {
        return false;
    }
    // `[87.840392].(0)[7:kworker/u4:0]`: phones and routers of MediaTek
    let text = match message.text.strip_prefix(['.', '-']) {
        Some(rest) if rest.starts_with('(') => rest,
        _ => message.text,
    };
    if let Some(rest) = text.strip_prefix("(CPU:").and_then(|rest| rest.split_once(") "))
        && rest.0.contains("pid:")
    {
        message.continue_with(rest.1);
        return true;
    }
    if let Some((_, rest)) = text.strip_prefix("[pid:").and_then(|rest| rest.split_once(']')) {
        message.continue_with(rest);
        return true;
    }
    if let Some(rest) = behind_processor_and_task(text).or_else(|| behind_time_and_processor(text)) {
        message.continue_with(rest);
        return true;
    }
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

/// What follows `c2   1234 ` (Spreadtrum).
fn behind_processor_and_task(text: &str) -> Option<&str> {
    let (processor, rest) = text.strip_prefix('c')?.split_once(' ')?;
    let (task, rest) = rest.trim_start().split_once(' ')?;
    let is_number =
        |word: &str, len_max: usize| !word.is_empty() && word.len() <= len_max && all_digits(word);
    (is_number(processor, 2) && is_number(task, 7)).then_some(rest)
}

/// What follows `[20261120_12:00:00.123456]@2 ` (Qualcomm).
fn behind_time_and_processor(text: &str) -> Option<&str> {
    let (time, rest) = text.strip_prefix('[')?.split_once("]@")?;
    let (date, clock) = time.split_once('_')?;
    let (processor, rest) = rest.split_once(' ')?;
    (all_digits(date) && clock.contains(':') && all_digits(processor)).then_some(rest)
}
