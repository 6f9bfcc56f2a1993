//! `sockeye check` and queues, buffers and ports that run full: each fault made for real in namespaces, the one finding
//! that says so, and silence below the threshold.

use super::diagnosis::{self, check, check_inside, expect, given, until};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use sockeye_lab::{
    Impairment, Lab, Namespace, NetPath, Skip, SocketOptions, State, Toward, need, wait_until,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The length of queues alone is judged, not how long the first in them waits.
const LENGTH_ONLY: [&str; 2] = ["--set", "accept-queue.age=1h"];

fn two(purpose: &str) -> Result<(Lab, Namespace, Namespace), Skip> {
    let lab = Lab::new(purpose)?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    Ok((lab, client, server))
}

/// So many clients that begin to connect and do not wait for the answer.
fn calling(net_path: &NetPath, to: SocketAddr, count: usize) -> Vec<OwnedFd> {
    let call = |_| {
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )
        .expect("a socket");
        bind(&socket, &SocketAddr::new(net_path.client_ip(), 0)).expect("bind");
        let _ = connect(&socket, &to);
        socket
    };
    net_path.client().run(|| (0..count).map(call).collect())
}

#[test]
fn an_accept_queue_that_is_nearly_full() {
    let (lab, client, server) = need!(two("accept_queue"));
    let link = lab.link(&client, &server);
    let net_path = link.net_path6().with_server(SocketOptions::new().backlog(20));
    let listener = net_path.listener();
    let to = listener.local.expect("an address");
    let _fifteen = calling(&net_path, to, 15);
    listener.wait_row("15 in the queue", |row| row.recv_queue == 15);
    check(&server, &LENGTH_ONLY).nothing();
    let _one_more = calling(&net_path, to, 1);
    listener.wait_row("16 in the queue", |row| row.recv_queue == 16);
    let owner = given(&lab, "slow", listener);
    let found = check(&server, &LENGTH_ONLY);
    assert_eq!(found.rules(), ["accept-queue"], "{found}");
    let found = found.the("accept-queue").severity("warning").owned_by(&owner);
    found.listener(&owner.sockets()[0]);
    assert_eq!((found.fact("waiting"), found.fact("backlog")), (16, 20));
    check_inside(
        &server,
        &[&LENGTH_ONLY[..], &["--set", "accept-queue.share=81%"]].concat(),
    )
    .nothing();
    check_inside(&client, &[]).nothing();
}

/// Of a short one a share says nothing: only that it is full.
#[test]
fn an_accept_queue_that_is_full() {
    let (lab, client, server) = need!(two("accept_queue_full"));
    let link = lab.link(&client, &server);
    let net_path = link.net_path().with_server(SocketOptions::new().backlog(4));
    let listener = net_path.listener();
    let to = listener.local.expect("an address");
    let _four = calling(&net_path, to, 4);
    listener.wait_row("a queue as long as asked for", |row| row.recv_queue == 4);
    check_inside(&server, &LENGTH_ONLY).nothing();
    let _one_more = calling(&net_path, to, 1);
    listener.wait_row("one more", |row| row.recv_queue == 5);
    let owner = given(&lab, "stuck", listener);
    let found = check_inside(&server, &LENGTH_ONLY);
    assert_eq!(found.rules(), ["accept-queue"], "{found}");
    let found = found.the("accept-queue").severity("critical").owned_by(&owner);
    found.listener(&owner.sockets()[0]);
    assert_eq!((found.fact("waiting"), found.fact("backlog")), (5, 4));
    found.remedy(&format!("/proc/{}/stack", owner.pid()));
}

