//! Sockets of the world's programs.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen as listen_on, socket_with};
use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Listens with this backlog.
pub(super) fn listen(ip: Ipv4Addr, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let socket = socket(SocketFlags::CLOEXEC)?;
    bind(&socket, &SocketAddrV4::new(ip, port))?;
    listen_on(&socket, backlog)?;
    Ok(socket.into())
}

/// Connects from one address to another. Reads and writes have a time limit.
pub(super) fn connect_from(source: Ipv4Addr, target: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = socket(SocketFlags::CLOEXEC)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    connect(&socket, &target)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Begins to connect, and does not wait for an answer.
pub(super) fn begin_to_connect(source: Ipv4Addr, target: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    match connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

/// Accepts connections and answers each message on them; an empty answer is none.
pub(super) fn serve(listener: &TcpListener, answer: &[u8]) -> io::Result<Infallible> {
    listener.set_nonblocking(true)?;
    let mut connections: Vec<TcpStream> = Vec::new();
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        let listening = if connections.len() < CONNECTIONS_MAX {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let mut polled = vec![PollFd::from_borrowed_fd(listener.as_fd(), listening)];
        polled.extend(connections.iter().map(|one| PollFd::new(one, PollFlags::IN)));
        match poll(&mut polled, None) {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        let is_ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut ready = is_ready[1..].iter();
        connections
            .retain_mut(|one| !ready.next().is_some_and(|ready| *ready) || take(one, &mut buffer, answer));
        if is_ready[0] {
            match listener.accept() {
                Ok((one, _)) => {
                    one.set_nonblocking(true)?;
                    connections.push(one);
                }
                // Its client is gone again, or there are too many descriptors for now.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Reads a message and answers it; returns whether the connection goes on.
fn take(one: &mut TcpStream, buffer: &mut [u8], answer: &[u8]) -> bool {
    let goes_on = |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
    match one.read(buffer) {
        Ok(0) => false,
        Ok(_) => match one.write(answer) {
            Ok(_) => true,
            // A client that does not read gets no answer.
            Err(error) => goes_on(&error),
        },
        Err(error) => goes_on(&error),
    }
}

const TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// Further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 1024;
