//! A connection for each request.

use super::course::{Course, Sizes, Tally};
use super::whole::{Failure, NOTHING, ROOM, send_whole};
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

/// Where connections go, and what each begins with.
#[derive(Debug, Clone)]
pub(super) struct Approach {
    /// The server.
    pub(super) server: SocketAddr,
    /// The address that they come from; the kernel picks one otherwise, and the port always.
    pub(super) from: Option<IpAddr>,
    /// Sent before the request, in the same segment: by it the server knows whose the connection is.
    pub(super) preamble: Vec<u8>,
}

/// Connects, asks, is answered, closes, and again, until the course is over.
///
/// The server closes first, and the client when it has seen that: the server keeps the pair of ports in TIME_WAIT then, and
/// not the client, which would soon be out of ports. SO_LINGER is not touched: each connection is closed as is usual,
/// by FIN and not by RST.
#[must_use]
pub(super) fn connecting(approach: &Approach, sizes: Sizes, lane: usize, course: &Course) -> Tally {
    let before = ProcessorTime::of_this_thread();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut tally = Tally {
        connects: Some(Histogram::new()),
        ..Tally::default()
    };
    let result = run(approach, sizes, lane, course, &mut tally);
    tally.failure = result.err().filter(|_| !course.is_stopped());
    tally.cpu = ProcessorTime::of_this_thread().since(&before).total();
    tally
}

fn run(
    approach: &Approach,
    sizes: Sizes,
    lane: usize,
    course: &Course,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut room = [0; ROOM];
    // The preamble and the beginning of the request in one piece.
    let mut first = approach.preamble.clone();
    let in_first = (sizes.request as usize).min(NOTHING.len());
    first.extend_from_slice(&NOTHING[..in_first]);
    let more = sizes.request as usize - in_first;
    let due_in_all = course.due_in_all(lane);
    let mut failed_in_a_row = 0;
    while tally.sent < due_in_all && !course.is_stopped() && course.now_ns() < course.length_ns() {
        let due_ns = course.due_ns(lane, tally.sent);
        if !due_ns.is_none_or(|due_ns| await_turn(due_ns, course, tally)) {
            break;
        }
        let begun = Instant::now();
        tally.sent += 1;
        let result = exchange(approach, &first, more, sizes, course, &mut room, begun);
        let now_ns = course.now_ns();
        match result {
            Ok(connect_ns) => {
                failed_in_a_row = 0;
                let began_ns = due_ns.unwrap_or_else(|| now_ns - begun.elapsed().as_nanos() as u64);
                tally.delays.record(now_ns.saturating_sub(began_ns));
                tally.connects.get_or_insert_default().record(connect_ns);
                tally.elapsed = Duration::from_nanos(now_ns);
                course.tell(lane, tally.delays.count());
            }
            Err(_) if course.is_stopped() => {
                tally.sent -= 1;
                break;
            }
            // One that was cut off is a figure; a row of them is the end.
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
    let due = course.due_until(lane, course.now_ns()).min(due_in_all);
    if course.due_ns(lane, 0).is_some() {
        tally.unsent = due.saturating_sub(tally.sent);
    }
    Ok(())
}

/// Sleeps until it is time; false if it was stopped meanwhile.
fn await_turn(due_ns: u64, course: &Course, tally: &mut Tally) -> bool {
    let spin_ns = if course.has_room_to_spin() { SPIN_NS } else { 0 };
    let mut has_waited = false;
    loop {
        let now_ns = course.now_ns();
        if now_ns >= due_ns {
            if has_waited {
                tally.lateness.get_or_insert_default().record(now_ns - due_ns);
            }
            return true;
        }
        has_waited = true;
        let left_ns = due_ns - now_ns;
        if left_ns > spin_ns {
            thread::sleep(Duration::from_nanos((left_ns - spin_ns).min(LOOK_UP_NS)));
        } else {
            std::hint::spin_loop();
        }
        if course.is_stopped() {
            return false;
        }
    }
}

/// How long it took until the connection stood.
fn exchange(
    approach: &Approach,
    first: &[u8],
    more: usize,
    sizes: Sizes,
    course: &Course,
    room: &mut [u8],
    begun: Instant,
) -> Result<u64, Failure> {
    let wait = Wait { course, begun };
    let socket = connected(approach, &wait)?;
    let connect_ns = begun.elapsed().as_nanos() as u64;
    send_whole(&socket, first, more)?;
    let mut missing = sizes.response as usize;
    while missing > 0 {
        let length = missing.min(room.len());
        match wait.receive(&socket, &mut room[..length])? {
            0 => return Err(Failure::closed("receive")),
            count => missing -= count,
        }
    }
    // Until the server has closed it.
    match wait.receive(&socket, &mut room[..1])? {
        0 => Ok(connect_ns),
        _ => Err(Failure::closed("more than an answer came")),
    }
}

fn connected(approach: &Approach, wait: &Wait<'_>) -> Result<OwnedFd, Failure> {
    let failed = |operation| move |errno| Failure::of(operation, errno);
    let family = match approach.server {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(failed("open a socket"))?;
    set_tcp_nodelay(&socket, true).map_err(failed("set TCP_NODELAY"))?;
    for which in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, which, Some(LOOK_UP)).map_err(failed("set SO_RCVTIMEO"))?;
    }
    if let Some(from) = approach.from {
        // The port is picked when it is known where to: the same one may lead to several servers.
        set_bind_without_port(&socket).map_err(failed("set IP_BIND_ADDRESS_NO_PORT"))?;
        bind(&socket, &own_address(from, approach.server)).map_err(failed("bind"))?;
    }
    loop {
        match connect(&socket, &approach.server) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            // Interrupted, or not done before the socket's timeout: the kernel goes on, and tells when asked again.
            Err(Errno::INTR | Errno::INPROGRESS | Errno::ALREADY) => wait.again("connect")?,
            Err(errno) => return Err(Failure::of("connect", errno)),
        }
    }
}

