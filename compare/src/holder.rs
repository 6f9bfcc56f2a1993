//! One process that holds a share of the load: both ends of its connections, and the listeners they came through.

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

/// Listeners of each holder. The first is bound to the IPv4 wildcard, the last to `::1`, the others to an IPv4 address each,
/// and connections are dealt to them in turn: so one in eight is IPv6.
pub const LISTENERS: usize = 8;

/// Descriptors a holder keeps free for its listeners, its pipes and the runtime.
pub const DESCRIPTORS_RESERVED: u64 = 100;

/// Makes `connections` connections, says `ready` on stdout, and holds them until stdin ends.
///
/// Dies with its parent twice over: by signal, and because stdin is a pipe from it.
pub fn hold(number: usize, connections: usize) -> Result<()> {
    begin()?;
    let listeners = (0..LISTENERS)
        .map(|place| listen(number, place))
        .collect::<Result<Vec<_>>>()?;
    let mut held = Vec::with_capacity(connections);
    for turn in 0..connections {
        let (listener, target) = &listeners[turn % LISTENERS];
        let ends = connect(listener, *target)
            .with_context(|| format!("holder {number}, connection {turn} of {connections} to {target}"))?;
        held.push(ends);
    }

    await_end(2 * held.len())
}

/// What every holder does first.
pub(crate) fn begin() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("prctl(PR_SET_PDEATHSIG)")?;
    // Ctrl-C on a terminal reaches every process of the group; the parent takes it and ends us in order.
    SigSet::from(Signal::SIGINT)
        .thread_block()
        .context("blocking SIGINT")?;
    raise_descriptor_limit()
}

/// What every holder does last: tells the parent, and waits until nobody holds the other end of stdin any more.
pub(crate) fn await_end(sockets: usize) -> Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready {sockets}")
        .and_then(|()| stdout.flush())
        .context("telling the parent")?;
    // An error here means the same as the end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

/// Highest number of descriptors this process may open; the holders, its children, may open as many.
pub fn descriptor_limit() -> Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)
        .context("getrlimit(RLIMIT_NOFILE)")?
        .1)
}

fn raise_descriptor_limit() -> Result<()> {
    let hard = descriptor_limit()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("setrlimit(RLIMIT_NOFILE)")
}

/// Opens the listener at this place, and says where a client finds it.
fn listen(number: usize, place: usize) -> Result<(TcpListener, SocketAddr)> {
    let (bind, target) = addresses(number, place);
    let listener = match TcpListener::bind((bind, 0)) {
        Ok(listener) => listener,
        // A host without IPv6 gets IPv4 instead: the number of sockets counts more than their family.
        Err(error) if bind.is_ipv6() => {
            eprintln!("bench-load: no IPv6 on this host ({error}); IPv4 instead");
            return listen(number, 1);
        }
        Err(error) => return Err(error).with_context(|| format!("listening on {bind}")),
    };
    // Accepted sockets inherit this: closing resets the connection, so that no TIME_WAIT outlives the load.
    setsockopt(&listener, sockopt::Linger, &ABORT_ON_CLOSE).context("SO_LINGER on a listener")?;
    let port = listener.local_addr().context("getsockname of a listener")?.port();
    Ok((listener, SocketAddr::new(target, port)))
}

/// Where a listener is bound, and the address by which it is reached.
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

/// Both ends of a new connection, over which a question and an answer have gone: an untouched one has no round-trip time,
/// no byte counts, and makes `ss -i` look cheaper than it is on a real host.
pub(crate) fn connect(listener: &TcpListener, target: SocketAddr) -> Result<(TcpStream, TcpStream)> {
    let mut client = TcpStream::connect(target).context("connect")?;
    setsockopt(&client, sockopt::Linger, &ABORT_ON_CLOSE).context("SO_LINGER")?;
    // Connections are made one after another, so the next one in the queue is the other end of this one.
    let (mut server, _) = listener.accept().context("accept")?;
    let mut message = [b'.'; 64];
    client.write_all(&message).context("question")?;
    server.read_exact(&mut message).context("question")?;
    server.write_all(&message).context("answer")?;
    client.read_exact(&mut message).context("answer")?;
    Ok((client, server))
}

pub(crate) const ABORT_ON_CLOSE: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0,
};

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_connection_has_two_matching_ends() {
        let (listener, target) = listen(200, 1).expect("loopback");
        let (client, server) = connect(&listener, target).expect("loopback");
        assert_eq!(
            client.local_addr().expect("name"),
            server.peer_addr().expect("name")
        );
    }
}
