//! TCP, UDP, UDP-Lite and RAW sockets.

use super::field::{TextForm, pad, push_left, push_number, push_number_left, push_signed, push_text};
use super::shown::Shown;
use crate::output::address::is_v4_compatible;
use sockeye_model::{Names, Port, Protocol, Queues, Socket, State, Timer, TimerKind, Uid};
use sockeye_output::address::{push_ip, push_v4};
use sockeye_output::number::push_decimal;
use std::net::{IpAddr, Ipv6Addr};

/// The columns of a table, and how they are cut.
#[derive(Debug, Clone, Copy)]
pub struct InetLayout {
    /// The sockets of the title.
    pub shown: Shown,
    /// User and inode (`-e`).
    pub extended: bool,
    /// Program (`-p`).
    pub programs: bool,
    /// Timer (`-o`).
    pub timers: bool,
    /// Addresses are not cut to their column (`-W`).
    pub wide: bool,
    /// Hosts have no names, and the IPv6 wildcard has no brackets.
    pub numeric_hosts: bool,
    /// The form of program and user names.
    pub text: TextForm,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct InetRow<'a> {
    /// `tcp`, `tcp6`, `udpl6`...
    pub protocol: &'a str,
    /// The socket.
    pub socket: &'a Socket,
    /// `PID/name`; empty if the column is not shown.
    pub program: &'a [u8],
}

impl InetLayout {
    /// Appends the title and the names of the columns.
    pub fn push_header(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Active Internet connections ");
        out.extend_from_slice(self.shown.title());
        out.extend_from_slice(
            b"\nProto Recv-Q Send-Q Local Address           Foreign Address         State      ",
        );
        if self.extended {
            out.extend_from_slice(b" User       Inode     ");
        }
        if self.programs {
            out.extend_from_slice(b" PID/Program name    ");
        }
        if self.timers {
            out.extend_from_slice(b" Timer");
        }
        out.push(b'\n');
    }

    /// Appends a socket.
    pub fn push_row(&self, out: &mut Vec<u8>, row: &InetRow<'_>, names: &dyn Names) {
        let socket = row.socket;
        push_left(out, row.protocol.as_bytes(), 6);
        let (receive, send) = queues(socket);
        push_number(out, receive.into(), 6);
        out.push(b' ');
        push_number(out, send.into(), 6);
        out.push(b' ');
        self.push_endpoint(
            out,
            socket.local.ip(),
            socket.local.port(),
            socket.protocol,
            names,
        );
        out.push(b' ');
        // RAW has no ports: netlink reports the one that was passed to connect(2), procfs 0.
        let port = match socket.protocol {
            Protocol::Raw => Some(Port(0)),
            _ => socket.peer.port(),
        };
        self.push_endpoint(out, socket.peer.ip(), port, socket.protocol, names);
        out.push(b' ');
        push_state(out, socket);
        if self.extended {
            let uid = socket.uid.map_or(0, |uid| uid.0);
            out.push(b' ');
            let start = out.len();
            match names.user(Uid(uid)) {
                Some(name) => push_text(out, name.as_bytes(), self.text),
                // The original reads an int.
                None => push_signed(out, uid.cast_signed().into()),
            }
            pad(out, start, 10);
            out.push(b' ');
            push_number_left(out, socket.inode.map_or(0, |inode| inode.0.into()), 10);
        }
        if self.programs {
            push_program(out, row.program, self.text);
        }
        if self.timers {
            out.push(b' ');
            push_timer(out, socket);
        }
        out.push(b'\n');
    }

    /// Appends `address:port`, cut to 22 bytes and a colon except with `-W`.
    fn push_endpoint(
        &self,
        out: &mut Vec<u8>,
        ip: Option<IpAddr>,
        port: Option<Port>,
        protocol: Protocol,
        names: &dyn Names,
    ) {
        let start = out.len();
        let (Some(ip), Some(port)) = (ip, port) else {
            return pad(out, start, ADDRESS_WIDTH);
        };
        push_host(out, ip, self.numeric_hosts, names);
        let address_len = out.len() - start;
        out.push(b':');
        push_port(out, port, protocol, names);
        let port_len = out.len() - start - address_len - 1;
        if !self.wide && address_len + port_len > SHORT_LEN {
            let port_kept = port_len.min(SHORT_LEN - 4);
            let address_kept = address_len.min(SHORT_LEN - port_kept);
            let colon = start + address_len;
            out.copy_within(colon..colon + 1 + port_kept, start + address_kept);
            out.truncate(start + address_kept + 1 + port_kept);
        }
        out.truncate(out.len().min(start + LONG_MAX));
        pad(out, start, ADDRESS_WIDTH);
    }
}

