//! `sockeye check` of a busy host with which nothing is wrong.

use super::diagnosis::{self, check, check_inside};
use sockeye_lab::{Lab, Namespace, NetPath, SocketOptions, need, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Everything that is going on; ends when dropped.
#[derive(Default)]
struct Bustle {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Bustle {
    /// Does this again and again, on a thread of its own.
    fn keep(&mut self, mut act: impl FnMut() + Send + 'static) {
        let (stop, done) = (Arc::clone(&self.stop), Arc::clone(&self.done));
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                act();
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }

    /// Questions and answers over a connection that stays.
    fn request_response(&mut self, net_path: &NetPath) {
        let pair = net_path.established();
        let (mut client, mut server): (TcpStream, TcpStream) =
            (pair.client.duplicate().into(), pair.server.duplicate().into());
        self.keep(move || {
            let _ = (&pair.client, &pair.server);
            client.write_all(&[b'q'; 200]).expect("ask");
            server.read_exact(&mut [0; 200]).expect("hear");
            server.write_all(&[b'a'; 4000]).expect("answer");
            client.read_exact(&mut [0; 4000]).expect("hear");
            // The pace of the conversation.
            std::thread::sleep(Duration::from_millis(5));
        });
    }

    /// Much in one direction.
    fn stream(&mut self, net_path: &NetPath) {
        let pair = net_path.established();
        let (mut client, mut server): (TcpStream, TcpStream) =
            (pair.client.duplicate().into(), pair.server.duplicate().into());
        server.set_read_timeout(Some(SHORT)).expect("a timeout");
        client.set_write_timeout(Some(SHORT)).expect("a timeout");
        self.keep(move || {
            let _ = (&pair.client, &pair.server);
            let _ = client.write(&[b's'; 1 << 16]);
            // Not so much that the reader, on a machine that has more to do, becomes what holds it back.
            std::thread::sleep(Duration::from_millis(2));
        });
        let mut buffer = vec![0; 1 << 18];
        self.keep(move || {
            let _ = server.read(&mut buffer);
        });
    }

    /// Connections for one question each, to a listener with a short backlog.
    fn short_lived(&mut self, net_path: &NetPath) {
        let listener = net_path.with_server(SocketOptions::new().backlog(4)).listener();
        let to = SocketAddr::new(net_path.server_ip(), listener.port());
        let client = net_path.client().clone();
        self.keep(move || {
            let mut client = client.run(|| TcpStream::connect(to)).expect("connect");
            let (mut server, _) = listener.socket().accept().expect("accept");
            client.write_all(b"GET /").expect("ask");
            server.read_exact(&mut [0; 5]).expect("hear");
            server.write_all(b"200").expect("answer");
            server.shutdown(Shutdown::Write).expect("end");
            client.read_to_end(&mut Vec::new()).expect("hear to the end");
            // The pace of the visits.
            std::thread::sleep(Duration::from_millis(20));
        });
    }

    /// Datagrams both ways.
    fn datagrams(&mut self, net_path: &NetPath) {
        let pair = net_path.udp_connected();
        let (client, server): (UdpSocket, UdpSocket) =
            (pair.client.duplicate().into(), pair.server.duplicate().into());
        for end in [&client, &server] {
            end.set_read_timeout(Some(SHORT)).expect("a timeout");
        }
        self.keep(move || {
            let _ = (&pair.client, &pair.server);
            client.send(&[b'q'; 300]).expect("ask");
            let _ = server.recv(&mut [0; 300]);
            server.send(&[b'a'; 600]).expect("answer");
            let _ = client.recv(&mut [0; 600]);
            // The pace of the conversation.
            std::thread::sleep(Duration::from_millis(5));
        });
    }
}

impl Drop for Bustle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("a part of the load failed");
            }
        }
    }
}

