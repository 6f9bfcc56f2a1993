//! TCP through the path, as much as goes.

use super::failure::{Failure, Step};
use super::path::Path;
use rustix::net::sockopt::set_tcp_congestion;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// What the threads of the load share.
#[derive(Debug, Default)]
pub(super) struct Load {
    stop: AtomicBool,
    /// What the receivers have got.
    received: AtomicU64,
}

impl Load {
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Lets all threads end; each notices within [`PATIENCE`].
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
        let listener = path.server.within(listen)?;
        let listener = listener.map_err(|error| Step::Listen.failed_io(&error))?;
        for _ in 0..streams {
            let target = SocketAddr::new(path.target, PORT);
            let sender = path
                .client
                .within(|| TcpStream::connect_timeout(&target, CONNECT))?;
            let sender = sender.map_err(|error| Step::Connect.failed_io(&error))?;
            if let Some(congestion) = congestion {
                set_tcp_congestion(&sender, congestion).map_err(|errno| Step::Congestion.failed(errno))?;
            }
            // Connections come in order, and this one is established.
            let receiver = accept(&listener)?;
            for stream in [&sender, &receiver] {
                let set = stream
                    .set_read_timeout(Some(PATIENCE))
                    .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
                set.map_err(|error| Step::Connect.failed_io(&error))?;
            }
            // Sockets stay with the namespace that they were opened in: the threads need not be there.
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

/// The third packet of the handshake may get lost in a queue of three.
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
/// How long a thread may be stuck in the kernel before it looks whether it shall end.
const PATIENCE: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_secs(5);
