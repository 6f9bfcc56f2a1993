//! A process that holds a part of the load: both ends of its connections, and their listeners.

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrStorage, bind, setsockopt, socket, sockopt,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Listeners per holder. The first is bound to the IPv4 wildcard, the last to `::1`, the others to an IPv4
/// address each. Connections use them in turn: one in eight is IPv6.
pub const LISTENERS: usize = 8;

/// Descriptors that a holder keeps free for its listeners, its pipes and the runtime.
pub const DESCRIPTORS_RESERVED: u64 = 100;

/// The addresses that connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// The addresses of the servers: few flows.
    Few,
    /// An address of its own for each connection, also the first 24 bits of it, as the clients of a public server have: each end
    /// of a connection is a flow. Connections are numbered from here.
    Distinct {
        /// Number of the first connection of this holder.
        first: usize,
    },
}

/// Opens `connections` connections, prints `ready` on stdout, and holds them until stdin ends.
///
/// Ends with its parent in two ways: by a signal, and because stdin is a pipe from it.
pub fn hold(number: usize, connections: usize, clients: Clients) -> Result<()> {
    begin()?;
    let places = match clients {
        Clients::Few => LISTENERS,
        // A public server listens once.
        Clients::Distinct { .. } => 1,
    };
    let listeners = (0..places)
        .map(|place| listen(number, place))
        .collect::<Result<Vec<_>>>()?;
    let mut held = Vec::with_capacity(connections);
    for turn in 0..connections {
        let (listener, target) = &listeners[turn % places];
        let client = match clients {
            Clients::Few => None,
            Clients::Distinct { first } => Some(client_address(first + turn)),
        };
        let ends = connect_from(client, listener, *target)
            .with_context(|| format!("holder {number}, connection {turn} of {connections} to {target}"))?;
        held.push(ends);
    }

    await_end(2 * held.len())
}

/// The first step of every holder.
pub(crate) fn begin() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("prctl(PR_SET_PDEATHSIG)")?;
    // Ctrl-C on a terminal reaches all processes of the group; the parent handles it and ends the holders in
    // order.
    SigSet::from(Signal::SIGINT)
        .thread_block()
        .context("blocking SIGINT")?;
    raise_descriptor_limit()
}

/// The last step of every holder: reports readiness, and waits until the other end of stdin is closed.
pub(crate) fn await_end(sockets: usize) -> Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready {sockets}")
        .and_then(|()| stdout.flush())
        .context("reporting to the parent")?;
    // An error here means the end, too.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

/// Highest number of descriptors that this process may open; the same holds for its children, the holders.
pub fn descriptor_limit() -> Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)
        .context("getrlimit(RLIMIT_NOFILE)")?
        .1)
}

fn raise_descriptor_limit() -> Result<()> {
    let hard = descriptor_limit()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("setrlimit(RLIMIT_NOFILE)")
}

/// Opens listener `place`, and returns the address for its clients.
fn listen(number: usize, place: usize) -> Result<(TcpListener, SocketAddr)> {
    let (bind, target) = addresses(number, place);
    let listener = match TcpListener::bind((bind, 0)) {
        Ok(listener) => listener,
        // Without IPv6 use IPv4: the number of sockets matters more than their family.
        Err(error) if bind.is_ipv6() => {
            eprintln!("bench-load: no IPv6 on this host ({error}); IPv4 instead");
            return listen(number, 1);
        }
        Err(error) => return Err(error).with_context(|| format!("listening on {bind}")),
    };
    // Accepted sockets inherit this: closing resets the connection, so that no TIME_WAIT remains after the
    // load.
    setsockopt(&listener, sockopt::Linger, &ABORT_ON_CLOSE).context("SO_LINGER on a listener")?;
    let port = listener.local_addr().context("getsockname of a listener")?.port();
    Ok((listener, SocketAddr::new(target, port)))
}

