//! The forms of a profile: tables for people, JSON and CSV for programs, folded stacks, flame graphs. Pure.

mod flame;
mod folded;

pub use flame::write_flame;
pub use folded::write_folded;

use sockeye_output::format::Format;
use sockeye_output::report::{ReportLayout, push_report};
use sockeye_output::text::is_hidden;
use sockeye_profile::{Profile, ReportOptions};

/// Appends the profile in the layout's format. CSV has the rows of its first table, with all of their columns.
pub fn push_profile(out: &mut Vec<u8>, profile: &Profile, view: &ReportOptions, layout: ReportLayout) {
    match layout.format {
        Format::Json => push_harmless_json(out, &profile.to_document()),
        Format::Jsonl => push_harmless_json(out, &profile.to_lines()),
        Format::Table | Format::Csv => {
            let for_eyes = layout.format == Format::Table;
            push_report(out, &profile.report(&ReportOptions { for_eyes, ..*view }), layout);
        }
    }
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
