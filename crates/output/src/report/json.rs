//! A report as JSON: `docs/schema/bench.schema.json`.

use super::noise::frequency_khz;
use crate::envelope::Envelope;
use crate::json::Object;
use sockeye_measure::{Noise, Report, Sentence, Table, Value};

/// Appends one document.
pub(super) fn push_document(out: &mut Vec<u8>, report: &Report, envelope: &Envelope) {
    let mut document = Object::begin(out);
    envelope.push(&mut document, document_type(report));
    push_head(&mut document, report);
    for table in &report.tables {
        let list = document.key(table.name);
        list.push(b'[');
        for (nth, row) in table.rows.iter().enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            let mut object = Object::begin(list);
            push_row(&mut object, table, row);
            object.end();
        }
        list.push(b']');
    }
    push_end(&mut document, report);
    document.end();
    out.push(b'\n');
}

/// Appends a line for each row of each table, and a last line with everything else.
pub(super) fn push_lines(out: &mut Vec<u8>, report: &Report, envelope: &Envelope) {
    let begin = envelope.line_begin(&format!("{}_row", document_type(report)));
    for table in &report.tables {
        for row in &table.rows {
            out.extend_from_slice(&begin);
            let mut object = Object::continued(out);
            object.word("table", table.name);
            push_row(&mut object, table, row);
            object.end();
            out.push(b'\n');
        }
    }
    envelope.push_summary_line(out, document_type(report), |summary| {
        push_head(summary, report);
        push_end(summary, report);
    });
}

/// Returns the `type` of its document: `bench`, `prof_diff`.
fn document_type(report: &Report) -> &str {
    match (report.command, report.bench) {
        ("prof", "diff") => "prof_diff",
        (command, _) => command,
    }
}

fn push_head(object: &mut Object<'_>, report: &Report) {
    object.word(report.command, report.bench);
    let mut settings = object.object("settings");
    for setting in &report.settings {
        push_value(&mut settings, setting.column.key, &setting.value);
    }
    settings.end();
}

/// Writes the key `sentences`: `docs/schema/defs.schema.json`, `$defs/sentence`.
pub fn push_sentences(object: &mut Object<'_>, sentences: &[Sentence]) {
    let list = object.key("sentences");
    list.push(b'[');
    for (nth, sentence) in sentences.iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = Object::begin(list);
        fields.word("code", sentence.code);
        fields.text("text", Some(&sentence.text));
        let remedies = fields.key("remedies");
        remedies.push(b'[');
        for (nth, remedy) in sentence.remedies.iter().enumerate() {
            if nth > 0 {
                remedies.push(b',');
            }
            crate::text::push_json(remedies, remedy.as_bytes());
        }
        remedies.push(b']');
        fields.end();
    }
    list.push(b']');
}

fn push_end(object: &mut Object<'_>, report: &Report) {
    push_sentences(object, &report.sentences);
    if let Some(noise) = &report.noise {
        push_noise(object, noise);
    }
    if let Some(partial) = &report.partial {
        let mut fields = object.object("partial");
        fields.word("code", partial.code);
        fields.text("text", Some(&partial.text));
        fields.end();
    }
}

fn push_row(object: &mut Object<'_>, table: &Table, row: &[Value]) {
    for (column, value) in table.columns.iter().zip(row) {
        push_value(object, column.key, value);
    }
}

fn push_value(object: &mut Object<'_>, key: &str, value: &Value) {
    match value {
        Value::Absent => {}
        Value::Whole(number) => object.number(key, Some(*number)),
        Value::Real(number) => object.float(key, *number),
        Value::Bool(yes) => object.boolean(key, Some(*yes)),
        Value::Text(text) => object.text(key, Some(text)),
    }
}

fn push_noise(object: &mut Object<'_>, noise: &Noise) {
    let mut fields = object.object("noise");
    let mut float = |key, value: Option<f64>| {
        if let Some(value) = value {
            fields.float(key, value);
        }
    };
    float("steal_permille", noise.steal_permille());
    float("others_permille", noise.others_permille());
    float("load_before", noise.before.load);
    float("load_after", noise.after.load);
    fields.number("processors", noise.after.processors.or(noise.before.processors));
    let frequency = frequency_khz(noise);
    fields.number("frequency_khz_min", frequency.map(|(low, _)| low));
    fields.number("frequency_khz_max", frequency.map(|(_, high)| high));
    fields.boolean("noisy", Some(noise.is_noisy()));
    fields.end();
}
