//! Explanations as JSON: `docs/schema/explain.schema.json`.

use super::{ExplainedLog, ExplainedUnknown};
use sockeye_dictionary::{Count, CounterGroup, DropClass, Entry, EntryOccurrences, Found, Severity};
use sockeye_output::Envelope;
use sockeye_output::json::Object;
use sockeye_output::text::push_json;
use std::borrow::Cow;

pub(super) fn push_found(out: &mut Vec<u8>, query: &str, found: &Found, envelope: &Envelope) {
    let mut document = Object::begin(out);
    envelope.push(&mut document, "explain");
    document.text("query", Some(query));
    push_all(document.key("entries"), &found.entries, |out, entry| {
        push(out, entry);
    });
    push_values(&mut document, found);
    document.end();
    out.push(b'\n');
}

pub(super) fn push_found_lines(out: &mut Vec<u8>, query: &str, found: &Found, envelope: &Envelope) {
    push_entry_lines(out, &found.entries, envelope);
    envelope.push_summary_line(out, "explain", |summary| {
        summary.text("query", Some(query));
        push_values(summary, found);
    });
}

fn push_values(object: &mut Object<'_>, found: &Found) {
    object.text("severity", found.severity.map(Severity::name));
    push_all(object.key("values"), &found.values, |out, (place, text)| {
        let mut fields = Object::begin(out);
        fields.word("place", place.name());
        fields.text("text", Some(text));
        fields.end();
    });
    if let (Some(entry), Some(wording)) = (found.entries.first(), found.wording) {
        push_wording(object, entry, wording);
    }
    if found.is_unread {
        object.boolean("unread", Some(true));
    }
    object.text("meant", found.meant);
    push_all(object.key("near"), &found.near, |out, entry| {
        let mut fields = Object::begin(out);
        fields.word("kind", entry.kind.name());
        fields.text("name", Some(&entry.name));
        fields.text("meaning", Some(&entry.meaning));
        fields.end();
    });
}

