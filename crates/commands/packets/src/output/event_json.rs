//! Events of a captured connection as keys of a JSON object, the same in analyses and graphs.

use sockeye_output::json::Object;
use sockeye_trace::{Event, EventKind};

/// Appends kind, size or duration, and confidence of an event.
pub(crate) fn push_event_fields(object: &mut Object<'_>, event: &Event) {
    object.word("kind", event.kind.name());
    match event.kind {
        EventKind::LossBurst { segments } => object.number("segments", Some(segments)),
        EventKind::Stall { duration_ns } | EventKind::WindowClosed { duration_ns } => {
            object.number("duration_ns", Some(duration_ns));
        }
        _ if event.segments != 1 => object.number("segments", Some(event.segments)),
        _ => {}
    }
    object.word("confidence", event.confidence.name());
}