#[test]
fn a_backlog_cut_short_by_the_system() {
    let (lab, client, server) = need!(two("backlog_capped"));
    server.sysctl("core/somaxconn", "8");
    let link = lab.link(&client, &server);
    let net_path = link.net_path().with_server(SocketOptions::new().backlog(128));
    let capped = net_path.listener();
    let to = capped.local.expect("an address");
    let _three = calling(&net_path, to, 3);
    capped.wait_row("3 in the queue", |row| row.recv_queue == 3);
    // As long as nothing presses there is nothing to say; nor of one that asked for less.
    let short = net_path.with_server(SocketOptions::new().backlog(5)).listener();
    let _three_there = calling(&net_path, short.local.expect("an address"), 3);
    short.wait_row("3 in the queue", |row| row.recv_queue == 3);
    check(&server, &LENGTH_ONLY).nothing();
    let _fourth = calling(&net_path, to, 1);
    capped.wait_row("4 in the queue", |row| row.recv_queue == 4);
    let owner = given(&lab, "capped", capped);
    let found = check(&server, &LENGTH_ONLY);
    assert_eq!(found.rules(), ["backlog-capped"], "{found}");
    let found = found.the("backlog-capped").severity("notice").owned_by(&owner);
    found.listener(&owner.sockets()[0]).remedy("net.core.somaxconn");
    assert_eq!((found.fact("waiting"), found.fact("somaxconn")), (4, 8));
    // Full it is a fault of its own, and the system's limit why.
    let _rest = calling(&net_path, to, 5);
    let found = expect(&server, &LENGTH_ONLY, &["accept-queue", "backlog-capped"]);
    found.the("accept-queue").severity("critical").owned_by(&owner);
}

#[test]
fn connections_that_were_turned_away() {
    let (lab, client, server) = need!(two("listener_drops"));
    let link = lab.link(&client, &server);
    let net_path = link.net_path();
    let full = net_path.full_accept_queue(2);
    let to = full.listener.local.expect("an address");
    let _more = calling(&net_path, to, 12);
    wait_until("a dozen to be turned away", || {
        let netstat = server.proc_net("netstat");
        counter(&netstat, "ListenDrops") >= 12
    });
    // The program wakes up and accepts those that came in time.
    let listener = full.listener;
    listener
        .socket()
        .set_nonblocking(true)
        .expect("a listener that does not wait");
    let mut accepted = Vec::new();
    let found = until(&["listener-drops"], || {
        while let Ok((socket, _)) = listener.socket().accept() {
            accepted.push(socket);
        }
        check(&server, &[])
    });
    let found = found.the("listener-drops").severity("warning");
    found.listener(&listener);
    assert!(found.fact("drops") >= 12);
    check(
        &server,
        &["--set", "listener-drops.count=1000", "--skip", "counters"],
    )
    .nothing();
}

