//! The forms of a profile: tables for people, JSON and CSV for programs, folded stacks, flame graphs. Pure.

mod flame;
mod folded;

pub use flame::write_flame;
pub use folded::write_folded;

use sockeye_output::format::Format;
use sockeye_output::json::Object;
use sockeye_output::report::{ReportLayout, push_report};
use sockeye_output::text::is_hidden;
use sockeye_profile::{Profile, ReportOptions};

/// Appends the profile in the layout's format. CSV has the rows of its first table, with all of their columns.
pub fn push_profile(out: &mut Vec<u8>, profile: &Profile, view: &ReportOptions, layout: ReportLayout) {
    match layout.format {
        Format::Json => {
            let document = profile.to_document();
            // The envelope has the version.
            let version = format!("{{\"schema_version\":{},", profile.schema_version);
            let rest = document.strip_prefix(&version).unwrap_or(&document);
            push_begin(out, &layout, "prof");
            out.push(b',');
            push_harmless_json(out, rest);
        }
        Format::Jsonl => {
            let [row, summary] = ["prof_row", "prof_summary"].map(|kind| {
                let mut begin = Vec::new();
                push_begin(&mut begin, &layout, kind);
                begin
            });
            for line in profile.to_lines().lines() {
                let is_summary = line.starts_with("{\"summary\"");
                out.extend_from_slice(if is_summary { &summary } else { &row });
                out.push(b',');
                push_harmless_json(out, line.strip_prefix('{').unwrap_or(line));
                out.push(b'\n');
            }
        }
        Format::Table | Format::Csv => {
            let for_eyes = layout.format == Format::Table;
            push_report(out, &profile.report(&ReportOptions { for_eyes, ..*view }), layout);
        }
    }
}

/// Appends the beginning of a document or line of this type, with its brace.
fn push_begin(out: &mut Vec<u8>, layout: &ReportLayout, kind: &str) {
    let mut object = Object::begin(out);
    layout.envelope.push(&mut object, kind);
    object.number("sample", layout.sample);
}

/// Appends JSON. Control and hidden characters in its strings are escaped: they could steer a terminal, and a JSON parser
/// reads the same text.
fn push_harmless_json(out: &mut Vec<u8>, json: &str) {
    for character in json.chars() {
        if character == '\x7f' || is_hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}
