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
pub(super) fn judgements_of(side: &Side) -> [(&'static str, u64); 11] {
    let judgements = &side.judgements;
    [
        ("lost", judgements.lost),
        ("lost_before", judgements.lost_before),
        ("reordered", judgements.reordered),
        ("spurious", judgements.spurious),
        ("unclear", judgements.unclear),
        ("duplicated_by_network", judgements.duplicated_by_network),
        ("duplicated_by_capture", judgements.duplicated_by_capture),
        ("missing_in_capture", judgements.missing_in_capture),
        ("timeouts", judgements.timeouts),
        ("loss_bursts", judgements.loss_bursts),
        ("left_out", judgements.left_out),
    ]
}
