//! Makes TCP and MPTCP sockets in every state, with full queues, lost packets and running timers, over a
//! `NetPath`. Tests of listings and `check` compare with them. It waits until the kernel reports the state.

use crate::or_panic::OrPanic;
use crate::wait::DEADLINE;
use crate::{
    LabSocket, Namespace, NetPath, Pair, Protocol, Skip, SocketOptions, State, Timer, Toward, wait_for,
};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

/// A listener with a full accept queue, from [`NetPath::full_accept_queue`].
#[derive(Debug)]
pub struct FullQueue {
    /// Its receive queue is backlog + 1, because the kernel accepts one more; its send queue is the backlog.
    pub listener: LabSocket,
    /// Clients with connections that wait to be accepted: ESTABLISHED.
    pub queued: Vec<LabSocket>,
    /// The other ends of `queued`, in the accept queue: ESTABLISHED, without inode.
    pub unaccepted: Vec<LabSocket>,
    /// A client that gets no answer because the queue is full: SYN_SENT.
    pub left_out: LabSocket,
}

impl Namespace {
    /// A TCP listener on this address, e.g. `0.0.0.0:0`, `[::]:8080`, `10.77.0.2:0`.
    #[track_caller]
    pub fn tcp_listener(&self, local: &str, options: &SocketOptions) -> LabSocket {
        listen(
            self,
            Protocol::Tcp,
            local.parse().or_panic(format_args!("the address {local}")),
            options,
        )
    }

    /// A bound TCP socket that neither listens nor connects: CLOSE. `/proc/net/tcp` does not show it;
    /// inet_diag does, if bound-inactive sockets are requested (Linux 6.8).
    #[track_caller]
    pub fn tcp_bound(&self, local: &str, options: &SocketOptions) -> LabSocket {
        let local = local.parse().or_panic(format_args!("the address {local}"));
        let socket = self
            .run(|| bound(Protocol::Tcp, local, options))
            .or_panic(format_args!("bind TCP {local}"));
        LabSocket::of(socket, self, Protocol::Tcp, State::Close)
    }
}

/// TCP connections. Methods that *cut* need a path over a [link](crate::Link) without other users.
impl NetPath {
    /// A listener on the server's address, any port; for a v4-mapped path on the IPv6 wildcard.
    #[track_caller]
    pub fn listener(&self) -> LabSocket {
        listen(
            &self.server,
            Protocol::Tcp,
            self.listen_address(),
            &self.server_options,
        )
    }

    /// An established connection with its own listener.
    #[track_caller]
    pub fn established(&self) -> Pair {
        let listener = self.listener();
        let pair = self.established_to(&listener);
        Pair {
            listener: Some(listener),
            ..pair
        }
    }

    /// An established connection to an existing listener.
    #[track_caller]
    pub fn established_to(&self, listener: &LabSocket) -> Pair {
        self.pair(Protocol::Tcp, listener)
    }

    /// The client closed first, then the server: the client's end is in TIME_WAIT, the server's is gone, the
    /// listener closed.
    #[track_caller]
    pub fn time_wait(&self) -> LabSocket {
        let Pair {
            mut client,
            mut server,
            ..
        } = self.established();
        client.orphan();
        server.wait_for_state(State::CloseWait);
        // Before the server closes, its acknowledgement of our FIN must have arrived. If it arrived later
        // than the server's FIN, on another core, TIME_WAIT would answer it, the closed server would reply
        // with RST, and that ends TIME_WAIT (RFC 1337).
        client.wait_for_state(State::FinWait2);
        drop(server);
        client.wait_for_state(State::TimeWait);
        client.timer = Timer::TimeWait;
        client
    }

    /// The client has shut down its direction and the server has not: FIN_WAIT2 and CLOSE_WAIT, both with a
    /// descriptor.
    #[track_caller]
    pub fn half_closed(&self) -> Pair {
        let mut pair = self.established();
        shut(&pair.client);
        pair.server.wait_for_state(State::CloseWait);
        pair.client.wait_for_state(State::FinWait2);
        pair
    }

