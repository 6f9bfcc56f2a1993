//! Sockets that were asked for or changed, with further columns, and keepalive summed up for each owner.

mod summary;
mod targets;

pub use summary::{KeepaliveOwner, KeepaliveOwners};
pub use targets::TargetLayout;
