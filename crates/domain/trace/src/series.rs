//! Points of a time-sequence graph and its companions.

use crate::{Event, Flags};

/// All points of one connection, in the order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Client to server
    pub forward: SideSeries,
    /// Server to client
    pub backward: SideSeries,
    /// What happened
    pub events: Vec<Event>,
    /// Segments whose points there was no room for
    pub segments_left_out: u64,
}

/// What one side sent, and what the other answered. Sequence numbers are relative to the first, and do not wrap; times are
/// since the first packet of the connection, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SideSeries {
    /// Segments of this side
    pub segments: Vec<SegmentPoint>,
    /// Acknowledgements of the other
    pub acks: Vec<AckPoint>,
    /// Where the other's window ended
    pub windows: Vec<WindowPoint>,
    /// Everything else that is drawn at a moment
    pub marks: Vec<Mark>,
    /// Data in flight: when it changed, and to how many bytes
    pub in_flight: Vec<(u64, u32)>,
    /// Round trips: when they ended, and how long they took
    pub rtt: Vec<(u64, u64)>,
}

/// A segment: a bar from `start` to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPoint {
    /// When it was captured
    pub time_ns: u64,
    /// First byte
    pub start: u64,
    /// The byte after the last
    pub end: u64,
    /// What is said of it
    pub flags: Flags,
    /// Which frame it is
    pub frame: u64,
    /// PSH
    pub is_pushed: bool,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPoint {
    /// When
    pub time_ns: u64,
    /// Up to where
    pub sequence: u64,
    /// Whether it is a duplicate
    pub is_duplicate: bool,
}

/// The end of the receive window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPoint {
    /// When
    pub time_ns: u64,
    /// The sequence number that must not be sent any more
    pub sequence: u64,
}

/// Something at a moment and a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When
    pub time_ns: u64,
    /// Where
    pub sequence: u64,
    /// Of a SACK block, its end
    pub end: u64,
    /// What
    pub kind: MarkKind,
}

/// What a mark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it all
pub enum MarkKind {
    Syn,
    Fin,
    Reset,
    Urgent,
    Sack,
    ZeroWindow,
    CongestionExperienced,
}