    /// The client has closed its descriptor and the server has not: an orphan in FIN_WAIT2 with the time-wait
    /// timer, and CLOSE_WAIT.
    #[track_caller]
    pub fn orphaned(&self) -> Pair {
        let mut pair = self.established();
        pair.client.orphan();
        pair.server.wait_for_state(State::CloseWait);
        pair.client.wait_row("orphaned FIN_WAIT2", |row| {
            row.state == State::FinWait2 && row.inode == 0
        });
        pair.client.state = State::FinWait2;
        pair.client.timer = Timer::TimeWait;
        pair
    }

    /// A client without an answer: SYN_SENT. The path is cut toward the server.
    #[track_caller]
    pub fn syn_sent(&self) -> LabSocket {
        self.cut(Toward::Server);
        let unused = self.at_client(self.server_ip, 9);
        self.connecting(unused)
    }

    /// A server with lost answers: SYN_RECV (without inode) there, SYN_SENT at the client. The path is
    /// cut toward the client.
    #[track_caller]
    pub fn syn_recv(&self) -> Pair {
        let listener = self.listener();
        self.cut(Toward::Client);
        let mut client = self.connecting(self.at_client(self.server_ip, listener.port()));
        client.wait_for_state(State::SynSent);
        let mut server = self.server_end(&client, &listener);
        server.wait_for_state(State::SynRecv);
        server.timer = Timer::On;
        Pair {
            client,
            server,
            listener: Some(listener),
        }
    }

    /// The client's FIN is lost: FIN_WAIT1, and ESTABLISHED at the server. The path is cut toward the server.
    #[track_caller]
    pub fn fin_wait1(&self) -> Pair {
        let mut pair = self.established();
        self.cut(Toward::Server);
        shut(&pair.client);
        pair.client.wait_for_state(State::FinWait1);
        pair.client.timer = Timer::On;
        pair
    }

    /// Both sides have sent a FIN and only the server's arrived: CLOSING at the client, FIN_WAIT1 at the
    /// server. The path is cut toward the server.
    #[track_caller]
    pub fn closing(&self) -> Pair {
        let mut pair = self.fin_wait1();
        shut(&pair.server);
        pair.server.wait_for_state(State::FinWait1);
        pair.server.timer = Timer::On;
        pair.client.wait_for_state(State::Closing);
        pair
    }

    /// The client closed first and the server's FIN is lost: LAST_ACK at the server, FIN_WAIT2 at the client.
    /// The path is cut toward the client.
    #[track_caller]
    pub fn last_ack(&self) -> Pair {
        let mut pair = self.half_closed();
        self.cut(Toward::Client);
        shut(&pair.server);
        pair.server.wait_for_state(State::LastAck);
        pair.server.timer = Timer::On;
        pair
    }

    /// The client has sent this many bytes that the server has not read: they are in its receive queue.
    #[track_caller]
    pub fn unread(&self, bytes: u32) -> Pair {
        let mut pair = self.established();
        send(&pair.client, bytes);
        pair.server.recv_queue = bytes;
        pair.server
            .wait_row("the receive queue", |row| row.recv_queue == bytes);
        pair.client.wait_row("an empty send queue", |row| {
            row.send_queue == 0 && row.timer == Timer::Off
        });
        pair
    }

    /// The client has sent this many bytes, they are lost and were retransmitted at least once: its send
    /// queue, timer `On`. The path is cut toward the server.
    #[track_caller]
    pub fn retransmitting(&self, bytes: u32) -> Pair {
        let mut pair = self.established();
        self.cut(Toward::Server);
        send(&pair.client, bytes);
        pair.client.send_queue = bytes;
        pair.client.timer = Timer::On;
        pair.client.wait_row("a retransmission", |row| {
            row.retransmissions > 0 && row.send_queue == bytes
        });
        pair
    }

