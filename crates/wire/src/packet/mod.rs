//! Captured packets: capture files, and decoding of each packet.
//!
//! [`Reader`] parses a pcap or pcapng file, [`pcap`] and [`pcapng`] write such files; [`decode`](fn@decode) finds the
//! TCP segment in a packet, inside tags and tunnels.
//!
//! What it deliberately does not do: decrypt, reassemble what is in segments, or trust a length. Of a packet of which only
//! the beginning was captured as much is told as that beginning tells.
//!
//! Written here although `pcap-file` (three packages more) and `pcap-parser` (four) exist: both need the standard library, which
//! this crate does without. `pcap-file` does not know the headers of the patched libpcap, and `pcap-parser` writes only with a
//! fifth package.

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
