//! What a real kernel said of sockets that we made, read back: `testdata/linux-6.18`.
//!
//! The dumps and the hexadecimal words of procfs are in the byte order of the kernel that wrote them.
#![cfg(target_endian = "little")]

use sockeye_model::{Endpoint, Protocol, Queues, Socket};
use sockeye_wire::Error;
use sockeye_wire::inet_diag::InetDiag;
use sockeye_wire::netlink::{Messages, NLMSG_DONE};
use sockeye_wire::netlink_diag::NetlinkDiag;
use sockeye_wire::packet_diag::PacketDiag;
use sockeye_wire::proc_net::{InetLine, NetlinkLine, PacketLine, UnixLine, is_header};
use sockeye_wire::proc_pid::Stat;
use sockeye_wire::unix_diag::UnixDiag;
use std::fmt::Write as _;

macro_rules! captured {
    ($name:literal) => {
        include_bytes!(concat!("../../../../../testdata/linux-6.18/", $name)).as_slice()
    };
}

/// Every message of a dump, which must end in order.
fn dump(bytes: &[u8], read: impl Fn(&[u8]) -> Result<Socket, Error>) -> Vec<Socket> {
    let mut sockets = Vec::new();
    let mut done = false;
    for message in Messages::new(bytes) {
        let message = message.expect("a good envelope");
        assert!(!done && !message.interrupted());
        if message.kind == NLMSG_DONE {
            assert_eq!(message.outcome().map(|outcome| outcome.code), Ok(0));
            done = true;
        } else {
            sockets.push(read(message.payload).expect("a good message"));
        }
    }
    assert!(done, "the dump has an end");
    sockets
}

fn inet(bytes: &[u8], protocol: Protocol) -> Vec<Socket> {
    dump(bytes, |payload| {
        Socket::from_inet_diag(&InetDiag::parse(payload)?, protocol)
    })
}

/// Every line of a file but the first, of which so many are broken.
fn lines(bytes: &[u8], broken: usize, read: impl Fn(&[u8]) -> Result<Socket, Error>) -> Vec<Socket> {
    let mut lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    assert!(is_header(lines.next().expect("a header")));
    let (good, bad): (Vec<_>, Vec<_>) = lines.map(read).partition(Result::is_ok);
    assert_eq!(bad.len(), broken);
    good.into_iter().map(Result::unwrap).collect()
}

fn inet_lines(protocol: Protocol, v4: &[u8], v6: &[u8]) -> Vec<Socket> {
    let read = |line: &[u8]| Ok(Socket::from_proc_inet(&InetLine::parse(line)?, protocol));
    let mut sockets = lines(v4, 0, read);
    sockets.extend(lines(v6, 0, read));
    sockets
}

/// Everything captured, by what it was read from.
fn everything() -> Vec<(&'static str, Vec<Socket>)> {
    let mut udp = inet(captured!("udp4.bin"), Protocol::Udp);
    udp.extend(inet(captured!("udp6.bin"), Protocol::Udp));
    let unix = dump(captured!("unix.bin"), |payload| {
        Socket::from_unix_diag(&UnixDiag::parse(payload)?)
    });
    let packet = dump(captured!("packet.bin"), |payload| {
        Socket::from_packet_diag(&PacketDiag::parse(payload)?)
    });
    let netlink = dump(captured!("netlink.bin"), |payload| {
        Socket::from_netlink_diag(&NetlinkDiag::parse(payload)?)
    });
    // The broken line is the second half of a path with a newline in it.
    let proc_unix = lines(captured!("proc_unix"), 1, |line| {
        Ok(Socket::from_proc_unix(&UnixLine::parse(line)?))
    });
    let proc_packet = lines(captured!("proc_packet"), 0, |line| {
        Ok(Socket::from_proc_packet(&PacketLine::parse(line)?))
    });
    let proc_netlink = lines(captured!("proc_netlink"), 0, |line| {
        Ok(Socket::from_proc_netlink(&NetlinkLine::parse(line)?))
    });
    let proc_tcp = inet_lines(Protocol::Tcp, captured!("proc_tcp"), captured!("proc_tcp6"));
    let proc_udp = inet_lines(Protocol::Udp, captured!("proc_udp"), captured!("proc_udp6"));
    let (lite4, lite6) = (captured!("proc_udplite"), captured!("proc_udplite6"));
    let proc_raw = inet_lines(Protocol::Raw, captured!("proc_raw"), captured!("proc_raw6"));
    vec![
        ("diag tcp", inet(captured!("tcp_one_pass.bin"), Protocol::Tcp)),
        ("diag udp", udp),
        ("diag mptcp", inet(captured!("mptcp4.bin"), Protocol::Mptcp)),
        ("diag unix", unix),
        ("diag packet", packet),
        ("diag netlink", netlink),
        ("proc tcp", proc_tcp),
        ("proc udp", proc_udp),
        ("proc udplite", inet_lines(Protocol::UdpLite, lite4, lite6)),
        ("proc raw", proc_raw),
        ("proc unix", proc_unix),
        ("proc packet", proc_packet),
        ("proc netlink", proc_netlink),
    ]
}

