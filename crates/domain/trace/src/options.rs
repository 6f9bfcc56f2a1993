//! What an analysis keeps, and its limits.

/// What to keep, and limits.
///
/// Each of the [`SHARDS`](crate::SHARDS) has an equal share of the limits of connections and of unacknowledged segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Connections to keep graph points of
    pub series: Keep,
    /// Most points of unfinished connections together. With [`Keep::All`], the connections with the fewest
    /// points lose theirs when the limit is reached; otherwise later points are dropped
    pub series_points_max: usize,
    /// Most connections at once, without those that are half-open
    pub connections_max: usize,
    /// Most connections at once of which only SYNs and their answers were captured; each takes 150 bytes
    pub half_open_max: usize,
    /// Most closed connections that wait for late segments
    pub closed_max: usize,
    /// Longest time that they wait, in nanoseconds
    pub closed_ns_max: u64,
    /// Most events of one connection
    pub events_max: usize,
    /// Most events of one connection with graph points; they count as points
    pub series_events_max: usize,
    /// Most unacknowledged segments of all connections together
    pub unacked_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            series: Keep::None,
            series_points_max: 16 << 20,
            connections_max: 120_000,
            half_open_max: 1 << 20,
            closed_max: 4_096,
            closed_ns_max: 120_000_000_000,
            events_max: 256,
            series_events_max: 1 << 17,
            unacked_max: 500_000,
        }
    }
}

/// A selection of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// No connection
    None,
    /// All connections
    All,
    /// Connections with these numbers
    Numbers(Vec<u32>),
}

impl Keep {
    pub(crate) fn has(&self, number: u32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Numbers(numbers) => numbers.contains(&number),
        }
    }
}
