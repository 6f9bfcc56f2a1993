//! Dropped packets: what their reasons mean, and which counters of the kernel they explain.
//!
//! - [`classes`]: the class of each reason, from the dictionary; where the reason does not say, the place does in some cases
//! - [`Reasons`]: the reasons of a kernel, and how the drops of each are counted
//! - [`since`], [`Seen`], [`socket_ends`]: what was counted between two readings, and the addresses of a socket
//! - [`fit`]: estimates whose sum was counted
//! - [`reconcile()`]: counters that moved, each with the drops that explain it, and a remainder that nothing explains
//!
//! What it deliberately does not do: count or read anything, find owners, print.
//!
//! ```
//! use sockeye_dictionary::DropClass;
//! use sockeye_drops::classes::class;
//!
//! assert_eq!(class(Some("SOCKET_RCVBUFF"), None), Some(DropClass::Loss));
//! assert_eq!(class(Some("NOT_SPECIFIED"), Some("skb_queue_purge")), Some(DropClass::Normal));
//! assert_eq!(class(Some("NOT_SPECIFIED"), None), None);
//! ```

pub mod classes;
mod estimate;
mod event;
mod explained;
mod reasons;
mod reconcile;
mod seen;

pub use estimate::fit;
pub use event::{Event, Family};
pub use reasons::Reasons;
pub use reconcile::{CounterLine, CounterSubject, ListenerDrops, Moved, NETFILTER, Part, reconcile};
pub use seen::{Seen, since, socket_ends};
