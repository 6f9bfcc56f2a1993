//! What each fuzz target does with its bytes, and the test that replays the corpus too.
//!
//! Beyond "does not panic" each holds the parsers to what they promise.
#![allow(dead_code)] // each target uses one of these

use sockeye_model::{Endpoint, Losses, Protocol, Queues, Socket, State, TcpInfo};
use sockeye_wire::inet_diag::InetDiag;
use sockeye_wire::netlink::{Attributes, Messages};
use sockeye_wire::netlink_diag::{Groups, NetlinkDiag};
use sockeye_wire::packet_diag::{Info, PacketDiag, Ring, memberships};
use sockeye_wire::proc_net::{InetLine, NetlinkLine, PacketLine, UnixLine, is_header};
use sockeye_wire::proc_pid::{Stat, netns_inode, socket_inode};
use sockeye_wire::tcp_info::TcpInfo as WireTcpInfo;
use sockeye_wire::unix_diag::{UnixDiag, Vfs, waiting};
use sockeye_wire::{Error, netlink};

/// A received buffer, each message taken for every kind there is, whatever family it claims.
pub(crate) fn netlink_messages(bytes: &[u8]) {
    let mut walked = 0;
    for message in Messages::new(bytes) {
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                check_error(&error, bytes.len());
                continue;
            }
        };
        walked += 1;
        let _ = message.interrupted();
        if matches!(message.kind, netlink::NLMSG_ERROR | netlink::NLMSG_DONE) {
            let _ = message.outcome();
        }
        payload(message.payload);
    }
    assert!(walked <= bytes.len() / 16 + 1);
    // As a payload too, so that no envelope has to be guessed.
    payload(bytes);
}

fn payload(bytes: &[u8]) {
    match InetDiag::parse(bytes) {
        Ok(wire) => {
            for protocol in [Protocol::Tcp, Protocol::Mptcp, Protocol::Udp, Protocol::Raw] {
                converted(Socket::from_inet_diag(&wire, protocol), bytes.len());
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    match UnixDiag::parse(bytes) {
        Ok(wire) => {
            converted(Socket::from_unix_diag(&wire), bytes.len());
            for attribute in wire.attributes().flatten() {
                let _ = Vfs::parse(attribute.payload);
                assert!(waiting(attribute.payload).count() == attribute.payload.len() / 4);
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    match PacketDiag::parse(bytes) {
        Ok(wire) => {
            converted(Socket::from_packet_diag(&wire), bytes.len());
            for attribute in wire.attributes().flatten() {
                let _ = (Info::parse(attribute.payload), Ring::parse(attribute.payload));
                assert!(memberships(attribute.payload).count() == attribute.payload.len() / 44);
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    match NetlinkDiag::parse(bytes) {
        Ok(wire) => {
            converted(Socket::from_netlink_diag(&wire), bytes.len());
            for attribute in wire.attributes().flatten() {
                let _ = Groups::new(attribute.payload).first_32();
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    let mut held = 0;
    for attribute in Attributes::new(bytes).flatten() {
        held += 4 + attribute.payload.len();
    }
    assert!(held <= bytes.len());
}

/// The struct, alone and as an attribute, of a listener and of a connection.
pub(crate) fn tcp_info(bytes: &[u8]) {
    let wire = WireTcpInfo::new(bytes);
    for state in [State::Established, State::Listen] {
        let info = TcpInfo::from_wire(&wire, state);
        let mut fields = 0;
        info.visit(|_, value| fields += usize::from(value.is_some()));
        assert!(fields <= TcpInfo::NAMES.len());
        // More bytes never take a field away, but for the number that means "unknown".
        if let Some(shorter) = bytes.len().checked_sub(1) {
            let mut fewer = 0;
            TcpInfo::from_wire(&WireTcpInfo::new(&bytes[..shorter]), state)
                .visit(|_, value| fewer += usize::from(value.is_some()));
            assert!(fewer <= fields + 1);
        }
        let _ = info.ca_state();
    }
}

/// Lines, each taken for every kind there is.
pub(crate) fn proc_lines(bytes: &[u8]) {
    let mut losses = Losses::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = is_header(line);
        let mut lost = |error: Error| {
            check_error(&error, line.len());
            losses.broken_records += 1;
        };
        match InetLine::parse(line) {
            Ok(inet) => {
                assert!(!is_header(line));
                for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Raw] {
                    let socket = Socket::from_proc_inet(&inet, protocol);
                    assert_eq!(socket.local.port().map(|port| port.0), Some(inet.local.port));
                    check_socket(&socket);
                }
                // What a line says does not hang on the width of its columns.
                let mut wider = line.to_vec();
                wider.insert(0, b' ');
                wider.extend_from_slice(b"   \n");
                assert_eq!(InetLine::parse(&wider), Ok(inet));
            }
            Err(error) => lost(error),
        }
        match UnixLine::parse(line) {
            Ok(unix) => check_socket(&Socket::from_proc_unix(&unix)),
            Err(error) => lost(error),
        }
        match PacketLine::parse(line) {
            Ok(packet) => check_socket(&Socket::from_proc_packet(&packet)),
            Err(error) => lost(error),
        }
        match NetlinkLine::parse(line) {
            Ok(netlink) => check_socket(&Socket::from_proc_netlink(&netlink)),
            Err(error) => lost(error),
        }
    }
}

/// A `stat`, and link targets.
pub(crate) fn proc_pid(bytes: &[u8]) {
    match Stat::parse(bytes) {
        Ok(stat) => {
            // Written again from what was read, it reads the same.
            let mut again = format!("{} (", stat.pid).into_bytes();
            again.extend_from_slice(stat.comm);
            again.extend_from_slice(b") ");
            again.push(stat.state);
            again.extend_from_slice(format!(" {} {} 0", stat.parent, stat.group).as_bytes());
            assert_eq!(Stat::parse(&again), Ok(stat));
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    if let Some(inode) = socket_inode(bytes) {
        assert_eq!(socket_inode(format!("socket:[{inode}]").as_bytes()), Some(inode));
        assert_eq!(netns_inode(bytes), None);
    }
    if let Some(inode) = netns_inode(bytes) {
        assert_eq!(netns_inode(format!("net:[{inode}]").as_bytes()), Some(inode));
    }
}

fn converted(socket: Result<Socket, Error>, len: usize) {
    match socket {
        Ok(socket) => check_socket(&socket),
        Err(error) => check_error(&error, len),
    }
}

/// What holds of every socket, whoever told of it.
fn check_socket(socket: &Socket) {
    assert_ne!(socket.inode.map(|inode| inode.0), Some(0), "absent is None");
    assert_ne!(socket.interface.map(|index| index.0), Some(0), "absent is None");
    if let Queues::Accept { .. } = socket.queues {
        assert_eq!(socket.state, State::Listen);
    }
    if let Endpoint::Unix { inode, .. } = socket.local {
        assert_eq!(inode, socket.inode);
    }
    if let Some(timer) = socket.timer {
        assert!(timer.expires_ms <= u32::MAX / 2);
    }
    let _ = socket.is_listener();
}

/// An error points into what was given, and can be printed.
fn check_error(error: &Error, len: usize) {
    assert!(error.offset <= len, "{error}");
    assert!(!error.to_string().is_empty());
}
