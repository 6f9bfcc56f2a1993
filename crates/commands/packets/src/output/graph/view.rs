//! The data of a graph: directions sorted by time, events with times relative to the connection.

use super::{GraphLayout, GraphPanel};
use sockeye_trace::{Connection, Direction, Event, EventKind, Series, SideSeries, Vantage};
use std::borrow::Cow;

/// A connection, and how it is drawn.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) connection: &'a Connection,
    pub(super) layout: &'a GraphLayout,
    /// Directions that are drawn, from top to bottom.
    pub(super) directions: Vec<DirectionView<'a>>,
    /// First and last time, in nanoseconds since the connection's first packet.
    pub(super) time: (u64, u64),
    /// Segments without points because of the memory limit.
    pub(super) segments_left_out: u64,
}

/// A direction of a connection.
#[derive(Debug)]
pub(super) struct DirectionView<'a> {
    pub(super) orientation: Direction,
    /// Points, sorted by time even if the capture is not.
    pub(super) side: Cow<'a, SideSeries>,
    /// Events of this direction, sorted; times are relative to the connection's first packet.
    pub(super) events: Vec<Event>,
    /// Whether the data in flight is as the sender sees it; near the receiver it is hardly anything.
    pub(super) is_flight_known: bool,
}

impl<'a> View<'a> {
    pub(super) fn new(series: &'a Series, connection: &'a Connection, layout: &'a GraphLayout) -> Self {
        let events = if series.events.is_empty() {
            &connection.events
        } else {
            &series.events
        };
        let directions: Vec<_> = layout
            .directions
            .of(series)
            .into_iter()
            .map(|orientation| DirectionView::new(orientation, series, events, connection))
            .collect();
        let moments = directions.iter().flat_map(DirectionView::bounds);
        let time = moments
            .fold(None, |range: Option<(u64, u64)>, moment| {
                Some(range.map_or((moment, moment), |(first, last)| {
                    (first.min(moment), last.max(moment))
                }))
            })
            .unwrap_or((0, 0));
        Self {
            connection,
            layout,
            directions,
            time,
            segments_left_out: series.segments_left_out,
        }
    }

    /// Returns the requested panels, each once; the time-sequence graph if there are none.
    pub(super) fn panels(&self) -> Vec<GraphPanel> {
        let mut panels = Vec::new();
        for panel in &self.layout.panels {
            if !panels.contains(panel) {
                panels.push(*panel);
            }
        }
        if panels.is_empty() {
            panels.push(GraphPanel::Sequence);
        }
        panels
    }
}

impl<'a> DirectionView<'a> {
    fn new(orientation: Direction, series: &'a Series, events: &[Event], connection: &Connection) -> Self {
        let (side, from_client, vantage) = match orientation {
            Direction::Forward => (&series.forward, true, connection.forward.vantage),
            Direction::Backward => (&series.backward, false, connection.backward.vantage),
        };
        let mut events: Vec<Event> = events
            .iter()
            .filter(|event| event.from_client == from_client)
            .map(|event| Event {
                time_ns: event.time_ns.saturating_sub(connection.begin_ns),
                ..*event
            })
            .collect();
        events.sort_by_key(|event| (event.time_ns, event.frame));
        Self {
            orientation,
            side: in_order(side),
            events,
            is_flight_known: matches!(vantage, Vantage::Sender | Vantage::Unknown),
        }
    }

    /// Returns the first and the last time of each series and event.
    fn bounds(&self) -> impl Iterator<Item = u64> {
        let side = &*self.side;
        let mut moments = Vec::with_capacity(2 * self.events.len() + 12);
        let mut add = |times: &mut dyn DoubleEndedIterator<Item = u64>| {
            moments.extend([times.next(), times.next_back()]);
        };
        add(&mut side.segments.iter().map(|point| point.time_ns));
        add(&mut side.acks.iter().map(|point| point.time_ns));
        add(&mut side.windows.iter().map(|point| point.time_ns));
        add(&mut side.marks.iter().map(|point| point.time_ns));
        add(&mut side.in_flight.iter().map(|point| point.0));
        add(&mut side.rtt.iter().map(|point| point.0));
        for event in &self.events {
            let (from, to) = span(event);
            moments.extend([Some(from), Some(to)]);
        }
        moments.into_iter().flatten()
    }

    /// Returns its name: sender and receiver.
    pub(super) const fn name(&self) -> &'static str {
        match self.orientation {
            Direction::Forward => "client to server",
            Direction::Backward => "server to client",
        }
    }
}

/// Returns begin and end of an event.
pub(super) fn span(event: &Event) -> (u64, u64) {
    match event.kind {
        EventKind::Stall { duration_ns } | EventKind::WindowClosed { duration_ns } => {
            (event.time_ns, event.time_ns.saturating_add(duration_ns))
        }
        _ => (event.time_ns, event.time_ns),
    }
}

/// Returns the points sorted by time; copies them only if a clock went backwards.
fn in_order(side: &SideSeries) -> Cow<'_, SideSeries> {
    let ordered = side.segments.is_sorted_by_key(|point| point.time_ns)
        && side.acks.is_sorted_by_key(|point| point.time_ns)
        && side.windows.is_sorted_by_key(|point| point.time_ns)
        && side.marks.is_sorted_by_key(|point| point.time_ns)
        && side.in_flight.is_sorted_by_key(|point| point.0)
        && side.rtt.is_sorted_by_key(|point| point.0);
    if ordered {
        return Cow::Borrowed(side);
    }
    let mut side = side.clone();
    side.segments.sort_by_key(|point| point.time_ns);
    side.acks.sort_by_key(|point| point.time_ns);
    side.windows.sort_by_key(|point| point.time_ns);
    side.marks.sort_by_key(|point| point.time_ns);
    side.in_flight.sort_by_key(|point| point.0);
    side.rtt.sort_by_key(|point| point.0);
    Cow::Owned(side)
}
