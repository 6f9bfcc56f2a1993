//! A report as text for people: settings, tables, sentences that explain them, and the noise of the machine.

use super::{ReportLayout, figure, noise};
use crate::format::Style;
use crate::table::Align;
use crate::table::{self, Heading, Tint};
use crate::text::push_clean;
use crate::wrap::push_wrapped;
use sockeye_measure::{Column, Report, Sentence, Setting, Table, Unit, Value};

pub(super) fn push(out: &mut Vec<u8>, report: &Report, layout: ReportLayout) {
    push_partial(out, report, layout);
    push_line(out, head(report).as_bytes(), Tint::None, layout);
    let tables: Vec<&Table> = report
        .tables
        .iter()
        .filter(|table| !table.rows.is_empty())
        .collect();
    for table in &tables {
        out.push(b'\n');
        if tables.len() > 1 {
            out.extend_from_slice(table.name.replace('_', " ").as_bytes());
            out.push(b'\n');
        }
        push_table(out, table, layout);
    }
    for sentence in &report.sentences {
        out.push(b'\n');
        push_sentence(out, sentence, layout.width);
    }
    if let Some(noise) = &report.noise {
        out.push(b'\n');
        let (line, tint) = (
            noise::describe(noise),
            if noise.is_noisy() { Tint::Yellow } else { Tint::Dim },
        );
        push_line(out, line.as_bytes(), tint, layout);
    }
    if report.partial.is_some() {
        out.push(b'\n');
        push_partial(out, report, layout);
    }
}

/// Returns the name of the benchmark and its settings: `stream: to 10.0.0.2:5210, 4 streams, for 10s`.
pub(super) fn head(report: &Report) -> String {
    let mut words = Vec::new();
    for setting in &report.settings {
        let begin = words.len();
        push_setting(&mut words, setting);
        if words.len() > begin {
            words.extend_from_slice(b", ");
        }
    }
    let words = String::from_utf8_lossy(&words);
    match words.strip_suffix(", ") {
        Some(words) => format!("{}: {words}", report.bench),
        None => report.bench.to_owned(),
    }
}

fn push_partial(out: &mut Vec<u8>, report: &Report, layout: ReportLayout) {
    if let Some(partial) = &report.partial {
        let mut line = b"PARTIAL: ".to_vec();
        push_clean(&mut line, partial.text.as_bytes());
        push_line(out, &line, Tint::Yellow, layout);
    }
}

fn push_setting(out: &mut Vec<u8>, setting: &Setting) {
    let (label, unit) = (setting.column.heading, setting.column.unit);
    if setting.column.hidden || !figure::is_present(&setting.value) {
        return;
    }
    match (&setting.value, unit) {
        (Value::Bool(true), _) if !label.is_empty() => out.extend_from_slice(label.as_bytes()),
        (Value::Bool(false), _) => {}
        // A count is written before its noun.
        (&Value::Whole(count), Unit::Count) if label.ends_with('s') => {
            figure::push(out, unit, &setting.value);
            out.push(b' ');
            let noun = if count == 1 {
                &label[..label.len() - 1]
            } else {
                label
            };
            out.extend_from_slice(noun.as_bytes());
        }
        _ => {
            if !label.is_empty() {
                out.extend_from_slice(label.as_bytes());
                out.push(b' ');
            }
            figure::push(out, unit, &setting.value);
        }
    }
}

fn push_table(out: &mut Vec<u8>, table: &Table, layout: ReportLayout) {
    let shown: Vec<(usize, &Column)> = table
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !column.hidden)
        .collect();
    let headings = shown
        .iter()
        .map(|(_, column)| Heading::new(column.heading, align(column.unit)).breaking(column.breaks));
    let mut lines = table::Table::new(headings.collect(), layout.style, layout.width);
    lines.no_header = layout.no_header;
    for row in &table.rows {
        for (nth, column) in &shown {
            match row.get(*nth).filter(|value| figure::is_present(value)) {
                Some(value) => {
                    if column.signed && figure::is_positive(value) {
                        lines.cell().push(b'+');
                    }
                    figure::push(lines.cell(), column.unit, value);
                }
                // The last column too: an empty end looks like a truncated row. A column without a heading
                // has text only in some rows and stays empty.
                None if column.heading.is_empty() => {}
                None => lines.cell().push(b'-'),
            }
            lines.end_cell(Tint::None);
        }
        lines.end_row(out);
    }
    lines.settle(out);
}

const fn align(unit: Unit) -> Align {
    match unit {
        Unit::Text => Align::Left,
        _ => Align::Right,
    }
}

/// Appends a sentence, wrapped at the width of the terminal, and its commands.
pub fn push_sentence(out: &mut Vec<u8>, sentence: &Sentence, width: Option<usize>) {
    let mut line = Vec::new();
    push_clean(&mut line, sentence.text.as_bytes());
    push_wrapped(out, &line, "", width);
    for remedy in &sentence.remedies {
        // A command is copied by users: never wrapped.
        out.extend_from_slice(b"  $ ");
        push_clean(out, remedy.as_bytes());
        out.push(b'\n');
    }
}

fn push_line(out: &mut Vec<u8>, line: &[u8], tint: Tint, layout: ReportLayout) {
    let begin = out.len();
    push_wrapped(out, line, "", layout.width);
    if layout.style == Style::Color && tint != Tint::None {
        out.splice(begin..begin, tint.code().iter().copied());
        // Before the end of the line, so that a program that splits lines does not colour the next one.
        let end = out.len() - 1;
        out.splice(end..end, b"\x1b[0m".iter().copied());
    }
}
