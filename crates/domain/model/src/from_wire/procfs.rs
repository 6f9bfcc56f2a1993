//! Lines of `/proc/net` to `Socket`, for the procfs source. `wire::proc_net` parses the lines.

use super::Socket;
use crate::{
    Endpoint, Family, Inode, InterfaceIndex, Memory, Protocol, Queues, State, TcpInfo, Timer, TimerKind, Uid,
    UnixName,
};
use sockeye_wire::proc_net::{Address, InetLine, NetlinkLine, PacketLine, Tail, UnixLine};

/// What `/proc/net` lacks stays `None`: cookie, namespace, cgroup, mark, options, shutdown,
/// nearly all of memory and tcp_info, the interface that an IP socket is bound to.
impl Socket {
    /// Creates a socket from a line of `tcp`, `udp`, `udplite` or `raw`. `protocol` is that of the file.
    ///
    /// Times have a resolution of 10 ms: `rto_us` and `ato_us` are rounded down.
    #[must_use]
    pub fn from_proc_inet(line: &InetLine, protocol: Protocol) -> Self {
        let state = State::from_number(line.state);
        let family = if line.is_v6 { Family::Inet6 } else { Family::Inet };
        let mut socket = Self::from_proc_line(protocol, family, state, Some(line.inode), line.references);
        let endpoint = |address: Address| Endpoint::from_wire(line.is_v6, address.bytes, address.port);
        socket.local = endpoint(line.local);
        socket.peer = endpoint(line.remote);
        socket.set_uid(line.uid);
        socket.timer = timer(line);
        socket.queues = if protocol == Protocol::Tcp && state == State::Listen {
            Queues::Accept {
                waiting: line.receive_queue,
                backlog: None,
            }
        } else {
            Queues::Data {
                receive_bytes: line.receive_queue,
                send_bytes: line.send_queue,
            }
        };
        match line.tail {
            Tail::Drops(drops) => {
                socket.memory = Some(Memory {
                    drops: u32::try_from(drops).ok(),
                    ..Memory::default()
                });
            }
            Tail::Tcp {
                rto_ticks,
                ato_ticks,
                snd_cwnd,
                ssthresh,
                ..
            } if state != State::Listen => {
                let ticks_us = |ticks: u64| u32::try_from(ticks.checked_mul(10_000)?).ok();
                socket.tcp_info = Some(TcpInfo {
                    retransmits: u8::try_from(line.retransmits).ok(),
                    probes: u8::try_from(line.probes).ok(),
                    rto_us: ticks_us(rto_ticks),
                    ato_us: ticks_us(ato_ticks),
                    snd_cwnd_segs: Some(snd_cwnd),
                    // -1 is "infinite".
                    snd_ssthresh_segs: u32::try_from(ssthresh).ok(),
                    ..TcpInfo::default()
                });
            }
            Tail::Tcp { .. } | Tail::None => {}
        }
        socket
    }

    /// Creates a socket from a line of `unix`, without peer, queues and user.
    #[must_use]
    pub fn from_proc_unix(line: &UnixLine<'_>) -> Self {
        let state = if line.is_listening() {
            State::Listen
        } else {
            State::from_proc_unix_number(line.state)
        };
        let kind = u8::try_from(line.kind).unwrap_or(u8::MAX);
        let protocol = Protocol::from_unix_type(kind);
        let references = i64::from(line.references);
        let mut socket = Self::from_proc_line(protocol, Family::Unix, state, Some(line.inode), references);
        socket.local = Endpoint::Unix {
            name: line.name.map(UnixName::from),
            inode: socket.inode,
        };
        socket
    }

    /// Creates a socket from a line of `packet`.
    ///
    /// The line has only the memory of the receive queue, which is in [`Socket::memory`].
    #[must_use]
    pub fn from_proc_packet(line: &PacketLine) -> Self {
        let kind = u8::try_from(line.kind).unwrap_or(u8::MAX);
        let protocol = Protocol::from_packet_type(kind);
        let (inode, references) = (Some(line.inode), line.references);
        let mut socket = Self::from_proc_line(protocol, Family::Packet, State::Close, inode, references);
        socket.interface = (line.interface != 0).then_some(InterfaceIndex(line.interface));
        socket.local = Endpoint::Packet {
            ethertype: line.ethertype,
            interface: socket.interface,
        };
        socket.uid = Some(Uid(line.uid));
        socket.memory = Some(Memory {
            rmem_alloc_bytes: Some(line.rmem_alloc),
            ..Memory::default()
        });
        socket
    }

