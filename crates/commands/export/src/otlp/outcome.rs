//! What became of a request.

use crate::output::otlp::ExportResponse;
use prost::Message;
use sockeye_output::text::harmless_start;
use std::time::Duration;

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Taken,
    /// Taken but for so many points or records; the collector says why.
    Partly(u64, String),
    /// To be sent again: why, and when if the collector says so.
    Later(String, Option<Duration>),
    /// Never to be taken.
    Refused(String),
}

/// Returns what the message of an answer means to a request that was taken.
pub(super) fn taken(message: &[u8]) -> Outcome {
    let part = ExportResponse::decode(message)
        .ok()
        .and_then(|response| response.partial_success);
    match part {
        Some(part) if part.rejected > 0 || !part.message.is_empty() => {
            let why = harmless_start(part.message.as_bytes(), TEXT_MAX);
            let rejected = part.rejected.max(0).unsigned_abs();
            Outcome::Partly(rejected, format!("the collector left out {rejected}: {why}"))
        }
        _ => Outcome::Taken,
    }
}

/// Characters of an answer that are shown.
pub(super) const TEXT_MAX: usize = 200;
