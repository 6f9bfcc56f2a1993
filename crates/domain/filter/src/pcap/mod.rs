//! Packet filters in tcpdump's language, compiled to the classic BPF that the kernel runs for a packet socket.
//!
//! The language is that of pcap-filter(7): `host`, `net`, `port`, `portrange` with `src` and `dst`; protocols by name and
//! number; `ether`, `vlan`, `mpls`, `pppoed`, `pppoes`, `broadcast`, `multicast`, `less`, `greater`; `proto[offset:size]` with arithmetic; `and`, `or`
//! (of equal rank, from left to right), `not`, parentheses; qualifiers that are not repeated hold on. A packet gets the
//! verdict that libpcap 1.10 gives it, also where it is cut short: a test of what is not there rejects it.
//!
//! What it deliberately does not do: link layers other than Ethernet, raw IP and Linux's cooked headers; protocols of
//! other families (`iso`, `decnet`, `atm`...), `geneve`, `gateway`, `protochain`, `ip broadcast`. Each is a mistake that is told, with
//! what to write instead.
//!
//! Written here because the known compiler is libpcap, a C library: through the crate `pcap` it adds two packages, and libpcap
//! itself to whoever builds or runs a static binary. It also looks names up itself, which a pure crate leaves to whoever calls it,
//! and its mistakes have no place in the text.
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
mod lexer;
mod parse;
mod primitive;
mod tree;

pub use emit::{Instruction, TooLong};

use crate::{ParseError, Resolve};
use parse::Parser;
use tree::{Load, Node};

/// What packets begin with, where a filter looks at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet, as it stands in a file
    Ethernet,
    /// Ethernet, at a packet socket: an interface may have taken a VLAN tag off
    EthernetSocket,
    /// IP
    Raw,
    /// `LINKTYPE_LINUX_SLL2`, as it stands in a file
    Cooked,
    /// The same at a packet socket (`SOCK_DGRAM`), where the header is not there yet
    CookedSocket,
}

/// An expression, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketFilter {
    node: Option<Node>,
}

impl PacketFilter {
    /// Reads an expression; an empty one lets everything through.
    ///
    /// # Errors
    /// Where it makes no sense, or none for this link.
    pub fn parse(text: &str, link: Link, names: &dyn Resolve) -> Result<Self, ParseError> {
        let (node, looks_for_tags) = Parser::new(text, link, false, names).run()?;
        // A tag that was taken off stands beside the packet: then what follows it has not moved.
        let node = match node {
            Some(behind) if looks_for_tags && link.is_socket() => {
                let (beside, _) = Parser::new(text, link, true, names).run()?;
                beside.map(|beside| {
                    let is_beside = || Node::equal(Load::TagIsBeside, 1);
                    is_beside().and(beside).or(is_beside().not().and(behind))
                })
            }
            node => node,
        };
        Ok(Self { node })
    }

    /// Lets through only what passes this as well: of a packet socket, what did not go out by the loopback interface, from where it
    /// comes in again.
    #[must_use]
    pub fn without_echo(self, loopback: Option<u32>) -> Self {
        let is_outgoing = Node::equal(Load::Passage, PACKET_OUTGOING);
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

    /// The program, which lets `snaplen` bytes of a packet through.
    ///
    /// # Errors
    /// If it has more instructions than the kernel takes.
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
