//! Quantities of an analysis as words: `31 segments`, `12.3ms`, `4.2KB`.

use sockeye_output::number::{push_human, push_time_us};

/// Returns `1 query`, `2 queries`.
pub(super) fn queries(count: u32) -> String {
    if count == 1 {
        "1 query".to_owned()
    } else {
        format!("{count} queries")
    }
}

/// Returns a duration with a unit: `12.3ms`.
pub(super) fn time(ns: u64) -> String {
    if ns > 0 && ns < 1000 {
        return format!("{ns}ns");
    }
    let mut out = Vec::new();
    push_time_us(&mut out, ns / 1000);
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn human(number: u64) -> String {
    let mut out = Vec::new();
    push_human(&mut out, number.into());
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn bytes(number: u64) -> String {
    format!("{}B", human(number))
}
