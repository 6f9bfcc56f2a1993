//! TUN and TAP devices: network interfaces whose packets a program reads and writes.
//!
//! The crate `tun` has a license that deny.toml does not allow, and `tun-rs` adds 14 packages. Addresses and routes are set by
//! netlink.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl, opcode};
use std::os::fd::{AsFd, OwnedFd};

/// Creates a TUN device with this name in the network namespace of the calling thread; it is removed when its
/// descriptor is closed. Each `read` returns one packet and each `write` sends one, without a header.
///
/// # Errors
/// `ENOENT` without `/dev/net/tun`, `EPERM` without CAP_NET_ADMIN, `EBUSY` if the name is taken, `ENAMETOOLONG` beyond
/// 15 bytes.
pub fn make(name: &str) -> Result<OwnedFd, Errno> {
    queue(name, Kind::default())
}

/// Kind of a TUN or TAP device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kind {
    /// Whether the device carries Ethernet frames (TAP) instead of IP packets (TUN).
    #[doc(alias = "IFF_TAP")]
    pub is_tap: bool,
    /// Whether a `struct virtio_net_hdr` precedes each packet, which may then be up to 64 KiB long, not yet segmented
    /// and without its checksum: see [`set_offload`].
    #[doc(alias = "IFF_VNET_HDR")]
    pub has_header: bool,
    /// Whether the device may have several queues, each with its own descriptor.
    #[doc(alias = "IFF_MULTI_QUEUE")]
    pub has_queues: bool,
}

/// Opens a queue of the device with this name in the network namespace of the calling thread. The first queue creates
/// the device, and closing the last one removes it; more than one queue needs [`Kind::has_queues`].
///
/// # Errors
/// As for [`make`]; `EINVAL` if the device exists with another kind, `E2BIG` beyond 256 queues.
#[doc(alias = "TUNSETIFF")]
pub fn queue(name: &str, kind: Kind) -> Result<OwnedFd, Errno> {
    let mut flags = IFF_NO_PI | if kind.is_tap { IFF_TAP } else { IFF_TUN };
    if kind.has_header {
        flags |= IFF_VNET_HDR;
    }
    if kind.has_queues {
        flags |= IFF_MULTI_QUEUE;
    }
    let mut request = Request {
        name: [0; NAME_MAX],
        flags,
        rest: [0; REST],
    };
    // The last byte stays 0.
    let place = request.name[..NAME_MAX - 1].get_mut(..name.len());
    place.ok_or(Errno::NAMETOOLONG)?.copy_from_slice(name.as_bytes());
    let device = open(
        "/dev/net/tun",
        OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    )?;
    // SAFETY: TUNSETIFF reads a `struct ifreq`, which `Request` mirrors in size and layout (asserted below).
    let set = unsafe { Setter::<TUNSETIFF, Request>::new(request) };
    // SAFETY: the descriptor is that of /dev/net/tun, whose TUNSETIFF this is; it writes only within the structure.
    unsafe { ioctl(&device, set) }?;
    Ok(device)
}

/// Lets the kernel deliver TCP packets of up to 64 KiB that still need segmentation and a checksum. Only for a device
/// with [`Kind::has_header`]: the header says what is left to do.
///
/// # Errors
/// The errno of `ioctl(2)`.
#[doc(alias = "TUNSETOFFLOAD")]
pub fn set_offload(device: impl AsFd) -> Result<(), Errno> {
    // SAFETY: TUNSETOFFLOAD takes flags in place of a pointer, and reads no memory.
    let set = unsafe { IntegerSetter::<TUNSETOFFLOAD>::new_usize(TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) };
    // SAFETY: the descriptor is that of a TUN device, whose TUNSETOFFLOAD this is.
    unsafe { ioctl(device, set) }
}

/// Sets the length in bytes of the header before each packet: [`HEADER_LEN`], or more with unused bytes at its end.
///
/// # Errors
/// The errno of `ioctl(2)`: `EINVAL` if it is shorter.
#[doc(alias = "TUNSETVNETHDRSZ")]
pub fn set_header_len(device: impl AsFd, len: u16) -> Result<(), Errno> {
    // SAFETY: TUNSETVNETHDRSZ reads an `int`.
    let set = unsafe { Setter::<TUNSETVNETHDRSZ, libc::c_int>::new(len.into()) };
    // SAFETY: the descriptor is that of a TUN device, whose TUNSETVNETHDRSZ this is; it only reads the number.
    unsafe { ioctl(device, set) }
}

/// `sizeof(struct virtio_net_hdr)`
pub const HEADER_LEN: u16 = 10;

/// `struct ifreq` of `linux/if.h`.
#[repr(C)]
struct Request {
    name: [u8; NAME_MAX],
    flags: u16,
    rest: [u8; REST],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());
const _: () = assert!(std::mem::offset_of!(Request, flags) == std::mem::offset_of!(libc::ifreq, ifr_ifru));

/// `_IOW('T', 202, int)`
const TUNSETIFF: Opcode = opcode::write::<libc::c_int>(b'T', 202);
/// `_IOW('T', 208, unsigned int)`
const TUNSETOFFLOAD: Opcode = opcode::write::<libc::c_uint>(b'T', 208);
/// `_IOW('T', 216, int)`
const TUNSETVNETHDRSZ: Opcode = opcode::write::<libc::c_int>(b'T', 216);
const IFF_TUN: u16 = 1;
const IFF_TAP: u16 = 2;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const IFF_MULTI_QUEUE: u16 = 0x0100;
const TUN_F_CSUM: usize = 1;
const TUN_F_TSO4: usize = 2;
const TUN_F_TSO6: usize = 4;
const NAME_MAX: usize = libc::IFNAMSIZ;
const REST: usize = size_of::<libc::ifreq>() - NAME_MAX - size_of::<u16>();
