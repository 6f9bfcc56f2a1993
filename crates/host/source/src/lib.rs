//! Reads sockets, their owners and the names of things from the kernel; and packets from capture files.
//!
//! [`list`] takes a [`Query`]. It tries the sources in the order of the ladder (walk by BPF, one-pass netlink dump,
//! `sock_diag` v2, `/proc/net`) until one works, streams the sockets, and returns a [`QueryOutcome`]: which source was
//! used, why a better one was not, and what was lost.
//!
//! What it deliberately does not do: judge, fold or print sockets, or store them.
//!
//! It has more than 10,000 lines because the ladder of sources is one promise: every source returns the same sockets, owners
//! and losses, and falls back to the next. A crate per source would make each of them public.
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
//!     quiet: None,
//!     announce: None,
//! };
//! let mut sockets = 0;
//! let outcome = list(&BpfEngine::default(), &query, &mut |_socket, _kernel_verdict| {
//!     sockets += 1;
//!     ControlFlow::Continue(())
//! })
//! .unwrap();
//! println!("{sockets} TCP sockets, read by {}", outcome.used[0].source.unwrap());
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_source;

mod bpf;
pub mod capture;
mod conntrack;
pub mod destroy_events;
pub mod destroy_reader;
mod devices;
mod dump;
mod exact_query;
mod keepalive;
mod ladder;
pub mod names;
pub mod netns;
mod outcome;
pub mod owners;
mod pid_namespace;
mod probe;
mod proc_folder;
mod process_descriptors;
mod process_netns;
mod procfs;
mod protocol_group;
mod query;
mod quiet;
mod repeat;
#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod request_bits;
pub mod saved;
mod sock_diag;
mod socket_threads;
mod split_dump;
#[cfg(test)]
mod tests;
mod threads;
mod unavailable;
mod unsupported;
mod visits;
pub mod vitals;
mod walk;

pub use bpf::{BpfEngine, KernelNumbers};
pub use conntrack::{Translations, TranslationsError, translations};
pub use devices::{Address, Devices, Link, Map, net_file};
pub use keepalive::KeepaliveSettings;
pub use ladder::{Preparation, list, list_on_threads, list_with_message};
pub use outcome::{DumpContext, Error, KernelVerdict, ProtocolSource, QueryOutcome, Reason, SourceKind};
pub use pid_namespace::own_pid_namespace;
pub use probe::{Probe, ProbeResult, probe};
pub use process_netns::own_namespace;
pub use query::{Announce, Choice, End, Ends, Families, NetnsScope, OpenNetns, Query};
pub use quiet::{QuietSeen, QuietSocket, QuietWalk, WalkTime};
pub use socket_threads::{SocketThreads, TakeSocket};
pub use sockeye_model::Detail;
pub use split_dump::ephemeral_ports;
pub use unavailable::Unavailable;
pub use unsupported::refusal;

/// Runs `act` inside another network namespace, on a separate thread.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn within<T: Send>(netns: OpenNetns<'_>, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
    sockeye_sys::netns::within(netns.fd, act).map_err(|errno| Error::Namespace(netns.inode, errno))
}
