//! Columns of target sockets, and of keepalive per program.

mod summary;
mod targets;

pub use summary::{KeepaliveOwner, KeepaliveOwners};
pub use targets::TargetLayout;
