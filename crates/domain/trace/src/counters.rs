//! Totals of an analysed capture, and what was dropped at a limit. `Trace` and `Flow` count here; `analyze`
//! and `graph` read the numbers through `CaptureReader::tally`.

/// Totals, and what did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Segments
    pub segments: u64,
    /// Connections
    pub connections: u64,
    /// Connections that were returned before their end, because there were too many
    pub connections_cut_short: u64,
    /// Segments that were not tracked, because too many were unacknowledged: their acknowledgements measure
    /// nothing
    pub unacked_left_out: u64,
    /// Segments missing in graphs, because too many points were kept
    pub points_left_out: u64,
    /// Connections that lost their points in favour of others
    pub series_forgotten: u64,
    /// Segments with a time before that of the previous one
    pub times_backwards: u64,
    /// Approximate memory in use, in bytes
    pub memory_bytes: u64,
}

/// The counters of several shards together.
impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, next| Self {
            segments: sum.segments + next.segments,
            connections: sum.connections + next.connections,
            connections_cut_short: sum.connections_cut_short + next.connections_cut_short,
            unacked_left_out: sum.unacked_left_out + next.unacked_left_out,
            points_left_out: sum.points_left_out + next.points_left_out,
            series_forgotten: sum.series_forgotten + next.series_forgotten,
            times_backwards: sum.times_backwards + next.times_backwards,
            memory_bytes: sum.memory_bytes + next.memory_bytes,
        })
    }
}
