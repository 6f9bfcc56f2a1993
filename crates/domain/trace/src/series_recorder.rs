//! Records the points of a time-sequence graph.

use crate::budget::Budget;
use crate::rules::{Captured, end_of};
use crate::sender::Sender;
use crate::{
    AckPoint, Event, Flag, Mark, MarkKind, SegmentNotes, SegmentPoint, Series, SideSeries, WindowPoint,
};
use sockeye_wire::packet::TcpFlags;

/// The points of one connection so far.
#[derive(Debug, Default)]
pub(crate) struct SeriesRecorder {
    series: Series,
    points: usize,
}

impl SeriesRecorder {
    /// Adds a segment, after both sides processed it. `rtt_ns` is the round trip that it ends. `budget` is that of all connections.
    pub(crate) fn segment(
        &mut self,
        from_client: bool,
        time_ns: u64,
        captured: &Captured<'_>,
        (notes, rtt_ns): (&SegmentNotes, Option<u64>),
        (sender, peer): (&Sender, &Sender),
        budget: &mut Budget,
    ) {
        if budget.points_left == 0 {
            budget.points_refused += 1;
            self.series.segments_left_out += 1;
            return;
        }
        let segment = captured.segment;
        let Series {
            forward, backward, ..
        } = &mut self.series;
        let (own, other) = if from_client {
            (forward, backward)
        } else {
            (backward, forward)
        };
        let before = own.len() + other.len();
        let has = |flag| segment.flags.has(flag);

        let start = sender.place(segment.sequence);
        let end = start + u64::from(end_of(segment).wrapping_sub(segment.sequence));
        if end > start {
            own.segments.push(SegmentPoint {
                time_ns,
                start,
                end,
                flags: notes.flags,
                frame: captured.frame,
                is_pushed: has(TcpFlags::PSH),
            });
        }
        let mut mark = |kind| {
            let sequence = start;
            own.marks.push(Mark {
                time_ns,
                sequence,
                end,
                kind,
            });
        };
        for (flag, kind) in [
            (TcpFlags::SYN, MarkKind::Syn),
            (TcpFlags::FIN, MarkKind::Fin),
            (TcpFlags::RST, MarkKind::Reset),
            (TcpFlags::URG, MarkKind::Urgent),
        ] {
            if has(flag) {
                mark(kind);
            }
        }
        if segment.ecn == 3 {
            mark(MarkKind::CongestionExperienced);
        }
        if end > start {
            push_changed(&mut own.in_flight, time_ns, sender.in_flight_bytes());
        }
        if has(TcpFlags::ACK) {
            let sequence = peer.place(segment.acknowledgement);
            let is_duplicate = notes.flags.has(Flag::DuplicateAck);
            let is_new = other.acks.last().is_none_or(|last| last.sequence != sequence);
            if is_new || is_duplicate {
                other.acks.push(AckPoint {
                    time_ns,
                    sequence,
                    is_duplicate,
                });
            }
            let edge = peer.window_edge(sequence);
            if let Some(edge) =
                edge.filter(|edge| other.windows.last().is_none_or(|last| last.sequence != *edge))
            {
                other.windows.push(WindowPoint {
                    time_ns,
                    sequence: edge,
                });
            }
            if notes.flags.has(Flag::ZeroWindow) {
                other.marks.push(Mark {
                    time_ns,
                    sequence,
                    end: sequence,
                    kind: MarkKind::ZeroWindow,
                });
            }
            for (start, end) in segment.options.sack.as_slice() {
                let (sequence, end) = (peer.place(*start), peer.place(*end));
                other.marks.push(Mark {
                    time_ns,
                    sequence,
                    end,
                    kind: MarkKind::Sack,
                });
            }
            push_changed(&mut other.in_flight, time_ns, peer.in_flight_bytes());
        }
        if let Some(rtt_ns) = rtt_ns {
            other.rtt.push((time_ns, rtt_ns));
        }
        let more = own.len() + other.len() - before;
        self.points += more;
        budget.points_left = budget.points_left.saturating_sub(more);
    }

    /// Number of points.
    pub(crate) fn points(&self) -> usize {
        self.points
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.series.heap_bytes()
    }

    pub(crate) fn series(self, events: Vec<Event>) -> Series {
        Series {
            events,
            ..self.series
        }
    }
}

impl Series {
    /// Heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let side = |side: &SideSeries| {
            side.segments.capacity() * size_of::<SegmentPoint>()
                + side.acks.capacity() * size_of::<AckPoint>()
                + side.windows.capacity() * size_of::<WindowPoint>()
                + side.marks.capacity() * size_of::<Mark>()
                + side.in_flight.capacity() * size_of::<(u64, u32)>()
                + side.rtt.capacity() * size_of::<(u64, u64)>()
        };
        side(&self.forward) + side(&self.backward) + self.events.capacity() * size_of::<Event>()
    }
}

impl SideSeries {
    /// Number of points.
    fn len(&self) -> usize {
        self.segments.len()
            + self.acks.len()
            + self.windows.len()
            + self.marks.len()
            + self.in_flight.len()
            + self.rtt.len()
    }
}

fn push_changed(points: &mut Vec<(u64, u32)>, time_ns: u64, bytes: u32) {
    if points.last().is_none_or(|last| last.1 != bytes) {
        points.push((time_ns, bytes));
    }
}
