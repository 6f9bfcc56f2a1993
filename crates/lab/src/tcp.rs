use crate::must::Must;
use crate::wait::DEADLINE;
use crate::{Lane, Namespace, Pair, Protocol, Skip, SocketOptions, Specimen, State, Timer, Toward, wait_for};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

/// A listener that takes no more, from [`Lane::full_accept_queue`].
#[derive(Debug)]
pub struct FullQueue {
    /// Its receive queue is backlog + 1, for the kernel takes one more than asked; its send queue the
    /// backlog.
    pub listener: Specimen,
    /// Clients whose connection waits to be accepted: ESTABLISHED.
    pub queued: Vec<Specimen>,
    /// The other ends of `queued`, in the accept queue: ESTABLISHED, without inode.
    pub unaccepted: Vec<Specimen>,
    /// A client that found the queue full and gets no answer: SYN_SENT.
    pub left_out: Specimen,
}

impl Namespace {
    /// A TCP listener on this address, e.g. `0.0.0.0:0`, `[::]:8080`, `10.77.0.2:0`.
    #[track_caller]
    pub fn tcp_listener(&self, local: &str, options: &SocketOptions) -> Specimen {
        listen(
            self,
            Protocol::Tcp,
            local.parse().must(format_args!("the address {local}")),
            options,
        )
    }

    /// A TCP socket that is bound but neither listens nor connects: CLOSE. `/proc/net/tcp` does not show it;
    /// inet_diag does, when asked for bound-inactive sockets (Linux 6.8).
    #[track_caller]
    pub fn tcp_bound(&self, local: &str, options: &SocketOptions) -> Specimen {
        let local = local.parse().must(format_args!("the address {local}"));
        let socket = self
            .run(|| bound(Protocol::Tcp, local, options))
            .must(format_args!("bind TCP {local}"));
        Specimen::of(socket, self, Protocol::Tcp, State::Close)
    }
}

/// TCP connections. Makers that say *cut* need a lane over a [link](crate::Link) of which they alone are the
/// user.
impl Lane {
    /// A listener on the server's address, any port; on a mapped lane on the IPv6 wildcard.
    #[track_caller]
    pub fn listener(&self) -> Specimen {
        listen(
            &self.server,
            Protocol::Tcp,
            self.listen_address(),
            &self.server_options,
        )
    }

    /// An established connection, with a listener of its own.
    #[track_caller]
    pub fn established(&self) -> Pair {
        let listener = self.listener();
        let pair = self.established_to(&listener);
        Pair {
            listener: Some(listener),
            ..pair
        }
    }

    /// An established connection to a listener made before.
    #[track_caller]
    pub fn established_to(&self, listener: &Specimen) -> Pair {
        self.pair(Protocol::Tcp, listener)
    }

    /// The client closed first, then the server: the client's end is in TIME_WAIT, the server's gone, the
    /// listener closed.
    #[track_caller]
    pub fn time_wait(&self) -> Specimen {
        let Pair {
            mut client,
            mut server,
            ..
        } = self.established();
        client.orphan();
        server.become_state(State::CloseWait);
        // Before the server goes, its acknowledgement of our FIN has to be here. Should it come later than the
        // server's FIN, by way of another core, TIME_WAIT would answer it, nobody would be there for the answer
        // but a RST, and that ends TIME_WAIT (RFC 1337).
        client.become_state(State::FinWait2);
        drop(server);
        client.become_state(State::TimeWait);
        client.timer = Timer::TimeWait;
        client
    }

    /// The client has shut down its direction and the server has not: FIN_WAIT2 and CLOSE_WAIT, both files
    /// open.
    #[track_caller]
    pub fn half_closed(&self) -> Pair {
        let mut pair = self.established();
        shut(&pair.client);
        pair.server.become_state(State::CloseWait);
        pair.client.become_state(State::FinWait2);
        pair
    }

    /// The client has closed its file and the server has not: an orphan in FIN_WAIT2 with the time-wait
    /// timer, and CLOSE_WAIT.
    #[track_caller]
    pub fn orphaned(&self) -> Pair {
        let mut pair = self.established();
        pair.client.orphan();
        pair.server.become_state(State::CloseWait);
        pair.client.wait_row("orphaned FIN_WAIT2", |row| {
            row.state == State::FinWait2 && row.inode == 0
        });
        pair.client.state = State::FinWait2;
        pair.client.timer = Timer::TimeWait;
        pair
    }

    /// A client that calls into the void: SYN_SENT. The lane is cut toward the server.
    #[track_caller]
    pub fn syn_sent(&self) -> Specimen {
        self.cut(Toward::Server);
        let nobody = self.at_client(self.server_ip, 9);
        self.calling(nobody)
    }

    /// A server whose answers are lost: SYN_RECV (without inode) there, SYN_SENT at the client. The lane is
    /// cut toward the client.
    #[track_caller]
    pub fn syn_recv(&self) -> Pair {
        let listener = self.listener();
        self.cut(Toward::Client);
        let mut client = self.calling(self.at_client(self.server_ip, listener.port()));
        client.become_state(State::SynSent);
        let mut server = self.server_end(&client, &listener);
        server.become_state(State::SynRecv);
        server.timer = Timer::On;
        Pair {
            client,
            server,
            listener: Some(listener),
        }
    }

    /// The client's FIN is lost: FIN_WAIT1, and ESTABLISHED at the server. The lane is cut toward the server.
    #[track_caller]
    pub fn fin_wait1(&self) -> Pair {
        let mut pair = self.established();
        self.cut(Toward::Server);
        shut(&pair.client);
        pair.client.become_state(State::FinWait1);
        pair.client.timer = Timer::On;
        pair
    }

