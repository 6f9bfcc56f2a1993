//! Packet capture on an interface: a packet socket with a ring that the kernel shares with us (`TPACKET_V3`, Linux
//! 3.2).
//!
//! The kernel fills one block of the ring after the other and hands each over by its status word; the reader that drops a
//! [`Block`] returns it. Each offset in a block is checked before it is used.
//!
//! libpcap (crate `pcap`) is not used: it does not return whole blocks, so each packet would take a copy or a call.
#![allow(unsafe_code)]

use crate::errno::checked;
use crate::mapping::Mapping;
use crate::socket_option;
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// A packet socket with its ring, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct PacketRing {
    fd: OwnedFd,
    mapping: Mapping,
    block_bytes: usize,
    blocks: usize,
    /// Index of the block that the kernel hands over next.
    next: usize,
}

/// Options of a packet ring.
#[derive(Debug, Clone, Copy)]
pub struct RingOptions<'a> {
    /// Index of the interface; `None` for all interfaces.
    pub interface: Option<u32>,
    /// Whether link-layer headers are removed (`SOCK_DGRAM`), so that packets begin with the network layer.
    pub is_cooked: bool,
    /// Whether to receive incoming packets only. Kernels before Linux 4.20 ignore it: see [`Packet::packet_type`].
    pub ignores_outgoing: bool,
    /// Whether to receive packets for other hosts as well.
    pub is_promiscuous: bool,
    /// Classic BPF program that selects packets and the captured length of each; empty for all packets, whole.
    pub filter: &'a [Instruction],
    /// Size of a block in bytes: a power of two, at least a page, and more than the longest packet.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Longest time in milliseconds from a block's first packet until it is handed over.
    pub wait_ms: u32,
}

/// An instruction of classic BPF, as `struct sock_filter` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code
    pub code: u16,
    /// Number of instructions to skip if its condition holds
    pub yes: u8,
    /// Number of instructions to skip if it does not hold
    pub no: u8,
    /// Its operand
    pub operand: u32,
}

/// A failed system call while setting up a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingError {
    /// Name of the operation, which follows "cannot"
    pub operation: &'static str,
    /// The kernel's error
    pub errno: Errno,
}

impl RingError {
    /// Whether the ring is too large: a smaller one may succeed.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.errno == Errno::NOMEM && matches!(self.operation, SET_UP | MAP)
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.operation, self.errno)
    }
}

impl std::error::Error for RingError {}

/// Packet counts since the last [`PacketRing::statistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets that passed the filter, including the dropped ones
    pub passed: u32,
    /// Packets that passed the filter and were dropped because the ring was full
    pub dropped: u32,
    /// Number of times that the ring became full
    pub freezes: u32,
}

impl PacketRing {
    /// Opens a socket in the calling thread's network namespace and starts receiving.
    ///
    /// # Errors
    /// The first operation that failed: opening the socket with `EPERM` without CAP_NET_RAW, the ring with `ENOMEM` if
    /// it is too large, `bind` with `ENODEV` if the interface is gone, its state with `ENETDOWN` if it is down.
    pub fn open(plan: &RingOptions<'_>) -> Result<Self, RingError> {
        let kind = if plan.is_cooked {
            SocketType::DGRAM
        } else {
            SocketType::RAW
        };
        // Without a protocol nothing is received until everything is set up.
        let fd = socket_with(AddressFamily::PACKET, kind, SocketFlags::CLOEXEC, None)
            .map_err(failed("open a packet socket"))?;
        let set = |option, value: u32| socket_option::set(fd.as_fd(), libc::SOL_PACKET, option, &[value]);
        set(libc::PACKET_VERSION, TPACKET_V3).map_err(failed("ask for a packet ring of version 3"))?;
        // No space is reserved before each packet: only putting VLAN tags back in place would need it.
        if plan.ignores_outgoing {
            let _ = set(PACKET_IGNORE_OUTGOING, 1);
        }
        let request = [
            plan.block_bytes,
            plan.blocks,
            FRAME_BYTES,
            (plan.block_bytes / FRAME_BYTES).saturating_mul(plan.blocks),
            plan.wait_ms,
            0, // private bytes of each block
            0, // features
        ];
        socket_option::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(failed(SET_UP))?;
        if !plan.filter.is_empty() {
            attach(fd.as_fd(), plan.filter).map_err(failed("attach the packet filter"))?;
        }
        let (block_bytes, blocks) = (plan.block_bytes as usize, plan.blocks as usize);
        let bytes = block_bytes.checked_mul(blocks).ok_or(Errno::OVERFLOW);
        let bytes = bytes.map_err(failed(MAP))?;
        let ring = Self {
            mapping: Mapping::shared(&fd, bytes).map_err(failed(MAP))?,
            fd,
            block_bytes,
            blocks,
            next: 0,
        };
        bind_to(ring.fd.as_fd(), plan.interface.unwrap_or(0)).map_err(failed("bind the packet socket"))?;
        if let Some(errno) = ring.failure() {
            return Err(RingError {
                operation: "receive from the interface",
                errno,
            });
        }
        if let (Some(index), true) = (plan.interface, plan.is_promiscuous) {
            // struct packet_mreq: index, type, length of the address, the address.
            let request = [index, u32::from_ne_bytes(pair(PACKET_MR_PROMISC, 0)), 0, 0];
            socket_option::set(
                ring.fd.as_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                &request,
            )
            .map_err(failed("switch the interface to promiscuous mode"))?;
        }
        Ok(ring)
    }

