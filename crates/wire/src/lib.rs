//! Bytes to and from the structs that Linux speaks: netlink envelopes, `inet_diag` and its
//! siblings, `tcp_info`, the lines of `/proc/net`, and BTF, by which a kernel describes its structs.
//!
//! This crate says what the kernel *said*. A short `tcp_info` is an older kernel, so a field it
//! lacks is `None`; a number without a name stays that number. What it all means is `model`'s work.
//!
//! What it deliberately does not do: open, read or send anything, allocate per record, know about
//! time, or translate units. Views borrow the buffer they were cut from.
//!
//! Integers are read with their byte order spelled out: `ne_` for the kernel's own order (netlink is
//! spoken between one kernel and its own processes), `be_` for what travels on the network.
//!
//! ```
//! use sockeye_wire::netlink::{Messages, Request};
//!
//! // A dump request, then the kernel's "done", as they lie in one buffer.
//! let request = Request::dump(20, 7).finish();
//! let first = Messages::new(&request).next().unwrap().unwrap();
//! assert_eq!((first.kind, first.sequence, first.payload.len()), (20, 7, 0));
//! ```

#![cfg_attr(not(test), no_std)]
// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_wire;

extern crate alloc;

pub mod btf;
pub mod bytecode;
mod bytes;
pub mod calls;
mod error;
pub mod ethtool;
pub mod functions;
pub mod held;
pub mod holders;
pub mod inet_diag;
pub mod keeper;
pub mod netlink;
pub mod netlink_diag;
pub mod netns_file;
pub mod nsid;
pub mod packet;
pub mod packet_diag;
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
pub mod unix_diag;
pub mod upper_layer;
pub mod walk;

pub use error::{Error, Layer};
