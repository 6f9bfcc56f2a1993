//! Everything that changes the host: closing sockets, setting options of other processes' sockets, enabling keepalive
//! for new connections of a cgroup, ending processes, creating, removing and entering network namespaces, creating
//! interfaces.
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