/// Waits that wake up now and then to see whether they shall go on.
struct Wait<'a> {
    course: &'a Course,
    begun: Instant,
}

impl Wait<'_> {
    fn receive(&self, socket: &OwnedFd, room: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match recv(socket, &mut *room, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(Errno::INTR | Errno::AGAIN) => self.again("receive")?,
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
        }
    }

    fn again(&self, operation: &'static str) -> Result<(), Failure> {
        if self.course.is_stopped() || self.begun.elapsed() >= PATIENCE {
            return Err(Failure::of(operation, Errno::TIMEDOUT));
        }
        Ok(())
    }
}

/// Nobody needs longer for a connection and an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_UP: Duration = Duration::from_millis(200);
const LOOK_UP_NS: u64 = 100_000_000;
const SPIN_NS: u64 = 60_000;
const FAILED_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::super::answering::answer_once;
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    const SIZES: Sizes = Sizes {
        request: 100,
        response: 100,
    };

    fn approach(listener: &TcpListener) -> Approach {
        Approach {
            server: listener.local_addr().unwrap(),
            from: Some("127.0.0.1".parse().unwrap()),
            preamble: b"here".to_vec(),
        }
    }

    #[test]
    fn a_connection_for_each() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let approach = approach(&listener);
        let serving = thread::spawn(move || {
            for _ in 0..100 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut preamble = [0; 4];
                stream.read_exact(&mut preamble).unwrap();
                assert_eq!(&preamble, b"here");
                assert_eq!(answer_once(stream.as_fd(), SIZES).answered, 1);
            }
        });
        let course = Course::new(Instant::now(), 1, None, Some(100), None, false);
        let tally = connecting(&approach, SIZES, 0, &course);
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
    fn refused_is_the_end_and_cut_off_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let approach = approach(&listener);
        let course = Course::new(Instant::now(), 1, None, Some(3), None, false);
        let serving = thread::spawn(move || (0..3).for_each(|_| drop(listener.accept().unwrap())));
        let tally = connecting(&approach, SIZES, 0, &course);
        serving.join().unwrap();
        assert_eq!((tally.sent, tally.failed, tally.delays.count()), (3, 3, 0));
        let course = Course::new(Instant::now(), 1, None, Some(3), None, false);
        let tally = connecting(&approach, SIZES, 0, &course);
        assert_eq!(tally.failure.unwrap().errno, Some(Errno::CONNREFUSED));
    }
}
