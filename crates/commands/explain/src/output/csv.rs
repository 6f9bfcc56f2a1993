//! Explanations as CSV, one line each.

use super::{ExplainLayout, ExplainedLog};
use sockeye_dictionary::{Entry, Severity};
use sockeye_output::csv::Line;
use sockeye_output::sheet::Sheet;

pub(super) fn push<'a>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = &'a Entry<'a>>,
    layout: &ExplainLayout,
) {
    let columns = "kind,name,severity,meaning,causes,checks,remedies,since,until,source";
    let mut sheet = Sheet::begin(out, &layout.envelope, layout.no_header, columns);
    for entry in entries {
        let mut line = sheet.line();
        line.word(entry.kind.name());
        push_fields(&mut line, entry, entry.severity);
        line.end();
    }
    sheet.end();
}

pub(super) fn push_log(out: &mut Vec<u8>, log: &ExplainedLog<'_>, layout: &ExplainLayout) {
    let columns = "times,times_left_out,first,last,line,name,severity,meaning,causes,checks,remedies,since,until,source";
    let mut sheet = Sheet::begin(out, &layout.envelope, layout.no_header, columns);
    for occurrences in &log.occurrences {
        let mut line = sheet.line();
        line.number(Some(occurrences.times));
        line.number(Some(occurrences.left_out));
        line.text(occurrences.first.as_deref());
        line.text(occurrences.last.as_deref());
        match &occurrences.wordings[..] {
            [] | [_] => line.text(Some(&occurrences.line)),
            wordings => {
                let lines: Vec<&str> = wordings.iter().map(|wording| wording.line.as_str()).collect();
                line.text(Some(&lines.join(" | ")));
            }
        }
        push_fields(&mut line, occurrences.entry, Some(occurrences.severity));
        line.end();
    }
    for counters in &log.counters {
        let mut line = sheet.line();
        line.empty(4);
        let values: Vec<String> = counters
            .values
            .iter()
            .map(|value| match &value.place {
                Some(place) => format!("{place}: {} {}", value.name, value.value),
                None => format!("{} {}", value.name, value.value),
            })
            .collect();
        line.text(Some(&values.join(" | ")));
        match counters.entry {
            Some(entry) => push_fields(&mut line, entry, entry.severity),
            None => line.empty(FIELDS),
        }
        line.end();
    }
    for unknown in &log.unknown {
        let mut line = sheet.line();
        line.number(Some(unknown.line.times));
        line.empty(1);
        line.text(unknown.line.first.as_deref());
        line.text(unknown.line.last.as_deref());
        line.text(Some(&unknown.line.line));
        line.empty(FIELDS);
        line.end();
    }
    sheet.end();
}

fn push_fields(line: &mut Line<'_>, entry: &Entry<'_>, severity: Option<Severity>) {
    line.text(Some(&entry.name));
    line.word(severity.map_or("", Severity::name));
    line.text(Some(&entry.meaning));
    for several in [&entry.causes, &entry.checks, &entry.remedies] {
        line.text(Some(&several.join(" | ")));
    }
    for one in [&entry.since, &entry.until] {
        line.text(one.as_deref());
    }
    line.text(Some(&entry.source));
}

/// Fields of an entry.
const FIELDS: usize = 9;
