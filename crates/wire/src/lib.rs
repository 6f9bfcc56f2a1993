//! Encoding and decoding of the structs of Linux's interfaces: netlink envelopes, `inet_diag` and its
//! siblings, `tcp_info`, the lines of `/proc/net`, and BTF, which describes a kernel's structs.
//!
//! This crate returns what the kernel *said*. A short `tcp_info` means an older kernel, so a field it
//! lacks is `None`; an unknown number stays a number. `model` interprets the values.
//!
//! What it deliberately does not do: open, read or send anything, allocate per record, use a clock,
//! or convert units. Views borrow the buffer they were parsed from.
//!
//! It has more than 10,000 lines because Linux has that many interfaces. Each is a module that can be read alone; as
//! crates of their own they would share nothing but byte order, attributes and errors, which are here.
//!
//! Integers are read with an explicit byte order: `ne_` for the kernel's native order (netlink stays
//! on one host), `be_` for the network's.
//!
//! ```
//! use sockeye_wire::netlink::{Messages, Request};
//!
//! // A dump request, parsed back from the buffer it was written to.
//! let request = Request::dump(20, 7).finish();
//! let first = Messages::new(&request).next().unwrap().unwrap();
//! assert_eq!((first.kind, first.sequence, first.payload.len()), (20, 7, 0));
//! ```

#![cfg_attr(not(test), no_std)]
// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_wire;

extern crate alloc;

#[macro_use]
mod layout;

pub mod btf;
pub mod bytecode;
mod bytes;
pub mod calls;
pub mod connections;
pub mod conntrack;
pub mod drops;
mod error;
pub mod ethtool;
pub mod fd_sockets;
pub mod functions;
pub mod holders;
pub mod inet_diag;
pub mod keepalive_program;
pub mod netlink;
pub mod netlink_diag;
pub mod netns_file;
pub mod nf_tables;
pub mod nsid;
pub mod packet;
pub mod packet_diag;
pub mod path;
pub mod perf;
pub mod proc_maps;
pub mod proc_net;
pub mod proc_pid;
pub mod proc_sys;
pub mod rtnetlink;
pub mod task_file;
pub mod tcp_info;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod udp_bytes;
pub mod unix_diag;
pub mod upper_layer;
pub mod walk;

pub use error::{Error, Layer};
