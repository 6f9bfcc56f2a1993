//! Sends or receives the datagrams of one stream, on a thread.
//!
//! ```text
//! 0   number   8   big-endian, from 0; in end marks: the number of datagrams
//! 8   time     8   nanoseconds on the sender's clock
//! 16  magic    4   "sckb"
//! 20  flags    4   1: end mark
//! ```

use super::control::{Control, Counters, add};
use super::plan::{DATAGRAM_MAX, DATAGRAM_MIN};
use super::tcp::{TICK, ThreadOutcome, Timeout, measure_thread, us_since};
use crate::session::{Error, Preamble, Role};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Sends datagrams of `len` bytes; `rate` is in bytes per second.
pub(super) fn send_udp(
    socket: &UdpSocket,
    len: usize,
    rate: Option<u64>,
    control: &Control,
    counters: &Counters,
) -> ThreadOutcome {
    measure_thread(control, |beginning| {
        socket
            .set_write_timeout(Some(TICK))
            .map_err(|error| Error::of_connection(&error))?;
        let mut datagram = vec![0x5a; len];
        let result = send_all(socket, &mut datagram, rate, control, counters, beginning);
        let number = counters.datagrams.load(Ordering::Relaxed);
        for _ in 0..END_REPEATS {
            write_head(&mut datagram, number, beginning, END);
            let _ = send(socket, &datagram[..DATAGRAM_MIN], SendFlags::NOSIGNAL);
            std::thread::sleep(RETRY_DELAY);
        }
        result
    })
}

fn send_all(
    socket: &UdpSocket,
    datagram: &mut [u8],
    rate: Option<u64>,
    control: &Control,
    counters: &Counters,
    beginning: Instant,
) -> Result<(), Error> {
    let mut number = 0_u64;
    let mut refused_in_row = 0_u32;
    while control.sends() {
        if let Some(rate) = rate
            && let Some(early) = due(number, datagram.len(), rate).checked_sub(beginning.elapsed())
        {
            // Sleeps in short steps to notice the end.
            std::thread::sleep(early.min(TICK));
            continue;
        }
        let Some(claimed) = control.claim(datagram.len()) else {
            break;
        };
        write_head(datagram, number, beginning, 0);
        match send(socket, datagram, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                number += 1;
                refused_in_row = 0;
                add(&counters.bytes, sent as u64);
                add(&counters.calls, 1);
                add(&counters.datagrams, 1);
                counters.last_us.store(us_since(beginning), Ordering::Relaxed);
            }
            Err(Errno::AGAIN | Errno::INTR) => control.release(claimed),
            // The queue of the device is full: lost before it was sent.
            Err(Errno::NOBUFS) => {
                control.release(claimed);
                add(&counters.refused, 1);
                std::thread::sleep(RETRY_DELAY);
            }
            // ICMP port unreachable. A single one can be a late answer to an earlier datagram.
            Err(Errno::CONNREFUSED) if refused_in_row < REFUSALS_MAX => {
                control.release(claimed);
                refused_in_row += 1;
            }
            Err(Errno::MSGSIZE) => return Err(Error::System(TOO_LONG, Errno::MSGSIZE)),
            Err(errno) => return Err(Error::Disconnected(Some(errno))),
        }
    }
    Ok(())
}

/// Returns when datagram `number` is due, since the start.
fn due(number: u64, len: usize, rate: u64) -> Duration {
    let ns = u128::from(number) * len as u128 * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Receives until an end mark came, and nothing arrives any more.
pub(super) fn receive_udp(socket: &UdpSocket, control: &Control, counters: &Counters) -> ThreadOutcome {
    measure_thread(control, |beginning| {
        let mut timeout = Timeout::new(|time| socket.set_read_timeout(Some(time)))?;
        let mut buffer = vec![0; DATAGRAM_MAX + 1];
        let mut sequence = Sequence::default();
        let mut is_over = false;
        while !control.is_aborted() {
            let len = match recv(socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, len)) => {
                    timeout.shorten();
                    len.min(buffer.len())
                }
                Err(Errno::AGAIN) if is_over || control.is_finishing() => return Ok(()),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {
                    timeout.lengthen();
                    continue;
                }
                Err(errno) => return Err(Error::Disconnected(Some(errno))),
            };
            let Some(head) = read_head(&buffer[..len]) else {
                ready_again(socket, &buffer[..len]);
                continue;
            };
            if head.flags & END != 0 {
                is_over = true;
                continue;
            }
            sequence.take(head, us_since(beginning), counters);
            add(&counters.bytes, len as u64);
            add(&counters.calls, 1);
        }
        Ok(())
    })
}

