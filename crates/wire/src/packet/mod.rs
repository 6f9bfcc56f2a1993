//! Captured packets: capture files, and decoding of each packet.
//!
//! [`Reader`] parses a pcap, pcapng, snoop or ERF file, [`pcap`] and [`pcapng`] write such files; [`decode`](fn@decode) finds the
//! TCP segment in a packet, inside tags and tunnels.
//!
//! What it deliberately does not do: decrypt, reassemble what is in segments, or trust a length. A packet of which only
//! the beginning was captured is decoded as far as these bytes reach.
//!
//! Written here although `pcap-file` (three packages more) and `pcap-parser` (four) exist: both need the standard library, which
//! this crate does without. `pcap-file` does not know the headers of the patched libpcap, and `pcap-parser` writes only with a
//! fifth package.

mod cursor;
mod decode;
mod decoded;
mod erf;
mod file;
#[cfg(test)]
mod file_tests;
mod fragments;
mod link;
mod link_type;
mod network;
mod nflog;
mod notice;
mod order;
pub mod pcap;
pub mod pcapng;
mod segment;
mod snoop;
mod snoop_datalink;
mod step;
mod transport;
mod tunnel;
mod wireless;

pub use decode::decode;
pub use decoded::{Decoded, Fragment, Payload};
pub use file::Reader;
pub use fragments::Fragments;
pub use link::{Cooked, CookedKind};
pub use link_type::LinkType;
pub use notice::{DnsMessage, IcmpError, IcmpKind, Notice, notice};
pub use segment::{SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps};
pub use step::{FileError, PACKET_LEN_MAX, Record, SkippedPackets, Step};