fn or<T: ToString>(value: Option<T>, absent: &str) -> String {
    value.map_or_else(|| absent.to_owned(), |value| value.to_string())
}

/// An endpoint as `made.tsv` writes it: a UNIX peer by its inode.
fn endpoint(endpoint: &Endpoint, is_peer: bool) -> String {
    match endpoint {
        Endpoint::None => "-".to_owned(),
        Endpoint::Inet { ip, port } if ip.is_ipv6() => format!("[{ip}]:{port}"),
        Endpoint::Inet { ip, port } => format!("{ip}:{port}"),
        Endpoint::Unix { inode, .. } if is_peer => or(*inode, "?"),
        Endpoint::Unix { name, .. } => {
            let name = name.map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
            or(name, "*").replace('\0', "@").replace('\n', "\\n")
        }
        Endpoint::Packet { ethertype, interface } => format!("{ethertype} {}", or(*interface, "*")),
        Endpoint::Netlink {
            protocol,
            port,
            group: Some(group),
        } => format!("{protocol} {port} group {group}"),
        Endpoint::Netlink { protocol, port, .. } => format!("{protocol} {port}"),
    }
}

/// A socket on one line: every field that is there, of the long ones those that are not 0.
fn describe(socket: &Socket) -> String {
    let mut text = format!(
        "{} {} {} -> {} inode {} uid {}",
        socket.protocol,
        socket.state,
        endpoint(&socket.local, false),
        endpoint(&socket.peer, true),
        or(socket.inode, "-"),
        or(socket.uid, "-"),
    );
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.extend([" ", name, " ", &value]);
        }
    };
    match socket.queues {
        Queues::Unknown => {}
        Queues::Data {
            receive_bytes,
            send_bytes,
        } => field("data", Some(format!("{receive_bytes}/{send_bytes}"))),
        Queues::Accept { waiting, backlog } => {
            field("accept", Some(format!("{waiting}/{}", or(backlog, "-"))));
        }
    }
    let timer = |t: sockeye_model::Timer| format!("{} {} ms {}", t.kind, t.expires_ms, t.retransmits);
    field("timer", socket.timer.map(timer));
    field("cookie", socket.cookie.map(|cookie| cookie.to_string()));
    field("interface", socket.interface.map(|index| index.to_string()));
    field("mark", socket.mark.map(|mark| mark.to_string()));
    field("tos", socket.tos.map(|tos| tos.to_string()));
    field("tclass", socket.tclass.map(|tclass| tclass.to_string()));
    field("v6only", socket.v6only.map(|on| on.to_string()));
    field("shutdown", socket.shutdown.map(|halves| format!("{halves:?}")));
    field("references", socket.references.map(|count| count.to_string()));
    field("congestion", socket.congestion.map(|name| format!("{name:?}")));
    field("says", socket.congestion_info.map(|info| format!("{info:?}")));
    field("ulp", socket.ulp.map(|name| format!("{name:?}")));
    if let Some(memory) = socket.memory {
        field("rmem", memory.rmem_alloc_bytes.map(|bytes| bytes.to_string()));
        field("rcvbuf", memory.rcvbuf_bytes.map(|bytes| bytes.to_string()));
        field("drops", memory.drops.map(|count| count.to_string()));
    }
    let mut long_field = |name: &'static str, value: Option<u64>| {
        field(
            name,
            value.filter(|&value| value != 0).map(|value| value.to_string()),
        );
    };
    if let Some(info) = &socket.tcp_info {
        info.visit(&mut long_field);
    }
    if let Some(info) = &socket.mptcp_info {
        info.visit(&mut long_field);
    }
    text
}

