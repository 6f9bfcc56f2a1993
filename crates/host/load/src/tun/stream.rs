//! TCP load through the path.

use super::failure::{Failure, Step};
use super::path::{Path, within};
use rustix::net::sockopt::set_tcp_congestion;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// State that the threads of the load share.
#[derive(Debug, Default)]
pub(super) struct Load {
    stop: AtomicBool,
    /// Bytes that the receivers have read.
    received: AtomicU64,
}

impl Load {
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends all threads; each notices within [`TIMEOUT`].
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Connects `streams` times, and keeps sending.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        path: &Path,
        streams: usize,
        congestion: Option<&str>,
    ) -> Result<(), Failure> {
        let listen = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT));
        let listener = within(&path.server, listen)?;
        let listener = listener.map_err(|error| Step::Listen.failed_io(&error))?;
        for _ in 0..streams {
            let target = SocketAddr::new(path.target, PORT);
            let sender = within(&path.client, || TcpStream::connect_timeout(&target, CONNECT))?;
            let sender = sender.map_err(|error| Step::Connect.failed_io(&error))?;
            if let Some(congestion) = congestion {
                set_tcp_congestion(&sender, congestion).map_err(|errno| Step::Congestion.failed(errno))?;
            }
            // Connections are accepted in order, and this one is established.
            let receiver = accept(&listener)?;
            for stream in [&sender, &receiver] {
                let set = stream
                    .set_read_timeout(Some(TIMEOUT))
                    .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
                set.map_err(|error| Step::Connect.failed_io(&error))?;
            }
            // Sockets stay in the namespace that they were opened in; the threads need not.
            let spawn = |work: Box<dyn FnOnce() + Send + 'scope>| {
                let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
                spawned
                    .map(drop)
                    .map_err(|error| Step::Forwarder.failed_io(&error))
            };
            spawn(Box::new(move || self.send(sender)))?;
            spawn(Box::new(move || self.receive(receiver)))?;
        }
        Ok(())
    }

    fn send(&self, mut stream: TcpStream) {
        let block = vec![0; BLOCK_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            match stream.write(&block) {
                Ok(_) => {}
                Err(error) if is_passing(error.kind()) => {}
                Err(_) => return,
            }
        }
    }

    fn receive(&self, mut stream: TcpStream) {
        let mut block = vec![0; BLOCK_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            match stream.read(&mut block) {
                Ok(0) => return,
                Ok(len) => {
                    self.received.fetch_add(len as u64, Ordering::Relaxed);
                }
                Err(error) if is_passing(error.kind()) => {}
                Err(_) => return,
            }
        }
    }
}

/// Accepts a connection, with a timeout: the last packet of the handshake may be lost in a short queue.
fn accept(listener: &TcpListener) -> Result<TcpStream, Failure> {
    let failed = |error: std::io::Error| Step::Accept.failed_io(&error);
    listener.set_nonblocking(true).map_err(failed)?;
    let until = Instant::now() + CONNECT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

const PORT: u16 = 5001;
const BLOCK_BYTES: usize = 128 * 1024;
/// Longest blocking call of a thread before it checks for the end.
const TIMEOUT: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_secs(5);
