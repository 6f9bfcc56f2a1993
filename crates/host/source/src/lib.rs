//! Where sockets come from: the ladder of sources, the owners of sockets, and the names of things; and packets, out of
//! capture files.
//!
//! Ask a [`Query`] of [`list`]; it climbs down the ladder (one-pass netlink dump, `sock_diag` v2,
//! `/proc/net`) until a source answers, streams the sockets, and says in its [`QueryOutcome`] which source that
//! was, why not a better one, and what was lost on the way.
//!
//! What it deliberately does not do: judge, fold or print sockets, or keep them.
//!
//! ```
//! use sockeye_model::{ProtocolSet, StateSet};
//! use sockeye_source::{list, Choice, Detail, Ends, BpfEngine, Families, Query, NetnsScope};
//! use std::ops::ControlFlow;
//!
//! let query = Query {
//!     protocols: ProtocolSet::from_name("tcp").unwrap(),
//!     families: Families::BOTH,
//!     states: StateSet::ALL,
//!     detail: Detail::default(),
//!     program: &[],
//!     ends: Ends::ANYWHERE,
//!     choice: Choice::Auto,
//!     scope: NetnsScope::Own,
//! };
//! let mut sockets = 0;
//! let outcome = list(&BpfEngine::default(), &query, &mut |_socket, _kernel_filter| {
//!     sockets += 1;
//!     ControlFlow::Continue(())
//! })
//! .unwrap();
//! println!("{sockets} TCP sockets, told by {}", outcome.used[0].source.unwrap());
//! ```

mod bpf;
pub mod capture;
pub mod destroy_events;
mod devices;
mod dump;
mod exact_query;
mod keepalive;
mod ladder;
pub mod names;
pub mod netns;
mod outcome;
pub mod owners;
mod probe;
mod procfs;
mod query;
mod repeat;
pub mod saved;
mod split_dump;
mod unsupported;
mod visits;
pub mod vitals;
mod walk;

pub use bpf::{BpfEngine, Unavailable};
pub use devices::{Address, Devices, Link, Map, net_file};
pub use keepalive::KeepaliveSettings;
pub use ladder::{list, list_with_message};
pub use outcome::{DumpContext, Error, KernelVerdict, ProtocolSource, QueryOutcome, Reason, SourceKind};
pub use probe::{Probe, ProbeResult, probe};
pub use query::{Choice, Detail, End, Ends, Families, NetnsScope, OpenNetns, Query};
pub use split_dump::ephemeral_ports;
pub use unsupported::refusal;

/// Runs `act` inside another network namespace, on a thread of its own.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn within<T: Send>(place: OpenNetns<'_>, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
    sockeye_sys::netns::within(place.fd, act).map_err(|errno| Error::Namespace(place.inode, errno))
}
