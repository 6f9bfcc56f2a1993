//! Connections whose data stand still: where they are, what they wait for, and what shows it.
//!
//! - [`StuckFold`]: compares looks at sockets
//! - [`StuckCause`]: what the data of a socket wait for
//! - [`Stuck`], [`Idle`]: connections with the evidence
//!
//! What is said of them is in `standing`.

mod cause;
mod fold;

pub use cause::StuckCause;
pub(crate) use fold::fin_received;
pub use fold::{Observed, StuckFold};

use crate::hop::Device;
use sockeye_model::{Device as NetworkDevice, NetnsInode, NextHop, Process, ProcessState, Socket};
use sockeye_verdict::Rule;
use std::net::IpAddr;

/// A connection, a listener or an unconnected socket whose data stand still.
#[derive(Debug, Clone, PartialEq)]
pub struct Stuck {
    /// The socket at the last look.
    pub socket: Socket,
    /// What its data wait for.
    pub cause: StuckCause,
    /// How long they have waited at least.
    pub waits_ns: u64,
    /// What was seen of it.
    pub observed: Observed,
    /// Its program; `None` if unknown, or if it has none.
    pub program: Option<Program>,
    /// Further processes that have the socket: a child has those of its parent.
    pub other_owners: u64,
    /// The other end, if it is on this host.
    pub peer: Option<PeerHere>,
    /// How this host would send to the peer now.
    pub way: Option<Way>,
    /// Its segments that were followed.
    pub sent: Option<SegmentsSeen>,
    /// What the rules of `check` say of it.
    pub finding: Option<FindingWords>,
    /// Whether it is the effect of another one that is listed, and there is nothing more to say of it.
    pub is_effect: bool,
    /// Further connections of the same program that wait for the same.
    pub more: u64,
}

/// A program and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its process.
    pub process: Process,
    /// What it does; `None` if it may not be read.
    pub state: Option<ProcessState>,
}

/// The other end of a connection, on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerHere {
    /// Its network namespace.
    pub netns: Option<NetnsInode>,
    /// The name of that.
    pub netns_name: Option<String>,
    /// Bytes that its program has not read; of a listener: connections that wait to be accepted.
    pub unread: u64,
    /// Whether it is a listener with a full queue.
    pub is_full_listener: bool,
    /// Its program.
    pub program: Option<Program>,
}

/// How this host would send to a peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// The device, with its queues.
    pub device: NetworkDevice,
    /// The router; `None` if the peer is on the link.
    pub gateway: Option<IpAddr>,
    /// What is known of the next hop; `None` without an entry.
    pub next_hop: Option<NextHop>,
    /// Packets in the queue of the device; `None` if it has none.
    pub queued_packets: Option<u64>,
    /// Packets that left the queue between two looks; `None` if there was one look.
    pub passed_packets: Option<u64>,
    /// What reads the device, if a program does; `None` for other devices.
    pub tunnel: Option<Tunnel>,
}

/// A device whose packets a program reads (tun, tap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// The first of the programs that have it open; `None` if none is known.
    pub program: Option<Program>,
    /// Packets that were read between two looks; `None` if there was one look.
    pub read_packets: Option<u64>,
}

/// Segments of a connection with data that left the socket while packets were followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentsSeen {
    /// Their number.
    pub count: u64,
    /// Length of the longest with its headers.
    pub bytes_max: u32,
    /// The last device that it was seen at.
    pub device: Option<Device>,
    /// How many of them were dropped on this host.
    pub dropped: u64,
}

/// What a rule of `check` says, with commands as they are typed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingWords {
    /// The rule.
    pub rule: Rule,
    /// What it means.
    pub meaning: String,
    /// What it is about: `device eth0`.
    pub subject: Option<String>,
    /// Commands.
    pub commands: Vec<String>,
    /// What no command does.
    pub advice: Vec<String>,
    /// Path MTU, where segments of full size may not get through.
    pub untried_mtu: Option<u32>,
}

/// Connections without data in their queues.
#[derive(Debug, Clone, PartialEq)]
pub struct Idle {
    /// Their number.
    pub connections: u64,
    /// The one that was used last.
    pub latest: Socket,
    /// Its program.
    pub program: Option<Program>,
}

/// Code of the sentence about connections that no program has any more.
pub(crate) const ABANDONED: &str = "abandoned";
