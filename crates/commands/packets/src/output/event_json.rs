//! What happened to a captured connection, as keys of a JSON object: analyses and graphs tell it alike.

use sockeye_output::json::Object;
use sockeye_trace::{Event, EventKind};

/// Appends what it was, how much or how long, and how sure that is.
pub(crate) fn push_what(object: &mut Object<'_>, event: &Event) {
    object.word("kind", event.kind.name());
    match event.kind {
        EventKind::LossBurst { segments } => object.number("segments", Some(segments)),
        EventKind::Stall { duration_ns } | EventKind::WindowClosed { duration_ns } => {
            object.number("duration_ns", Some(duration_ns));
        }
        _ => {}
    }
    object.word("confidence", event.confidence.name());
}
