//! A new connection for each request.

use super::exact_io::{BUFFER_LEN, Failure, ZEROS, send_exact};
use super::run_state::{RunState, Sizes, Tally};
use crate::session::own_address;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, connect, recv, socket_with};
use sockeye_measure::Histogram;
use sockeye_sys::ProcessorTime;
use sockeye_sys::tcp::set_bind_without_port;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// Destination and first bytes of connections.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The server.
    pub(super) server: SocketAddr,
    /// Local address; `None`: chosen by the kernel, as the port always is.
    pub(super) from: Option<IpAddr>,
    /// Sent before the request, in the same segment; identifies the test.
    pub(super) preamble: Vec<u8>,
}

/// Connects, sends a request, receives the answer and closes, until the run is over.
///
/// The server closes first, and then the client: so the server keeps the ports in TIME_WAIT, and the client does not run
/// out of them. SO_LINGER is not set: connections close by FIN, not by RST.
pub(super) fn connect_loop(target: &Target, sizes: Sizes, index: usize, run: &RunState) -> Tally {
    let before = ProcessorTime::of_this_thread();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut tally = Tally {
        connects: Some(Histogram::new()),
        ..Tally::default()
    };
    let result = send_requests(target, sizes, index, run, &mut tally);
    tally.failure = result.err().filter(|_| !run.is_stopped());
    tally.cpu = ProcessorTime::of_this_thread().since(&before).total();
    tally
}

fn send_requests(
    target: &Target,
    sizes: Sizes,
    index: usize,
    run: &RunState,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut buffer = [0; BUFFER_LEN];
    // The preamble and the beginning of the request in one segment.
    let mut first = target.preamble.clone();
    let in_first = (sizes.request as usize).min(ZEROS.len());
    first.extend_from_slice(&ZEROS[..in_first]);
    let more = sizes.request as usize - in_first;
    let due_total = run.due_total(index);
    let mut failed_in_a_row = 0;
    while tally.sent < due_total && !run.is_stopped() && run.now_ns() < run.length_ns() {
        let due_ns = run.due_ns(index, tally.sent);
        if !due_ns.is_none_or(|due_ns| await_turn(due_ns, run, tally)) {
            break;
        }
        let begun = Instant::now();
        tally.sent += 1;
        let result = exchange(target, &first, more, sizes, run, &mut buffer, begun);
        let now_ns = run.now_ns();
        match result {
            Ok(connect_ns) => {
                failed_in_a_row = 0;
                let began_ns = due_ns.unwrap_or_else(|| now_ns - begun.elapsed().as_nanos() as u64);
                tally.delays.record(now_ns.saturating_sub(began_ns));
                tally.connects.get_or_insert_default().record(connect_ns);
                tally.elapsed = Duration::from_nanos(now_ns);
                run.set_answered(index, tally.delays.count());
            }
            Err(_) if run.is_stopped() => {
                tally.sent -= 1;
                break;
            }
            // A connection that broke is counted; several in a row end the run.
            Err(failure) => {
                tally.failed += 1;
                failed_in_a_row += 1;
                let may_go_on = matches!(failure.errno, None | Some(Errno::CONNRESET | Errno::PIPE));
                if !may_go_on || failed_in_a_row >= FAILED_MAX {
                    return Err(failure);
                }
            }
        }
    }
    let due = run.due_until(index, run.now_ns()).min(due_total);
    if run.due_ns(index, 0).is_some() {
        tally.unsent = due.saturating_sub(tally.sent);
    }
    Ok(())
}

/// Sleeps until the request is due; false if the run was stopped.
fn await_turn(due_ns: u64, run: &RunState, tally: &mut Tally) -> bool {
    let spin_ns = if run.can_spin() { SPIN_NS } else { 0 };
    let mut has_waited = false;
    loop {
        let now_ns = run.now_ns();
        if now_ns >= due_ns {
            if has_waited {
                tally.lateness.get_or_insert_default().record(now_ns - due_ns);
            }
            return true;
        }
        has_waited = true;
        let left_ns = due_ns - now_ns;
        if left_ns > spin_ns {
            thread::sleep(Duration::from_nanos((left_ns - spin_ns).min(WAKE_INTERVAL_NS)));
        } else {
            std::hint::spin_loop();
        }
        if run.is_stopped() {
            return false;
        }
    }
}

