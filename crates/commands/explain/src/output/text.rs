//! Explanations as text: meaning, causes, checks, remedies.

use super::{ExplainLayout, ExplainedLog};
use sockeye_dictionary::{Entry, EntryOccurrences, Found, Placeholder, Replacements, Severity};
use sockeye_output::number::push_decimal;
use sockeye_output::text::{display_width, push_clean};
use sockeye_output::wrap::push_wrapped;
use std::borrow::Cow;

pub(super) fn push_found(out: &mut Vec<u8>, found: &Found<'_>, layout: &ExplainLayout) {
    for (nth, entry) in found.entries.iter().enumerate() {
        if nth > 0 {
            out.push(b'\n');
        }
        push_heading(out, entry, &[], layout);
        if nth == 0 && !found.values.is_empty() {
            let mut line = Vec::new();
            for (place, value) in &found.values {
                push_value(&mut line, *place, value, 1);
            }
            push_wrapped(out, &line, "  ", layout.width);
        }
        let values = found.values.iter().map(|(place, value)| (*place, value.as_str()));
        push_body(out, entry, &Replacements::of(values), layout, true);
    }
}

pub(super) fn push_log(out: &mut Vec<u8>, log: &ExplainedLog<'_>, layout: &ExplainLayout) {
    for occurrences in &log.occurrences {
        push_occurrences(out, occurrences, layout);
        out.push(b'\n');
    }
    let mut line = Vec::new();
    let lines = log.count.lines;
    push_decimal(&mut line, lines);
    line.extend_from_slice(if lines == 1 { b" line" } else { b" lines" });
    line.extend_from_slice(b", ");
    push_decimal(&mut line, log.count.known);
    line.extend_from_slice(b" of them in the dictionary");
    if log.hidden > 0 {
        let text = format!("; {} less bad not shown", log.hidden);
        line.extend_from_slice(text.as_bytes());
    }
    if log.interrupted {
        line.extend_from_slice(b"; interrupted");
    }
    push_wrapped(out, &line, "", layout.width);
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

fn push_occurrences(out: &mut Vec<u8>, occurrences: &EntryOccurrences<'_>, layout: &ExplainLayout) {
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
    push_heading(out, occurrences.entry, &about, layout);
    let mut line = Vec::new();
    push_clean(&mut line, occurrences.line.as_bytes());
    push_wrapped(out, &line, "  > ", layout.width);
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
    let is_harmless = occurrences.entry.severity.unwrap_or(Severity::Info) == Severity::Info;
    if is_harmless && !layout.is_detailed {
        push_wrapped(out, occurrences.entry.meaning.as_bytes(), "  ", layout.width);
    } else {
        let values = occurrences
            .values
            .iter()
            .map(|value| (value.place, value.text.as_str()));
        push_body(
            out,
            occurrences.entry,
            &Replacements::of(values),
            layout,
            layout.is_detailed,
        );
    }
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
fn push_heading(out: &mut Vec<u8>, entry: &Entry<'_>, about: &[String], layout: &ExplainLayout) {
    let mut line = Vec::new();
    let severity = entry
        .severity
        .map(|severity| (severity, severity.name().to_uppercase()));
    if let Some((_, name)) = &severity {
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(b"  ");
    }
    push_clean(&mut line, entry.name.as_bytes());
    line.extend_from_slice(b"  ");
    line.extend_from_slice(entry.kind.name().replace('-', " ").as_bytes());
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
    push_items(out, "Likely causes", &entry.causes, replacements, layout);
    push_items(out, "Check", &entry.checks, replacements, layout);
    push_items(out, "Remedy", &entry.remedies, replacements, layout);
    if !is_detailed {
        return;
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

/// Width of the first column; longer names shift the second.
const LIST_NAME_MAX: usize = 44;
