//! Everything that changes the host: closing sockets, setting options of other processes' sockets, enabling keepalive
//! for new connections of a cgroup, ending processes, creating, removing and entering network namespaces, creating
//! interfaces.
//!
//! # After a panic
//!
//! Release builds abort on a panic, and a process can be killed at any moment: `Drop` does not run then. So nothing that
//! has to be undone depends on it:
//!
//! | change | made by | undone by |
//! |---|---|---|
//! | names of namespaces, half made or half deleted | `ns add`, `ns del` | the guard process, from the [journal](netns::Journal); the next `ns add` of that name |
//! | namespaces without a name, veth pairs in them | `ns add`, `bench tun`, `bench sources` | the kernel, with the last thread and descriptor |
//! | mounts of `ns exec` | `ns exec` | the kernel: they are in the mount namespace of a thread |
//! | a new cgroup and its BPF program | `keepalive run` | the guard process; the next `keepalive run`, if that was killed too |
//! | tun and tap devices | `bench tun` | the kernel: they are not persistent |
//! | namespaces, devices and processes of a demonstration | `demo` | the kernel: the namespaces have no name, and the processes get SIGKILL when their parent ends (`PR_SET_PDEATHSIG`) |
//! | promiscuous mode | `capture` | the kernel, with the packet socket |
//! | BPF programs, perf events, breakpoints in programs and kernel | `prof`, listings | the kernel, with their descriptors |
//! | a command that waits before `execve(2)` | `prof -- COMMAND` | itself: its pipe is closed |
//! | duplicates of other processes' sockets | `keepalive` | the kernel, with the process |
//! | the file that `bench file` sends; unfinished output files | `bench file`, `-o` | the kernel: they have no name (`O_TMPFILE`). On a file system without them (NFS, FAT) a file `.NAME.*.part` stays |
//!
//! What stays on purpose: closed sockets, changed socket options, `keepalive attach`, complete names of namespaces, the
//! packets of a capture so far, and commands that were started (`ns exec`, `prof -- COMMAND`), which go on.
//!
//! Tests abort and kill commands in the middle: `aborted.rs`, `netns/faults.rs`, `keepalive_cgroup.rs`, `bench/tun.rs` and `commands/demo.rs` in
//! `crates/sockeye/tests`.
//!
//! What it deliberately does not do: select the targets, or ask for confirmation. The caller names them.
//!
//! ```
//! use sockeye_act::{CloseOutcome, SocketCloser};
//! use sockeye_model::Protocol;
//!
//! let mut closer = SocketCloser::open().unwrap();
//! // Without the kernel's message about a socket, the socket is unknown.
//! assert_eq!(closer.close(Protocol::Tcp, None), Ok(CloseOutcome::Skipped));
//! ```

mod borrow;
mod close;
mod end;
mod interfaces;
mod keepalive;
mod keepalive_program;
pub mod netns;
/// Programs, found and started as `execvp(3)` does.
pub mod program;
mod route;

pub use borrow::{BorrowedSocket, SocketOwner};
pub use close::{CloseOutcome, CloseTarget, SocketCloser};
pub use end::{Termination, end};
pub use interfaces::{Interfaces, LOOPBACK};
pub use keepalive::{EffectiveKeepalive, Keepalive, KeepaliveChange, SocketOptionError};
pub use keepalive_program::{KeepaliveProgram, KeepaliveProgramError, KeepaliveProgramStep};
pub use route::RouteError;
