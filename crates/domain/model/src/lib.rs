//! What a socket *means*: the one record every source fills and every filter, fold and renderer reads.
//!
//! `wire` says what the kernel said; here it becomes what we know. Numbers get units, zeros that mean
//! "nobody knows" become `None`, a listener's two queues get names of their own, and a value without a
//! name survives as `Unknown(n)`.
//!
//! What it deliberately does not do: ask the kernel anything, look names up, print, or allocate. A
//! [`Socket`] is a fixed-size value that lives on the stack for as long as its row is being made.
//!
//! ```
//! use sockeye_model::{Endpoint, Port, Protocol, Socket, State};
//!
//! let mut socket = Socket::new(Protocol::Tcp, State::Listen);
//! socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(80));
//! assert_eq!(socket.local.port(), Some(Port(80)));
//! assert_eq!(socket.tcp_info, None); // not asked for, or not known to this kernel
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_model;

mod congestion;
mod container;
mod endpoint;
mod entry;
mod flow;
mod from_wire;
mod ids;
pub mod iproute2;
mod losses;
mod memory;
mod mptcp;
mod names;
mod namespace;
mod netns_name;
mod owner;
mod particulars;
mod protocol;
mod protocol_set;
mod socket;
mod state;
mod tcp_info;
#[cfg(test)]
mod tests;
mod text;
mod timer;
mod vitals;

pub use congestion::{Algorithm, CongestionInfo};
pub use container::{Container, Runtime};
pub use endpoint::{Endpoint, UnixName};
pub use entry::Entry;
pub use flow::{Direction, Flow, FlowKey, GroupBy, Rates, Totals};
pub use from_wire::WalkedKernel;
pub use ids::{CgroupId, Cookie, Fd, Inode, InterfaceIndex, NetnsInode, Pgid, Pid, Port, Uid};
pub use losses::Losses;
pub use memory::Memory;
pub use mptcp::MptcpInfo;
pub use names::{Names, NoNames};
pub use namespace::{
    Age, AgeFrom, DescriptorKeeper, Few, KEEPERS_MAX, Keepers, MountKeeper, Namespace, SocketKeeper,
    ThreadKeeper, natural_order,
};
pub use netns_name::{BadNetnsName, NetnsName};
pub use owner::{Comm, Owner, Process};
pub use particulars::{Fanout, Instruction, Md5Key, PacketInfo, Particulars, Ring, Subflow, Tls, Vfs};
pub use protocol::{Family, Protocol};
pub use protocol_set::ProtocolSet;
pub use socket::{Options, Queues, Shutdown, Socket, Ulp};
pub use state::{State, StateSet};
pub use tcp_info::{CaState, TcpInfo};
pub use text::ShortText;
pub use timer::{Timer, TimerKind};
pub use vitals::{
    Bond, BondPort, Counter, Counters, Device, DeviceName, Duplex, Fill, HostVitals, MemoryUse,
    NeighbourTable, Neighbours, OpenFiles, Qdisc, Settings, Softnet, Traffic, Usage, Vitals,
};
