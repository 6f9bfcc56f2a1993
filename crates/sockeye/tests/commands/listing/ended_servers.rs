//! `sockeye flows` knows the direction of connections whose listener has ended.

use super::between::Watching;
use crate::fixtures::live::{flows, linked, sockeye};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;
use sockeye_lab::{Skip, need};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// Connections by direction, and by port of the service.
fn directions(rows: &[Value]) -> BTreeMap<(String, u64), u64> {
    let mut sums = BTreeMap::new();
    for row in rows {
        let direction = row["direction"].as_str().unwrap().to_owned();
        let end = if direction == "passive" { "local" } else { "peer" };
        let port = row[end]["port"].as_u64().unwrap();
        *sums.entry((direction, port)).or_default() += row["connections"].as_u64().unwrap();
    }
    sums
}

fn expected(all: &[(&str, u16, u64)]) -> BTreeMap<(String, u64), u64> {
    all.iter()
        .map(|(direction, port, count)| (((*direction).to_owned(), u64::from(*port)), *count))
        .collect()
}

/// Makes connections to a server that closes each first.
fn serve(listener: &TcpListener, count: usize) {
    let address = listener.local_addr().unwrap();
    for _ in 0..count {
        let mut client = TcpStream::connect(address).unwrap();
        drop(listener.accept().unwrap());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn connections_of_a_server_that_has_ended_are_one_flow() {
    let (_lab, _client, server, _link) = need!(linked("ended"));
    server.run(|| {
        // Client ports are taken for several servers. The last one is among them.
        let all = [7_100, 7_101, 50_051].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        serve(&all[0], 500);
        serve(&all[1], 500);
        serve(&all[2], 50);
    });
    let all = expected(&[
        ("passive", 7_100, 500),
        ("passive", 7_101, 500),
        ("passive", 50_051, 50),
    ]);
    for line in [
        "-n",
        "-n --source diag",
        "-n --source procfs",
        "-ni",
        "-n --group-by port",
    ] {
        let arguments: Vec<_> = line.split(' ').collect();
        let rows = flows(&server, &arguments);
        let found = directions(&rows);
        assert_eq!((rows.len(), found), (3, all.clone()), "{line}");
    }
    let rows = flows(&server, &["-n", "--group-by", "uid"]);
    assert!(rows.iter().all(|row| row["direction"] == "passive"), "{rows:#?}");
    let text = sockeye(&server, &["flows", "-n", "sport = :7100"]);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(
        words[words.len() - 4..],
        ["127.0.0.1:7100", "<--", "127.0.0.1:many", "500"]
    );
}

/// Connects from a local port.
fn connect_from(port: u16, peers: &[SocketAddr]) -> Vec<OwnedFd> {
    let connect_to = |peer: &SocketAddr| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &SocketAddr::from(([0, 0, 0, 0], port))).unwrap();
        connect(&socket, peer).unwrap();
        socket
    };
    peers.iter().map(connect_to).collect()
}

#[test]
fn client_with_one_port_is_no_server() {
    let (_lab, client, server, link) = need!(linked("fixed"));
    let ip: IpAddr = link.net_path().server_ip();
    let listen = |ports: &[u16]| {
        let listeners = ports.iter().map(|port| TcpListener::bind((ip, *port)).unwrap());
        server.run(|| listeners.collect::<Vec<_>>())
    };
    // As peers of a network without servers choose them, and as a scan finds them.
    let peers: Vec<u16> = (0..16).map(|n| 3_000 + n * 3_900).collect();
    let scanned = [22, 25, 80, 443, 40_123];
    let _listeners = (listen(&peers), listen(&scanned));
    let at = |ports: &[u16]| {
        ports
            .iter()
            .map(|port| SocketAddr::new(ip, *port))
            .collect::<Vec<_>>()
    };
    let sockets = client.run(|| {
        [
            connect_from(6_881, &at(&peers)),
            connect_from(20, &at(&scanned)),
            connect_from(45_000, &at(&peers[8..])),
            connect_from(750, &at(&[40_123])),
        ]
    });
    let rows = flows(&client, &["-n"]);
    assert!(rows.iter().all(|row| row["direction"] == "active"), "{rows:#?}");
    let connections: u64 = rows.iter().map(|row| row["connections"].as_u64().unwrap()).sum();
    assert_eq!(connections as usize, sockets.iter().map(Vec::len).sum::<usize>());
}

#[test]
fn proxy_that_has_ended_was_a_server_and_a_client() {
    let (_lab, client, server, link) = need!(linked("proxy"));
    let upstream = server.run(|| TcpListener::bind((link.net_path().server_ip(), 40_500)).unwrap());
    let address = upstream.local_addr().unwrap();
    let _open: Vec<_> = client.run(|| {
        let proxy = TcpListener::bind("127.0.0.1:8080").unwrap();
        (0..60)
            .map(|_| {
                let mut caller = TcpStream::connect("127.0.0.1:8080").unwrap();
                let further = TcpStream::connect(address).unwrap();
                drop(proxy.accept().unwrap());
                assert_eq!(caller.read(&mut [0]).unwrap(), 0);
                further
            })
            .collect()
    });
    let found = directions(&flows(&client, &["-n"]));
    assert_eq!(found, expected(&[("passive", 8_080, 60), ("active", 40_500, 60)]));
}

#[test]
fn events_show_servers_that_no_sample_has() {
    let (_lab, _client, server, _link) = need!(linked("unseen"));
    let watching = Watching::start(&server, "flows -n -w 1 -c 3");
    // Its port is one of clients, and it has few connections.
    let listener = server.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    server.run(|| serve(&listener, 5));
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (samples, notes) = watching.ended();
    if notes.contains("CAP_BPF") {
        return Skip::new(notes).print();
    }
    let (_, rows) = samples.last().unwrap();
    let there: Vec<Value> = rows
        .iter()
        .filter(|row| row["connections"] != 0)
        .cloned()
        .collect();
    assert_eq!(directions(&there), expected(&[("passive", port, 5)]), "{rows:#?}");
}
