//! What identifies a connection in a listing and in events.

use sockeye_model::{Endpoint, NetnsInode, Socket};

/// Namespace and both ends.
pub(crate) type Place = (Option<NetnsInode>, Endpoint, Endpoint);

/// Returns what identifies the connection of a socket.
pub(crate) fn place(socket: &Socket) -> Place {
    (socket.netns, socket.local, socket.peer)
}