    /// Creates a socket from a line of `netlink`, without user. The line lacks the state: it is
    /// [`State::Close`] without a peer, as with most of these sockets.
    #[must_use]
    pub fn from_proc_netlink(line: &NetlinkLine) -> Self {
        let (inode, references) = (line.inode, line.references);
        let mut socket = Self::from_proc_line(
            Protocol::Netlink,
            Family::Netlink,
            State::Close,
            inode,
            references,
        );
        socket.local = Endpoint::Netlink {
            protocol: u8::try_from(line.protocol).unwrap_or(u8::MAX),
            port: line.port,
            group: None,
        };
        socket.queues = Queues::Data {
            receive_bytes: line.rmem_alloc,
            send_bytes: line.wmem_alloc,
        };
        socket.memory = Some(Memory {
            rmem_alloc_bytes: Some(line.rmem_alloc),
            wmem_alloc_bytes: Some(line.wmem_alloc),
            drops: line.drops,
            ..Memory::default()
        });
        socket
    }

    /// Creates a socket from the columns that all files have.
    fn from_proc_line(
        protocol: Protocol,
        family: Family,
        state: State,
        inode: Option<u64>,
        references: i64,
    ) -> Self {
        let mut socket = Self::new(protocol, state);
        socket.family = family;
        socket.inode = inode
            .filter(|&inode| inode != 0)
            .and_then(|inode| u32::try_from(inode).ok())
            .map(Inode);
        socket.references = u32::try_from(references).ok();
        socket
    }
}

impl State {
    /// Converts the `St` column of `/proc/net/unix`, an `enum socket_state`, as `ss` does.
    ///
    /// `SYN_SENT` is a connection that is not accepted yet, and `CLOSING` one that is being closed.
    #[must_use]
    pub const fn from_proc_unix_number(number: u8) -> Self {
        match number {
            1 => Self::Close,
            2 => Self::SynSent,
            3 => Self::Established,
            4 => Self::Closing,
            unknown => Self::Unknown(unknown),
        }
    }
}