    /// The server does not read and its window is closed: the client's send queue is full, its timer is
    /// `Persist`. The queues are those of `/proc/net/tcp`.
    #[track_caller]
    pub fn zero_window(&self) -> Pair {
        let mut net_path = self.clone();
        net_path.server_options.recv_buffer_bytes.get_or_insert(8 << 10);
        net_path.client_options.send_buffer_bytes.get_or_insert(64 << 10);
        let mut pair = net_path.established();
        pair.client
            .socket()
            .set_nonblocking(true)
            .or_panic("make the client non-blocking");
        let chunk = [b'z'; 4096];
        let row = wait_for("the persist timer", || {
            while pair.client.socket().send(&chunk).is_ok() {}
            pair.client
                .row()
                .filter(|row| row.timer == Timer::Persist && row.send_queue > 0)
        });
        pair.client.send_queue = row.send_queue;
        pair.client.timer = Timer::Persist;
        pair.server.recv_queue = pair
            .server
            .wait_row("its receive queue", |row| row.recv_queue > 0)
            .recv_queue;
        pair
    }

    /// An established connection with the keepalive timer running at both ends.
    #[track_caller]
    pub fn keepalive(&self, idle: Duration) -> Pair {
        let mut net_path = self.clone();
        net_path.client_options.keepalive = Some(idle);
        net_path.server_options.keepalive = Some(idle);
        let mut pair = net_path.established();
        for end in [&mut pair.client, &mut pair.server] {
            end.timer = Timer::Keepalive;
            end.wait_row("the keepalive timer", |row| row.timer == Timer::Keepalive);
        }
        pair
    }

    /// A listener that never accepts, with a full queue and one more client.
    #[track_caller]
    pub fn full_accept_queue(&self, backlog: u16) -> FullQueue {
        let mut net_path = self.clone();
        net_path.server_options.backlog = Some(backlog.into());
        let mut listener = net_path.listener();
        let to = net_path.at_client(net_path.server_ip, listener.port());
        let (mut queued, mut unaccepted) = (Vec::new(), Vec::new());
        for taken in 1..=u32::from(backlog) + 1 {
            let client = net_path.connected(Protocol::Tcp, to);
            let mut server = net_path.server_end(&client, &listener);
            server.wait_for_state(State::Established);
            listener.wait_row("the accept queue", |row| row.recv_queue == taken);
            queued.push(client);
            unaccepted.push(server);
        }
        listener.recv_queue = u32::from(backlog) + 1;
        listener.send_queue = backlog.into();
        let left_out = net_path.connecting(to);
        FullQueue {
            listener,
            queued,
            unaccepted,
            left_out,
        }
    }

    /// An established MPTCP connection with its MPTCP listener. Each end also shows as a TCP socket, its
    /// subflow.
    pub fn mptcp(&self) -> Result<Pair, Skip> {
        let enabled = self
            .server
            .run(|| std::fs::read_to_string("/proc/sys/net/mptcp/enabled"));
        let tried = Socket::new(Domain::IPV4, Type::STREAM, Some(socket2::Protocol::MPTCP));
        if tried.is_err() || enabled.is_ok_and(|text| text.trim() == "0") {
            return Err(Skip::new(
                "this kernel has no MPTCP (CONFIG_MPTCP, net.mptcp.enabled)",
            ));
        }
        let listener = listen(
            &self.server,
            Protocol::Mptcp,
            self.listen_address(),
            &self.server_options,
        );
        let pair = self.pair(Protocol::Mptcp, &listener);
        Ok(Pair {
            listener: Some(listener),
            ..pair
        })
    }

    /// Connects and accepts.
    #[track_caller]
    fn pair(&self, protocol: Protocol, listener: &LabSocket) -> Pair {
        let client = self.connected(protocol, self.at_client(self.server_ip, listener.port()));
        let server = listener.accept();
        let expected = client.local.map(|own| self.at_server(own.ip(), own.port()));
        assert_eq!(
            server.peer, expected,
            "lab: a foreign connection to {:?}",
            listener.local
        );
        Pair {
            client,
            server,
            listener: None,
        }
    }