    /// Both sides have sent a FIN and only the server's arrived: CLOSING at the client, FIN_WAIT1 at the
    /// server. The lane is cut toward the server.
    #[track_caller]
    pub fn closing(&self) -> Pair {
        let mut pair = self.fin_wait1();
        shut(&pair.server);
        pair.server.become_state(State::FinWait1);
        pair.server.timer = Timer::On;
        pair.client.become_state(State::Closing);
        pair
    }

    /// The client closed first and the server's FIN is lost: LAST_ACK at the server, FIN_WAIT2 at the client.
    /// The lane is cut toward the client.
    #[track_caller]
    pub fn last_ack(&self) -> Pair {
        let mut pair = self.half_closed();
        self.cut(Toward::Client);
        shut(&pair.server);
        pair.server.become_state(State::LastAck);
        pair.server.timer = Timer::On;
        pair
    }

    /// The client has sent this many bytes and the server has not read them: they are the server's receive
    /// queue.
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

    /// The client has sent this many bytes and they are lost, and were sent again at least once: its send
    /// queue, timer `On`. The lane is cut toward the server.
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
    /// `Persist`. The queues are as `/proc/net/tcp` told.
    #[track_caller]
    pub fn zero_window(&self) -> Pair {
        let mut lane = self.clone();
        lane.server_options.recv_buffer_bytes.get_or_insert(8 << 10);
        lane.client_options.send_buffer_bytes.get_or_insert(64 << 10);
        let mut pair = lane.established();
        pair.client
            .socket()
            .set_nonblocking(true)
            .must("make the client non-blocking");
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
        let mut lane = self.clone();
        lane.client_options.keepalive = Some(idle);
        lane.server_options.keepalive = Some(idle);
        let mut pair = lane.established();
        for end in [&mut pair.client, &mut pair.server] {
            end.timer = Timer::Keepalive;
            end.wait_row("the keepalive timer", |row| row.timer == Timer::Keepalive);
        }
        pair
    }

    /// A listener that never accepts, with as many connections as it takes and one client more.
    #[track_caller]
    pub fn full_accept_queue(&self, backlog: u16) -> FullQueue {
        let mut lane = self.clone();
        lane.server_options.backlog = Some(backlog.into());
        let mut listener = lane.listener();
        let to = lane.at_client(lane.server_ip, listener.port());
        let (mut queued, mut unaccepted) = (Vec::new(), Vec::new());
        for taken in 1..=u32::from(backlog) + 1 {
            let client = lane.connected(Protocol::Tcp, to);
            let mut server = lane.server_end(&client, &listener);
            server.become_state(State::Established);
            listener.wait_row("the accept queue", |row| row.recv_queue == taken);
            queued.push(client);
            unaccepted.push(server);
        }
        listener.recv_queue = u32::from(backlog) + 1;
        listener.send_queue = backlog.into();
        let left_out = lane.calling(to);
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
    fn pair(&self, protocol: Protocol, listener: &Specimen) -> Pair {
        let client = self.connected(protocol, self.at_client(self.server_ip, listener.port()));
        let server = listener.accept();
        let expected = client.local.map(|own| self.at_server(own.ip(), own.port()));
        assert_eq!(
            server.peer, expected,
            "lab: somebody else's connection to {:?}",
            listener.local
        );
        Pair {
            client,
            server,
            listener: None,
        }
    }

    /// A client whose connect has succeeded.
    #[track_caller]
    fn connected(&self, protocol: Protocol, to: SocketAddr) -> Specimen {
        let socket = self
            .client
            .run(|| {
                let socket = bound(protocol, self.at_client(self.client_ip, 0), &self.client_options)?;
                socket.connect_timeout(&SockAddr::from(to), DEADLINE)?;
                Ok::<_, io::Error>(socket)
            })
            .must(format_args!("connect to {to}"));
        Specimen::of(socket, &self.client, protocol, State::Established)
    }

    /// A client whose connect hangs: SYN_SENT.
    #[track_caller]
    fn calling(&self, to: SocketAddr) -> Specimen {
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
            .must(format_args!("begin to connect to {to}"));
        let mut client = Specimen::of(socket, &self.client, Protocol::Tcp, State::SynSent);
        client.peer = Some(to);
        client.timer = Timer::On;
        client.become_state(State::SynSent);
        client
    }

    /// What the server's kernel holds for a client before it is accepted.
    fn server_end(&self, client: &Specimen, listener: &Specimen) -> Specimen {
        let local = self.at_server(self.server_ip, listener.port());
        let peer = self.at_server(self.client_ip, client.port());
        Specimen::fileless(&self.server, listener.family, State::SynRecv, local, peer)
    }

    fn listen_address(&self) -> SocketAddr {
        if self.mapped {
            return SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        }
        self.at_server(self.server_ip, 0)
    }
}

#[track_caller]
fn listen(namespace: &Namespace, protocol: Protocol, local: SocketAddr, options: &SocketOptions) -> Specimen {
    let backlog = options.backlog_or_default();
    let socket = namespace
        .run(|| {
            let socket = bound(protocol, local, options)?;
            socket.listen(backlog)?;
            Ok::<_, io::Error>(socket)
        })
        .must(format_args!("listen on {local}"));
    let mut specimen = Specimen::of(socket, namespace, protocol, State::Listen);
    specimen.send_queue = u32::try_from(backlog).unwrap_or(0);
    specimen
}

/// A socket of this protocol, its options set, bound to an address. To be called inside the namespace.
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
fn shut(end: &Specimen) {
    end.socket()
        .shutdown(Shutdown::Write)
        .must("shut down the sending direction");
}

#[track_caller]
fn send(end: &Specimen, bytes: u32) {
    let mut socket = end.socket();
    socket
        .write_all(&vec![b'x'; bytes as usize])
        .must(format_args!("send {bytes} bytes"));
}

const EINPROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