/// The bind address of a listener, and the address for its clients.
fn addresses(number: usize, place: usize) -> (IpAddr, IpAddr) {
    if place == LISTENERS - 1 {
        return (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    }
    let own = Ipv4Addr::new(127, 0, (number % 250) as u8 + 1, place as u8 + 1);
    if place == 0 {
        (Ipv4Addr::UNSPECIFIED.into(), own.into())
    } else {
        (own.into(), own.into())
    }
}

/// The client's address of a connection. The first 65,000 differ in their first 24 bits, the first 16 million at all; none is
/// an address of a listener.
fn client_address(connection: usize) -> Ipv4Addr {
    let network = connection % CLIENT_NETWORKS;
    let host = connection / CLIENT_NETWORKS % 254;
    Ipv4Addr::new(
        127,
        (network / 256) as u8 + 1,
        (network % 256) as u8,
        host as u8 + 1,
    )
}

/// Networks of 256 addresses from 127.1.0.0 on; those before are for listeners.
const CLIENT_NETWORKS: usize = 255 * 256;

/// Both ends of a new connection after one request and answer: an unused connection has no round-trip time
/// and no byte counts, which would make `ss -i` cheaper than on a real host.
pub(crate) fn connect(listener: &TcpListener, target: SocketAddr) -> Result<(TcpStream, TcpStream)> {
    connect_from(None, listener, target)
}

/// As [`connect`], from an address if there is one.
fn connect_from(
    client: Option<Ipv4Addr>,
    listener: &TcpListener,
    target: SocketAddr,
) -> Result<(TcpStream, TcpStream)> {
    let mut client = match client {
        None => TcpStream::connect(target).context("connect")?,
        Some(address) => connect_bound(address, target)?,
    };
    setsockopt(&client, sockopt::Linger, &ABORT_ON_CLOSE).context("SO_LINGER")?;
    // Connections are created one at a time, so the next one in the queue is the other end of this one.
    let (mut server, _) = listener.accept().context("accept")?;
    let mut message = [b'.'; 64];
    client.write_all(&message).context("question")?;
    server.read_exact(&mut message).context("question")?;
    server.write_all(&message).context("answer")?;
    client.read_exact(&mut message).context("answer")?;
    Ok((client, server))
}

fn connect_bound(address: Ipv4Addr, target: SocketAddr) -> Result<TcpStream> {
    let client = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .context("socket")?;
    let local = SockaddrIn::from(SocketAddrV4::new(address, 0));
    bind(client.as_raw_fd(), &local).with_context(|| format!("bind to {address}"))?;
    socket::connect(client.as_raw_fd(), &SockaddrStorage::from(target)).context("connect")?;
    Ok(client.into())
}

pub(crate) const ABORT_ON_CLOSE: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn listeners_cover_wildcard_addresses_and_ipv6() {
        assert_eq!(
            addresses(0, 0),
            (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(127, 0, 1, 1).into())
        );
        assert_eq!(addresses(3, 2).0, IpAddr::from([127, 0, 4, 3]));
        assert!(addresses(3, LISTENERS - 1).0.is_ipv6());
        assert!((0..1000).all(|number| addresses(number, 1).1.is_loopback()));
    }

    #[test]
    fn distinct_clients_differ_in_their_first_24_bits() {
        let clients: Vec<_> = (0..CLIENT_NETWORKS + 300).map(client_address).collect();
        let prefix = |address: &Ipv4Addr| address.to_bits() >> 8;
        let prefixes: HashSet<_> = clients.iter().take(CLIENT_NETWORKS).map(prefix).collect();
        assert_eq!(prefixes.len(), CLIENT_NETWORKS);
        assert_eq!(clients.iter().collect::<HashSet<_>>().len(), clients.len());
        let listeners: HashSet<_> = (0..250).map(|number| addresses(number, 1).1).collect();
        assert!(
            clients
                .iter()
                .all(|client| !listeners.contains(&(*client).into()))
        );
    }

    #[test]
    fn a_client_keeps_its_address() {
        let (listener, target) = listen(201, 0).expect("loopback");
        let address = client_address(70_000);
        let (client, server) = connect_from(Some(address), &listener, target).expect("loopback");
        assert_eq!(client.local_addr().expect("name").ip(), IpAddr::from(address));
        assert_eq!(
            server.peer_addr().expect("name"),
            client.local_addr().expect("name")
        );
    }

    #[test]
    fn a_connection_has_two_matching_ends() {
        let (listener, target) = listen(200, 1).expect("loopback");
        let (client, server) = connect(&listener, target).expect("loopback");
        assert_eq!(
            client.local_addr().expect("name"),
            server.peer_addr().expect("name")
        );
    }
}
