//! What is wrong with a host: a snapshot of it goes in, findings come out.
//!
//! A [`Snapshot`] takes what a host tells of itself ([`sockeye_model::Vitals`], [`sockeye_model::HostVitals`]) and then
//! its sockets, one after the other; of those that are well it keeps nothing. [`Rule`]s judge them by [`Limits`], and
//! each [`Finding`] says what is wrong, how bad it is, what proves it, whose it is and what to do. Counters say what
//! was since the host started; with a snapshot of a while ago ([`Snapshot::after`]) they say what is now.
//!
//! One fault is one finding: of the reasons why a connection does not get on the first in a chain of causes is told,
//! and a counter that only repeats what a socket shows is not.
//!
//! What it deliberately does not do: ask the kernel anything, know what time it is, or print. It judges what it was
//! given; what nobody could read it does not hold against the host.
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

mod connection;
mod counter;
mod course;
mod device;
mod finding;
mod host;
mod judge;
mod limit;
mod listener;
mod namespace;
mod ports;
mod remedy;
mod rule;
mod shell;
mod snapshot;
mod suspects;
#[cfg(test)]
mod tests;
mod transit;

pub use counter::{MEANINGS, Meaning};
pub use finding::{Example, FACTS_MAX, Fact, Facts, Finding, Remedy, Subject};
pub use limit::{Limit, Limits, Unit};
pub use rule::{Rule, Scope};
pub use shell::shell_word;
pub use snapshot::{Memory, Seen, Snapshot};
pub use sockeye_dictionary::Severity;
