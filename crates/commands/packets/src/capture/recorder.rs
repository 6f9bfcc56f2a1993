//! From packets of the ring to blocks of a pcapng file.

use super::interface::{ARPHRD_LOOPBACK, Interface, Link};
use sockeye_sys::packet_ring::{Packet, PacketType};
use sockeye_wire::packet::pcapng::{self, Direction};

/// Blocks that are not yet written, and the interfaces that the file describes.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    /// Whole blocks.
    pub(super) buffer: Vec<u8>,
    interface: &'a Interface,
    snaplen: u32,
    filter: Option<String>,
    os: String,
    hardware: String,
    /// Indices and names of interfaces, in the order of their blocks.
    interfaces: Vec<(Option<u32>, String)>,
    /// Index and block number of the last packet's interface: most packets have the same.
    recent: (u32, u32),
    /// A packet with the VLAN tag or header that the kernel delivers separately.
    whole: Vec<u8>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(interface: &'a Interface, snaplen: u32, filter: Option<String>) -> Self {
        let system = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Self {
            buffer: Vec::with_capacity(1 << 18),
            interface,
            snaplen,
            filter,
            os: format!("{} {}", text(system.sysname()), text(system.release())),
            hardware: text(system.machine()),
            interfaces: vec![(interface.index, interface.name.clone())],
            recent: (0, 0),
            whole: Vec::new(),
        }
    }

    /// Begins a file with the interfaces that are known so far.
    pub(super) fn begin(&mut self) {
        let application = concat!("sockeye ", env!("CARGO_PKG_VERSION"));
        let section = pcapng::Section {
            hardware: Some(&self.hardware),
            os: Some(&self.os),
            application: Some(application),
        };
        pcapng::section(&mut self.buffer, &section);
        for number in 0..self.interfaces.len() {
            self.describe(number);
        }
    }

    fn describe(&mut self, number: usize) {
        let (_, name) = &self.interfaces[number];
        let is_all = self.interface.index.is_none() && number == 0;
        let description = if is_all {
            "all interfaces; statistics are of all together"
        } else {
            self.interface.link.description()
        };
        let about = pcapng::Interface {
            name: Some(name),
            description: Some(description),
            filter: self.filter.as_deref(),
            os: Some(&self.os),
            ..pcapng::Interface::new(self.interface.link.kind(), self.snaplen)
        };
        pcapng::interface(&mut self.buffer, &about);
    }

    /// Returns whether this is the outgoing copy of a loopback packet, which is received again.
    #[inline]
    pub(super) fn is_echo(&self, packet: &Packet<'_>) -> bool {
        packet.packet_type == PacketType::OUTGOING && packet.hardware == ARPHRD_LOOPBACK
    }

    /// Appends a packet. `name` returns the name of an interface that is not described yet.
    #[inline]
    pub(super) fn packet(
        &mut self,
        packet: &Packet<'_>,
        comment: Option<&str>,
        name: impl FnOnce(u32) -> Option<String>,
    ) {
        let number = match self.interface.index {
            Some(_) => 0,
            None if self.recent.0 == packet.interface => self.recent.1,
            None => self.number(packet.interface, name),
        };
        let added = self.interface.link.restore(packet, &mut self.whole);
        let bytes = if added > 0 { &self.whole } else { packet.bytes };
        let most = bytes.len().min(self.snaplen as usize);
        let block = pcapng::Packet {
            original_len: packet.original_len.saturating_add(added),
            direction: Some(match packet.packet_type {
                PacketType::OUTGOING => Direction::Outbound,
                _ => Direction::Inbound,
            }),
            comment,
            ..pcapng::Packet::new(number, packet.time_ns, &bytes[..most])
        };
        pcapng::packet(&mut self.buffer, &block);
    }

    /// Returns the number of an interface in the file; describes a new one first.
    fn number(&mut self, index: u32, name: impl FnOnce(u32) -> Option<String>) -> u32 {
        let known = self
            .interfaces
            .iter()
            .position(|(known, _)| *known == Some(index));
        let position = known.unwrap_or_else(|| {
            // The interface may be gone.
            let name = name(index).unwrap_or_else(|| format!("if{index}"));
            self.interfaces.push((Some(index), name));
            self.describe(self.interfaces.len() - 1);
            self.interfaces.len() - 1
        });
        let number = u32::try_from(position).unwrap_or(u32::MAX);
        self.recent = (index, number);
        number
    }

    /// Ends a file with its statistics.
    pub(super) fn end(&mut self, statistics: &pcapng::Statistics) {
        pcapng::statistics(&mut self.buffer, statistics);
    }

    /// Returns whether there is a filter.
    pub(super) const fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }
}

impl Link {
    /// Writes the packet into `whole` with the header or tag that the ring has elsewhere, and returns how many bytes that
    /// added; 0 if the ring has the packet whole.
    #[inline]
    fn restore(self, packet: &Packet<'_>, whole: &mut Vec<u8>) -> u32 {
        match (self, packet.vlan) {
            (Self::Ethernet | Self::Raw, None) => 0,
            (Self::Raw, Some(_)) => 0, // there is no header for it to be in
            (Self::Ethernet, Some((kind, tag))) => {
                let Some((addresses, rest)) = packet.bytes.split_at_checked(12) else {
                    return 0;
                };
                whole.clear();
                whole.extend_from_slice(addresses);
                whole.extend_from_slice(&kind.to_be_bytes());
                whole.extend_from_slice(&tag.to_be_bytes());
                whole.extend_from_slice(rest);
                VLAN_BYTES
            }
            (Self::Cooked, vlan) => {
                // struct sll2_header: protocol, reserved, interface, ARPHRD_*, PACKET_*, length of the address, address.
                whole.clear();
                let protocol = vlan.map_or(packet.protocol, |(kind, _)| kind);
                whole.extend_from_slice(&protocol.to_be_bytes());
                whole.extend_from_slice(&[0; 2]);
                whole.extend_from_slice(&packet.interface.to_be_bytes());
                whole.extend_from_slice(&packet.hardware.to_be_bytes());
                whole.push(packet.packet_type.0);
                whole.push(packet.address_len);
                whole.extend_from_slice(&packet.address);
                let mut added = SLL2_BYTES;
                if let Some((_, tag)) = vlan {
                    whole.extend_from_slice(&tag.to_be_bytes());
                    whole.extend_from_slice(&packet.protocol.to_be_bytes());
                    added += VLAN_BYTES;
                }
                whole.extend_from_slice(packet.bytes);
                added
            }
        }
    }
}

const VLAN_BYTES: u32 = 4;
const SLL2_BYTES: u32 = 20;
