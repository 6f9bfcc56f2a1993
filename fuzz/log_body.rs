//! Body of the fuzz target `log_lines`, and of the test that replays its corpus: lines of a log, explained.

use super::output::{ExplainLayout, ExplainedLog, ExplainedUnknown, push_explained, push_explained_log};
use sockeye_dictionary::{Dictionary, Log};
use sockeye_output::{Format, Style};

const FORMATS: [Format; 4] = [Format::Table, Format::Json, Format::Jsonl, Format::Csv];

/// The first byte chooses the layout, and whether the rest is a log or a text that is looked up.
pub(crate) fn log_lines(bytes: &[u8]) {
    thread_local! {
        static DICTIONARY: &'static Dictionary = Box::leak(Box::default());
        static EMPTY: Log = DICTIONARY.with(|dictionary| dictionary.log());
    }
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    // A lookup is slow: it is made for one input of 256.
    let is_lookup = first == 0xff;
    let layout = ExplainLayout {
        format: FORMATS[if is_lookup {
            bytes.len() % 4
        } else {
            usize::from(first % 4)
        }],
        style: Style::Plain,
        width: (first & 4 != 0).then_some(20 + usize::from(first / 8)),
        no_header: first & 8 != 0,
        is_detailed: first & 16 != 0,
        ..ExplainLayout::default()
    };
    let mut out = Vec::new();
    if is_lookup {
        let text = String::from_utf8_lossy(bytes);
        let found = DICTIONARY.with(|dictionary| dictionary.find(&text));
        assert!(found.near.len() <= 5 && (found.near.is_empty() || found.entries.is_empty()));
        // Marks and runs of blanks differ from the text, which is made plain first.
        assert!(found.values.iter().all(|(_, value)| !value.is_empty()));
        push_explained(&mut out, &text, &found, &layout);
    } else {
        let mut log = EMPTY.with(Clone::clone);
        if first & 32 != 0 {
            log.keep_unknown();
        }
        bytes
            .split_inclusive(|&byte| byte == b'\n')
            .for_each(|line| log.line(line));
        log.finish();
        let count = log.count();
        assert_eq!(
            count.lines,
            bytes.split_inclusive(|&byte| byte == b'\n').count() as u64
        );
        assert!(count.known + count.empty + count.parts + count.trouble + count.counters <= count.lines);
        let occurrences = log.met();
        assert!(occurrences.len() as u64 <= count.known);
        assert!(
            log.unknown()
                .iter()
                .all(|line| line.times >= 1 && !line.line.is_empty())
        );
        assert!(log.counters().iter().all(|group| !group.values.is_empty()));
        for one in &occurrences {
            assert!(one.times > one.left_out || one.times == u64::MAX);
            assert!(one.values.len() <= 64 && !one.line.is_empty());
            assert!(
                one.values
                    .iter()
                    .all(|value| !value.text.is_empty() && value.times >= 1)
            );
        }
        let explained = ExplainedLog {
            count,
            hidden: 0,
            occurrences,
            counters: log.counters(),
            counters_zero: log.counters_zero(),
            counters_other: log.counters_other(),
            unknown: log
                .unknown()
                .into_iter()
                .map(|line| ExplainedUnknown {
                    line,
                    error: None,
                    near: None,
                })
                .collect(),
            unknown_left_out: log.unknown_left_out(),
            interrupted: false,
        };
        push_explained_log(&mut out, &explained, &layout);
    }
    let text = std::str::from_utf8(&out).expect("text");
    let is_harmless = |c: char| !c.is_control() || c == '\n' || (layout.format == Format::Csv && c == '\r');
    assert!(text.chars().all(is_harmless), "{text:?}");
}
