//! What repeated listings say of all connections between two samples.

use sockeye_model::{ConnectionTotals, counted};

/// The totals as a line: `254 connections opened (127 active, 127 passive), ...`. With a filter they are still those of all
/// connections: the counters have no addresses.
pub fn line(totals: &ConnectionTotals, is_filtered: bool) -> String {
    let opened = totals.active_opens + totals.passive_opens;
    let mut line = format!(
        "{} opened ({} active, {} passive), {} failed, {} reset in {:.1}s",
        counted(opened, "connection"),
        totals.active_opens,
        totals.passive_opens,
        totals.attempt_fails,
        totals.resets,
        totals.interval_ms as f64 / 1000.0
    );
    if is_filtered {
        line += ", with and without a match of the filter";
    }
    if let Some(short) = totals.short.filter(|short| *short > 0) {
        line += &format!("; {} between two samples", counted(short, "end"));
    }
    let unknown = "Opened/s and Closed/s of the flows are unknown, the other rates at least those shown";
    match totals.lost_events {
        Some(lost) if lost > 0 => line += &format!("; {} lost: {unknown}", counted(lost, "event")),
        _ if totals.unseen > 0 => {
            line += &format!(
                "; {} too short to be seen or to be tested: {unknown}",
                totals.unseen
            );
        }
        _ => {}
    }
    line.push('\n');
    line
}

/// Says that connections between two samples are not seen.
pub fn unseen_between(reason: &str) -> String {
    format!("connections that open and close between two samples are not seen: {reason}")
}

/// The same as a line of standard error.
pub fn unseen_note(reason: &str) -> String {
    format!("sockeye: {}\n", unseen_between(reason))
}