#[test]
fn every_created_socket_is_read_back() {
    let made = String::from_utf8_lossy(captured!("made.tsv"));
    let everything = everything();
    let mut compared = 0;
    for row in made.lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<_> = row.split('\t').collect();
        let &[protocol, state, inode, local, peer, uid] = columns.as_slice() else {
            panic!("{row}");
        };
        let sources: &[&str] = match protocol {
            "tcp" => &["diag tcp", "proc tcp"],
            "udp" => &["diag udp", "proc udp"],
            "udplite" => &["proc udplite"],
            "raw" => &["proc raw"],
            "mptcp" => &["diag mptcp"],
            "u_str" | "u_dgr" | "u_seq" => &["diag unix", "proc unix"],
            "p_raw" | "p_dgr" => &["diag packet", "proc packet"],
            "nl" => &["diag netlink", "proc netlink"],
            other => panic!("{other}"),
        };
        for source in sources {
            let (_, sockets) = everything.iter().find(|(name, _)| name == source).unwrap();
            let is_it = |socket: &&Socket| match inode {
                "-" => socket.inode.is_none() && endpoint(&socket.local, false) == local,
                _ => or(socket.inode, "-") == inode,
            };
            let found: Vec<_> = sockets.iter().filter(is_it).collect();
            // netlink_diag lists a socket that joined groups twice.
            let twice = *source == "diag netlink" && found.len() == 2 && found[0] == found[1];
            assert!(found.len() == 1 || twice, "{source}: {row}: {found:?}");
            let socket = found[0];
            let by_procfs = source.starts_with("proc");
            assert_eq!(socket.protocol.name(), protocol, "{source}: {row}");
            // What procfs does not know: a path behind a newline, whether netlink is connected, the peers
            // and users of UNIX sockets.
            if !(by_procfs && local.contains("\\n")) {
                assert_eq!(endpoint(&socket.local, false), local, "{source}: {row}");
            }
            if !(by_procfs && protocol == "nl") {
                assert_eq!(socket.state.to_string(), state, "{source}: {row}");
            }
            if !by_procfs || socket.protocol.is_inet() {
                assert_eq!(endpoint(&socket.peer, true), peer, "{source}: {row}");
            }
            let uid = match protocol {
                "nl" => "-",
                "u_str" | "u_dgr" | "u_seq" if by_procfs => "-",
                _ => uid,
            };
            assert_eq!(or(socket.uid, "-"), uid, "{source}: {row}");
            compared += 1;
        }
    }
    assert!(compared > 60, "only {compared} compared");
}

#[test]
fn captured_messages_read_as_expected() {
    let mut text = String::new();
    for (source, sockets) in everything() {
        writeln!(text, "{source}").unwrap();
        for socket in sockets {
            writeln!(text, "  {}", describe(&socket)).unwrap();
        }
    }
    if std::env::var_os("SOCKEYE_BLESS").is_some() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
        std::fs::write(format!("{root}/testdata/linux-6.18/expected.txt"), &text).unwrap();
        return;
    }
    let expected = String::from_utf8_lossy(captured!("expected.txt"));
    for (found, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}

#[test]
fn process_name_may_have_any_bytes() {
    let stat = Stat::parse(captured!("proc_pid_stat")).unwrap();
    let hostile = Stat::parse(captured!("proc_pid_stat_hostile")).unwrap();
    assert_eq!(stat.comm, b"python3");
    assert_eq!(hostile.comm, b") R (\n\x1b[31m");
    assert_eq!(
        (hostile.pid, hostile.parent, hostile.group),
        (stat.pid, stat.parent, stat.group)
    );
}
