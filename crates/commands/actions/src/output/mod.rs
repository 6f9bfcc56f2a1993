//! Columns of the sockets that `keepalive` and `kill` list or change, and of keepalive per program. Pure: no file, socket or
//! clock.

mod summary;
mod targets;

pub use summary::{KeepaliveOwner, KeepaliveOwners};
pub use targets::TargetLayout;
