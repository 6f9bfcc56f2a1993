//! Where sockets come from: the ladder of sources, the owners of sockets, and the names of things; and packets, out of
//! capture files.
//!
//! Ask a [`Question`] of [`list`]; it climbs down the ladder (one-pass netlink dump, `sock_diag` v2,
//! `/proc/net`) until a rung answers, streams the sockets, and says in its [`Answer`] which rung that
//! was, why not a better one, and what was lost on the way.
//!
//! What it deliberately does not do: judge, fold or print sockets, or keep them.
//!
//! ```
//! use sockeye_model::{ProtocolSet, StateSet};
//! use sockeye_source::{list, Choice, Detail, Ends, Engine, Families, Question, Where};
//! use std::ops::ControlFlow;
//!
//! let question = Question {
//!     protocols: ProtocolSet::from_name("tcp").unwrap(),
//!     families: Families::BOTH,
//!     states: StateSet::ALL,
//!     detail: Detail::default(),
//!     program: &[],
//!     ends: Ends::ANYWHERE,
//!     choice: Choice::Auto,
//!     place: Where::Here,
//! };
//! let mut sockets = 0;
//! let answer = list(&Engine::default(), &question, &mut |_socket, _judged| {
//!     sockets += 1;
//!     ControlFlow::Continue(())
//! })
//! .unwrap();
//! println!("{sockets} TCP sockets, told by {}", answer.used[0].rung.unwrap());
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_source;

mod absent;
mod answer;
mod bpf;
pub mod capture;
pub mod closings;
mod devices;
mod dump;
mod exact;
mod halves;
mod keepalive;
mod ladder;
pub mod names;
pub mod netns;
pub mod owners;
mod probe;
mod procfs;
mod question;
mod repeat;
pub mod saved;
#[cfg(test)]
mod tests;
mod visits;
pub mod vitals;
mod walk;

pub use absent::refusal;
pub use answer::{Along, Answer, Error, Judged, Reason, Rung, Used};
pub use bpf::{Engine, Obstacle};
pub use devices::{Address, Devices, Link, Map, net_file};
pub use halves::ephemeral_ports;
pub use keepalive::KeepaliveSettings;
pub use ladder::{list, list_along};
pub use probe::{Finding, Probe, probe};
pub use question::{Choice, Detail, End, Ends, Families, Place, Question, Where};

/// Runs `act` inside another network namespace, on a thread of its own.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn within<T: Send>(place: Place<'_>, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
    sockeye_sys::netns::within(place.fd, act).map_err(|errno| Error::Namespace(place.inode, errno))
}
