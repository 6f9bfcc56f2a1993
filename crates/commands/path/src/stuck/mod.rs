//! Connections whose data stand still while packets are followed.
//!
//! - `watch`: looks at the sockets that match, before, meanwhile and at the end
//! - `sockets`: what is asked of sockets
//! - `evidence`: what shows why: programs, the other end, the way to it, the rules of `check`

mod evidence;
mod sockets;
mod watch;

pub(crate) use watch::StuckWatch;
