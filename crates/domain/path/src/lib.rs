//! The way of packets through a host: from stamps at points to time spent in each hop.
//!
//! - [`HopKind`], [`HopKey`]: what is between two points, on which device, in which direction
//! - [`PathFold`]: takes journeys, and returns a [`PathReport`] with the numbers of each [`Hop`]
//! - [`QueueFold`]: queues of which only is known what waits there: classes, rings in bytes, accept queues
//! - [`StuckFold`], [`Stuck`]: connections whose data stand still, and why
//! - [`PathReport::sentences`]: where most of the time is spent, and where packets are dropped
//!
//! What it deliberately does not do: follow packets, which `sockeye_tracepoints` does; decide which of them match a filter.

mod accept;
mod command;
mod drops;
mod ends;
mod fold;
mod hop;
mod occupancy;
mod part;
mod report;
mod sampled;
mod sentence;
mod standing;
mod stream;
mod stuck;
mod unsent;
mod weight;

pub use accept::AcceptFold;
pub use command::InNamespace;
pub use fold::{Ending, PathFold};
pub use hop::{Device, Direction, HopKey, HopKind};
pub use part::{Fill, Part};
pub use report::{Hop, PathReport, Qdisc, Reader, Waiting};
pub use sampled::QueueFold;
pub use stuck::{
    FindingWords, Idle, Observed, PeerHere, Program, SegmentsSeen, Stuck, StuckCause, StuckFold, Tunnel, Way,
};
pub use unsent::Unsent;
