//! Body of the fuzz target `saved_profiles`, and of the test that replays its corpus: profiles in files, for `prof --diff`.

use super::output::{push_profile, write_flame, write_folded};
use sockeye_output::{ChartFormat, Format, ReportLayout, Style, push_report};
use sockeye_profile::{Difference, Profile, ReportOptions, StackKind};

/// A profile, or two in consecutive lines: read, written and read again, compared, and shown in every form.
pub(crate) fn saved_profiles(bytes: &[u8]) {
    let mut profiles = bytes.split(|&byte| byte == b'\n').map(parse);
    let Some(Some(a)) = profiles.next() else {
        return;
    };
    let b = profiles.next().flatten().unwrap_or_default();
    for (format, for_eyes) in [
        (Format::Table, true),
        (Format::Json, false),
        (Format::Jsonl, false),
        (Format::Csv, false),
    ] {
        let layout = ReportLayout {
            format,
            style: Style::Plain,
            width: (bytes.len().is_multiple_of(2)).then_some(80),
            no_header: bytes.len().is_multiple_of(3),
            ..ReportLayout::default()
        };
        let rows = bytes.len() % 4;
        let view = ReportOptions {
            rows,
            by_process: bytes.len().is_multiple_of(5),
            for_eyes,
            is_part: bytes.len().is_multiple_of(7),
        };
        check_text(format, |out| push_profile(out, &a, &view, layout));
        for (one, other) in [(&a, &b), (&b, &a), (&a, &a)] {
            let difference = Difference {
                a_name: "a",
                a: one,
                b_name: "b",
                b: other,
                rows,
                for_eyes,
            };
            let report = difference.report();
            let is_same = std::ptr::eq(one, other);
            assert!(
                !is_same || report.tables.iter().all(|table| table.rows.is_empty()),
                "nothing changed"
            );
            check_text(format, |out| push_report(out, &report, layout));
        }
    }
    for which in [StackKind::Cpu, StackKind::Waits] {
        check_text(Format::Table, |out| {
            write_folded(out, &a, which).expect("a vector takes it");
        });
        check_text(Format::Table, |out| {
            write_flame(out, &a, which, ChartFormat::Svg).expect("a vector takes it");
        });
    }
}

/// Returns the profile after it was written and read again.
fn parse(text: &[u8]) -> Option<Profile> {
    let mut profile = match Profile::from_json(text) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    // The only number with a fraction, whose last digit may change.
    if let Some(functions) = &mut profile.functions {
        functions.overhead_ns_per_call = functions.overhead_ns_per_call.map(f64::round);
    }
    for again in [profile.to_json(), profile.to_document()] {
        let again = Profile::from_json(again.as_bytes()).expect("it was a profile before");
        assert_eq!(again, profile);
    }
    Some(profile)
}

fn check_text(format: Format, push: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    push(&mut out);
    let text = std::str::from_utf8(&out).expect("text");
    let is_harmless = |c: char| !c.is_control() || c == '\n' || (format == Format::Csv && c == '\r');
    assert!(text.chars().all(is_harmless), "{text:?}");
}