pub(super) fn push_list(out: &mut Vec<u8>, entries: &[&Entry<'_>], envelope: &Envelope) {
    let mut document = Object::begin(out);
    envelope.push(&mut document, "explain");
    push_all(document.key("entries"), entries, |out, entry| {
        push(out, entry);
    });
    document.end();
    out.push(b'\n');
}

pub(super) fn push_list_lines(out: &mut Vec<u8>, entries: &[&Entry<'_>], envelope: &Envelope) {
    push_entry_lines(out, entries, envelope);
    envelope.push_summary_line(out, "explain", |summary| {
        summary.number("entries", Some(entries.len() as u64));
    });
}

fn push_entry_lines(out: &mut Vec<u8>, entries: &[&Entry<'_>], envelope: &Envelope) {
    for entry in entries {
        let mut line = Object::begin(out);
        envelope.push(&mut line, "explain_entry");
        push_entry_fields(&mut line, entry);
        line.end();
        out.push(b'\n');
    }
}

pub(super) fn push_log(out: &mut Vec<u8>, log: &ExplainedLog<'_>, envelope: &Envelope) {
    let mut document = Object::begin(out);
    envelope.push(&mut document, "explain");
    push_all(document.key("messages"), &log.occurrences, |out, occurrences| {
        let mut fields = Object::begin(out);
        push_occurrences(&mut fields, occurrences);
        fields.end();
    });
    push_all(document.key("counters"), &log.counters, |out, counters| {
        let mut fields = Object::begin(out);
        push_counters(&mut fields, counters);
        fields.end();
    });
    push_all(document.key("unknown_lines"), &log.unknown, |out, unknown| {
        let mut fields = Object::begin(out);
        push_unknown(&mut fields, unknown);
        fields.end();
    });
    push_count(&mut document, log);
    document.end();
    out.push(b'\n');
}

pub(super) fn push_log_lines(out: &mut Vec<u8>, log: &ExplainedLog<'_>, envelope: &Envelope) {
    for occurrences in &log.occurrences {
        let mut line = Object::begin(out);
        envelope.push(&mut line, "explain_message");
        push_occurrences(&mut line, occurrences);
        line.end();
        out.push(b'\n');
    }
    for counters in &log.counters {
        let mut line = Object::begin(out);
        envelope.push(&mut line, "explain_counter");
        push_counters(&mut line, counters);
        line.end();
        out.push(b'\n');
    }
    for unknown in &log.unknown {
        let mut line = Object::begin(out);
        envelope.push(&mut line, "explain_unknown");
        push_unknown(&mut line, unknown);
        line.end();
        out.push(b'\n');
    }
    envelope.push_summary_line(out, "explain", |summary| push_count(summary, log));
}

fn push_count(fields: &mut Object<'_>, log: &ExplainedLog<'_>) {
    let Count {
        lines,
        known,
        empty,
        trouble,
        parts,
        counters,
    } = log.count;
    fields.number("lines", Some(lines));
    fields.number("lines_known", Some(known));
    fields.number("lines_parts", Some(parts));
    fields.number("lines_trouble", Some(trouble));
    fields.number("lines_counters", Some(counters));
    fields.number("lines_empty", Some(empty));
    fields.number("messages_hidden", Some(log.hidden as u64));
    fields.number("unknown_lines_left_out", Some(log.unknown_left_out));
    fields.number("counters_zero", Some(log.counters_zero));
    fields.number("counters_other", Some(log.counters_other));
    fields.boolean("interrupted", Some(log.interrupted));
}

fn push_occurrences(fields: &mut Object<'_>, occurrences: &EntryOccurrences) {
    fields.word("severity", occurrences.severity.name());
    fields.number("times", Some(occurrences.times));
    fields.number("times_left_out", Some(occurrences.left_out));
    fields.text("first", occurrences.first.as_deref());
    fields.text("last", occurrences.last.as_deref());
    fields.text("line", Some(&occurrences.line));
    push_wording(fields, occurrences.entry, occurrences.wording);
    push_all(fields.key("wordings"), &occurrences.wordings, |out, wording| {
        let mut fields = Object::begin(out);
        fields.text("line", Some(&wording.line));
        fields.number("times", Some(wording.times));
        fields.text("first", wording.first.as_deref());
        fields.text("last", wording.last.as_deref());
        match wording.wording {
            Some(wording) => push_wording(&mut fields, occurrences.entry, wording),
            None => fields.boolean("unread", Some(true)),
        }
        fields.end();
    });
    fields.number("times_wordings_left_out", Some(occurrences.wordings_left_out));
    fields.number("times_unread", Some(occurrences.times_unread));
    push_all(fields.key("values"), &occurrences.values, |out, value| {
        let mut fields = Object::begin(out);
        fields.word("place", value.place.name());
        fields.text("text", Some(&value.text));
        fields.number("times", Some(value.times));
        fields.end();
    });
    fields.number("values_left_out", Some(occurrences.values_left_out));
    if let Some(trace) = &occurrences.trace {
        let mut fields = Object::begin(fields.key("trace"));
        fields.text("function", Some(&trace.function));
        fields.text("module", trace.module.as_deref());
        fields.text("subsystem", trace.subsystem);
        fields.end();
    }
    fields.number("times_in_events", Some(occurrences.in_events));
    push_all(
        fields.key("followed_by"),
        &occurrences.followed_by,
        |out, follower| {
            let mut fields = Object::begin(out);
            fields.text("name", Some(&follower.entry.name));
            fields.number("times", Some(follower.times));
            fields.end();
        },
    );
    push(fields.key("entry"), occurrences.entry);
}

/// Adds the kernel versions that have the wording of a line, as far as they are known.
fn push_wording(fields: &mut Object<'_>, entry: &Entry<'_>, wording: usize) {
    if let Some(wording) = entry.wordings.get(wording) {
        fields.text("wording_since", wording.since.as_deref());
        fields.text("wording_until", wording.until.as_deref());
    }
}

fn push_counters(fields: &mut Object<'_>, counters: &CounterGroup) {
    fields.word("severity", counters.severity().name());
    fields.number("total", Some(counters.total));
    push_all(fields.key("values"), &counters.values, |out, value| {
        let mut fields = Object::begin(out);
        fields.text("name", Some(&value.name));
        fields.text("place", value.place.as_deref());
        fields.text("value", Some(&value.value));
        fields.end();
    });
    fields.number("values_left_out", Some(counters.values_left_out));
    if let Some(entry) = counters.entry {
        push(fields.key("entry"), entry);
    }
}

fn push_unknown(fields: &mut Object<'_>, unknown: &ExplainedUnknown<'_>) {
    let line = unknown.line;
    fields.text("line", Some(&line.line));
    fields.number("times", Some(line.times));
    fields.text("first", line.first.as_deref());
    fields.text("last", line.last.as_deref());
    fields.boolean("trouble", Some(line.is_trouble));
    fields.text("driver", line.reading.driver.as_deref());
    fields.text("device", line.reading.device.as_deref());
    fields.text("interface", line.reading.interface.as_deref());
    fields.number("errno", line.reading.errno);
    fields.text("error", unknown.error.map(|error| error.name.as_ref()));
    fields.text("similar", unknown.near.map(|near| near.name.as_ref()));
}

fn push(out: &mut Vec<u8>, entry: &Entry<'_>) {
    let mut fields = Object::begin(out);
    push_entry_fields(&mut fields, entry);
    fields.end();
}

fn push_entry_fields(fields: &mut Object<'_>, entry: &Entry<'_>) {
    fields.word("kind", entry.kind.name());
    fields.text("name", Some(&entry.name));
    push_texts(fields.key("also"), &entry.also);
    push_texts(fields.key("texts"), &entry.texts);
    let wordings = entry.texts.iter().zip(&entry.wordings);
    let dated: Vec<_> = wordings
        .filter(|(_, wording)| wording.versions().is_some())
        .collect();
    if !dated.is_empty() {
        push_all(fields.key("wordings"), &dated, |out, (text, wording)| {
            let mut fields = Object::begin(out);
            fields.text("text", Some(text));
            fields.text("since", wording.since.as_deref());
            fields.text("until", wording.until.as_deref());
            fields.end();
        });
    }
    if entry.is_family() {
        fields.boolean("is_family", Some(true));
    }
    fields.text("severity", entry.severity.map(Severity::name));
    fields.text("class", entry.class.map(DropClass::name));
    fields.text("unit", entry.unit.as_deref());
    fields.text("default", entry.default.as_deref());
    fields.text("range", entry.range.as_deref());
    push_texts(fields.key("values"), &entry.values);
    fields.text("meaning", Some(&entry.meaning));
    push_texts(fields.key("causes"), &entry.causes);
    push_texts(fields.key("checks"), &entry.checks);
    push_texts(fields.key("remedies"), &entry.remedies);
    fields.text("since", entry.since.as_deref());
    fields.text("until", entry.until.as_deref());
    fields.text("source", Some(&entry.source));
    push_texts(fields.key("see"), &entry.see);
}

fn push_texts(out: &mut Vec<u8>, texts: &[Cow<'_, str>]) {
    push_all(out, texts, |out, text| {
        push_json(out, text.as_bytes());
    });
}

fn push_all<T>(out: &mut Vec<u8>, all: &[T], mut push: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (nth, one) in all.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push(out, one);
    }
    out.push(b']');
}
