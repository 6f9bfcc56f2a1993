//! The reality that Sockeye's kernel tests compare with: network namespaces joined by veth pairs, sockets
//! brought into every state, and processes that hold them.
//!
//! A [`Lab`] is made by one test and takes everything along when it is dropped. In its [`Namespace`]s and
//! over its [`Link`]s, makers give [`Specimen`]s: real sockets, each with the truth about it (addresses,
//! inode, state, queues, timer, owner). A [`Lane`] is a path between two addresses; whatever it makes exists
//! over IPv4, IPv6 and v4-mapped, on loopback and between namespaces. A [`Process`] is a child with any name,
//! user and group that opens or shares sockets.
//!
//! A [`Middlebox`] joins two namespaces too, and delays, drops, repeats and reorders what goes through it.
//!
//! What it deliberately does not do: it uses none of the code under test (it reads `/proc/net/tcp`, asks
//! inet_diag and runs `ip` by itself; of `sys` it takes only the TUN devices), it never touches the host's own network, and it is no library for programs: once a
//! [`Lab`] is open, whatever fails panics, which is the failure of the test. Only what a machine may rightly
//! lack is a [`Skip`], told aloud by [`need!`].
//!
//! ```no_run
//! use sockeye_lab::{Lab, State, need};
//!
//! # fn main() { half_closed_connections_are_seen() }
//! fn half_closed_connections_are_seen() {
//!     let lab = need!(Lab::new("half_closed"));
//!     let (client, server) = (lab.namespace("client"), lab.namespace("server"));
//!     let pair = lab.link(&client, &server).lane6().half_closed();
//!     assert_eq!(pair.server.state, State::CloseWait);
//!
//!     // What a program under test says, run inside, is compared with `pair.server.local`, `.inode`, ...
//!     let said = server.output("ss", &["-Htan", "state", "close-wait"]);
//!     assert!(said.contains(&pair.server.local.unwrap().to_string()));
//! }
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_lab;

mod alone;
mod datagram;
mod lab;
mod lane;
mod link;
mod lookup;
mod middlebox;
mod must;
mod namespace;
mod options;
mod own_mounts;
mod process;
mod procnet;
mod skip;
mod specimen;
mod tcp;
#[cfg(test)]
mod tests;
mod unix;
mod wait;

pub use alone::{Alone, alone};
pub use lab::{Lab, output_of, program};
pub use lane::{Lane, Toward};
pub use link::Link;
pub use middlebox::{Fate, Middlebox, Weather};
pub use namespace::Namespace;
pub use options::{SocketOptions, congestion_control};
pub use own_mounts::OwnMounts;
pub use process::{Process, ProcessPlan};
pub use procnet::Row;
pub use skip::Skip;
pub use specimen::{Family, Pair, Protocol, Specimen, State, Timer, UnixName};
pub use tcp::FullQueue;
pub use unix::UnixKind;
pub use wait::{DEADLINE, wait_for, wait_until, wait_until_steady, wait_within};
