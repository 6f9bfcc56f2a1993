//! The record of a socket, which every source fills and every filter, fold and renderer reads; and the records of
//! flows, network namespaces, containers and vitals.
//!
//! `wire` has what the kernel reports; this crate has what it means. Numbers get units, zeros that mean
//! "unknown" become `None`, a listener's two queues get their own names, and a value without a
//! name is kept as `Unknown(n)`.
//!
//! What it deliberately does not do: query the kernel, look up names, or print. A [`Socket`] is a fixed-size value
//! without allocations; one value is reused for all sockets of a dump.
//!
//! ```
//! use sockeye_model::{Endpoint, Port, Protocol, Socket, State};
//!
//! let mut socket = Socket::new(Protocol::Tcp, State::Listen);
//! socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(80));
//! assert_eq!(socket.local.port(), Some(Port(80)));
//! assert_eq!(socket.tcp_info, None); // not requested, or unknown to this kernel
//! ```

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_model;

mod cgroup_path;
mod congestion;
mod connection_event;
mod container;
mod counted;
mod detail;
mod diag_details;
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
mod nearest_name;
mod netns_name;
mod owner;
mod place;
mod protocol;
mod protocol_set;
mod quantity_name;
mod socket;
mod state;
mod tcp_info;
#[cfg(test)]
mod tests;
mod text;
mod timer;
mod translation;
mod vitals;
mod workload;

pub use cgroup_path::{cgroup_path, is_cgroup2_only, pod_of_cgroup, unit_of_cgroup};
pub use congestion::{Algorithm, CongestionInfo};
pub use connection_event::{
    ConnectionEnd, ConnectionEvent, ConnectionEventKind, ErrorCause, EventDetails, EventOwner, OwnerKnownBy,
    Refusal, Retransmission, Side,
};
pub use container::{Container, Runtime};
pub use counted::{counted, counted_were};
pub use detail::Detail;
pub use diag_details::{DiagDetails, Fanout, Instruction, Md5Key, PacketInfo, Ring, Subflow, Tls, Vfs};
pub use endpoint::{Endpoint, UnixName};
pub use entry::Entry;
pub use flow::{ConnectionTotals, Direction, Flow, FlowKey, GroupBy, Rates, SocketRates, Totals};
pub use from_wire::WalkLayout;
pub use ids::{CgroupId, Cookie, Fd, Inode, InterfaceIndex, NetnsInode, Pgid, Pid, Port, Uid};
pub use losses::Losses;
pub use memory::Memory;
pub use mptcp::MptcpInfo;
pub use names::{Names, NoNames};
pub use namespace::{
    Age, AgeFrom, DescriptorHolder, HOLDERS_MAX, MountHolder, Namespace, NetnsHolders, SocketHolder,
    ThreadHolder, TruncatedList, natural_order,
};
pub use nearest_name::nearest_name;
pub use netns_name::{InvalidNetnsName, NetnsName};
pub use owner::{Comm, Owner, Process};
pub use place::Place;
pub use protocol::{Family, Protocol};
pub use protocol_set::ProtocolSet;
pub use quantity_name::{is_name_of, is_same_name, strip_unit};
pub use socket::{Options, Queues, Shutdown, Socket, Ulp};
pub use state::{State, StateSet};
pub use tcp_info::{CaState, TcpInfo};
pub use text::ShortText;
pub use timer::{Timer, TimerKind};
pub use translation::{ConnectionEnds, Translation};
pub use vitals::{
    Base, Bond, BondPort, BridgePort, Counter, Counters, DescriptorKinds, Device, DeviceName, DeviceQueues,
    Duplex, Element, Expression, Fill, Firewall, FirewallChain, FirewallFamily, FirewallRule,
    FirewallRuleName, FirewallVerdict, Hook, HostVitals, MemoryUse, MetaKey, NeighbourTable, Neighbours,
    NextHop, OpenFiles, Operator, PathQuery, ProcessState, Qdisc, Route, SendPath, Settings, Softnet,
    Traffic, Usage, Vitals,
};
pub use workload::{NO_WORKLOAD, Workload, WorkloadId, WorkloadKind, WorkloadSource, Workloads};
