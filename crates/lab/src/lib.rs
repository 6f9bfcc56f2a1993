//! A laboratory for tests of the live kernel: network namespaces connected by veth pairs, sockets in every
//! state, and processes that own them.
//!
//! A test opens a [`Lab`], which removes everything when it is dropped. Its [`Namespace`]s and [`Link`]s
//! create [`LabSocket`]s: real sockets with their expected values (addresses, inode, state, queues, timer,
//! owner). A [`NetPath`] is a path between two addresses, over IPv4, IPv6 or v4-mapped, on loopback or
//! between namespaces. A [`Process`] is a child with any name, user and group that opens or shares sockets.
//!
//! A [`Middlebox`] also connects two namespaces; it delays, drops, duplicates and reorders packets.
//!
//! What it deliberately does not do: use the code under test (it reads `/proc/net/tcp`, queries inet_diag and
//! runs `ip` by itself; of `sys` it takes only the TUN devices), or touch the host's own network. It is no
//! library for programs: once a [`Lab`] is open, every failure panics and fails the test. Only what a machine
//! may lack is a [`Skip`], which [`need!`] reports.
//!
//! ```no_run
//! use sockeye_lab::{Lab, State, need};
//!
//! # fn main() { half_closed_connections_are_seen() }
//! fn half_closed_connections_are_seen() {
//!     let lab = need!(Lab::new("half_closed"));
//!     let (client, server) = (lab.namespace("client"), lab.namespace("server"));
//!     let pair = lab.link(&client, &server).net_path6().half_closed();
//!     assert_eq!(pair.server.state, State::CloseWait);
//!
//!     // Compare the output of a program in the namespace with `pair.server.local`, `.inode`, ...
//!     let output = server.output("ss", &["-Htan", "state", "close-wait"]);
//!     assert!(output.contains(&pair.server.local.unwrap().to_string()));
//! }
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_lab;

mod alone;
mod child_handle;
mod datagram;
mod lab;
mod lab_socket;
mod link;
mod lookup;
mod middlebox;
mod mount_namespace;
mod namespace;
mod net_path;
mod options;
mod or_panic;
mod process;
mod procnet;
mod program;
mod skip;
mod tcp;
mod tcp_state;
#[cfg(test)]
mod tests;
mod unix;
mod wait;

pub use alone::{Alone, alone};
pub use lab::Lab;
pub use lab_socket::{Family, LabSocket, Pair, Protocol, UnixName};
pub use link::Link;
pub use middlebox::{Impairment, Middlebox, PathCounters};
pub use mount_namespace::MountNamespace;
pub use namespace::Namespace;
pub use net_path::{NetPath, Toward};
pub use options::{SocketOptions, congestion_control};
pub use process::{Process, ProcessPlan};
pub use procnet::Row;
pub use program::{output_of, program};
pub use skip::Skip;
pub use tcp::FullQueue;
pub use tcp_state::{State, Timer};
pub use unix::UnixKind;
pub use wait::{DEADLINE, holds_within, wait_for, wait_until, wait_until_steady, wait_within};
