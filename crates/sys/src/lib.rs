//! System calls as safe functions: netlink sockets, network namespaces, mounts of a thread's own, signals, BPF programs, packet rings.
//!
//! This is the only crate where `unsafe` is allowed, module by module, for what rustix has no safe call for:
//! the socket option of extended acknowledgements, `bpf(2)`, memory shared with a BPF program, packet sockets and their rings, `unshare(2)`, signal handlers and TUN devices. Functions take borrowed descriptors and return owned ones.
//!
//! What it deliberately does not do: understand what it carries. Bytes go out and come in.
//!
//! ```
//! let socket = sockeye_sys::netlink::DiagSocket::open().unwrap();
//! assert!(socket.send(b"not a netlink message").is_ok()); // the kernel drops it silently
//! ```

pub mod bpf;
pub mod descriptors;
mod extended_ack;
pub mod interrupts;
pub mod mapped;
pub mod mounts;
pub mod netlink;
pub mod netns;
pub mod packet_ring;
pub mod tun;
