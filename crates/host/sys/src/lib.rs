//! System calls as safe functions: netlink sockets, network namespaces, mounts of a thread's own, signals, BPF programs, packet rings.
//!
//! This is the only crate where `unsafe` is allowed, module by module, for what rustix has no safe call for:
//! the socket option of extended acknowledgements, `bpf(2)`, memory shared with a BPF program, packet sockets and their rings,
//! `unshare(2)`, events of perf and their rings, signal handlers, programs that wait before they begin, TUN devices,
//! options of TCP sockets, the processor time of threads, `io_uring(7)`, files sent out of memory, and loops over memory in
//! assembly. Functions take borrowed descriptors and return owned ones.
//!
//! What it deliberately does not do: understand what it carries. Bytes go out and come in.
//!
//! ```
//! let socket = sockeye_sys::netlink::DiagSocket::open().unwrap();
//! assert!(socket.send(b"not a netlink message").is_ok()); // the kernel drops it silently
//! ```

pub mod bpf;
pub mod called;
pub mod descriptors;
mod extended_ack;
pub mod file_window;
pub mod held_program;
pub mod interrupts;
pub mod io_ring;
pub mod mapped;
pub mod memory;
pub mod mounts;
pub mod netlink;
pub mod netns;
pub mod packet_ring;
pub mod perf;
mod processor_time;
mod socket_option;
pub mod tcp;
pub mod tracepoint;
pub mod tun;
pub mod udp_offload;
pub mod zero_copy;

pub use processor_time::ProcessorTime;
