//! Watches the kernel's tracepoints of the network: BPF programs at tracepoints write records into a ring, and this crate reads them.
//!
//! - [`Watch`]: the loaded and attached programs of one object, and the reader of their ring; shared by everything that watches
//! - [`Accounting`]: what was made, read and lost, by kind of record: `read + lost = made` once the programs are detached
//! - [`ConnectionWatch`]: opens, closes, resets and retransmissions of TCP connections
//! - [`DropWatch`]: dropped packets, counted in the kernel
//!
//! Programs stay attached as long as their [`Watch`] exists. They end with the descriptors of this process, however it ends.
//!
//! What it deliberately does not do: interpret records, which `sockeye_wire` does; judge, print or filter them.

mod accounting;
mod connections;
mod drops;
mod watch;

pub use accounting::{Accounting, KINDS, KindCounts};
pub use connections::{ConnectionOptions, ConnectionWatch};
pub use drops::{DropCounts, DropOptions, DropWatch};
pub use watch::{Objects, Tracepoint, Watch, WatchOptions};
