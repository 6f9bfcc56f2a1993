//! The recorded form of sockets over time: which socket, what changed from sample to sample, as columns of bytes.
//!
//! - [`Identity`], [`IdentityRef`]: what stays the same while a socket lives; a group of samples has a dictionary of them
//! - [`Values`]: what changes; [`Values::COLUMNS`] lists the columns
//! - [`GroupWriter`], [`GroupReader`]: samples of a group to chunks and back; the first sample is whole, each later one has what
//!   changed since the one before
//! - [`seal`], [`unseal`]: all chunks of a group as sections in which each column is contiguous, so that each compresses well
//! - [`SumTable`], [`SumKey`]: what each talker transferred between two samples; [`KeyedSums`], [`ConnectionKey`]: by another key
//! - [`Timeline`], [`add_findings`]: a selection of connections over time
//! - [`Gap`], [`GapReason`]: times without samples
//! - [`FindingRecord`], [`Unseen`]: findings of `check`, and what cannot be seen; [`PeriodLog`] finds when each begins and ends
//! - [`CheckTime`]: when a recorder looked for findings
//! - [`NetnsName`]: what network namespaces were called
//! - [`SeenTranslation`], [`Exchange`]: what NAT makes of connections, and when they last sent and received
//! - [`CountKey`], [`CounterTable`]: counters that moved, and drops by reason
//!
//! What it deliberately does not do: compress, touch files, read a clock. `sockeye_store` does.
//!
//! ```
//! use sockeye_history::{GroupReader, GroupWriter, Identity, Recorded, Values};
//! use sockeye_model::{Entry, Protocol, Socket, State};
//!
//! let socket = Socket::new(Protocol::Tcp, State::Established);
//! let entry = Entry::new(&socket);
//! let recorded = Recorded { identity: Identity::of(&entry, &mut |_| None), values: Values::of(&socket, 1_000) };
//! let chunk = GroupWriter::default().push(1_000, vec![recorded.clone()]);
//! let mut reader = GroupReader::default();
//! reader.apply(&chunk)?;
//! assert_eq!(reader.sockets().collect::<Vec<_>>(), [(&recorded.identity, &recorded.values)]);
//! # Ok::<(), sockeye_history::DecodeError>(())
//! ```

mod bytes;
mod check_time;
mod chunk;
mod counts;
mod exchange;
mod finding;
mod finding_text;
mod gap;
mod group_reader;
mod group_writer;
mod identity;
mod identity_columns;
mod keyed_sums;
mod netns_name;
mod period;
mod point_findings;
mod seen_translation;
mod sums;
mod timeline;
mod unseen;
mod values;

pub use bytes::DecodeError;
pub use check_time::CheckTime;
pub use chunk::{seal, unseal, unseal_version_1};
pub use counts::{CountKey, CountKind, CounterTable};
pub use exchange::{Exchange, ExchangePicker};
pub use finding::{FindingRecord, FindingSeverity, RemedyText};
pub use finding_text::{facts_of, facts_text, remedies_of, remedies_text};
pub use gap::{Gap, GapReason, SampleClocks, gap_between};
pub use group_reader::GroupReader;
pub use group_writer::{GroupWriter, Recorded};
pub use identity::{Identity, IdentityRef, NamedWorkloads};
pub use keyed_sums::{ConnectionKey, ConnectionSums, KeyedSums, Limits};
pub use netns_name::NetnsName;
pub use period::{Lasting, Period, PeriodEnd, PeriodLog};
pub use point_findings::add_findings;
pub use seen_translation::SeenTranslation;
pub use sums::{ConnectionId, SumKey, SumTable, Sums};
pub use timeline::{Point, PointConnection, SampleConnections, Timeline};
pub use unseen::{DataKind, Unseen};
pub use values::Values;

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_history;

#[cfg(test)]
mod tests;