/// Appends the name of a host, or its address as glibc's `inet_ntop` writes it. Of a v4-mapped address only the part after
/// the last colon is shown.
pub(super) fn push_host(out: &mut Vec<u8>, ip: IpAddr, numeric: bool, names: &dyn Names) {
    if !numeric {
        if ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            return out.extend_from_slice(b"[::]");
        }
        if let Some(name) = names.host(ip) {
            let len = name.len().min(LONG_MAX);
            return out.extend_from_slice(&name.as_bytes()[..len]);
        }
    }
    match ip {
        IpAddr::V4(v4) => push_v4(out, v4),
        IpAddr::V6(v6) => match (v6.to_ipv4_mapped(), is_v4_compatible(v6)) {
            (Some(v4), _) => push_v4(out, v4),
            (None, true) => {
                out.extend_from_slice(b"::");
                let [.., a, b, c, d] = v6.octets();
                push_v4(out, [a, b, c, d].into());
            }
            (None, false) => push_ip(out, ip),
        },
    }
}

fn push_port(out: &mut Vec<u8>, port: Port, protocol: Protocol, names: &dyn Names) {
    if port.0 == 0 {
        return out.push(b'*');
    }
    match names.service(protocol, port) {
        Some(name) => out.extend_from_slice(&name.as_bytes()[..name.len().min(SERVICE_MAX)]),
        None => push_decimal(out, port.0.into()),
    }
}

/// ` %-20s`
pub(super) fn push_program(out: &mut Vec<u8>, program: &[u8], text: TextForm) {
    out.push(b' ');
    let start = out.len();
    push_text(out, program, text);
    pad(out, start, 20);
}

/// Returns the queues as `/proc/net` shows them: for a listener without the backlog.
fn queues(socket: &Socket) -> (u32, u32) {
    match socket.queues {
        Queues::Unknown => (0, 0),
        Queues::Data {
            receive_bytes,
            send_bytes,
        } => (receive_bytes, send_bytes),
        Queues::Accept { waiting, .. } => (waiting, 0),
    }
}

fn push_state(out: &mut Vec<u8>, socket: &Socket) {
    let name: &[u8] = match (socket.protocol, socket.state) {
        (Protocol::Raw, state) => return push_number_left(out, state.number().into(), STATE_WIDTH),
        (Protocol::Tcp, State::Established) => b"ESTABLISHED",
        (Protocol::Tcp, State::SynSent) => b"SYN_SENT",
        (Protocol::Tcp, State::SynRecv | State::NewSynRecv) => b"SYN_RECV",
        (Protocol::Tcp, State::FinWait1) => b"FIN_WAIT1",
        (Protocol::Tcp, State::FinWait2) => b"FIN_WAIT2",
        (Protocol::Tcp, State::TimeWait) => b"TIME_WAIT",
        (Protocol::Tcp, State::Close | State::BoundInactive) => b"CLOSE",
        (Protocol::Tcp, State::CloseWait) => b"CLOSE_WAIT",
        (Protocol::Tcp, State::LastAck) => b"LAST_ACK",
        (Protocol::Tcp, State::Listen) => b"LISTEN",
        (Protocol::Tcp, State::Closing) => b"CLOSING",
        (_, State::Established) => b"ESTABLISHED",
        (_, State::Close) => b"",
        (_, _) => b"UNKNOWN",
    };
    push_left(out, name, STATE_WIDTH);
}

