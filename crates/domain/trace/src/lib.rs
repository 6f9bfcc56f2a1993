//! Analysis of captured TCP connections: what happened to each segment, and what limited each transfer.
//!
//! A [`Trace`] takes segments in the order of their capture and returns tshark's flags for each ([`Flags`]);
//! at the end it returns each [`Connection`]. Sequence numbers and times are relative to the connection's
//! first segment. If [`Options::series`] selects a connection, the points of its time-sequence graph
//! ([`Series`]) are kept as well. [`Pairing`] compares two captures of one transfer.
//!
//! ```
//! use sockeye_trace::{Options, Trace};
//! use sockeye_wire::packet::{Segment, TcpFlags, TcpOptions};
//!
//! let syn = Segment {
//!     source: [10, 0, 0, 1].into(),
//!     source_port: 40_000,
//!     destination: [10, 0, 0, 2].into(),
//!     destination_port: 443,
//!     sequence: 7,
//!     acknowledgement: 0,
//!     flags: TcpFlags::SYN,
//!     window: 64_000,
//!     payload_len: 0,
//!     options: TcpOptions::default(),
//!     ip_id: None,
//!     ttl: 64,
//!     ecn: 0,
//!     bad_checksum: None,
//!     tunnels: 0,
//!     is_tls_handshake: false,
//! };
//! let mut trace = Trace::new(Options::default());
//! assert!(trace.segment(1, 1_000, &syn).flags.is_empty());
//! while let Some(_over) = trace.finished() {}
//! assert_eq!(trace.finish().next().unwrap().connection.server.port, 443);
//! ```
//!
//! What it deliberately does not do: read files, decode packets, read a clock, print or draw.

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_trace;

mod address_translation;
mod bound;
mod budget;
mod bursts;
mod capture_clock;
mod connection;
mod connection_index;
mod counters;
mod direction;
mod duplicates;
mod end_pair;
mod ending;
mod event;
mod event_log;
mod exchange;
mod finding;
mod finished;
mod flags;
mod flow;
mod histogram;
mod icmp_reports;
mod ip_ids;
mod limit;
mod linear;
mod long_wait;
mod lookups;
mod loss_episodes;
mod loss_tracker;
mod merge;
mod named;
mod opening;
mod options;
mod pairing;
mod percentiles;
mod queue;
mod roles;
mod router;
mod rules;
mod sacked_ranges;
mod sender;
mod sequence;
mod series;
mod series_recorder;
mod shard;
#[cfg(test)]
mod tests;
mod timestamp_echo;
mod trace;
mod tuple;
mod unacked;
mod variation;
mod wait_times;

pub use bound::BoundTimes;
pub use connection::{
    Completeness, Connection, Endpoint, Judgements, Negotiated, PathMtuEvidence, Side, SmallWrites, Vantage,
};
pub use counters::Counters;
pub use direction::Direction;
pub use ending::Ending;
pub use event::{Confidence, Event, EventKind};
pub use exchange::{Exchanges, Turn, TurnTimes};
pub use finding::{Finding, FindingKind, findings};
pub use finished::Finished;
pub use flags::{Flag, Flags, SegmentNotes};
pub use icmp_reports::{IcmpReport, icmp_name};
pub use limit::{Limit, Shares, Verdict};
pub use lookups::NameLookup;
pub use merge::{EventOrder, Merge};
pub use options::{Keep, Options};
pub use pairing::{Paired, PairedDirection, Pairing};
pub use percentiles::Percentiles;
pub use router::Router;
pub use series::{AckPoint, Mark, MarkKind, SegmentPoint, Series, SideSeries, WindowPoint};
pub use shard::{Arrival, SHARDS, Shard, ShardEvent};
pub use trace::{Remaining, Trace};
pub use variation::DelayVariation;
