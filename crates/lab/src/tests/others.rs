//! UDP, raw, packet, netlink and UNIX sockets against `ss` and `/proc/net`.

use super::ss;
use sockeye_lab::{Family, Lab, LabSocket, Namespace, Protocol, SocketOptions, State, UnixKind, UnixName};
use sockeye_lab::{need, program};

fn one(purpose: &str) -> Result<(Lab, Namespace), sockeye_lab::Skip> {
    program("ss")?;
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("one");
    Ok((lab, namespace))
}

/// Whether a file below /proc/net has the inode as a word.
fn in_proc(lab_socket: &LabSocket, file: &str) -> bool {
    let inode = lab_socket.inode.to_string();
    lab_socket
        .namespace
        .proc_net(file)
        .lines()
        .any(|line| line.split_whitespace().any(|word| word == inode))
}

/// What is sent before the kernel has given the device a queue is lost.
#[test]
fn link_sends_from_the_first_datagram_on() {
    let (lab, namespace) = need!(one("first"));
    for number in 0..20 {
        let pair = lab
            .link(&namespace, &lab.namespace(&format!("other{number}")))
            .net_path6()
            .udp_connected();
        pair.client.socket().send(b"first").unwrap();
        let server = pair.server.socket();
        server
            .set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .unwrap();
        assert_eq!(std::io::Read::read(&mut &*server, &mut [0; 8]).unwrap(), 5);
    }
}

#[test]
fn udp_sockets_match_ss() {
    let (lab, namespace) = need!(one("udp"));
    let plain = SocketOptions::new();
    assert_eq!(
        ss::check(&namespace.udp_bound("0.0.0.0:5001", &plain)).local,
        "0.0.0.0:5001"
    );
    assert_eq!(
        ss::check(&namespace.udp_bound("[::]:5002", &plain)).local,
        "*:5002"
    );
    assert_eq!(
        ss::check(&namespace.udp_bound("[::1]:5003", &plain)).local,
        "[::1]:5003"
    );
    let link = lab.link(&namespace, &lab.namespace("other"));
    let mapped = namespace.loopback_mapped();
    for net_path in [
        namespace.loopback(),
        namespace.loopback6(),
        mapped,
        link.net_path(),
        link.net_path6(),
    ] {
        let pair = net_path.udp_connected();
        for end in pair.lab_sockets() {
            assert_eq!(end.state, State::Established);
            ss::check(end);
        }
        pair.client.socket().send(b"hello").unwrap();
        let mut buffer = [0; 8];
        let mut server = pair.server.socket();
        assert_eq!(std::io::Read::read(&mut server, &mut buffer).unwrap(), 5);
    }
}

#[test]
fn udp_lite_sockets_have_their_values() {
    let (_lab, namespace) = need!(one("udp_lite"));
    let lite = need!(namespace.udp_lite_bound("127.0.0.1:5100", &SocketOptions::new()));
    assert!(in_proc(&lite, "udplite"), "{}", namespace.proc_net("udplite"));
    let lite6 = need!(namespace.udp_lite_bound("[::1]:5100", &SocketOptions::new()));
    assert!(in_proc(&lite6, "udplite6"));
}

#[test]
fn raw_packet_and_netlink_sockets_have_their_values() {
    let (_lab, namespace) = need!(one("raw"));
    let icmp = namespace.raw(1, false);
    assert!(in_proc(&icmp, "raw") && !in_proc(&icmp, "raw6"));
    assert_eq!((icmp.family, icmp.protocol), (Family::Inet, Protocol::Raw(1)));
    let icmp6 = namespace.raw(58, true);
    assert!(in_proc(&icmp6, "raw6"));
    // Without CONFIG_INET_RAW_DIAG ss falls back to /proc and knows no inode; the port is the protocol.
    let outcome = namespace.output("ss", &["-Hwan"]);
    assert!(
        outcome.contains(" 0.0.0.0:1 ") && outcome.contains(" *:58 "),
        "{outcome}"
    );

    let packet = namespace.packet(3);
    assert!(in_proc(&packet, "packet"));
    let outcome = namespace.output("ss", &["-H0ane"]);
    assert!(outcome.contains(&format!("ino:{} ", packet.inode)), "{outcome}");

    let netlink = namespace.netlink(0);
    assert!(in_proc(&netlink, "netlink"));
    let port = netlink.netlink_port().unwrap();
    assert_ne!(port, 0);
    // FAMILY:PORT, the family as a number by -n.
    let outcome = namespace.output("ss", &["-HanA", "netlink"]);
    assert!(
        outcome.contains(&format!(" 0:{port} ")),
        "{port} not in {outcome}"
    );
}

#[test]
fn unix_sockets_have_their_values() {
    let (lab, namespace) = need!(one("unix"));
    for kind in [UnixKind::Stream, UnixKind::Datagram, UnixKind::Seqpacket] {
        let path = lab.unix_path(format!("{kind:?}"));
        let named = namespace.unix_connected(kind, &path);
        let holder_of_name = named.listener.as_ref().unwrap_or(&named.server);
        assert_eq!(holder_of_name.name.as_ref(), Some(&path));
        assert_eq!(named.client.name, Some(UnixName::Unnamed));
        let hidden = namespace.unix_connected(kind, &lab.unix_abstract(format!("{kind:?}")));
        let pair = namespace.unix_pair(kind);
        assert_eq!(pair.client.peer_inode, Some(pair.server.inode));

        let outcome = namespace.output("ss", &["-Hxan"]);
        for lab_socket in named
            .lab_sockets()
            .chain(hidden.lab_sockets())
            .chain(pair.lab_sockets())
        {
            assert!(in_proc(lab_socket, "unix"));
            // Netid State Recv-Q Send-Q Name Inode PeerName PeerInode
            let inode = lab_socket.inode.to_string();
            let line = outcome
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>());
            let line = line.into_iter().find(|words| words.get(5) == Some(&&inode[..]));
            let line = line.unwrap_or_else(|| panic!("{inode} not in {outcome}"));
            let netid = match kind {
                UnixKind::Stream => "u_str",
                UnixKind::Datagram => "u_dgr",
                UnixKind::Seqpacket => "u_seq",
            };
            assert_eq!(line[0], netid);
            assert_eq!(line[1], lab_socket.state.ss_word(), "{line:?}");
            assert_eq!(
                line[2..4],
                [
                    lab_socket.recv_queue.to_string(),
                    lab_socket.send_queue.to_string()
                ],
                "{line:?}"
            );
            match &lab_socket.name {
                Some(UnixName::Path(path)) => assert_eq!(line[4], path.to_str().unwrap()),
                Some(UnixName::Abstract(name)) => {
                    assert_eq!(line[4], format!("@{}", String::from_utf8_lossy(name)));
                }
                _ => assert_eq!(line[4], "*"),
            }
            if let Some(peer) = lab_socket.peer_inode {
                assert_eq!(line[7], peer.to_string(), "{line:?}");
            }
        }
    }
}

#[test]
fn unix_names_with_odd_bytes() {
    let (lab, namespace) = need!(one("odd"));
    let odd: &[u8] = b"a\nb\x1b[31m\xffc d";
    for name in [
        lab.unix_path(odd),
        lab.unix_abstract(odd),
        lab.unix_abstract(b"nul\0inside"),
    ] {
        let listener = namespace.unix_bound(UnixKind::Stream, &name);
        assert_eq!(listener.name, Some(name), "the kernel kept every byte");
        assert!(in_proc(&listener, "unix"));
    }
    assert!(lab.directory().read_dir().unwrap().count() > 0);
}
