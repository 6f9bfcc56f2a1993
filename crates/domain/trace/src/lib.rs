//! Analysis of captured TCP connections: what happened to each segment, and what held each transfer back.
//!
//! A [`Trace`] takes segments in the order of their capture and says of each what tshark would ([`Flags`]); at the end it
//! tells what it knows of each connection ([`Connection`]). Sequence numbers and times of each are kept relative to its
//! first segment. Where [`Options::series`] asks for it, the points of a time-sequence graph ([`Series`]) are kept as
//! well. [`Pairing`] puts two captures of one transfer side by side.
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
//! };
//! let mut trace = Trace::new(Options::default());
//! assert!(trace.segment(1, 1_000, &syn).flags.is_empty());
//! while let Some(_over) = trace.finished() {}
//! assert_eq!(trace.finish().next().unwrap().connection.server.port, 443);
//! ```
//!
//! What it deliberately does not do: read files, decode packets, know what time it is, print or draw.

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_trace;

mod bursts;
mod connection;
mod echo;
mod ending;
mod event;
mod flags;
mod flow;
mod history;
mod ids;
mod limit;
mod line;
mod pairing;
mod queue;
mod record;
mod repeats;
mod rules;
mod sender;
mod sequence;
mod series;
mod spread;
#[cfg(test)]
mod tests;
mod trace;
mod translated;
mod twins;
mod unacked;
mod waits;

pub use connection::{
    Completeness, Connection, Direction, Endpoint, Negotiated, Opinions, Percentiles, Side, Vantage,
};
pub use ending::Ending;
pub use event::{Confidence, Event, EventKind};
pub use flags::{Flag, Flags, SegmentNotes};
pub use limit::{Limit, Shares, Verdict};
pub use pairing::{Paired, PairedWay, Pairing};
pub use series::{AckPoint, Mark, MarkKind, SegmentPoint, Series, SideSeries, WindowPoint};
pub use trace::{Counters, Finished, Keep, Options, Trace};
