//! Captured packets: capture files, and decoding of each packet.
//!
//! [`Reader`] parses a pcap or pcapng file, [`pcap`] and [`pcapng`] write such files; [`decode`](fn@decode) finds the
//! TCP segment in a packet, inside tags and tunnels.
//!
//! What it deliberately does not do: decrypt, reassemble streams, or trust a length. A packet that was captured in part
//! is decoded as far as the captured bytes go.

mod decode;
mod file;
mod fragments;
mod link;
mod network;
mod order;
pub mod pcap;
pub mod pcapng;
mod segment;
mod transport;
mod tunnel;

pub use decode::{Decoded, Fragment, decode};
pub use file::{FileError, PACKET_LEN_MAX, Reader, Record, SkippedPackets, Step};
pub use fragments::Fragments;
pub use link::{Cooked, CookedKind, LinkType};
pub use segment::{SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps};
