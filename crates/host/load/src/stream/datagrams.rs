//! A thread that sends or receives the datagrams of one stream.
//!
//! ```text
//! 0   number   8   big-endian, from 0; of the last: how many there were
//! 8   time     8   nanoseconds on the sender's clock
//! 16  magic    4   "sckb"
//! 20  flags    4   1: this is the end
//! ```

use super::course::{Course, Meter, add};
use super::lane::{Ending, TICK, measured, us_since};
use super::plan::{DATAGRAM_MAX, DATAGRAM_MIN};
use crate::session::{Preamble, Role, Trouble};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Sends datagrams of this length, so many bytes a second.
pub(super) fn send_udp(
    socket: &UdpSocket,
    len: usize,
    rate: Option<u64>,
    course: &Course,
    meter: &Meter,
) -> Ending {
    measured(course, |beginning| {
        socket
            .set_write_timeout(Some(TICK))
            .map_err(|error| Trouble::of_connection(&error))?;
        let mut datagram = vec![0x5a; len];
        let result = send_all(socket, &mut datagram, rate, course, meter, beginning);
        let number = meter.datagrams.load(Ordering::Relaxed);
        for _ in 0..ENDS {
            write_head(&mut datagram, number, beginning, END);
            let _ = send(socket, &datagram[..DATAGRAM_MIN], SendFlags::NOSIGNAL);
            std::thread::sleep(BREATH);
        }
        result
    })
}

fn send_all(
    socket: &UdpSocket,
    datagram: &mut [u8],
    rate: Option<u64>,
    course: &Course,
    meter: &Meter,
    beginning: Instant,
) -> Result<(), Trouble> {
    let mut number = 0_u64;
    let mut refusals = 0_u32;
    while course.sends() {
        if let Some(rate) = rate
            && let Some(early) = due(number, datagram.len(), rate).checked_sub(beginning.elapsed())
        {
            // Whoever sleeps long still looks whether to end.
            std::thread::sleep(early.min(TICK));
            continue;
        }
        let Some(claimed) = course.claim(datagram.len()) else {
            break;
        };
        write_head(datagram, number, beginning, 0);
        match send(socket, datagram, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                number += 1;
                refusals = 0;
                add(&meter.bytes, sent as u64);
                add(&meter.calls, 1);
                add(&meter.datagrams, 1);
                meter.last_us.store(us_since(beginning), Ordering::Relaxed);
            }
            Err(Errno::AGAIN | Errno::INTR) => course.give_back(claimed),
            // The queue of the device is full: it is lost before it was sent.
            Err(Errno::NOBUFS) => {
                course.give_back(claimed);
                add(&meter.refused, 1);
                std::thread::sleep(BREATH);
            }
            // Somebody says that nobody listens there. One may be late news of before.
            Err(Errno::CONNREFUSED) if refusals < REFUSALS_MAX => {
                course.give_back(claimed);
                refusals += 1;
            }
            Err(Errno::MSGSIZE) => return Err(Trouble::System(TOO_LONG, Errno::MSGSIZE)),
            Err(errno) => return Err(Trouble::Gone(Some(errno))),
        }
    }
    Ok(())
}

/// When the datagram of this number is to be sent.
fn due(number: u64, len: usize, rate: u64) -> Duration {
    let ns = u128::from(number) * len as u128 * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Receives until the end is announced, and nothing comes any more.
pub(super) fn receive_udp(socket: &UdpSocket, course: &Course, meter: &Meter) -> Ending {
    measured(course, |beginning| {
        socket
            .set_read_timeout(Some(TICK))
            .map_err(|error| Trouble::of_connection(&error))?;
        let mut room = vec![0; DATAGRAM_MAX + 1];
        let mut order = Order::default();
        let mut is_over = false;
        while !course.is_abandoned() {
            let len = match recv(socket, &mut room[..], RecvFlags::empty()) {
                Ok((_, len)) => len.min(room.len()),
                Err(Errno::AGAIN) if is_over || course.is_winding() => return Ok(()),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => continue,
                Err(errno) => return Err(Trouble::Gone(Some(errno))),
            };
            let Some(head) = read_head(&room[..len]) else {
                welcome_again(socket, &room[..len]);
                continue;
            };
            if head.flags & END != 0 {
                is_over = true;
                continue;
            }
            order.take(head, us_since(beginning), meter);
            add(&meter.bytes, len as u64);
            add(&meter.calls, 1);
        }
        Ok(())
    })
}

/// Our answer was lost, and the other end still knocks.
fn welcome_again(socket: &UdpSocket, bytes: &[u8]) {
    if let Some(preamble) = Preamble::parse(bytes)
        && preamble.role == Role::Datagram
    {
        let _ = send(socket, &preamble.welcome().emit(), SendFlags::NOSIGNAL);
    }
}

/// What numbers and times say about the path.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    transit_ns: Option<i128>,
    jitter_ns: f64,
}