fn counter(netstat: &str, name: &str) -> u64 {
    let mut lines = netstat.lines();
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let place = names.split(' ').position(|word| word == name);
    let value = place.and_then(|place| values.split(' ').nth(place));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Clients that the answers do not reach, with SYN cookies and without.
#[test]
fn half_open_connections_that_fill_the_queue() {
    for (cookies, syn_backlog, backlog, max) in [
        ("1", "4096", 12, 12),
        ("0", "32", 1000, 24),
        ("0", "4096", 12, 12),
    ] {
        let (lab, client, server) = need!(two("syn_queue"));
        server.sysctl("ipv4/tcp_syncookies", cookies);
        server.sysctl("ipv4/tcp_max_syn_backlog", syn_backlog);
        let net_path = lab.link(&client, &server).net_path();
        let net_path = net_path.with_server(SocketOptions::new().backlog(backlog));
        let listener = net_path.listener();
        net_path.cut(Toward::Client);
        let to = listener.local.expect("an address");
        let _some = calling(&net_path, to, 9);
        let half_open = || {
            let rows = server.tcp_rows();
            rows.iter().filter(|row| row.state == State::SynRecv).count()
        };
        wait_until("9 to be half open", || half_open() == 9);
        check(&server, &[]).nothing();
        let _many = calling(&net_path, to, 30);
        wait_until("the queue to be full", || half_open() >= max);
        let owner = given(&lab, "flooded", listener);
        let found = check(&server, &[]);
        assert_eq!(found.rules(), ["syn-queue"], "{found}");
        let found = found.the("syn-queue").severity("warning").owned_by(&owner);
        found.listener(&owner.sockets()[0]).remedy("state syn-recv");
        assert!(found.fact("half_open") >= max as u64);
        assert_eq!(found.fact("half_open_max"), max as u64);
        if cookies == "0" {
            assert_eq!(found.fact("syncookies"), 0);
            let found = found.remedy("tcp_syncookies=1");
            // Only the length of the queue counts as full (TCPReqQFullDrop).
            if backlog == 12 {
                assert!(found.fact("syns_dropped") > 0);
            }
        }
    }
}

#[test]
fn unread_datagrams_are_found() {
    let (lab, client, server) = need!(two("udp_unread"));
    let net_path = lab.link(&client, &server).net_path();
    let pair = net_path
        .with_server(SocketOptions::new().recv_buffer_bytes(16 << 10))
        .udp_connected();
    // Half of the buffer is no harm.
    let send = |count: usize| (0..count).for_each(|_| drop(pair.client.socket().send(&[b'd'; 500])));
    send(5);
    check(&server, &[]).nothing();
    send(200);
    let owner = given(&lab, "deaf", pair.server);
    let found = expect(&server, &[], &["udp-unread"]);
    let found = found.the("udp-unread").severity("warning").owned_by(&owner);
    found.about(1, &owner.sockets()[0]);
    assert!(found.fact("share_permille") >= 800);
    assert_eq!(found.fact("rcvbuf_bytes"), 32 << 10);
    assert!(found.fact("drops") > 10);
    found.remedy(&format!("pid = {}", owner.pid()));
    check(&client, &[]).nothing();
}

#[test]
fn datagrams_that_were_dropped() {
    let (lab, client, server) = need!(two("udp_drops"));
    let net_path = lab.link(&client, &server).net_path6();
    let pair = net_path
        .with_server(SocketOptions::new().recv_buffer_bytes(16 << 10))
        .udp_connected();
    for _ in 0..200 {
        pair.client.socket().send(&[b'd'; 500]).expect("send");
    }
    // A reader that is there while they arrive would leave nothing to drop.
    wait_until("the kernel to drop some", || {
        let rows = server.proc_net("udp6");
        let drops = rows
            .lines()
            .nth(1)
            .and_then(|row| row.split_whitespace().last()?.parse().ok());
        drops.is_some_and(|drops: u32| drops > 10)
    });
    // The program reads what there is.
    let reader: UdpSocket = pair.server.duplicate().into();
    reader.set_nonblocking(true).expect("a socket that does not wait");
    while reader.recv(&mut [0; 1000]).is_ok() {}
    drop(reader);
    let owner = given(&lab, "late", pair.server);
    let found = expect(&server, &[], &["socket-drops"]);
    let found = found.the("socket-drops").severity("warning").owned_by(&owner);
    found.about(1, &owner.sockets()[0]);
    assert!(found.fact("drops") > 10);
    assert_eq!(found.fact("rcvbuf_bytes"), 32 << 10);
    check(
        &server,
        &["--set", "socket-drops.count=1000", "--skip", "counters"],
    )
    .nothing();
    // Nothing moves any more.
    check(&server, &["--watch", "0.2", "--count", "1"]).nothing();
}

/// Segments that come twice: the second is dropped by the socket.
#[test]
fn duplicates_are_no_drops() {
    let (lab, client, server) = need!(two("tcp_drops"));
    let middlebox = lab.middlebox(&client, &server, 2);
    let pair = middlebox.net_path().established();
    let mut reader: TcpStream = pair.server.duplicate().into();
    // Read as it comes, so that no buffer has to be squeezed.
    let mut send = |bytes: usize| {
        std::thread::scope(|scope| {
            scope.spawn(|| pair.client.socket().write_all(&vec![b'x'; bytes]).expect("send"));
            reader.read_exact(&mut vec![0; bytes]).expect("receive");
        });
    };
    send(200_000);
    check(&server, &[]).nothing();
    middlebox.set(
        Toward::Server,
        Impairment {
            duplicate_permille: 300,
            ..Impairment::default()
        },
    );
    send(600_000);
    // The kernel counts the second copies as drops of the socket; nothing was lost.
    wait_until("the kernel to drop duplicates", || {
        counter(&server.proc_net("netstat"), "DelayedACKLost") >= 10
    });
    check(&server, &["--only", "socket-drops"]).nothing();
    check(&client, &["--only", "socket-drops"]).nothing();
}

/// Between two looks one datagram is enough, and none is none.
#[test]
fn drops_between_samples_are_found() {
    let (lab, client, server) = need!(two("drops_moving"));
    let net_path = lab.link(&client, &server).net_path();
    let pair = net_path
        .with_server(SocketOptions::new().recv_buffer_bytes(4 << 10))
        .udp_connected();
    let reader: UdpSocket = pair.server.duplicate().into();
    reader.set_nonblocking(true).expect("a socket that does not wait");
    // More than the buffer holds, and all of it read: so it was long ago, and so it goes on.
    let burst = || {
        for _ in 0..30 {
            pair.client.socket().send(&[b'd'; 1000]).expect("send");
        }
        while reader.recv(&mut [0; 2000]).is_ok() {}
    };
    burst();
    check(&server, &["--watch", "0.3", "--count", "1"]).nothing();
    let bursting = AtomicBool::new(true);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while bursting.load(Ordering::Relaxed) {
                burst();
                // The pace of the bursts.
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let found = std::panic::catch_unwind(|| {
            until(&["socket-drops"], || {
                check(
                    &server,
                    &["--watch", "0.5", "--count", "1", "--skip", "udp-unread"],
                )
            })
        });
        bursting.store(false, Ordering::Relaxed);
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    found.the("socket-drops").about(1, &pair.server);
    assert!(found.the("socket-drops").fact("drops") >= 1);
}

#[test]
fn local_ports_towards_a_service() {
    let (lab, client, server) = need!(two("ephemeral_ports"));
    client.sysctl("ipv4/ip_local_port_range", "40000 40099");
    let link = lab.link(&client, &server);
    let net_path = link.net_path();
    let listener = net_path.with_server(SocketOptions::new().backlog(200)).listener();
    let to = listener.local.expect("an address");
    let connect = |count: usize| -> Vec<TcpStream> {
        let one = |_| TcpStream::connect(to).expect("connect");
        client.run(|| (0..count).map(one).collect())
    };
    let _most = connect(79);
    // Other services have the same ports once more.
    let other = net_path.listener();
    let _others: Vec<TcpStream> = client.run(|| {
        let to = other.local.expect("an address");
        (0..30)
            .map(|_| TcpStream::connect(to).expect("connect"))
            .collect()
    });
    check(&client, &[]).nothing();
    let _one_more = connect(1);
    let found = check(&client, &[]);
    assert_eq!(found.rules(), ["ephemeral-ports"], "{found}");
    let found = found.the("ephemeral-ports").severity("warning");
    assert_eq!(found.0["owners"][0]["pid"], std::process::id());
    assert_eq!((found.fact("used"), found.fact("ports")), (80, 100));
    let subject = &found.0["subject"];
    assert_eq!(subject["kind"], "service", "{subject}");
    assert_eq!(subject["local"]["ip"], link.client_addresses().0.to_string());
    assert_eq!(diagnosis::end(&subject["peer"]), Some(to));
    found
        .remedy("ip_local_port_range")
        .remedy(&format!("dport = :{}", to.port()));
    check_inside(&client, &["--set", "ephemeral-ports.share=81%"]).nothing();
    // Those that are gone still take their ports for a minute, and hardly any is left.
    let mut gone = connect(16);
    gone.clear();
    let found = expect(&client, &[], &["ephemeral-ports"]);
    let found = found.the("ephemeral-ports").severity("critical");
    assert_eq!(found.fact("used"), 96);
    check(&server, &[]).nothing();
}

#[test]
fn local_ports_for_udp() {
    let lab = need!(Lab::new("udp_ports"));
    let namespace = lab.namespace("alone");
    namespace.sysctl("ipv4/ip_local_port_range", "40000 40099");
    let bind = |count: usize| -> Vec<UdpSocket> {
        let one = |_| UdpSocket::bind("127.0.0.1:0").expect("bind");
        namespace.run(|| (0..count).map(one).collect())
    };
    let _most = bind(79);
    // Ports outside the range do not count.
    let _beyond: Vec<UdpSocket> = namespace.run(|| {
        let one = |port| UdpSocket::bind(("127.0.0.1", port)).expect("bind");
        (50_000..50_050).map(one).collect()
    });
    check_inside(&namespace, &[]).nothing();
    let _one_more = bind(1);
    let found = check(&namespace, &[]);
    assert_eq!(found.rules(), ["udp-ports"], "{found}");
    let found = found.the("udp-ports").severity("warning");
    assert_eq!((found.fact("used"), found.fact("ports")), (80, 100));
    assert_eq!(found.0["subject"]["kind"], "namespace");
    let _nearly_all = bind(16);
    check(&namespace, &[]).the("udp-ports").severity("critical");
}