    /// Returns the next block, or `None` if the kernel has not handed it over yet.
    pub fn block(&mut self) -> Option<Block<'_>> {
        let start = self.next * self.block_bytes;
        let status = self.status(start);
        if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (self.next + 1) % self.blocks;
        Some(Block { ring: self, start })
    }

    /// Stops receiving, by a filter that rejects everything; packets already in the ring stay.
    ///
    /// # Errors
    /// The errno of `setsockopt(2)`.
    pub fn close(&self) -> Result<(), Errno> {
        let nothing = Instruction {
            code: BPF_RET_K,
            yes: 0,
            no: 0,
            operand: 0,
        };
        attach(self.fd.as_fd(), &[nothing])
    }

    /// Returns and resets the packet counts.
    ///
    /// # Errors
    /// The errno of `getsockopt(2)`.
    pub fn statistics(&self) -> Result<Statistics, Errno> {
        let mut bytes = [0; 12];
        socket_option::read(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut bytes)?;
        let [passed, dropped, freezes] = [0, 4, 8].map(|at| u32_at(&bytes, at).unwrap_or(0));
        Ok(Statistics {
            passed,
            dropped,
            freezes,
        })
    }

    /// Returns and clears the socket's pending error: `ENETDOWN` if its interface went down or was removed.
    #[must_use]
    pub fn failure(&self) -> Option<Errno> {
        sockopt::socket_error(&self.fd).ok()?.err()
    }

    /// Returns an interface's current name; `None` if no interface has this index.
    #[must_use]
    pub fn interface_name(&self, index: u32) -> Option<String> {
        index_to_name(&self.fd, index).ok()
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: `block` is the start of one of the ring's blocks, each of which is at least a page.
        let word = unsafe { self.mapping.start().add(block + BLOCK_STATUS) };
        // SAFETY: it is aligned, as blocks begin at pages; it lives as long as the ring; the kernel, its only other
        // user, reads and writes it as one word.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }
}

/// The descriptor is readable when a block was handed over.
impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A block of the ring; dropping it returns it to the kernel.
#[derive(Debug)]
pub struct Block<'a> {
    ring: &'a mut PacketRing,
    start: usize,
}

