//! Packet filters in tcpdump's language, compiled to the classic BPF that the kernel runs for a packet socket.
//!
//! The language is that of pcap-filter(7): `host`, `net`, `port`, `portrange` with `src` and `dst`; protocols by name and
//! number; `ether`, `vlan`, `mpls`, `pppoed`, `pppoes`, `broadcast`, `multicast`, `less`, `greater`; `proto[offset:size]` with arithmetic; `and`, `or`
//! (with equal precedence, from left to right), `not`, parentheses; qualifiers that are not repeated are inherited. The result for a
//! packet is that of libpcap 1.10, also for a truncated one: a test of missing bytes rejects it.
//!
//! What it deliberately does not do: link layers other than Ethernet, raw IP and Linux's cooked headers; protocols of
//! other families (`iso`, `decnet`, `atm`...), `geneve`, `gateway`, `protochain`, `ip broadcast`. Each is an error with
//! a hint what to write instead.
//!
//! Written here because the known compiler is libpcap, a C library: through the crate `pcap` it adds two packages, and libpcap
//! itself to the build or to the host. It also looks names up itself, which a pure crate leaves to its caller, and its errors have no
//! position in the text.
//!
//! ```
//! use sockeye_filter::NoResolve;
//! use sockeye_filter::pcap::{Link, PacketFilter};
//!
//! let filter = PacketFilter::parse("tcp port 80 or 443", Link::Ethernet, &NoResolve).unwrap();
//! let program = filter.program(262_144).unwrap();
//! assert!(program.len() < 50);
//! assert!(PacketFilter::parse("tcp port", Link::Ethernet, &NoResolve).is_err());
//! ```

mod arithmetic;
mod emit;
mod headers;
mod keywords;
mod lexer;
mod names;
mod parse;
mod qualifiers;
mod tree;

pub use emit::{Instruction, TooLong};

use crate::{ParseError, Resolve};
use parse::Parser;
use tree::{Load, Node};

/// The first header of the packets that a filter sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet in a capture file
    Ethernet,
    /// Ethernet at a packet socket: the kernel may have removed a VLAN tag
    EthernetSocket,
    /// IP
    Raw,
    /// `LINKTYPE_LINUX_SLL2` in a capture file
    Cooked,
    /// A packet socket without link header (`SOCK_DGRAM`), whose captures become `LINKTYPE_LINUX_SLL2`
    CookedSocket,
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketFilter {
    node: Option<Node>,
}

impl PacketFilter {
    /// Parses an expression; an empty one accepts everything.
    ///
    /// # Errors
    /// When it is malformed, or makes no sense for this link.
    pub fn parse(text: &str, link: Link, names: &dyn Resolve) -> Result<Self, ParseError> {
        let (node, looks_for_tags) = Parser::new(text, link, false, names).run()?;
        // A removed tag is in the packet's metadata: the bytes after it have not moved then.
        let node = match node {
            Some(in_packet) if looks_for_tags && link.is_socket() => {
                let (with_metadata, _) = Parser::new(text, link, true, names).run()?;
                with_metadata.map(|with_metadata| {
                    let is_tag_offloaded = || Node::equal(Load::VlanTagPresent, 1);
                    is_tag_offloaded()
                        .and(with_metadata)
                        .or(is_tag_offloaded().not().and(in_packet))
                })
            }
            node => node,
        };
        Ok(Self { node })
    }

    /// Also rejects packets that are sent on the interface with the index `loopback` (on any interface if `None`), since a
    /// packet socket on loopback receives them again.
    #[must_use]
    pub fn without_echo(self, loopback: Option<u32>) -> Self {
        let is_outgoing = Node::equal(Load::PacketType, PACKET_OUTGOING);
        let echo = match loopback {
            Some(index) => is_outgoing.and(Node::equal(Load::Interface, index)),
            None => is_outgoing,
        };
        let node = match self.node {
            Some(node) => echo.not().and(node),
            None => echo.not(),
        };
        Self { node: Some(node) }
    }

    /// Returns the program, which accepts `snaplen` bytes of a packet.
    ///
    /// # Errors
    /// When it has more instructions than the kernel accepts.
    pub fn program(&self, snaplen: u32) -> Result<Vec<Instruction>, TooLong> {
        emit::program(self.node.as_ref(), snaplen)
    }
}

impl Link {
    const fn is_socket(self) -> bool {
        matches!(self, Self::EthernetSocket | Self::CookedSocket)
    }
}

/// `include/uapi/linux/if_packet.h`
const PACKET_OUTGOING: u32 = 4;
