//! Where sockets come from: the ladder of sources, the owners of sockets, and the names of things.

pub mod names;
pub mod owners;