/// Reads the running timer with the matching one of the two counts of the line.
fn timer(line: &InetLine) -> Option<Timer> {
    let overdue = i64::try_from(line.expires_ticks).is_err();
    let expires_ms = if overdue {
        0
    } else {
        u32::try_from(line.expires_ticks.saturating_mul(10))
            .unwrap_or(u32::MAX)
            .min(u32::MAX / 2)
    };
    let mut timer = Timer::from_numbers(line.timer, expires_ms, line.retransmits)?;
    if matches!(timer.kind, TimerKind::Keepalive | TimerKind::ZeroWindowProbe) {
        timer.retransmits = line.probes;
    }
    Some(timer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Port, Shutdown};

    /// `127.0.0.1` as the kernel of this machine's byte order prints it, then the rest of a line.
    fn inet(rest: &str, protocol: Protocol) -> Socket {
        let local = u32::from_ne_bytes([127, 0, 0, 1]);
        let line = format!("   0: {local:08X}:1F90 00000000:0000 {rest}");
        Socket::from_proc_inet(&InetLine::parse(line.as_bytes()).unwrap(), protocol)
    }

    #[test]
    fn listener_has_queue_but_no_backlog() {
        let found = inet(
            "0A 00000000:00000003 00:00000000 00000000  1000        0 1129 1 0 100 0 0 10 0",
            Protocol::Tcp,
        );
        assert_eq!(found.local, Endpoint::inet([127, 0, 0, 1].into(), Port(8080)));
        assert_eq!(
            found.queues,
            Queues::Accept {
                waiting: 3,
                backlog: None
            }
        );
        assert_eq!((found.uid, found.inode), (Some(Uid(1000)), Some(Inode(1129))));
        assert_eq!(
            (found.references, found.timer, found.tcp_info),
            (Some(1), None, None)
        );
        assert_eq!((found.cookie, found.mark, found.v6only), (None, None, None));
    }

    #[test]
    fn connection_has_only_the_columns_of_procfs() {
        let found = inet(
            "01 00000000:00000000 02:00000258 00000001 0 2 5 2 0 20 4 30 10 -1",
            Protocol::Tcp,
        );
        let timer = found.timer.unwrap();
        assert_eq!(
            (timer.kind, timer.expires_ms, timer.retransmits),
            (TimerKind::Keepalive, 6000, 2)
        );
        let info = found.tcp_info.unwrap();
        assert_eq!((info.rto_us, info.ato_us), (Some(200_000), Some(40_000)));
        assert_eq!((info.snd_cwnd_segs, info.snd_ssthresh_segs), (Some(10), None));
        assert_eq!((info.retransmits, info.rtt_us), (Some(1), None));
        assert_eq!((found.uid, found.shutdown), (Some(Uid(0)), None::<Shutdown>));
    }

    #[test]
    fn zero_uid_without_a_file_is_unknown() {
        let found = inet(
            "06 00000000:00000000 03:00000F6E 00000000 0 0 0 3 0",
            Protocol::Tcp,
        );
        assert_eq!((found.uid, found.inode, found.tcp_info), (None, None, None));
        assert_eq!(
            found.timer.map(|t| (t.kind, t.expires_ms)),
            Some((TimerKind::TimeWait, 39500))
        );
        let embryo = inet(
            "03 00000000:00000000 01:00000064 00000002 33 0 0 0 0",
            Protocol::Tcp,
        );
        assert_eq!(
            (embryo.uid, embryo.timer.map(|t| t.retransmits)),
            (Some(Uid(33)), Some(2)),
            "it shows its listener's user"
        );
        let waiting = inet(
            "05 00000000:00000000 03:000016D7 00000000 0 0 0 3 0",
            Protocol::Tcp,
        );
        assert_eq!((waiting.state, waiting.uid), (State::FinWait2, None));
    }

    #[test]
    fn overdue_timer_is_zero_and_far_timer_is_clamped() {
        for (ticks, expires_ms) in [
            ("FFFFFFFFFFFFFFF0", 0),
            ("7FFFFFFFFFFFFFFF", u32::MAX / 2),
            ("00000001", 10),
        ] {
            let found = inet(&format!("01 0:0 01:{ticks} 0 0 0 0 1 0"), Protocol::Tcp);
            assert_eq!(found.timer.map(|t| t.expires_ms), Some(expires_ms), "{ticks}");
        }
    }

    #[test]
    fn udp_line_has_drops() {
        let found = inet(
            "07 00000000:00000300 00:00000000 00000000 0 0 77 2 0 9",
            Protocol::Udp,
        );
        assert_eq!(
            (found.memory.unwrap().drops, found.state),
            (Some(9), State::Close)
        );
        assert_eq!(found.memory.unwrap().rcvbuf_bytes, None);
        assert!(found.is_listener());
    }

    #[test]
    fn unix_line_has_state_and_name() {
        let read =
            |line: &str| Socket::from_proc_unix(&UnixLine::parse(line.as_bytes()).expect("a good line"));
        let listener = read("0000000000000000: 00000002 00000000 00010000 0001 01 78 @a@b");
        assert_eq!(
            (listener.state, listener.protocol),
            (State::Listen, Protocol::UnixStream)
        );
        assert_eq!(
            listener.local,
            Endpoint::Unix {
                name: Some(UnixName::new(b"\0a@b")),
                inode: Some(Inode(78))
            }
        );
        let waiting = read("0000000000000000: 00000003 00000000 00000000 0005 02     0");
        assert_eq!(
            (waiting.state, waiting.protocol, waiting.inode),
            (State::SynSent, Protocol::UnixSeqpacket, None)
        );
        assert_eq!(
            (waiting.peer, waiting.queues, waiting.uid),
            (Endpoint::None, Queues::Unknown, None)
        );
        let strange = read("0: 00000003 0 0 0102 09 0");
        assert_eq!(
            (strange.state, strange.protocol),
            (State::Unknown(9), Protocol::Unknown(255))
        );
    }

    #[test]
    fn packet_and_netlink_lines_have_memory() {
        let line = PacketLine::parse(b"00000000 3 3 88cc 2 1 832 1000 54321").unwrap();
        let found = Socket::from_proc_packet(&line);
        assert_eq!(
            (found.protocol, found.interface, found.uid),
            (Protocol::PacketRaw, Some(InterfaceIndex(2)), Some(Uid(1000)))
        );
        assert_eq!(
            (found.queues, found.memory.unwrap().rmem_alloc_bytes),
            (Queues::Unknown, Some(832))
        );

        let line = NetlinkLine::parse(b"00000000 15 7 00000001 832 0 0 2 5 0").unwrap();
        let found = Socket::from_proc_netlink(&line);
        assert_eq!(
            found.local,
            Endpoint::Netlink {
                protocol: 15,
                port: 7,
                group: None
            }
        );
        assert_eq!((found.inode, found.memory.unwrap().drops), (None, Some(5)));
    }
}
