//! Closed loop: the next request is sent when the answer to the one before has arrived.

use super::exact_io::{BUFFER_LEN, Failure, ZEROS, receive_exact, receive_flags, send_exact};
use super::run_state::{RunState, Sizes, Tally};
use crate::transport::Transport;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, recv, send};
use sockeye_sys::ProcessorTime;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Sends requests over a connected socket until the run is over, and measures them.
///
/// To end it while it waits for an answer, another thread shuts the socket down.
pub(super) fn closed_loop(
    socket: BorrowedFd<'_>,
    transport: Transport,
    sizes: Sizes,
    index: usize,
    run: &RunState,
) -> Tally {
    let before = ProcessorTime::of_this_thread();
    let mut tally = Tally::default();
    let result = match transport {
        Transport::Tcp => over_tcp(socket, sizes, index, run, &mut tally),
        Transport::Udp => over_udp(socket, sizes, index, run, &mut tally),
    };
    // A failure after the stop is caused by the stop.
    tally.failure = result.err().filter(|_| !run.is_stopped());
    tally.cpu = ProcessorTime::of_this_thread().since(&before).total();
    tally
}

fn over_tcp(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    index: usize,
    run: &RunState,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut buffer = [0; BUFFER_LEN];
    let first = (sizes.request as usize).min(ZEROS.len());
    let (first, more) = (&ZEROS[..first], sizes.request as usize - first);
    let share = run.share(index);
    let end_ns = run.length_ns();
    while tally.sent < share && !run.is_stopped() {
        let begun = Instant::now();
        send_exact(socket, first, more)?;
        tally.sent += 1;
        receive_exact(socket, &mut buffer, sizes.response as usize, run.busy_poll)?;
        tally.delays.record(begun.elapsed().as_nanos() as u64);
        run.set_answered(index, tally.delays.count());
        if note_time(tally, run) >= end_ns {
            break;
        }
    }
    Ok(())
}

fn over_udp(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    index: usize,
    run: &RunState,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let set = set_socket_timeout(socket, Timeout::Recv, Some(LOST_AFTER));
    set.map_err(|errno| Failure::of("setsockopt SO_RCVTIMEO", errno))?;
    let mut buffer = [0; BUFFER_LEN];
    let mut request = vec![0; sizes.request as usize];
    let share = run.share(index);
    let end_ns = run.length_ns();
    while tally.sent < share && !run.is_stopped() {
        let number = tally.sent.to_be_bytes();
        request[..number.len()].copy_from_slice(&number);
        let begun = Instant::now();
        send_datagram(socket, &request)?;
        tally.sent += 1;
        if await_answer(socket, &mut buffer, number, begun, run, tally)? {
            tally.delays.record(begun.elapsed().as_nanos() as u64);
            run.set_answered(index, tally.delays.count());
        } else {
            tally.lost += 1;
        }
        if note_time(tally, run) >= end_ns {
            break;
        }
    }
    Ok(())
}

/// Waits for the answer; false if none came in time.
fn await_answer(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    number: [u8; 8],
    begun: Instant,
    run: &RunState,
    tally: &mut Tally,
) -> Result<bool, Failure> {
    let flags = receive_flags(run.busy_poll);
    loop {
        match recv(socket, &mut *buffer, flags) {
            Ok((count, _)) if buffer[..count].starts_with(&number) => return Ok(true),
            // A socket that was shut down returns 0 bytes.
            Ok(_) if run.is_stopped() => return Ok(false),
            Ok(_) => tally.strays += 1,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if run.busy_poll => std::hint::spin_loop(),
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(Failure::of("receive", errno)),
        }
        if (run.busy_poll || tally.strays > 0) && begun.elapsed() >= LOST_AFTER || run.is_stopped() {
            return Ok(false);
        }
    }
}

pub(super) fn send_datagram(socket: BorrowedFd<'_>, datagram: &[u8]) -> Result<(), Failure> {
    loop {
        match send(socket, datagram, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::of("send", errno)),
        }
    }
}

fn note_time(tally: &mut Tally, run: &RunState) -> u64 {
    let now_ns = run.now_ns();
    tally.elapsed = Duration::from_nanos(now_ns);
    now_ns
}

/// A datagram without an answer by then is lost.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::answer::{Answers, answer_connection, answer_datagrams};
    use super::*;
    use rustix::net::{Shutdown, shutdown};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    fn run(count: u64) -> RunState {
        RunState::new(Instant::now(), 1, None, Some(count), None, false)
    }

    #[test]
    fn every_request_is_answered() {
        let sizes = [(1, 1), (14, 14), (100_000, 3), (7, 200_000)];
        for (request, response) in sizes {
            let sizes = Sizes { request, response };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let answering = thread::spawn(move || {
                let answers = Answers::default();
                let _ = answer_connection(server.as_fd(), sizes, false, &answers);
                answers.count()
            });
            let tally = closed_loop(client.as_fd(), Transport::Tcp, sizes, 0, &run(50));
            drop(client);
            assert_eq!((tally.sent, tally.delays.count(), tally.failure), (50, 50, None));
            assert_eq!(answering.join().unwrap(), 50);
        }
    }

    #[test]
    fn closed_connection_is_a_failure() {
        let sizes = Sizes {
            request: 4,
            response: 4,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let tally = closed_loop(client.as_fd(), Transport::Tcp, sizes, 0, &run(50));
        assert!(tally.failure.unwrap().is_peer_gone());
        assert_eq!(tally.delays.count(), 0);
    }

    #[test]
    fn unanswered_datagram_is_lost_and_unexpected_answer_is_a_stray() {
        let sizes = Sizes {
            request: 8,
            response: 16,
        };
        let (client, server) = datagram_pair();
        // An answer without a request.
        server.send(&[9; 16]).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let answers = Answers::default();
                let _ = answer_datagrams(server.as_fd(), sizes, false, &is_over, &answers);
                answers.count()
            });
            let tally = closed_loop(client.as_fd(), Transport::Udp, sizes, 0, &run(20));
            assert_eq!((tally.sent, tally.delays.count(), tally.strays), (20, 20, 1));
            is_over.store(true, Ordering::Relaxed);
            shutdown(&server, Shutdown::Both).unwrap();
            assert_eq!(answering.join().unwrap(), 20);
        });
        let (client, _silent_peer) = datagram_pair();
        let tally = closed_loop(client.as_fd(), Transport::Udp, sizes, 0, &run(1));
        assert_eq!((tally.sent, tally.lost, tally.failure), (1, 1, None));
    }

    fn datagram_pair() -> (UdpSocket, UdpSocket) {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (one, other)
    }
}
