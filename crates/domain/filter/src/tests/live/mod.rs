//! Real sockets on loopback, and who can be asked about them.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use sockeye_model::{Protocol, Socket, StateSet};
use sockeye_wire::inet_diag::{InetDiag, Query};
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sockets of many kinds, each with a port that is ours at one end.
pub(crate) struct Sockets {
    pub(crate) ports: BTreeSet<u16>,
    /// Of the listeners alone: chosen by `bind`
    pub(crate) listening: Vec<u16>,
    _open: Vec<OwnedFd>,
}

impl Sockets {
    pub(crate) fn make() -> Self {
        let mut sockets = Self {
            ports: BTreeSet::new(),
            listening: Vec::new(),
            _open: Vec::new(),
        };
        let listeners = [
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap(),
            TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap(),
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap(), // also takes IPv4: v4-mapped
        ];
        for listener in listeners {
            let address = listener.local_addr().unwrap();
            sockets.listening.push(address.port());
            let mut targets = vec![];
            if address.is_ipv4() {
                targets.push(("127.0.0.1", address.port()));
                if address.ip().is_unspecified() {
                    targets.push(("127.0.0.2", address.port()));
                }
            } else {
                targets.push(("::1", address.port()));
                if address.ip().is_unspecified() {
                    targets.push(("127.0.0.1", address.port()));
                    targets.push(("::ffff:127.0.0.3", address.port()));
                }
            }
            for target in targets {
                let mut connect = || {
                    let client = TcpStream::connect(target).unwrap();
                    let (server, _) = listener.accept().unwrap();
                    sockets.ports.insert(client.local_addr().unwrap().port());
                    (client, server)
                };
                // 1. established, twice
                let (client, server) = connect();
                sockets._open.extend([client.into(), server.into()]);
                let (client, server) = connect();
                sockets._open.extend([client.into(), server.into()]);
                // 2. CLOSE_WAIT here, FIN_WAIT2 there
                let (client, server) = connect();
                server.shutdown(std::net::Shutdown::Write).unwrap();
                sockets._open.extend([client.into(), server.into()]);
                // 3. TIME_WAIT
                let (client, server) = connect();
                drop(client);
                drop(server);
            }
            sockets.ports.insert(address.port());
            sockets._open.push(listener.into());
        }
        sockets.settle();
        sockets
    }

    /// Waits until two dumps are the same: the last FINs and acknowledgements may be under way.
    fn settle(&self) {
        let states = || {
            let mut states: Vec<_> = dump(&[], StateSet::ALL)
                .unwrap_or_default()
                .into_iter()
                .filter(|socket| self.is_ours(socket))
                .map(|socket| format!("{:?} {:?} {:?}", socket.local, socket.peer, socket.state))
                .collect();
            states.sort();
            states
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut last = states();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = states();
            if now == last {
                return;
            }
            assert!(Instant::now() < deadline, "the states do not settle: {now:?}");
            last = now;
        }
    }

    /// By the ports that listen: a port of a connecting end may be another test's as well, towards another address.
    pub(crate) fn is_ours(&self, socket: &Socket) -> bool {
        [socket.local, socket.peer]
            .iter()
            .any(|end| end.port().is_some_and(|port| self.listening.contains(&port.0)))
    }
}

/// A one-pass dump; the error is the kernel's.
pub(crate) fn dump(bytecode: &[u8], states: StateSet) -> Result<Vec<Socket>, i32> {
    let kind = SocketType::RAW;
    let fd = rustix::net::socket_with(
        AddressFamily::NETLINK,
        kind,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .unwrap();
    let query = Query {
        states: states.bits(),
        extensions: 0,
        ports: (0, 0),
        bytecode,
    };
    let request = query.one_pass(1).unwrap();
    rustix::net::send(&fd, &request, SendFlags::empty()).unwrap();
    let mut sockets = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let (_, len) = rustix::net::recv(&fd, &mut *buffer, RecvFlags::empty()).unwrap();
        for message in Messages::new(&buffer[..len]) {
            let message = message.unwrap();
            match message.kind {
                NLMSG_DONE => return Ok(sockets),
                NLMSG_ERROR => {
                    let errno = i32::from_ne_bytes(message.payload[..4].try_into().unwrap());
                    return Err(-errno);
                }
                _ => {
                    let wire = InetDiag::parse(message.payload).unwrap();
                    sockets.push(Socket::from_inet_diag(&wire, Protocol::Tcp).unwrap());
                }
            }
        }
    }
}

/// State and ports of each socket `ss` lists.
pub(crate) fn ss(filter: &str) -> Vec<(String, u16, u16)> {
    // Words, as a shell would split them.
    let output = Command::new("ss")
        .args(["-Htan", "--"])
        .args(filter.split(' '))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{filter}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let port = |column: &str| column.rsplit(':').next().unwrap().parse().unwrap_or(0);
            match columns[..] {
                [state, _, _, local, peer, ..] if !state.bytes().all(|byte| byte.is_ascii_digit()) => {
                    (state.into(), port(local), port(peer))
                }
                [_, _, local, peer, ..] => (String::new(), port(local), port(peer)),
                _ => panic!("{line}"),
            }
        })
        .collect()
}
