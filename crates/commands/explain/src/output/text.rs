//! Explanations as text: meaning, causes, checks, remedies.

use super::{ExplainLayout, ExplainedLog, ExplainedUnknown};
use sockeye_dictionary::{
    CounterGroup, Dictionary, Entry, EntryOccurrences, Found, Placeholder, Reading, Replacements, Severity,
    Trace, Wording, WordingOccurrences,
};
use sockeye_output::text::{display_width, push_clean};
use sockeye_output::wrap::push_wrapped;
use std::borrow::Cow;

pub(super) fn push_found(out: &mut Vec<u8>, query: &str, found: &Found, layout: &ExplainLayout) {
    let reading = Reading::of(query);
    for (nth, entry) in found.entries.iter().enumerate() {
        if nth > 0 {
            out.push(b'\n');
        }
        // A line of a log has one entry, and a severity of its own.
        push_heading(out, entry, found.severity.or(entry.severity), &[], layout);
        if nth == 0 && !found.values.is_empty() {
            let mut line = Vec::new();
            for (place, value) in &found.values {
                push_value(&mut line, *place, value, 1);
            }
            push_wrapped(out, &line, "  ", layout.width);
        }
        push_wording(out, entry, found.wording.filter(|_| nth == 0), layout);
        if entry.is_family() && nth == 0 && (found.is_unread || found.wording.is_some()) {
            push_generality(out, entry, u64::from(found.is_unread), 1, layout);
            push_family_error(out, &reading, layout);
        }
        let values = found.values.iter().map(|(place, value)| (*place, value.as_str()));
        let replacements = Replacements::of(values)
            .and_device(reading.device.as_deref())
            .and_names(query);
        push_body(out, entry, &replacements, layout, true);
    }
}

pub(super) fn push_log(out: &mut Vec<u8>, log: &ExplainedLog<'_>, layout: &ExplainLayout) {
    for occurrences in &log.occurrences {
        // The event that it belongs to has it.
        if occurrences.in_events < occurrences.times || layout.is_detailed {
            push_occurrences(out, occurrences, layout);
            out.push(b'\n');
        }
    }
    let mut normal = 0;
    for counters in &log.counters {
        if counters.severity() == Severity::Info && !layout.is_detailed {
            normal += counters.values.len() as u64 + counters.values_left_out;
        } else {
            push_counters(out, counters, layout);
            out.push(b'\n');
        }
    }
    let is_shown = |unknown: &&ExplainedUnknown<'_>| unknown.line.is_trouble;
    let shown_max = if log.unknown.iter().all(|unknown| is_shown(&unknown)) {
        UNKNOWN_MAX
    } else {
        // All are asked for.
        usize::MAX
    };
    for unknown in log.unknown.iter().take(shown_max) {
        push_unknown(out, unknown, layout);
        out.push(b'\n');
    }
    push_wrapped(out, summary(log, normal, shown_max).as_bytes(), "", layout.width);
}

/// Returns the numbers of lines and counters; `normal` are counters that are not zero, and not shown.
fn summary(log: &ExplainedLog<'_>, normal: u64, shown_max: usize) -> String {
    let count = log.count;
    let lines = |number: u64| if number == 1 { "line" } else { "lines" };
    let mut parts = Vec::new();
    let messages = count.lines - count.counters;
    if messages > 0 || count.lines == 0 {
        parts.push(format!(
            "{} {}, {} of them in the dictionary",
            messages,
            lines(messages),
            count.known
        ));
    }
    let mut add = |number: u64, what: &str| {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    };
    add(count.parts, "belong to the message before them");
    add(
        count.trouble,
        one_or_more(
            count.trouble,
            "other looks like trouble",
            "others look like trouble",
        ),
    );
    let left_out = log.unknown.len().saturating_sub(shown_max) as u64;
    add(left_out, "kinds of these not shown (--format json has them)");
    add(log.unknown_left_out, "of these too many to keep");
    let other = messages.saturating_sub(count.known + count.parts + count.trouble + count.empty);
    add(
        other,
        one_or_more(
            other,
            "other does not look like trouble (--unknown lists it)",
            "others do not look like trouble (--unknown lists them)",
        ),
    );
    if count.counters > 0 {
        add(count.counters, "lines of counters");
        add(log.counters_zero, "counters are zero");
        add(normal, "are not zero and normal (-v lists them)");
        add(
            log.counters_other,
            "others are not zero, and do not look like loss",
        );
    }
    if log.hidden > 0 {
        parts.push(format!("{} less bad not shown", log.hidden));
    }
    if log.interrupted {
        parts.push("interrupted".to_owned());
    }
    parts.join("; ")
}