/// `keepalive (1767.52/0/0)`: seconds, retransmissions, probes without an answer.
fn push_timer(out: &mut Vec<u8>, socket: &Socket) {
    let is_tcp = socket.protocol == Protocol::Tcp;
    // The kernel reports no timers of other protocols.
    let timer = socket.timer.filter(|_| is_tcp);
    match timer.map(|timer| timer.kind) {
        None => out.extend_from_slice(b"off ("),
        Some(TimerKind::Retransmission) => out.extend_from_slice(b"on ("),
        Some(TimerKind::Keepalive) => out.extend_from_slice(b"keepalive ("),
        Some(TimerKind::TimeWait) => out.extend_from_slice(b"timewait ("),
        Some(TimerKind::ZeroWindowProbe) => out.extend_from_slice(b"probe ("),
        Some(TimerKind::Unknown(number)) => {
            out.extend_from_slice(b"unkn-");
            push_decimal(out, number.into());
            out.extend_from_slice(b" (");
        }
    }
    // `jiffies_delta_to_clock_t` truncates to hundredths.
    let hundredths = timer.map_or(0, |timer| timer.expires_ms / 10);
    push_decimal(out, (hundredths / 100).into());
    out.push(b'.');
    out.extend_from_slice(&[
        b'0' + (hundredths / 10 % 10) as u8,
        b'0' + (hundredths % 10) as u8,
        b'/',
    ]);
    let (retransmits, probes) = counts(socket, timer);
    push_decimal(out, retransmits.into());
    out.push(b'/');
    push_decimal(out, probes.into());
    out.push(b')');
}

/// Returns retransmissions and probes: `tcp_info` has both, a timer only its own count.
fn counts(socket: &Socket, timer: Option<Timer>) -> (u32, u32) {
    let info = socket.tcp_info.as_ref();
    let known = info.and_then(|info| info.retransmits.zip(info.probes));
    match (known, timer) {
        (Some((retransmits, probes)), _) => (retransmits.into(), probes.into()),
        (None, Some(timer)) => match timer.kind {
            TimerKind::Retransmission => (timer.retransmits, 0),
            TimerKind::Keepalive | TimerKind::ZeroWindowProbe => (0, timer.retransmits),
            TimerKind::TimeWait | TimerKind::Unknown(_) => (0, 0),
        },
        (None, None) => (0, 0),
    }
}

