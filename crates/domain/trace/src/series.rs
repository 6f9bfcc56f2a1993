//! Points of a time-sequence graph and its companions.

use crate::{Event, Flags};

/// All points of one connection, in order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Client to server
    pub forward: SideSeries,
    /// Server to client
    pub backward: SideSeries,
    /// Events of the connection
    pub events: Vec<Event>,
    /// Segments with points that did not fit
    pub segments_left_out: u64,
}

/// Points of one direction. Sequence numbers are relative to the first, without wraps; times are since the
/// first packet of the connection, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SideSeries {
    /// Segments of this side
    pub segments: Vec<SegmentPoint>,
    /// Acknowledgements by the other side
    pub acks: Vec<AckPoint>,
    /// Window ends of the other side
    pub windows: Vec<WindowPoint>,
    /// Other marks
    pub marks: Vec<Mark>,
    /// Data in flight: time of a change, and bytes after it
    pub in_flight: Vec<(u64, u32)>,
    /// Round trips: end time, and duration
    pub rtt: Vec<(u64, u64)>,
}

/// A segment: a bar from `start` to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPoint {
    /// Capture time
    pub time_ns: u64,
    /// First byte
    pub start: u64,
    /// The byte after the last
    pub end: u64,
    /// tshark's flags
    pub flags: Flags,
    /// Frame number
    pub frame: u64,
    /// Whether PSH is set
    pub is_pushed: bool,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPoint {
    /// Capture time
    pub time_ns: u64,
    /// Acknowledged sequence number
    pub sequence: u64,
    /// Whether it is a duplicate ACK
    pub is_duplicate: bool,
}

/// The end of the receive window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPoint {
    /// Capture time
    pub time_ns: u64,
    /// First sequence number outside the window
    pub sequence: u64,
}

/// A mark at a time and a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Capture time
    pub time_ns: u64,
    /// Sequence number
    pub sequence: u64,
    /// End of a SACK block
    pub end: u64,
    /// Kind
    pub kind: MarkKind,
}

/// Kinds of marks.
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