#[test]
fn a_healthy_busy_host() {
    let lab = need!(Lab::new("healthy"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let far = lab.middlebox(&client, &server, 7);
    far.set_both(sockeye_lab::Impairment {
        delay: Duration::from_millis(15),
        ..sockeye_lab::Impairment::default()
    });
    let mut bustle = Bustle::default();
    let net_paths = [
        link.net_path(),
        link.net_path6(),
        link.net_path_mapped(),
        server.loopback6(),
    ];
    for net_path in &net_paths {
        bustle.request_response(net_path);
        bustle.short_lived(net_path);
        bustle.datagrams(net_path);
    }
    bustle.request_response(&far.net_path());
    bustle.request_response(&far.net_path6());
    bustle.stream(&link.net_path());
    bustle.stream(&client.loopback());
    // Some that rest: young ones, and old ones that are looked after.
    let young: Vec<_> = net_paths.iter().map(NetPath::established).collect();
    let kept: Vec<_> = net_paths
        .iter()
        .map(|net_path| net_path.keepalive(Duration::from_secs(60)))
        .collect();
    let quiet: Vec<_> = (0..50)
        .map(|_| net_paths[0].established_to(young[0].listener.as_ref().expect("it has one")))
        .collect();
    let begun = Instant::now();
    let mut looks = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        for namespace in [&client, &server] {
            check(namespace, &[]).nothing();
            check_inside(namespace, &[]).nothing();
            check(namespace, &["--watch", "0.3", "--count", "1"]).nothing();
            looks += 1;
        }
    }
    for namespace in [&client, &server] {
        check(namespace, &["--watch", "1", "--count", "1"]).nothing();
    }
    let done = bustle.done.load(Ordering::Relaxed);
    assert!(looks >= 2 && done > 1000, "{looks} looks, {done} turns");
    assert!(bustle.threads.iter().all(|thread| !thread.is_finished()));
    drop((young, kept, quiet));
}

/// A kernel drops probes once it has answered them, and counts that: nothing was lost.
#[test]
fn connections_that_are_probed() {
    let lab = need!(Lab::new("probed"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    client.sysctl("ipv4/tcp_keepalive_intvl", "1");
    let net_path = lab.link(&client, &server).net_path();
    let pair = net_path
        .with_client(SocketOptions::new().keepalive(Duration::from_secs(1)))
        .established();
    let stuck = net_path.zero_window();
    let counted = || {
        let rows = drops(&server, pair.server.port());
        rows >= 3
    };
    wait_until("three probes", counted);
    check(&server, &["--set", "socket-drops.count=2"]).nothing();
    check(&server, &["--watch", "1.5", "--count", "1"]).nothing();
    drop(stuck);
}

/// What the socket at this port has dropped.
fn drops(namespace: &Namespace, port: u16) -> u64 {
    let filter = format!("sport = :{port}");
    let text = namespace.output(
        diagnosis::SOCKEYE,
        &[
            "sockets",
            "-tm",
            "--format",
            "jsonl",
            "state",
            "established",
            "and",
            &filter,
        ],
    );
    let row = text.lines().next().expect("a socket");
    let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
    row["memory"]["drops"].as_u64().unwrap_or(0)
}

/// A listener without clients.
#[test]
fn a_host_that_does_nothing() {
    let lab = need!(Lab::new("idle"));
    let namespace: Namespace = lab.namespace("idle");
    let _listeners = [
        namespace.tcp_listener("127.0.0.1:0", &SocketOptions::new().backlog(1)),
        namespace.tcp_listener("[::]:0", &SocketOptions::new().backlog(0)),
    ];
    let _datagrams = namespace.udp_bound("0.0.0.0:0", &SocketOptions::new());
    let to: SocketAddr = _listeners[0].local.expect("an address");
    let _connected = namespace.run(|| TcpStream::connect(to)).expect("connect");
    check(&namespace, &[]).nothing();
    check_inside(&namespace, &["--watch", "0.2", "--count", "1"]).nothing();
}

const SHORT: Duration = Duration::from_millis(100);