impl Order {
    fn take(&mut self, head: Head, now_us: u64, meter: &Meter) {
        add(&meter.datagrams, 1);
        if head.number >= self.next {
            // What is in between may come yet.
            add(&meter.lost, head.number - self.next);
            self.next = head.number.saturating_add(1);
        } else {
            add(&meter.reordered, 1);
            let lost = meter.lost.load(Ordering::Relaxed);
            meter.lost.store(lost.saturating_sub(1), Ordering::Relaxed);
        }
        // RFC 3550, 6.4.1: clocks need not agree, for only differences count.
        let transit = i128::from(now_us) * 1000 - i128::from(head.time_ns);
        if let Some(before) = self.transit_ns.replace(transit) {
            let change = (transit - before).unsigned_abs() as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
            meter.jitter_ns.store(self.jitter_ns as u64, Ordering::Relaxed);
        }
        meter.last_us.store(now_us, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy)]
struct Head {
    number: u64,
    time_ns: u64,
    flags: u32,
}

fn write_head(datagram: &mut [u8], number: u64, beginning: Instant, flags: u32) {
    let ns = u64::try_from(beginning.elapsed().as_nanos()).unwrap_or(u64::MAX);
    datagram[..8].copy_from_slice(&number.to_be_bytes());
    datagram[8..16].copy_from_slice(&ns.to_be_bytes());
    datagram[16..20].copy_from_slice(MAGIC);
    datagram[20..24].copy_from_slice(&flags.to_be_bytes());
}

fn read_head(datagram: &[u8]) -> Option<Head> {
    let head: &[u8; DATAGRAM_MIN] = datagram.first_chunk()?;
    let (number, rest) = head.split_first_chunk::<8>()?;
    let (time_ns, rest) = rest.split_first_chunk::<8>()?;
    let (magic, rest) = rest.split_first_chunk::<4>()?;
    (magic == MAGIC).then_some(Head {
        number: u64::from_be_bytes(*number),
        time_ns: u64::from_be_bytes(*time_ns),
        flags: u32::from_be_bytes(*rest.first_chunk()?),
    })
}

const MAGIC: &[u8; 4] = b"sckb";
const END: u32 = 1;
/// The end may be lost as well.
const ENDS: usize = 5;
const BREATH: Duration = Duration::from_millis(1);
const REFUSALS_MAX: u32 = 20;
const TOO_LONG: &str = "send a datagram of this length (-l) over UDP";

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u64, time_us: u64) -> Head {
        Head {
            number,
            time_ns: time_us * 1000,
            flags: 0,
        }
    }

    #[test]
    fn losses_and_order() {
        let (mut order, meter) = (Order::default(), Meter::default());
        let counts = |meter: &Meter| {
            let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            (of(&meter.datagrams), of(&meter.lost), of(&meter.reordered))
        };
        order.take(head(0, 0), 100, &meter);
        order.take(head(3, 10), 110, &meter);
        assert_eq!(counts(&meter), (2, 2, 0));
        order.take(head(2, 11), 111, &meter);
        assert_eq!(counts(&meter), (3, 1, 1));
        assert_eq!(meter.jitter_ns.load(Ordering::Relaxed), 0);
        order.take(head(4, 20), 136, &meter);
        assert_eq!(meter.jitter_ns.load(Ordering::Relaxed), 1000);
        order.take(head(u64::MAX, 30), 146, &meter);
        order.take(head(u64::MAX, 30), 146, &meter);
    }

    #[test]
    fn heads_there_and_back() {
        let mut datagram = [0; 30];
        write_head(&mut datagram, 7, Instant::now(), END);
        let head = read_head(&datagram).unwrap();
        assert_eq!((head.number, head.flags), (7, 1));
        assert!(read_head(&datagram[..23]).is_none());
        datagram[16] = 0;
        assert!(read_head(&datagram).is_none());
    }

    #[test]
    fn paces() {
        assert_eq!(due(10, 1000, 10_000), Duration::from_secs(1));
        assert_eq!(due(u64::MAX, 65_507, 0), Duration::from_nanos(u64::MAX));
    }
}