/// Repeats the answer to a confirmation, since the first answer was lost. The socket is connected to the client, which has
/// been confirmed.
fn ready_again(socket: &UdpSocket, bytes: &[u8]) {
    if let Some(preamble) = Preamble::parse(bytes)
        && preamble.role == Role::Confirm
    {
        let _ = send(socket, &preamble.ready().emit(), SendFlags::NOSIGNAL);
    }
}

/// Sequence and jitter of received datagrams.
#[derive(Debug, Default)]
struct Sequence {
    next: u64,
    transit_ns: Option<i128>,
    jitter_ns: f64,
}

impl Sequence {
    fn take(&mut self, head: Head, now_us: u64, counters: &Counters) {
        add(&counters.datagrams, 1);
        if head.number >= self.next {
            // The datagrams in between may still arrive.
            add(&counters.lost, head.number - self.next);
            self.next = head.number.saturating_add(1);
        } else {
            add(&counters.reordered, 1);
            let lost = counters.lost.load(Ordering::Relaxed);
            counters.lost.store(lost.saturating_sub(1), Ordering::Relaxed);
        }
        // RFC 3550, 6.4.1: only differences count, so clocks need not agree.
        let transit = i128::from(now_us) * 1000 - i128::from(head.time_ns);
        if let Some(before) = self.transit_ns.replace(transit) {
            let change = (transit - before).unsigned_abs() as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
            counters.jitter_ns.store(self.jitter_ns as u64, Ordering::Relaxed);
        }
        counters.last_us.store(now_us, Ordering::Relaxed);
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

/// Returns how many of these datagrams count, are lost and were reordered, if one arrives each millisecond.
#[cfg(any(test, fuzzing))]
pub(crate) fn count_datagrams<'a>(datagrams: impl Iterator<Item = &'a [u8]>) -> (u64, u64, u64) {
    let (mut sequence, counters) = (Sequence::default(), Counters::default());
    for (head, now_ms) in datagrams.filter_map(read_head).zip(1..) {
        sequence.take(head, now_ms * 1000, &counters);
    }
    let [datagrams, lost, reordered] = [&counters.datagrams, &counters.lost, &counters.reordered]
        .map(|counter| counter.load(Ordering::Relaxed));
    (datagrams, lost, reordered)
}

const MAGIC: &[u8; 4] = b"sckb";
const END: u32 = 1;
/// End marks can be lost too.
const END_REPEATS: usize = 5;
const RETRY_DELAY: Duration = Duration::from_millis(1);
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
    fn gaps_are_lost_until_filled() {
        let (mut sequence, counters) = (Sequence::default(), Counters::default());
        let counts = |counters: &Counters| {
            let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            (
                of(&counters.datagrams),
                of(&counters.lost),
                of(&counters.reordered),
            )
        };
        sequence.take(head(0, 0), 100, &counters);
        sequence.take(head(3, 10), 110, &counters);
        assert_eq!(counts(&counters), (2, 2, 0));
        sequence.take(head(2, 11), 111, &counters);
        assert_eq!(counts(&counters), (3, 1, 1));
        assert_eq!(counters.jitter_ns.load(Ordering::Relaxed), 0);
        sequence.take(head(4, 20), 136, &counters);
        assert_eq!(counters.jitter_ns.load(Ordering::Relaxed), 1000);
        sequence.take(head(u64::MAX, 30), 146, &counters);
        sequence.take(head(u64::MAX, 30), 146, &counters);
    }

    #[test]
    fn written_head_reads_back() {
        let mut datagram = [0; 30];
        write_head(&mut datagram, 7, Instant::now(), END);
        let head = read_head(&datagram).unwrap();
        assert_eq!((head.number, head.flags), (7, 1));
        assert!(read_head(&datagram[..23]).is_none());
        datagram[16] = 0;
        assert!(read_head(&datagram).is_none());
    }

    #[test]
    fn due_time_follows_the_rate() {
        assert_eq!(due(10, 1000, 10_000), Duration::from_secs(1));
        assert_eq!(due(u64::MAX, 65_507, 0), Duration::from_nanos(u64::MAX));
    }
}