fn push_counters(out: &mut Vec<u8>, counters: &CounterGroup, layout: &ExplainLayout) {
    match counters.entry {
        Some(entry) => {
            let about = match counters.values.len() {
                1 => Vec::new(),
                _ if counters.total > 0 => vec![format!("{} in total", counters.total)],
                _ => Vec::new(),
            };
            push_heading(out, entry, Some(counters.severity()), &about, layout);
        }
        None => push_plain_heading(
            out,
            "NOTICE",
            Severity::Notice,
            "a counter that is not in the dictionary",
            layout,
        ),
    }
    let mut line = Vec::new();
    for (nth, value) in counters.values.iter().take(VALUES_MAX).enumerate() {
        if nth > 0 {
            line.extend_from_slice(b", ");
        }
        if let Some(place) = &value.place {
            push_clean(&mut line, place.as_bytes());
            line.extend_from_slice(b": ");
        }
        push_clean(&mut line, value.name.as_bytes());
        line.push(b' ');
        push_clean(&mut line, value.value.as_bytes());
    }
    let more = counters.values.len().saturating_sub(VALUES_MAX) as u64 + counters.values_left_out;
    if more > 0 {
        line.extend_from_slice(format!(" and {more} more").as_bytes());
    }
    push_wrapped(out, &line, "  > ", layout.width);
    match counters.entry {
        Some(entry) if counters.severity() == Severity::Info => {
            push_wrapped(out, entry.meaning.as_bytes(), "  ", layout.width);
        }
        Some(entry) => {
            let places = counters.values.iter().filter_map(|value| value.place.as_deref());
            let interfaces = places.filter_map(interface_of).map(|name| (Placeholder::Interface, name));
            push_body(out, entry, &Replacements::of(interfaces), layout, layout.is_detailed);
        }
        None => push_wrapped(
            out,
            b"Its name looks like loss or an error. Read it twice, some seconds apart: only what grows is a problem now.",
            "  ",
            layout.width,
        ),
    }
}

/// Returns the interface of `eth0` or `qdisc fq 0: dev eth0`; `CPU 3` is none.
fn interface_of(place: &str) -> Option<&str> {
    match place.split_once(" dev ") {
        Some((_, rest)) => rest.split(' ').next(),
        None => (!place.contains([' ', '/'])).then_some(place),
    }
}

fn push_unknown(out: &mut Vec<u8>, unknown: &ExplainedUnknown<'_>, layout: &ExplainLayout) {
    let line = unknown.line;
    let mut heading = if line.is_trouble {
        "not in the dictionary, looks like trouble".to_owned()
    } else {
        "not in the dictionary".to_owned()
    };
    if line.times > 1 {
        heading.push_str(&format!("  {} times", line.times));
    }
    match (&line.first, &line.last) {
        (Some(first), Some(last)) if first != last => heading.push_str(&format!("  {first} to {last}")),
        (Some(first), _) => heading.push_str(&format!("  {first}")),
        (None, _) => {}
    }
    let severity = if line.is_trouble {
        Severity::Notice
    } else {
        Severity::Info
    };
    push_plain_heading(out, "UNKNOWN", severity, &heading, layout);
    let mut text = Vec::new();
    push_clean(&mut text, line.line.as_bytes());
    push_wrapped(out, &text, "  > ", layout.width);
    let reading = &line.reading;
    let parts: Vec<String> = [
        ("driver or subsystem", &reading.driver),
        ("device", &reading.device),
        ("interface", &reading.interface),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)))
    .collect();
    if !parts.is_empty() {
        let mut text = Vec::new();
        push_clean(&mut text, parts.join(", ").as_bytes());
        push_wrapped(out, &text, "  ", layout.width);
    }
    match (reading.errno, unknown.error) {
        (Some(number), Some(error)) => {
            let text = format!("-{number} is {}", reading.context.meaning(number, error));
            push_wrapped(out, text.as_bytes(), "  ", layout.width);
        }
        (Some(number), None) => {
            push_wrapped(
                out,
                format!("-{number} is an error number").as_bytes(),
                "  ",
                layout.width,
            );
        }
        (None, _) => {}
    }
    if let Some(near) = unknown.near {
        let text = format!("Similar: {}: {}", near.name, near.first_sentence());
        push_wrapped(out, text.as_bytes(), "  ", layout.width);
    }
}