    /// A connected client.
    #[track_caller]
    fn connected(&self, protocol: Protocol, to: SocketAddr) -> LabSocket {
        let socket = self
            .client
            .run(|| {
                let socket = bound(protocol, self.at_client(self.client_ip, 0), &self.client_options)?;
                socket.connect_timeout(&SockAddr::from(to), DEADLINE)?;
                Ok::<_, io::Error>(socket)
            })
            .or_panic(format_args!("connect to {to}"));
        LabSocket::of(socket, &self.client, protocol, State::Established)
    }

    /// A client with a pending connect: SYN_SENT.
    #[track_caller]
    fn connecting(&self, to: SocketAddr) -> LabSocket {
        let socket = self
            .client
            .run(|| {
                let socket = bound(
                    Protocol::Tcp,
                    self.at_client(self.client_ip, 0),
                    &self.client_options,
                )?;
                socket.set_nonblocking(true)?;
                match socket.connect(&SockAddr::from(to)) {
                    Err(error) if error.raw_os_error() == Some(EINPROGRESS) => Ok(socket),
                    Err(error) => Err(error),
                    Ok(()) => Err(io::Error::other("unexpected answer")),
                }
            })
            .or_panic(format_args!("begin to connect to {to}"));
        let mut client = LabSocket::of(socket, &self.client, Protocol::Tcp, State::SynSent);
        client.peer = Some(to);
        client.timer = Timer::On;
        client.wait_for_state(State::SynSent);
        client
    }

    /// The kernel's server socket for a client that is not accepted yet.
    fn server_end(&self, client: &LabSocket, listener: &LabSocket) -> LabSocket {
        let local = self.at_server(self.server_ip, listener.port());
        let peer = self.at_server(self.client_ip, client.port());
        LabSocket {
            local: Some(local),
            peer: Some(peer),
            ..LabSocket::without_file(&self.server, listener.family, State::SynRecv)
        }
    }

    fn listen_address(&self) -> SocketAddr {
        if self.mapped {
            return SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        }
        self.at_server(self.server_ip, 0)
    }
}

#[track_caller]
fn listen(
    namespace: &Namespace,
    protocol: Protocol,
    local: SocketAddr,
    options: &SocketOptions,
) -> LabSocket {
    let backlog = options.backlog_or_default();
    let socket = namespace
        .run(|| {
            let socket = bound(protocol, local, options)?;
            socket.listen(backlog)?;
            Ok::<_, io::Error>(socket)
        })
        .or_panic(format_args!("listen on {local}"));
    let mut lab_socket = LabSocket::of(socket, namespace, protocol, State::Listen);
    lab_socket.send_queue = u32::try_from(backlog).unwrap_or(0);
    lab_socket
}

/// A bound socket of this protocol with its options. Call it inside the namespace.
pub(crate) fn bound(protocol: Protocol, local: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let (kind, number) = match protocol {
        Protocol::Tcp => (Type::STREAM, socket2::Protocol::TCP),
        Protocol::Mptcp => (Type::STREAM, socket2::Protocol::MPTCP),
        Protocol::Udp => (Type::DGRAM, socket2::Protocol::UDP),
        Protocol::UdpLite => (Type::DGRAM, socket2::Protocol::UDPLITE),
        other => {
            return Err(io::Error::other(format!(
                "{other:?} is not bound to an address with a port"
            )));
        }
    };
    let socket = Socket::new(Domain::for_address(local), kind, Some(number))?;
    options.apply(&socket);
    socket.bind(&SockAddr::from(local))?;
    Ok(socket)
}

#[track_caller]
fn shut(end: &LabSocket) {
    end.socket()
        .shutdown(Shutdown::Write)
        .or_panic("shut down the sending direction");
}

#[track_caller]
fn send(end: &LabSocket, bytes: u32) {
    let mut socket = end.socket();
    socket
        .write_all(&vec![b'x'; bytes as usize])
        .or_panic(format_args!("send {bytes} bytes"));
}

const EINPROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
