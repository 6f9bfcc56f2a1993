//! What identifies a connection in a listing and in events.

use sockeye_model::{Endpoint, NetnsInode, Port, Socket};
use std::net::IpAddr;

/// Namespace and both ends. An [`Endpoint`] can also be the name of a Unix socket, and is several times as long.
pub(crate) type Place = (Option<NetnsInode>, End, End);

/// Address and port; `None` of a socket that has none.
type End = Option<(IpAddr, Port)>;

/// Returns what identifies the connection of a socket.
pub(crate) fn place(socket: &Socket) -> Place {
    let end = |endpoint: &Endpoint| endpoint.ip().zip(endpoint.port());
    (socket.netns, end(&socket.local), end(&socket.peer))
}