/// Bytes of an address and its port together, without `-W`.
const SHORT_LEN: usize = 22;
const ADDRESS_WIDTH: usize = 23;
const STATE_WIDTH: usize = 11;
/// Most bytes of an endpoint with `-W`.
const LONG_MAX: usize = 127;
/// Most bytes of a service's name.
const SERVICE_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Family, Inode, NoNames, TcpInfo};

    const LAYOUT: InetLayout = InetLayout {
        shown: Shown::All,
        extended: false,
        programs: false,
        timers: false,
        wide: false,
        numeric_hosts: true,
        text: TextForm::Raw,
    };

    struct Known;

    impl Names for Known {
        fn service(&self, _: Protocol, port: Port) -> Option<&str> {
            (port.0 == 22).then_some("a-service-with-a-long-name")
        }
        fn host(&self, ip: IpAddr) -> Option<&str> {
            ip.is_loopback().then_some("localhost")
        }
        fn user(&self, uid: Uid) -> Option<&str> {
            (uid.0 == 0).then_some("root")
        }
    }

    fn tcp(local: &str, peer: &str) -> Socket {
        let end = |text: &str| {
            let address: std::net::SocketAddr = text.parse().unwrap();
            Endpoint::inet(address.ip(), Port(address.port()))
        };
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.family = Family::Inet;
        (socket.local, socket.peer) = (end(local), end(peer));
        socket.queues = Queues::Data {
            receive_bytes: 5,
            send_bytes: 1_234_567,
        };
        socket
    }

    #[track_caller]
    fn check(layout: InetLayout, protocol: &str, socket: &Socket, names: &dyn Names, expected: &str) {
        let mut out = Vec::new();
        let program = b"12/prog";
        layout.push_row(
            &mut out,
            &InetRow {
                protocol,
                socket,
                program,
            },
            names,
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn every_column_is_shown() {
        let mut socket = tcp("127.0.0.1:80", "10.11.12.13:40000");
        socket.inode = Some(Inode(77));
        socket.uid = Some(Uid(u32::MAX - 1));
        socket.timer = Timer::from_numbers(2, 1_767_529, 3);
        let all = InetLayout {
            extended: true,
            programs: true,
            timers: true,
            ..LAYOUT
        };
        check(
            all,
            "tcp",
            &socket,
            &NoNames,
            "tcp        5 1234567 127.0.0.1:80            10.11.12.13:40000       ESTABLISHED \
             -2         77         12/prog              keepalive (1767.52/0/3)\n",
        );
        socket.tcp_info = Some(TcpInfo {
            retransmits: Some(4),
            probes: Some(1),
            ..TcpInfo::default()
        });
        socket.timer = None;
        (socket.uid, socket.inode) = (None, None);
        check(
            all,
            "tcp",
            &socket,
            &Known,
            "tcp        5 1234567 localhost:80            10.11.12.13:40000       ESTABLISHED \
             root       0          12/prog              off (0.00/4/1)\n"
                .replace("localhost:80   ", "127.0.0.1:80   ")
                .as_str(),
        );
    }

    #[test]
    fn addresses_are_cut_to_their_column() {
        let long = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535";
        let socket = tcp(long, "[::ffff:1.2.3.4]:22");
        check(
            LAYOUT,
            "tcp6",
            &socket,
            &NoNames,
            "tcp6       5 1234567 2001:db8:1111:222:65535 1.2.3.4:22              ESTABLISHED\n",
        );
        check(
            InetLayout { wide: true, ..LAYOUT },
            "tcp6",
            &socket,
            &NoNames,
            "tcp6       5 1234567 2001:db8:1111:2222:3333:4444:5555:6666:65535 1.2.3.4:22              ESTABLISHED\n",
        );
        let named = InetLayout {
            numeric_hosts: false,
            ..LAYOUT
        };
        check(
            named,
            "tcp6",
            &tcp("[::1]:22", "[::]:0"),
            &Known,
            "tcp6       5 1234567 loca:a-service-with-a-l [::]:*                  ESTABLISHED\n",
        );
        check(
            LAYOUT,
            "tcp6",
            &tcp("[::1.2.3.4]:1", "[::]:0"),
            &NoNames,
            "tcp6       5 1234567 ::1.2.3.4:1             :::*                    ESTABLISHED\n",
        );
    }

    #[test]
    fn other_protocols_have_their_own_states() {
        let mut socket = tcp("0.0.0.0:1", "0.0.0.0:0");
        (socket.protocol, socket.state) = (Protocol::Raw, State::Close);
        let timers = InetLayout {
            timers: true,
            ..LAYOUT
        };
        socket.timer = Timer::from_numbers(1, 50, 5);
        check(
            timers,
            "raw",
            &socket,
            &NoNames,
            "raw        5 1234567 0.0.0.0:1               0.0.0.0:*               7           off (0.00/0/0)\n",
        );
        socket.protocol = Protocol::UdpLite;
        check(
            LAYOUT,
            "udpl6",
            &socket,
            &NoNames,
            "udpl6      5 1234567 0.0.0.0:1               0.0.0.0:*                          \n",
        );
    }

    #[test]
    fn listener_shows_no_backlog() {
        let mut socket = tcp("0.0.0.0:1", "0.0.0.0:0");
        socket.state = State::Listen;
        socket.queues = Queues::Accept {
            waiting: 2,
            backlog: Some(128),
        };
        check(
            LAYOUT,
            "tcp",
            &socket,
            &NoNames,
            "tcp        2      0 0.0.0.0:1               0.0.0.0:*               LISTEN     \n",
        );
    }

    #[test]
    fn header_has_the_selected_columns() {
        let mut out = Vec::new();
        InetLayout {
            extended: true,
            programs: true,
            timers: true,
            shown: Shown::Listening,
            ..LAYOUT
        }
        .push_header(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Active Internet connections (only servers)\n\
             Proto Recv-Q Send-Q Local Address           Foreign Address         State       User       Inode      \
             PID/Program name     Timer\n"
        );
    }
}
