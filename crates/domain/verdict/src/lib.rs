//! Rules about the health of a host: takes a snapshot, returns findings.
//!
//! A [`Snapshot`] takes the [`sockeye_model::Vitals`] of each network namespace, the
//! [`sockeye_model::HostVitals`], and then the sockets, one after the other; it keeps nothing of sockets
//! without faults. [`Rule`]s judge them by [`Limits`]. Each [`Finding`] has a rule, a severity, evidence, an
//! owner and remedies. Counters cover the time since the host started; with an earlier snapshot
//! ([`Snapshot::after`]) they cover the time in between.
//!
//! One fault gives one finding: only the first rule in a chain of causes reports, and a counter that repeats
//! what a socket already shows does not.
//!
//! What it deliberately does not do: query the kernel, read a clock, or print. A value that could not be read
//! is never counted as a fault.
//!
//! ```
//! use sockeye_model::{Endpoint, Entry, Port, Protocol, Queues, Socket, State};
//! use sockeye_verdict::{Limits, Rule, Snapshot};
//!
//! let mut listener = Socket::new(Protocol::Tcp, State::Listen);
//! listener.local = Endpoint::inet([0, 0, 0, 0].into(), Port(80));
//! listener.queues = Queues::Accept { waiting: 129, backlog: Some(128) };
//!
//! let limits = Limits::default();
//! let mut snapshot = Snapshot::new(&limits);
//! snapshot.socket(&Entry::new(&listener));
//! let findings = snapshot.findings();
//! assert_eq!(findings[0].rule, Rule::AcceptQueue);
//! assert_eq!(findings[0].facts.value("waiting"), Some(129));
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_verdict;

mod closing;
mod connection;
mod connection_growth;
mod counter;
mod counter_samples;
mod device;
mod device_counters;
mod dns;
mod effects;
mod egress;
mod finding;
mod firewall;
mod host;
mod limit;
mod listener;
mod merge;
mod namespace;
mod own_queues;
mod ports;
mod recent_peers;
mod remedy;
mod rule;
mod sending;
mod share;
mod shell;
mod snapshot;
mod socket;
mod socket_counters;
mod subject;
mod suspects;
mod symptom;
mod symptom_groups;
#[cfg(test)]
mod tests;
mod victims;
mod waiting;

pub use connection::unsent_for_ms;
pub use counter::{MEANINGS, Meaning};
pub use effects::remove_effects;
pub use finding::{Example, Fact, Facts, Finding, ListenerQueue, Refused, Remedy, Subject, Victim};
pub use firewall::{DroppedPacket, PacketFilter};
pub use limit::{Limit, Limits, Unit};
pub use rule::{Rule, Scope};
pub use sending::{has_open_window, query as path_query};
pub use shell::shell_word;
pub use snapshot::{Baseline, Coverage, Snapshot};
pub use sockeye_dictionary::Severity;
pub use subject::EndpointText;
pub use suspects::Suspects;
