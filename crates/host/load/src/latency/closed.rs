//! The next request goes out when the answer to the one before is there.

use super::course::{Course, Sizes, Tally, Transport};
use super::whole::{Failure, NOTHING, ROOM, receive_whole, send_whole};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sockeye_sys::ProcessorTime;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Requests over a connected socket until the course is over, and what they took.
///
/// Somebody else has to shut the socket down if it is to end while an answer is waited for.
#[must_use]
pub(super) fn closed(
    socket: BorrowedFd<'_>,
    transport: Transport,
    sizes: Sizes,
    lane: usize,
    course: &Course,
) -> Tally {
    let before = ProcessorTime::of_this_thread();
    let mut tally = Tally::default();
    let result = match transport {
        Transport::Tcp => over_tcp(socket, sizes, lane, course, &mut tally),
        Transport::Udp => over_udp(socket, sizes, lane, course, &mut tally),
    };
    // Who shuts a socket down because it is over need not be told that it is.
    tally.failure = result.err().filter(|_| !course.is_stopped());
    tally.cpu = ProcessorTime::of_this_thread().since(&before).total();
    tally
}

fn over_tcp(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    lane: usize,
    course: &Course,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut room = [0; ROOM];
    let first = (sizes.request as usize).min(NOTHING.len());
    let (first, more) = (&NOTHING[..first], sizes.request as usize - first);
    let share = course.share(lane);
    let end_ns = course.length_ns();
    while tally.sent < share && !course.is_stopped() {
        let begun = Instant::now();
        send_whole(socket, first, more)?;
        tally.sent += 1;
        receive_whole(socket, &mut room, sizes.response as usize, course.spins)?;
        tally.delays.record(begun.elapsed().as_nanos() as u64);
        course.tell(lane, tally.delays.count());
        if note_time(tally, course) >= end_ns {
            break;
        }
    }
    Ok(())
}

fn over_udp(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    lane: usize,
    course: &Course,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let set = set_socket_timeout(socket, Timeout::Recv, Some(LOST_AFTER));
    set.map_err(|errno| Failure::of("setsockopt SO_RCVTIMEO", errno))?;
    let mut room = [0; ROOM];
    let mut request = vec![0; sizes.request as usize];
    let share = course.share(lane);
    let end_ns = course.length_ns();
    while tally.sent < share && !course.is_stopped() {
        let number = tally.sent.to_be_bytes();
        request[..number.len()].copy_from_slice(&number);
        let begun = Instant::now();
        send_datagram(socket, &request)?;
        tally.sent += 1;
        if await_answer(socket, &mut room, number, begun, course, tally)? {
            tally.delays.record(begun.elapsed().as_nanos() as u64);
            course.tell(lane, tally.delays.count());
        } else {
            tally.lost += 1;
        }
        if note_time(tally, course) >= end_ns {
            break;
        }
    }
    Ok(())
}

/// False if there was none in time.
fn await_answer(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    number: [u8; 8],
    begun: Instant,
    course: &Course,
    tally: &mut Tally,
) -> Result<bool, Failure> {
    let flags = if course.spins {
        RecvFlags::DONTWAIT
    } else {
        RecvFlags::empty()
    };
    loop {
        match recv(socket, &mut *room, flags) {
            Ok((count, _)) if room[..count].starts_with(&number) => return Ok(true),
            // A socket that was shut down has an end, like a file.
            Ok(_) if course.is_stopped() => return Ok(false),
            Ok(_) => tally.strays += 1,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if course.spins => std::hint::spin_loop(),
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(Failure::of("receive", errno)),
        }
        if (course.spins || tally.strays > 0) && begun.elapsed() >= LOST_AFTER || course.is_stopped() {
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

fn note_time(tally: &mut Tally, course: &Course) -> u64 {
    let now_ns = course.now_ns();
    tally.elapsed = Duration::from_nanos(now_ns);
    now_ns
}

/// A datagram that is not answered by then is lost.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::answering::{answer_connection, answer_datagrams};
    use super::*;
    use rustix::net::{Shutdown, shutdown};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    fn course(count: u64) -> Course {
        Course::new(Instant::now(), 1, None, Some(count), None, false)
    }

    #[test]
    fn each_request_has_its_answer() {
        let sizes = [(1, 1), (14, 14), (100_000, 3), (7, 200_000)];
        for (request, response) in sizes {
            let sizes = Sizes { request, response };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let answering = thread::spawn(move || answer_connection(server.as_fd(), sizes, false));
            let tally = closed(client.as_fd(), Transport::Tcp, sizes, 0, &course(50));
            drop(client);
            assert_eq!((tally.sent, tally.delays.count(), tally.failure), (50, 50, None));
            assert_eq!(answering.join().unwrap().answered, 50);
        }
    }

    #[test]
    fn a_server_that_goes_is_a_failure() {
        let sizes = Sizes {
            request: 4,
            response: 4,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let tally = closed(client.as_fd(), Transport::Tcp, sizes, 0, &course(50));
        assert!(tally.failure.unwrap().is_of_the_peer());
        assert_eq!(tally.delays.count(), 0);
    }

    #[test]
    fn datagrams_without_answer_are_lost_and_strays_are_none() {
        let sizes = Sizes {
            request: 8,
            response: 16,
        };
        let (client, server) = datagram_pair();
        // An answer to nothing that was asked.
        server.send(&[9; 16]).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let answering = scope.spawn(|| answer_datagrams(server.as_fd(), sizes, false, &is_over));
            let tally = closed(client.as_fd(), Transport::Udp, sizes, 0, &course(20));
            assert_eq!((tally.sent, tally.delays.count(), tally.strays), (20, 20, 1));
            is_over.store(true, Ordering::Relaxed);
            shutdown(&server, Shutdown::Both).unwrap();
            assert_eq!(answering.join().unwrap().answered, 20);
        });
        let (client, _nobody_answers) = datagram_pair();
        let tally = closed(client.as_fd(), Transport::Udp, sizes, 0, &course(1));
        assert_eq!((tally.sent, tally.lost, tally.failure), (1, 1, None));
    }

    fn datagram_pair() -> (UdpSocket, UdpSocket) {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (one, other)
    }
}