pub(super) fn push_list(out: &mut Vec<u8>, entries: &[&Entry<'_>], layout: &ExplainLayout) {
    let widest = entries
        .iter()
        .map(|entry| display_width(entry.name.as_bytes()))
        .max()
        .unwrap_or(0)
        .min(LIST_NAME_MAX);
    for entry in entries {
        let begin = out.len();
        push_clean(out, entry.name.as_bytes());
        let gap = widest.saturating_sub(out.len() - begin) + 2;
        out.resize(out.len() + gap, b' ');
        let used = out.len() - begin;
        // One line each, so that tools can search it; the entry has the whole text.
        let first_sentence = entry.first_sentence();
        match layout.width {
            Some(width) if used + display_width(first_sentence.as_bytes()) > width => {
                let free = width.saturating_sub(used + 3);
                let cut = first_sentence
                    .char_indices()
                    .nth(free)
                    .map_or(first_sentence.len(), |(at, _)| at);
                out.extend_from_slice(first_sentence[..cut].trim_end().as_bytes());
                out.extend_from_slice(b"...");
            }
            _ => out.extend_from_slice(first_sentence.as_bytes()),
        }
        out.push(b'\n');
    }
}

fn push_occurrences(out: &mut Vec<u8>, occurrences: &EntryOccurrences, layout: &ExplainLayout) {
    let mut about = Vec::new();
    if occurrences.times > 1 || occurrences.left_out > 0 {
        let left_out = match occurrences.left_out {
            0 => String::new(),
            many => format!(" ({many} left out by the log)"),
        };
        about.push(format!("{} times{left_out}", occurrences.times));
    }
    match (&occurrences.first, &occurrences.last) {
        (Some(first), Some(last)) if first != last => about.push(format!("{first} to {last}")),
        (Some(first), _) => about.push(first.clone()),
        (None, _) => {}
    }
    push_heading(out, occurrences.entry, Some(occurrences.severity), &about, layout);
    if occurrences.wordings.len() > 1 || occurrences.wordings_left_out > 0 {
        push_lines(out, occurrences, layout);
    } else {
        let mut line = Vec::new();
        push_clean(&mut line, occurrences.line.as_bytes());
        push_wrapped(out, &line, "  > ", layout.width);
        push_wording(out, occurrences.entry, Some(occurrences.wording), layout);
    }
    let mut values = Vec::new();
    for value in occurrences.values.iter().filter(|value| is_listed(value.place)) {
        push_value(&mut values, value.place, &value.text, value.times);
    }
    // One value of each kind is in the line above.
    if occurrences.times > 1 && !values.is_empty() {
        if occurrences.values_left_out > 0 {
            values.extend_from_slice(format!("  and {} more", occurrences.values_left_out).as_bytes());
        }
        push_wrapped(out, &values, "  ", layout.width);
    }
    if let Some(trace) = &occurrences.trace {
        let mut line = Vec::new();
        push_clean(&mut line, trace_text(trace).as_bytes());
        push_wrapped(out, &line, "  ", layout.width);
    }
    if !occurrences.followed_by.is_empty() {
        let followers: Vec<String> = occurrences
            .followed_by
            .iter()
            .map(|follower| match follower.times {
                1 => follower.entry.name.to_string(),
                times => format!("{} ({times} x)", follower.entry.name),
            })
            .collect();
        let text = format!("Then, as part of the same event: {}", followers.join(", "));
        push_wrapped(out, text.as_bytes(), "  ", layout.width);
    }
    if occurrences.entry.is_family() {
        push_generality(
            out,
            occurrences.entry,
            occurrences.times_unread,
            occurrences.times,
            layout,
        );
        // With several messages the number would be that of one of them.
        if occurrences.wordings.len() == 1 && occurrences.wordings_left_out == 0 {
            push_family_error(out, &Reading::of(&occurrences.line), layout);
        }
    }
    if occurrences.severity == Severity::Info && !layout.is_detailed {
        push_wrapped(out, occurrences.entry.meaning.as_bytes(), "  ", layout.width);
    } else {
        let values = occurrences
            .values
            .iter()
            .map(|value| (value.place, value.text.as_str()));
        let interfaces = occurrences
            .values
            .iter()
            .filter(|value| value.place == Placeholder::Interface);
        // The device is that of the last line; with several interfaces it would be one of several.
        let reading = (interfaces.count() <= 1).then(|| Reading::of(&occurrences.line));
        let device = reading.as_ref().and_then(|reading| reading.device.as_deref());
        push_body(
            out,
            occurrences.entry,
            &Replacements::of(values)
                .and_device(device)
                .and_names(&occurrences.line),
            layout,
            layout.is_detailed,
        );
    }
}

/// Appends the first line of each different message of an entry, in the order of time.
fn push_lines(out: &mut Vec<u8>, occurrences: &EntryOccurrences, layout: &ExplainLayout) {
    let shown = match (layout.is_detailed, occurrences.entry.is_family()) {
        (true, _) => usize::MAX,
        (false, true) => FAMILY_WORDINGS_MAX,
        (false, false) => WORDINGS_MAX,
    };
    for wording in occurrences.wordings.iter().take(shown) {
        let mut line = Vec::new();
        push_clean(&mut line, wording.line.as_bytes());
        let about = about_lines(wording, occurrences.entry);
        if !about.is_empty() {
            push_clean(&mut line, format!("  ({about})").as_bytes());
        }
        push_wrapped(out, &line, "  > ", layout.width);
    }
    let rest = occurrences.wordings.iter().skip(shown);
    let wordings = rest.clone().count();
    let lines = rest.fold(0_u64, |lines, wording| lines.saturating_add(wording.times));
    let words = |number: u64, one: &'static str, more: &'static str| {
        format!("{number} {}", one_or_more(number, one, more))
    };
    let mut more = Vec::new();
    if wordings > 0 {
        more.push(format!(
            "{}, {}; -v shows all",
            words(wordings as u64, "more wording", "more wordings"),
            words(lines, "line", "lines")
        ));
    }
    if occurrences.wordings_left_out > 0 {
        let left_out = words(occurrences.wordings_left_out, "line", "lines");
        more.push(format!("{left_out} of further wordings that were not kept"));
    }
    if !more.is_empty() {
        push_wrapped(
            out,
            format!("and {}", more.join("; and ")).as_bytes(),
            "  ",
            layout.width,
        );
    }
}

/// How often and when a message occurred, and which kernels have it.
fn about_lines(wording: &WordingOccurrences, entry: &Entry<'_>) -> String {
    let mut about = Vec::new();
    if wording.times > 1 {
        about.push(format!("{} times", wording.times));
    }
    match (&wording.first, &wording.last) {
        (Some(first), Some(last)) if first != last => about.push(format!("{first} to {last}")),
        (Some(first), _) => about.push(first.clone()),
        (None, _) => {}
    }
    let text = wording.wording.and_then(|wording| entry.wordings.get(wording));
    about.extend(text.and_then(Wording::versions));
    about.join(", ")
}

/// Says that the entry is that of a family, and what of the messages was not read: of `unread` of `all` lines their words.
fn push_generality(out: &mut Vec<u8>, entry: &Entry<'_>, unread: u64, all: u64, layout: &ExplainLayout) {
    let what = if entry.drivers.is_empty() {
        "these messages of the driver"
    } else {
        "this family of drivers or subsystems"
    };
    let not_read = match (unread, all) {
        (0, _) => "What was printed is in the dictionary, but without an explanation of its own".to_owned(),
        (1, 1) => UNREAD.to_owned(),
        (unread, all) if unread == all => UNREAD.replace("has the message", "has these messages"),
        (unread, all) => format!(
            "No text of the dictionary has {unread} of the {all} lines: of these the driver or subsystem was read, and a word of trouble; the others are in it without an explanation of their own"
        ),
    };
    let text = format!(
        "A general reading of {what}, which may not fit. {not_read}. Not judged: what failed, and what its numbers are, which may be errors, states of the firmware, or amounts. The words of the message count more than this text."
    );
    push_wrapped(out, text.as_bytes(), "  ", layout.width);
}

/// Names the number in a message of a family, if it may be an error.
fn push_family_error(out: &mut Vec<u8>, reading: &Reading, layout: &ExplainLayout) {
    let error = reading
        .errno
        .and_then(|number| Some((number, Dictionary::new().error(number)?)));
    if let Some((number, error)) = error {
        let text = format!(
            "If -{number} is an errno, it is {}",
            reading.context.meaning(number, error)
        );
        push_wrapped(out, text.as_bytes(), "  ", layout.width);
    }
}

/// Appends which kernel versions have the wording of a line.
fn push_wording(out: &mut Vec<u8>, entry: &Entry<'_>, wording: Option<usize>, layout: &ExplainLayout) {
    let wording = wording.and_then(|wording| entry.wordings.get(wording));
    if let Some(versions) = wording.and_then(Wording::versions) {
        let text = format!("This wording: {versions}");
        push_wrapped(out, text.as_bytes(), "  ", layout.width);
    }
}

/// Returns where the kernel was.
fn trace_text(trace: &Trace) -> String {
    let mut text = format!("In the kernel's function {}", trace.function);
    if let Some(subsystem) = trace.subsystem {
        text.push_str(&format!(": {subsystem}"));
    }
    if let Some(module) = &trace.module {
        text.push_str(&format!(", module {module}"));
    }
    text
}

/// Returns whether values of this kind are listed; numbers and words differ in most messages.
fn is_listed(place: Placeholder) -> bool {
    matches!(
        place,
        Placeholder::Interface | Placeholder::Port | Placeholder::Address
    )
}

fn push_value(out: &mut Vec<u8>, place: Placeholder, value: &str, times: u64) {
    if !out.is_empty() {
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(place.name().as_bytes());
    out.push(b' ');
    push_clean(out, value.as_bytes());
    if times > 1 {
        out.extend_from_slice(format!(" ({times} x)").as_bytes());
    }
}

/// Appends `WARNING  TcpExtListenOverflows  counter, connections`.
fn push_heading(
    out: &mut Vec<u8>,
    entry: &Entry<'_>,
    severity: Option<Severity>,
    about: &[String],
    layout: &ExplainLayout,
) {
    let mut line = Vec::new();
    let severity = severity.map(|severity| (severity, severity.name().to_uppercase()));
    if let Some((_, name)) = &severity {
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(b"  ");
    }
    push_clean(&mut line, entry.name.as_bytes());
    line.extend_from_slice(b"  ");
    line.extend_from_slice(entry.kind.name().replace('-', " ").as_bytes());
    if entry.is_family() {
        line.extend_from_slice(b" of a family");
    }
    if let Some(unit) = &entry.unit {
        line.extend_from_slice(b", ");
        push_clean(&mut line, unit.as_bytes());
    }
    for more in about {
        line.extend_from_slice(b"  ");
        push_clean(&mut line, more.as_bytes());
    }
    let begin = out.len();
    push_wrapped(out, &line, "", layout.width);
    sockeye_output::severity::colour(
        out,
        begin,
        severity.as_ref().map(|(severity, name)| (*severity, name.len())),
        layout.style,
    );
}

/// Appends a heading of something that has no entry.
fn push_plain_heading(out: &mut Vec<u8>, word: &str, severity: Severity, text: &str, layout: &ExplainLayout) {
    let mut line = format!("{word}  ").into_bytes();
    push_clean(&mut line, text.as_bytes());
    let begin = out.len();
    push_wrapped(out, &line, "", layout.width);
    sockeye_output::severity::colour(out, begin, Some((severity, word.len())), layout.style);
}

fn push_body(
    out: &mut Vec<u8>,
    entry: &Entry<'_>,
    replacements: &Replacements<'_>,
    layout: &ExplainLayout,
    is_detailed: bool,
) {
    push_wrapped(out, entry.meaning.as_bytes(), "  ", layout.width);
    if !entry.values.is_empty() {
        push_items(out, "Values", &entry.values, replacements, layout);
    }
    let mut facts = Vec::new();
    if let Some(default) = &entry.default {
        facts.push(format!("default {default}"));
    }
    if let Some(range) = &entry.range {
        facts.push(format!("range {range}"));
    }
    if !facts.is_empty() {
        push_wrapped(
            out,
            format!("Takes: {}", facts.join("; ")).as_bytes(),
            "  ",
            layout.width,
        );
    }
    let (causes, remedies) = if entry.is_family() {
        ("Causes that such messages often have", "What often helps")
    } else {
        ("Likely causes", "Remedy")
    };
    push_items(out, causes, &entry.causes, replacements, layout);
    push_items(out, "Check", &entry.checks, replacements, layout);
    push_items(out, remedies, &entry.remedies, replacements, layout);
    if !is_detailed {
        return;
    }
    if let Some(class) = entry.class {
        push_wrapped(out, format!("Class: {class}").as_bytes(), "  ", layout.width);
    }
    let mut origin = Vec::new();
    if let Some(since) = &entry.since {
        origin.push(format!("since {since}"));
    }
    if let Some(until) = &entry.until {
        origin.push(format!("until {until}"));
    }
    origin.push(entry.source.to_string());
    push_wrapped(
        out,
        format!("Kernel: {}", origin.join("; ")).as_bytes(),
        "  ",
        layout.width,
    );
    for (text, wording) in entry.texts.iter().zip(&entry.wordings) {
        if let Some(versions) = wording.versions() {
            push_wrapped(
                out,
                format!("Wording: {text} ({versions})").as_bytes(),
                "  ",
                layout.width,
            );
        }
    }
    if !entry.also.is_empty() {
        push_wrapped(
            out,
            format!("Also called: {}", entry.also.join(", ")).as_bytes(),
            "  ",
            layout.width,
        );
    }
    if !entry.see.is_empty() {
        push_wrapped(
            out,
            format!("See also: {}", entry.see.join(", ")).as_bytes(),
            "  ",
            layout.width,
        );
    }
}

fn push_items(
    out: &mut Vec<u8>,
    title: &str,
    items: &[Cow<'_, str>],
    replacements: &Replacements<'_>,
    layout: &ExplainLayout,
) {
    if items.is_empty() {
        return;
    }
    out.extend_from_slice(format!("  {title}:\n").as_bytes());
    for item in items {
        let begin = out.len();
        let mut line = Vec::new();
        push_clean(&mut line, replacements.fill(item).as_bytes());
        push_wrapped(out, &line, "    ", layout.width);
        out[begin + 2] = b'-';
    }
}

/// What is said of a message that no text has.
const UNREAD: &str =
    "No text of the dictionary has the message: read were the driver or subsystem, and a word of trouble";
/// Different messages of a family that are shown, and of another entry.
const FAMILY_WORDINGS_MAX: usize = 12;
const WORDINGS_MAX: usize = 4;
/// Unknown lines that are shown when they are not asked for.
const UNKNOWN_MAX: usize = 20;
/// Counters of one entry that are shown.
const VALUES_MAX: usize = 12;
/// Width of the first column; longer names shift the second.
const LIST_NAME_MAX: usize = 44;

fn one_or_more(count: u64, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}
