//! The text above a graph.

use super::axis::{Quantity, counted};
use super::view::View;
use crate::output::endpoint;
use sockeye_output::text::harmless;

/// Returns the ends of the connection.
pub(super) fn title(view: &View<'_>) -> String {
    let connection = view.connection;
    format!(
        "{} → {}",
        endpoint::text(connection.client),
        endpoint::text(connection.server)
    )
}

/// Returns number, file, data, duration and begin of the connection.
pub(super) fn facts(view: &View<'_>) -> String {
    let connection = view.connection;
    let mut parts = vec![format!("connection {}", connection.number)];
    if !view.layout.source.is_empty() {
        parts.push(harmless(view.layout.source.as_bytes()));
    }
    for direction in &view.directions {
        // The same figures as in the analysis, also where points are left out.
        let side = connection.side(direction.orientation);
        parts.push(format!(
            "{} {}, {} {}",
            direction.name(),
            Quantity::Bytes.label(side.bytes as f64),
            counted(side.packets),
            if side.packets == 1 { "segment" } else { "segments" }
        ));
    }
    let duration = connection.end_ns.saturating_sub(connection.begin_ns);
    parts.push(Quantity::Time.label(duration as f64));
    if connection.begin_ns > 0 {
        let begin = Quantity::Time.label(connection.begin_ns as f64);
        parts.push(format!("begins {begin} into the capture"));
    }
    parts.extend(left_out(view));
    parts.join(" · ")
}

/// Returns what the memory limit left out; `None` if nothing.
pub(super) fn left_out(view: &View<'_>) -> Option<String> {
    let part = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", counted(count)));
    let segments = part(
        view.segments_left_out,
        "later segments are not drawn: they exceed the memory limit",
    );
    let events = part(view.connection.events_left_out, "events are left out");
    let parts: Vec<_> = segments.into_iter().chain(events).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the verdict, escaped for terminals.
pub(super) fn verdict(view: &View<'_>) -> String {
    harmless(view.layout.verdict.as_bytes())
}
