//! Keepalive, summed up for each owner.

mod summary;

pub use summary::{KeepaliveOwner, write_keepalive_owners};