impl Block<'_> {
    /// The packets in the block, in order of arrival.
    #[must_use]
    pub fn packets(&self) -> Packets<'_> {
        let bytes = self.bytes();
        let read = |at| u32_at(bytes, at).unwrap_or(0);
        Packets {
            bytes,
            at: read(BLOCK_FIRST) as usize,
            left: read(BLOCK_PACKETS),
        }
    }

    /// Whether the kernel has handed over the next block as well.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        let next = self.ring.status(self.ring.next * self.ring.block_bytes);
        next.load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// As [`PacketRing::interface_name`].
    #[must_use]
    pub fn interface_name(&self, index: u32) -> Option<String> {
        self.ring.interface_name(index)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is the start of one of the ring's blocks.
        let start = unsafe { self.ring.mapping.start().add(self.start) };
        // SAFETY: that many bytes are mapped there, and stay mapped as long as the ring, which is borrowed; the kernel
        // does not write to a block between handing it over (`PacketRing::block` has checked that) and getting it back
        // (`drop`), and this process never does.
        unsafe { std::slice::from_raw_parts(start, self.ring.block_bytes) }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // Release: our reads come before the kernel's next write.
        self.ring
            .status(self.start)
            .store(TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// The packets of a block.
#[derive(Debug, Clone)]
pub struct Packets<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u32,
}

impl Packets<'_> {
    /// Returns the number of packets that have not been read; not 0 at the end if a bad record ended the block early.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        if self.left == 0 {
            return None;
        }
        let record = self.bytes.get(self.at..)?;
        let (packet, next) = Packet::parse(record)?;
        self.left -= 1;
        if self.left > 0 {
            // A record whose next offset does not advance would repeat for ever.
            if next < HEADER_BYTES {
                self.at = usize::MAX;
            } else {
                self.at = self.at.saturating_add(next);
            }
        }
        Some(packet)
    }
}

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The captured bytes, without a VLAN tag that the interface removed
    pub bytes: &'a [u8],
    /// Length of the whole packet in bytes
    pub original_len: u32,
    /// Capture time in nanoseconds since 1970
    pub time_ns: u64,
    /// The VLAN tag that the interface removed: its protocol (`0x8100`, `0x88a8`) and its value (TCI)
    pub vlan: Option<(u16, u16)>,
    /// Index of the interface
    pub interface: u32,
    /// Hardware type of the interface (`ARPHRD_*`)
    pub hardware: u16,
    /// Protocol of the payload of the link layer (`ETH_P_*`)
    pub protocol: u16,
    /// Direction and kind of destination (`PACKET_*`)
    pub packet_type: PacketType,
    /// Link-layer address of the sender, at most 8 bytes of it
    pub address: [u8; 8],
    /// Length of that address in bytes
    pub address_len: u8,
}

impl<'a> Packet<'a> {
    /// Parses a record of the ring (`struct tpacket3_hdr`, `struct sockaddr_ll`, the packet). Returns the packet and
    /// the offset of the next record.
    #[inline]
    fn parse(record: &'a [u8]) -> Option<(Self, usize)> {
        let head: &[u8; HEADER_BYTES + ADDRESS_BYTES] = record.first_chunk()?;
        let long = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let short = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let captured_len = long(12) as usize;
        let status = long(20);
        let begin = usize::from(short(24));
        let bytes = record.get(begin..)?.get(..captured_len)?;
        let vlan = (status & TP_STATUS_VLAN_VALID != 0).then(|| {
            let is_known = status & TP_STATUS_VLAN_TPID_VALID != 0 && short(36) != 0;
            (if is_known { short(36) } else { ETH_P_8021Q }, long(32) as u16)
        });
        let mut address = [0; 8];
        address.copy_from_slice(&head[60..68]);
        let packet = Self {
            bytes,
            original_len: long(16),
            time_ns: u64::from(long(4)) * 1_000_000_000 + u64::from(long(8)),
            vlan,
            protocol: u16::from_be_bytes([head[50], head[51]]),
            interface: long(52),
            hardware: short(56),
            packet_type: PacketType(head[58]),
            address,
            address_len: head[59],
        };
        Some((packet, long(0) as usize))
    }
}

/// Direction and kind of destination of a packet (`sll_pkttype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketType(pub u8);

impl PacketType {
    /// Sent by this host (`PACKET_OUTGOING`)
    pub const OUTGOING: Self = Self(4);
}

/// Checks that the kernel accepts this program, by attaching it to a socket that receives nothing.
///
/// # Errors
/// `EINVAL` if the kernel rejects the program.
pub fn check(program: &[Instruction]) -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    attach(socket.as_fd(), program)
}

