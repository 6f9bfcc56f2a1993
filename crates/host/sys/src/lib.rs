//! System calls as safe functions: netlink sockets, network namespaces, private mounts, signals, BPF programs, packet
//! rings.
//!
//! This is the only crate where `unsafe` is allowed, module by module, for what rustix has no safe call for:
//!
//! - sockets: the option of extended acknowledgements, TCP options, packet sockets and their rings, sending from mapped files
//! - observation: `bpf(2)` and memory shared with a BPF program, perf events and their rings
//! - processes: `unshare(2)`, signal handlers, programs that wait before `execve(2)`, the processor time of threads
//! - memory: what the allocator keeps
//! - benchmarks: TUN devices, `io_uring(7)`, memory loops in assembly
//!
//! Functions take borrowed descriptors and return owned ones.
//!
//! What it deliberately does not do: interpret the bytes that it sends and receives.
//!
//! ```
//! let socket = sockeye_sys::netlink::NetlinkSocket::open().unwrap();
//! assert!(socket.send(b"not a netlink message").is_ok()); // the kernel drops it silently
//! ```

pub mod allocator;
pub mod bpf;
pub mod capabilities;
pub mod closed_stdout;
pub mod descriptors;
mod errno;
mod extended_ack;
pub mod file_window;
pub mod interrupts;
pub mod io_ring;
pub mod kernel_release;
pub mod local_time;
pub mod mapped_file;
mod mapping;
pub mod memory;
pub mod monotonic;
pub mod mounts;
pub mod netlink;
pub mod netns;
pub mod packet_ring;
mod parameters;
pub mod parent_death;
pub mod paused_program;
pub mod perf;
pub mod private_file;
pub mod probe_targets;
pub mod proc_mount;
mod processor_time;
pub mod processors;
pub mod rights;
mod socket_option;
pub mod tcp;
pub mod tracepoint;
pub mod trusted_users;
pub mod tun;
pub mod udp_offload;
pub mod zero_copy;

pub use parameters::{clock_ticks_per_s, page_bytes};
pub use processor_time::ProcessorTime;
