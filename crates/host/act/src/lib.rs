//! What changes the host: closing sockets, setting options of others' sockets, giving keepalive to the new connections of a cgroup, ending processes, making, removing and entering network namespaces, making interfaces.
//!
//! What it deliberately does not do: choose which sockets, or ask whether it may. Whoever calls has named them.
//!
//! ```
//! use sockeye_act::{Closer, Fate};
//! use sockeye_model::Protocol;
//!
//! let mut closer = Closer::open().unwrap();
//! // Without the kernel's message about a socket nobody can say which one is meant.
//! assert_eq!(closer.close(Protocol::Tcp, None), Ok(Fate::Spared));
//! ```

mod close;
mod end;
mod holder;
mod interfaces;
mod keepalive;
mod keeper;
pub mod netns;
/// Programs, found and started as `execvp(3)` does.
pub mod program;
mod route;

pub use close::{Closer, Condemned, Fate};
pub use end::{Manner, end};
pub use holder::{Borrowed, Holder};
pub use interfaces::{Interfaces, LOOPBACK};
pub use keepalive::{Change, Effective, Keepalive, OptionFailure};
pub use keeper::{CannotKeep, KeepStep, Keeper};
pub use route::Refusal;
