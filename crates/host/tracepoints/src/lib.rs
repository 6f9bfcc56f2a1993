//! Watches the kernel's tracepoints of the network: BPF programs at tracepoints write records into a ring, and this crate reads them.
//!
//! - [`Watch`]: the loaded and attached programs of one object, and the reader of their ring; shared by everything that watches
//! - [`Accounting`]: what was made, read and lost, by kind of record: `read + lost = made` once the programs are detached
//! - [`ConnectionWatch`]: opens, closes, resets and retransmissions of TCP connections
//! - [`ConnectionCollector`]: the same, read in the background and kept until they are taken
//! - [`DropWatch`]: dropped packets, counted in the kernel
//! - [`PathWatch`]: packets on their way through the host, with the time at each point
//! - [`UdpBytesWatch`]: what each process sends and receives over UDP
//! - [`probe_watches`]: what of that works on this kernel, with these rights
//! - [`Budget`]: how much of a processor that may take
//!
//! Programs stay attached as long as their [`Watch`] exists. They end with the descriptors of this process, however it ends.
//!
//! What it deliberately does not do: interpret records, which `sockeye_wire` does; judge, print or filter them.

mod accounting;
mod budget;
mod connections;
mod drops;
mod path;
mod per_processor;
mod support;
mod udp_bytes;
mod watch;

pub use accounting::{Accounting, KINDS, KindCounts};
pub use budget::Budget;
pub use connections::{
    Collected, ConnectionCollector, ConnectionOptions, ConnectionWatch, CountedAside, Protocols, Untracked,
};
pub use drops::{DropCounts, DropOptions, DropWatch};
pub use path::{PathEnd, PathOptions, PathWatch};
pub use support::{WatchSupport, probe_watches};
pub use udp_bytes::{UdpBytes, UdpBytesWatch};
pub use watch::{Objects, Tracepoint, Watch, WatchOptions};
