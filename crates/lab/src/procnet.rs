//! Parses `/proc/net/tcp` and `tcp6` for `namespace.rs`; `lookup.rs` gives the same `Row` for inet_diag. It
//! must not use `wire`, which is under test.

use crate::{State, Timer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A line of `/proc/net/tcp` or `tcp6`, or inet_diag's answer about one socket, read without the code under
/// test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Local address and port.
    pub local: SocketAddr,
    /// Peer's address and port; port 0 if there is none.
    pub peer: SocketAddr,
    /// State; a line with an unknown number is not a row.
    pub state: State,
    /// Send queue: unacknowledged bytes; for a listener 0 in `/proc`, the backlog in inet_diag.
    pub send_queue: u32,
    /// Receive queue: unread bytes; for a listener the connections to be accepted.
    pub recv_queue: u32,
    /// The running timer.
    pub timer: Timer,
    /// Unanswered retransmissions.
    pub retransmissions: u32,
    /// User id; 0 for a socket without a file.
    pub uid: u32,
    /// Inode; 0 for a socket without a file.
    pub inode: u64,
}

/// All rows of the file; other lines are ignored.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Row> {
    text.lines().filter_map(row)
}

/// `sl local rem st tx:rx tr:tm->when retrnsmt uid timeout inode ...` (net/ipv4/tcp_ipv4.c, get_tcp4_sock).
fn row(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [
        _,
        local,
        peer,
        state,
        queues,
        timer,
        retransmissions,
        uid,
        _,
        inode,
        ..,
    ] = words[..]
    else {
        return None;
    };
    let (send_queue, recv_queue) = queues.split_once(':')?;
    Some(Row {
        local: address(local)?,
        peer: address(peer)?,
        state: State::from_kernel(hex(state)?)?,
        send_queue: hex(send_queue)?,
        recv_queue: hex(recv_queue)?,
        timer: Timer::from_kernel(hex(timer.split_once(':')?.0)?)?,
        retransmissions: hex(retransmissions)?,
        uid: uid.parse().ok()?,
        inode: inode.parse().ok()?,
    })
}

/// `0100007F:0016`: the address as host-endian 32-bit words of network-order bytes.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        bytes.extend_from_slice(&hex(ip.get(at..at + 8)?)?.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(four) => IpAddr::V4(Ipv4Addr::from(four)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)),
    };
    Some(SocketAddr::new(ip, port))
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_and_mapped_connection_are_parsed() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
            0: 0100007F:0016 00000000:0000 0A 00000000:00000002 00:00000000 00000000 7 0 1234 1 0 100 0 0 10 0\n\
            1: 0000000000000000FFFF00000100007F:0016 0000000000000000FFFF00000200007F:C001 \
            01 0000000A:00000000 01:00000014 00000003 0 0 99 4\n";
        let found: Vec<Row> = rows(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].local, "127.0.0.1:22".parse().unwrap());
        assert_eq!(
            (found[0].state, found[0].recv_queue, found[0].uid, found[0].inode),
            (State::Listen, 2, 7, 1234)
        );
        assert_eq!(found[1].peer, "[::ffff:127.0.0.2]:49153".parse().unwrap());
        assert_eq!(
            (found[1].timer, found[1].retransmissions, found[1].send_queue),
            (Timer::On, 3, 10)
        );
    }

    #[test]
    fn invalid_line_is_not_a_row() {
        assert_eq!(
            rows("0: 01:2 3 4\n\n0: 0100007F 0:0 0A 0:0 0:0 0 0 0 0").count(),
            0
        );
    }
}
