//! TUN devices: a network interface whose packets a program reads and writes.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::os::fd::OwnedFd;

/// Makes a TUN device of this name in the network namespace of the calling thread; it goes with its descriptor. Each
/// `read` gives one packet, each `write` takes one, without any header before it.
///
/// # Errors
/// No `/dev/net/tun`, no CAP_NET_ADMIN (`EPERM`), a name that is taken (`EBUSY`), or one of more than 15 bytes
/// (`ENAMETOOLONG`).
pub fn make(name: &str) -> Result<OwnedFd, Errno> {
    let mut request = Request {
        name: [0; NAME_MAX],
        flags: IFF_TUN | IFF_NO_PI,
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
const IFF_TUN: u16 = 1;
const IFF_NO_PI: u16 = 0x1000;
const NAME_MAX: usize = libc::IFNAMSIZ;
const REST: usize = size_of::<libc::ifreq>() - NAME_MAX - size_of::<u16>();