/// Runs one request, and returns the time to connect in nanoseconds.
fn exchange(
    target: &Target,
    first: &[u8],
    more: usize,
    sizes: Sizes,
    run: &RunState,
    buffer: &mut [u8],
    begun: Instant,
) -> Result<u64, Failure> {
    let wait = Wait { run, begun };
    let socket = connected(target, &wait)?;
    let connect_ns = begun.elapsed().as_nanos() as u64;
    send_exact(&socket, first, more)?;
    let mut missing = sizes.response as usize;
    while missing > 0 {
        let length = missing.min(buffer.len());
        match wait.receive(&socket, &mut buffer[..length])? {
            0 => return Err(Failure::closed("receive")),
            count => missing -= count,
        }
    }
    // Wait until the server has closed it.
    match wait.receive(&socket, &mut buffer[..1])? {
        0 => Ok(connect_ns),
        _ => Err(Failure::closed("more than an answer came")),
    }
}

fn connected(target: &Target, wait: &Wait<'_>) -> Result<OwnedFd, Failure> {
    let failed = |operation| move |errno| Failure::of(operation, errno);
    let family = match target.server {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(failed("open a socket"))?;
    set_tcp_nodelay(&socket, true).map_err(failed("set TCP_NODELAY"))?;
    for which in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, which, Some(WAKE_INTERVAL)).map_err(failed("set SO_RCVTIMEO"))?;
    }
    if let Some(from) = target.from {
        // The kernel chooses the port at connect(2), so that a port can be used for several servers.
        set_bind_without_port(&socket).map_err(failed("set IP_BIND_ADDRESS_NO_PORT"))?;
        bind(&socket, &own_address(from, target.server)).map_err(failed("bind"))?;
    }
    loop {
        match connect(&socket, &target.server) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            // Interrupted, or not done before the socket's timeout: the kernel goes on, and connect(2) returns its state.
            Err(Errno::INTR | Errno::INPROGRESS | Errno::ALREADY) => wait.again("connect")?,
            Err(errno) => return Err(Failure::of("connect", errno)),
        }
    }
}

/// Waits that check from time to time whether to go on.
struct Wait<'a> {
    run: &'a RunState,
    begun: Instant,
}

impl Wait<'_> {
    fn receive(&self, socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(Errno::INTR | Errno::AGAIN) => self.again("receive")?,
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
        }
    }

    fn again(&self, operation: &'static str) -> Result<(), Failure> {
        if self.run.is_stopped() || self.begun.elapsed() >= TIMEOUT {
            return Err(Failure::of(operation, Errno::TIMEDOUT));
        }
        Ok(())
    }
}

/// Longest time for a connection and its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const WAKE_INTERVAL: Duration = Duration::from_millis(200);
const WAKE_INTERVAL_NS: u64 = 100_000_000;
const SPIN_NS: u64 = 60_000;
const FAILED_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::super::answer::{Answers, answer_once};
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    const SIZES: Sizes = Sizes {
        request: 100,
        response: 100,
    };

    fn target(listener: &TcpListener) -> Target {
        Target {
            server: listener.local_addr().unwrap(),
            from: Some("127.0.0.1".parse().unwrap()),
            preamble: b"here".to_vec(),
        }
    }

    #[test]
    fn every_request_has_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener);
        let serving = thread::spawn(move || {
            let answers = Answers::default();
            for _ in 0..100 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut preamble = [0; 4];
                stream.read_exact(&mut preamble).unwrap();
                assert_eq!(&preamble, b"here");
                answer_once(stream.as_fd(), SIZES, &answers);
            }
            assert_eq!(answers.count(), 100);
        });
        let run = RunState::new(Instant::now(), 1, None, Some(100), None, false);
        let tally = connect_loop(&target, SIZES, 0, &run);
        serving.join().unwrap();
        assert_eq!(
            (tally.sent, tally.delays.count(), tally.failed, tally.failure),
            (100, 100, 0, None)
        );
        let connects = tally.connects.unwrap();
        assert_eq!(connects.count(), 100);
        assert!(connects.max() <= tally.delays.max());
    }

    #[test]
    fn refused_connection_ends_and_broken_one_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener);
        let run = RunState::new(Instant::now(), 1, None, Some(3), None, false);
        let serving = thread::spawn(move || (0..3).for_each(|_| drop(listener.accept().unwrap())));
        let tally = connect_loop(&target, SIZES, 0, &run);
        serving.join().unwrap();
        assert_eq!((tally.sent, tally.failed, tally.delays.count()), (3, 3, 0));
        let run = RunState::new(Instant::now(), 1, None, Some(3), None, false);
        let tally = connect_loop(&target, SIZES, 0, &run);
        assert_eq!(tally.failure.unwrap().errno, Some(Errno::CONNREFUSED));
    }
}