fn failed(operation: &'static str) -> impl Fn(Errno) -> RingError {
    move |errno| RingError { operation, errno }
}

fn attach(fd: BorrowedFd<'_>, program: &[Instruction]) -> Result<(), Errno> {
    let mut filter: Vec<_> = program
        .iter()
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.yes,
            jf: instruction.no,
            k: instruction.operand,
        })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::TOOBIG)?,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel reads a `sock_fprog` and the instructions that it points to, both of which live longer than
    // the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    checked(result)
}

fn bind_to(fd: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads as many bytes as the given length, which is the size of the address.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    checked(result)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

const fn pair(first: u16, second: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a, b, c, d]
}

const SET_UP: &str = "set up a packet ring";
const MAP: &str = "map the packet ring";

/// `struct tpacket_block_desc` of `include/uapi/linux/if_packet.h`: version, offset of private bytes, then
/// `struct tpacket_hdr_v1`: status, number of packets, offset of the first...
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;
/// `struct tpacket3_hdr`, aligned to `TPACKET_ALIGNMENT`.
const HEADER_BYTES: usize = 48;
/// `struct sockaddr_ll`
const ADDRESS_BYTES: usize = 20;
const _: () = assert!(size_of::<libc::sockaddr_ll>() == ADDRESS_BYTES);
/// Unused in version 3, but must divide a block's size and be large enough for a header.
const FRAME_BYTES: u32 = 2048;

/// `include/uapi/linux/if_packet.h`
const TPACKET_V3: u32 = 2;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const PACKET_MR_PROMISC: u16 = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const ETH_P_8021Q: u16 = 0x8100;
const BPF_RET_K: u16 = 0x06;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with `captured` bytes that begin at `begin`.
    fn record(captured: u32, begin: u16, status: u32) -> Vec<u8> {
        let mut bytes = vec![0; 128];
        bytes[0..4].copy_from_slice(&128_u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[8..12].copy_from_slice(&9_u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&captured.to_ne_bytes());
        bytes[16..20].copy_from_slice(&1500_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&status.to_ne_bytes());
        bytes[24..26].copy_from_slice(&begin.to_ne_bytes());
        bytes[32..36].copy_from_slice(&0x2005_u32.to_ne_bytes());
        bytes[36..38].copy_from_slice(&0x88a8_u16.to_ne_bytes());
        bytes[50..52].copy_from_slice(&0x0800_u16.to_be_bytes());
        bytes[52..56].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[58] = 4;
        bytes
    }

    #[test]
    fn record_is_parsed() {
        let bytes = record(60, 68, TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID);
        let (packet, next) = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.bytes.len(), packet.original_len), (60, 1500));
        assert_eq!(packet.time_ns, 7_000_000_009);
        assert_eq!(packet.vlan, Some((0x88a8, 0x2005)));
        assert_eq!(packet.packet_type, PacketType::OUTGOING);
        assert_eq!((packet.protocol, packet.interface, next), (0x0800, 3, 128));
        assert_eq!(
            Packet::parse(&record(60, 68, TP_STATUS_VLAN_VALID))
                .unwrap()
                .0
                .vlan,
            Some((0x8100, 0x2005))
        );
        assert_eq!(Packet::parse(&record(60, 68, 0)).unwrap().0.vlan, None);
    }

    #[test]
    fn bad_record_ends_the_block() {
        assert!(Packet::parse(&record(61, 68, 0)).is_none());
        assert!(Packet::parse(&record(u32::MAX, 68, 0)).is_none());
        assert!(Packet::parse(&record(0, u16::MAX, 0)).is_none());
        assert!(Packet::parse(&[0; 67]).is_none());
        let packets = |bytes, at, left| Packets { bytes, at, left };
        let bytes = record(60, 68, 0);
        assert_eq!(packets(&bytes, 0, 1000).count(), 1);
        assert_eq!(packets(&bytes, usize::MAX, 1).count(), 0);
        // A record whose next offset points at itself.
        let mut stuck = record(60, 68, 0);
        stuck[0..4].fill(0);
        let mut stuck = packets(&stuck, 0, 1000);
        assert_eq!((stuck.by_ref().count(), stuck.left()), (1, 999));
    }
}
