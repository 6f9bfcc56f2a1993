//! Counts and flags of a connection with their names, the same in all formats.

use sockeye_trace::{Completeness, Side};

/// Returns the parts of a connection that were captured: `syn`, `data`, `fin`.
pub(super) fn completeness_words(completeness: Completeness) -> impl Iterator<Item = &'static str> {
    [
        (Completeness::SYN, "syn"),
        (Completeness::SYN_ACK, "syn_ack"),
        (Completeness::ACK, "ack"),
        (Completeness::DATA, "data"),
        (Completeness::FIN, "fin"),
        (Completeness::RST, "rst"),
    ]
    .into_iter()
    .filter(move |(bit, _)| completeness.0 & bit != 0)
    .map(|(_, word)| word)
}

/// Returns our own counts of losses and others, with their names in JSON.
pub(super) fn opinions_of(side: &Side) -> [(&'static str, u64); 11] {
    let opinions = &side.opinions;
    [
        ("lost", opinions.lost),
        ("lost_before", opinions.lost_before),
        ("reordered", opinions.reordered),
        ("spurious", opinions.spurious),
        ("unclear", opinions.unclear),
        ("duplicated_by_network", opinions.duplicated_by_network),
        ("duplicated_by_capture", opinions.duplicated_by_capture),
        ("missing_in_capture", opinions.missing_in_capture),
        ("timeouts", opinions.timeouts),
        ("loss_bursts", opinions.loss_bursts),
        ("left_out", opinions.left_out),
    ]
}
