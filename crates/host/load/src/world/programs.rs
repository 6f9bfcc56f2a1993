//! What each program does. A program calls `ready` once it has begun, and returns only on failure.

use super::forward::{Loss, Tunnel};
use super::tcp::{BLOCK_BYTES, begin_to_connect, connect_from, listen, serve};
use super::{
    ARCHIVE_PORT, BACKEND_PORT, CALLERS, HERE, LEAKED, STUCK_BACKLOG, STUCK_PORT, THERE, WAITING, WEB_PORT,
    link, vpn, wan,
};
use rustix::event::pause;
use rustix::net::sockopt::set_tcp_congestion;
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

type Ready<'a> = &'a mut dyn FnMut() -> io::Result<()>;
type Ended = io::Result<Infallible>;

pub(super) fn vpn_tunnel(ready: Ready<'_>) -> Ended {
    let tunnel = Tunnel {
        device: "vpn0",
        addresses: [vpn(HERE), vpn(THERE)],
        queue_packets: Some(3),
        packet_time: Duration::from_millis(3),
        delay: Duration::from_millis(10),
        loss: None,
    };
    tunnel.run(ready)
}

pub(super) fn wan_link(ready: Ready<'_>) -> Ended {
    let tunnel = Tunnel {
        device: "wan0",
        addresses: [wan(HERE), wan(THERE)],
        queue_packets: None,
        packet_time: Duration::ZERO,
        delay: Duration::from_millis(10),
        loss: Some(Loss::new(20)),
    };
    tunnel.run(ready)
}

pub(super) fn web(ready: Ready<'_>) -> Ended {
    let listener = listen(Ipv4Addr::UNSPECIFIED, WEB_PORT, BACKLOG)?;
    ready()?;
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n".to_vec();
    answer.resize(answer.len() + 900, b'.');
    serve(&listener, &answer)
}

/// Keeps every connection, also when the client has closed it: `CLOSE_WAIT`.
pub(super) fn backend(ready: Ready<'_>) -> Ended {
    let listener = listen(Ipv4Addr::UNSPECIFIED, BACKEND_PORT, BACKLOG)?;
    ready()?;
    let mut leaked = Vec::new();
    loop {
        match listener.accept() {
            Ok((one, _)) => leaked.push(one),
            // There are too many descriptors, as in a program that leaks them.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

pub(super) fn stuck(ready: Ready<'_>) -> Ended {
    let _listener = listen(Ipv4Addr::UNSPECIFIED, STUCK_PORT, STUCK_BACKLOG)?;
    ready()?;
    loop {
        pause();
    }
}

pub(super) fn archive(ready: Ready<'_>) -> Ended {
    let listener = listen(Ipv4Addr::UNSPECIFIED, ARCHIVE_PORT, BACKLOG)?;
    ready()?;
    serve(&listener, &[])
}

pub(super) fn clients(ready: Ready<'_>) -> Ended {
    let to = |port| SocketAddrV4::new(link(HERE), port);
    let mut connections = Vec::new();
    for (host, count) in CALLERS {
        for _ in 0..count {
            connections.push((host, connect_from(link(host), to(WEB_PORT))?));
        }
    }
    for (_, one) in &mut connections {
        request(one)?;
    }
    let (caller, _) = CALLERS[0];
    for _ in 0..LEAKED {
        drop(connect_from(link(caller), to(BACKEND_PORT))?);
    }
    let (caller, _) = CALLERS[1];
    let waiting = (0..WAITING).map(|_| begin_to_connect(link(caller), to(STUCK_PORT)));
    let _waiting: Vec<OwnedFd> = waiting.collect::<io::Result<_>>()?;
    ready()?;
    loop {
        for (host, one) in &mut connections {
            std::thread::sleep(REQUEST_INTERVAL);
            // It was closed by `sockeye kill`, say.
            if request(one).is_err()
                && let Ok(other) = connect_from(link(*host), to(WEB_PORT))
            {
                *one = other;
            }
        }
    }
}

fn request(one: &mut TcpStream) -> io::Result<()> {
    one.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")?;
    match one.read(&mut [0; 4096])? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

pub(super) fn backup(ready: Ready<'_>) -> Ended {
    send(vpn(HERE), vpn(THERE), BLOCK_BYTES, Duration::ZERO, ready)
}

pub(super) fn sync(ready: Ready<'_>) -> Ended {
    send(
        wan(HERE),
        wan(THERE),
        BLOCK_BYTES / 2,
        Duration::from_millis(100),
        ready,
    )
}

/// Sends blocks with pauses between them.
fn send(source: Ipv4Addr, target: Ipv4Addr, bytes: usize, pause: Duration, ready: Ready<'_>) -> Ended {
    let target = SocketAddrV4::new(target, ARCHIVE_PORT);
    let block = vec![b'.'; bytes];
    let connect = || -> io::Result<TcpStream> {
        let connection = connect_from(source, target)?;
        // The same picture on each host. A kernel without it uses its own.
        let _ = set_tcp_congestion(&connection, "cubic");
        Ok(connection)
    };
    let mut connection = connect()?;
    ready()?;
    loop {
        if connection.write_all(&block).is_err() {
            std::thread::sleep(RECONNECT_INTERVAL);
            if let Ok(other) = connect() {
                connection = other;
            }
        }
        std::thread::sleep(pause);
    }
}

const BACKLOG: i32 = 128;
/// 100 requests per second in all: visible, and cheap.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
