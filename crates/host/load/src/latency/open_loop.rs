//! Open loop: requests are sent by a schedule that does not depend on answers.

use super::closed_loop::LOST_AFTER;
use super::exact_io::{BUFFER_LEN, Failure, ZEROS};
use super::run_state::{RunState, Sizes, Tally};
use crate::transport::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sockeye_sys::ProcessorTime;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sends requests over a connected socket by the schedule of the run, and measures them from when they were due.
///
/// Over TCP requests are pipelined and answers arrive in order, so requests in flight need no bookkeeping.
pub(super) fn open_loop(
    socket: BorrowedFd<'_>,
    transport: Transport,
    sizes: Sizes,
    index: usize,
    run: &RunState,
) -> Tally {
    let before = ProcessorTime::of_this_thread();
    // The default timer slack of 50 us would be part of each delay.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut open_loop = OpenLoop {
        socket,
        transport,
        sizes,
        index,
        run,
        spin: if run.can_spin() { SPIN_NS } else { 0 },
        due_total: run.due_total(index),
        request: vec![0; (sizes.request as usize).min(ZEROS.len())],
        request_left: 0,
        is_full: false,
        response_left: sizes.response as usize,
        answered: AnsweredSet::new(),
        tally: Tally {
            lateness: Some(sockeye_measure::Histogram::new()),
            ..Tally::default()
        },
    };
    let result = open_loop.run();
    let mut tally = open_loop.tally;
    tally.failure = result.err().filter(|_| !run.is_stopped());
    tally.cpu = ProcessorTime::of_this_thread().since(&before).total();
    tally
}

struct OpenLoop<'a> {
    socket: BorrowedFd<'a>,
    transport: Transport,
    sizes: Sizes,
    index: usize,
    run: &'a RunState,
    /// Nanoseconds before a request that are spent spinning.
    spin: u64,
    due_total: u64,
    request: Vec<u8>,
    /// Unsent bytes of the current request.
    request_left: usize,
    /// Whether the send buffer is full.
    is_full: bool,
    /// Bytes of the next answer that have not arrived.
    response_left: usize,
    /// Datagrams that were answered.
    answered: AnsweredSet,
    tally: Tally,
}

impl OpenLoop<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; BUFFER_LEN];
        let mut over_ns = None;
        loop {
            let now_ns = self.run.now_ns();
            self.send_due(now_ns)?;
            let is_sent = self.tally.sent >= self.due_total && self.request_left == 0;
            if self.run.is_stopped() || (is_sent && self.is_answered()) {
                break;
            }
            // Late answers can still arrive, for a limited time.
            let is_late = is_sent || now_ns >= self.run.length_ns();
            let give_up_ns = *over_ns.get_or_insert(u64::MAX);
            if is_late && give_up_ns == u64::MAX {
                over_ns = Some(now_ns + LOST_AFTER.as_nanos() as u64);
            } else if now_ns >= give_up_ns {
                break;
            }
            self.await_next(now_ns)?;
            self.receive(&mut buffer)?;
        }
        let answered = self.tally.delays.count();
        self.tally.lost = self.tally.sent.saturating_sub(answered);
        // Requests due until now; a stopped run owes no more.
        let due = self.run.due_until(self.index, self.run.now_ns());
        self.tally.unsent = due.min(self.due_total).saturating_sub(self.tally.sent);
        Ok(())
    }

    fn due_ns(&self, index: u64) -> u64 {
        self.run.due_ns(self.index, index).unwrap_or(0)
    }

    fn is_answered(&self) -> bool {
        self.tally.delays.count() >= self.tally.sent
    }

    /// Sends some of the due requests: answers must not wait for many requests.
    fn send_due(&mut self, now_ns: u64) -> Result<(), Failure> {
        for _ in 0..BATCH_MAX {
            if self.request_left == 0 {
                let index = self.tally.sent;
                if index >= self.due_total || self.due_ns(index) > now_ns {
                    return Ok(());
                }
                self.request_left = self.sizes.request as usize;
                if self.transport == Transport::Udp {
                    self.request[..8].copy_from_slice(&index.to_be_bytes());
                    self.answered.clear(index);
                }
                if !self.is_full {
                    let late_ns = now_ns - self.due_ns(index);
                    self.tally.lateness.get_or_insert_default().record(late_ns);
                }
            }
            let piece = &self.request[..self.request_left.min(self.request.len())];
            match send(self.socket, piece, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => {
                    self.is_full = false;
                    self.request_left = match self.transport {
                        Transport::Tcp => self.request_left - count,
                        Transport::Udp => 0,
                    };
                    if self.request_left == 0 {
                        self.tally.sent += 1;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(errno) => return Err(Failure::of("send", errno)),
            }
        }
        Ok(())
    }

    /// Waits for an answer, or until a request is due.
    fn await_next(&self, now_ns: u64) -> Result<(), Failure> {
        let next_ns = if self.is_full || self.tally.sent >= self.due_total {
            u64::MAX
        } else {
            self.due_ns(self.tally.sent)
        };
        let left_ns = next_ns.saturating_sub(now_ns).min(WAKE_INTERVAL_NS);
        if left_ns <= self.spin {
            std::hint::spin_loop();
            return Ok(());
        }
        let wanted = if self.is_full {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let timeout = if self.run.busy_poll {
            0
        } else {
            left_ns - self.spin
        };
        let timeout = Timespec::try_from(Duration::from_nanos(timeout)).unwrap_or_default();
        let mut polled = [PollFd::from_borrowed_fd(self.socket, wanted)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Failure::of("poll", errno)),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        if self.is_answered() {
            return Ok(());
        }
        let count = match recv(self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) if self.transport == Transport::Tcp => return Err(Failure::closed("receive")),
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(errno) => return Err(Failure::of("receive", errno)),
        };
        let now_ns = self.run.now_ns();
        self.tally.elapsed = Duration::from_nanos(now_ns);
        match self.transport {
            Transport::Tcp => self.take_bytes(count, now_ns),
            Transport::Udp => self.take_datagram(&buffer[..count], now_ns),
        }
        self.run.set_answered(self.index, self.tally.delays.count());
        Ok(())
    }

    fn take_bytes(&mut self, mut count: usize, now_ns: u64) {
        while count >= self.response_left {
            count -= self.response_left;
            self.response_left = self.sizes.response as usize;
            let index = self.tally.delays.count();
            if index >= self.tally.sent {
                // More answers than requests: the server misbehaves.
                self.tally.strays += 1;
                continue;
            }
            let due_ns = self.due_ns(index);
            self.tally.delays.record(now_ns.saturating_sub(due_ns));
        }
        self.response_left -= count;
    }

    fn take_datagram(&mut self, datagram: &[u8], now_ns: u64) {
        let number = datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let number = number.filter(|&number| number < self.tally.sent);
        let Some(number) = number.filter(|&number| self.answered.mark(number, self.tally.sent)) else {
            self.tally.strays += 1;
            return;
        };
        let due_ns = self.due_ns(number);
        self.tally.delays.record(now_ns.saturating_sub(due_ns));
    }
}

/// Which of the last datagrams were answered, to detect duplicate answers.
struct AnsweredSet(Box<[u64]>);

impl AnsweredSet {
    fn new() -> Self {
        Self(vec![0; ANSWERED_WORDS].into_boxed_slice())
    }

    /// Clears the bit of this number, which is sent now.
    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::word_and_bit(number);
        self.0[word] &= !bit;
    }

    /// Marks a number as answered; false if it was answered before, or is too old to know.
    fn mark(&mut self, number: u64, sent: u64) -> bool {
        let (word, bit) = Self::word_and_bit(number);
        let is_known = sent - number <= (ANSWERED_WORDS * 64) as u64;
        let is_first = is_known && self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_first
    }

    fn word_and_bit(number: u64) -> (usize, u64) {
        let position = number as usize % (ANSWERED_WORDS * 64);
        (position / 64, 1 << (position % 64))
    }
}

const ANSWERED_WORDS: usize = 1024;
const BATCH_MAX: usize = 32;
/// About the time that a sleeping thread takes to wake up.
const SPIN_NS: u64 = 60_000;
/// Interval between two checks of the stop flag.
const WAKE_INTERVAL_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::super::answer::{Answers, answer_connection};
    use super::*;
    use sockeye_measure::Histogram;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Instant;

    const SIZES: Sizes = Sizes {
        request: 10,
        response: 20,
    };

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn run(rate: f64, count: u64) -> RunState {
        RunState::new(Instant::now(), 1, None, Some(count), Some(rate), false)
    }

    #[test]
    fn requests_follow_the_schedule() {
        let (client, server) = pair();
        let answering = thread::spawn(move || {
            let answers = Answers::default();
            let _ = answer_connection(server.as_fd(), SIZES, false, &answers);
            answers.count()
        });
        let tally = open_loop(client.as_fd(), Transport::Tcp, SIZES, 0, &run(1000.0, 200));
        drop(client);
        assert_eq!((tally.sent, tally.delays.count(), tally.lost), (200, 200, 0));
        assert_eq!(answering.join().unwrap(), 200);
        assert!(tally.elapsed >= Duration::from_millis(198), "{:?}", tally.elapsed);
    }

    /// The server sleeps once: the delays of all requests that were due meanwhile include the wait.
    #[test]
    fn stall_is_in_the_delays_of_all_held_up_requests() {
        let (client, mut server) = pair();
        let serving = thread::spawn(move || {
            let mut buffer = [0; SIZES.request as usize];
            for index in 0..400 {
                server.read_exact(&mut buffer).unwrap();
                if index == 50 {
                    thread::sleep(Duration::from_millis(200));
                }
                server.write_all(&[0; SIZES.response as usize]).unwrap();
            }
        });
        let tally = open_loop(client.as_fd(), Transport::Tcp, SIZES, 0, &run(1000.0, 400));
        serving.join().unwrap();
        assert_eq!(tally.delays.count(), 400);
        // 200 of 400 were due during the stall: the slowest quarter waited at least 100 ms.
        let slowest_quarter = tally.delays.percentile(750_000).unwrap();
        assert!(slowest_quarter >= 99_000_000, "{slowest_quarter} ns");
        assert!(tally.delays.max() >= Some(199_000_000));
    }

    #[test]
    fn datagrams_are_matched_by_number() {
        let [client, server] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        client.connect(server.local_addr().unwrap()).unwrap();
        server.connect(client.local_addr().unwrap()).unwrap();
        let serving = thread::spawn(move || {
            let mut buffer = [0; 100];
            let mut kept = None;
            for index in 0..20 {
                let len = server.recv(&mut buffer).unwrap();
                match index {
                    3 => {}                   // lost
                    5 => kept = Some(buffer), // late
                    8 => {
                        server.send(&kept.unwrap()[..len]).unwrap();
                        server.send(&buffer[..len]).unwrap();
                        server.send(&buffer[..len]).unwrap(); // twice
                    }
                    _ => drop(server.send(&buffer[..len]).unwrap()),
                }
            }
        });
        let tally = open_loop(client.as_fd(), Transport::Udp, SIZES, 0, &run(500.0, 20));
        serving.join().unwrap();
        assert_eq!((tally.sent, tally.lost, tally.strays), (20, 1, 1));
        assert!(tally.delays.max() >= Some(5_000_000));
        assert!(tally.delays.percentile(Histogram::P50) < tally.delays.max());
    }

    #[test]
    fn due_but_unsent_requests_are_counted() {
        let (client, _server) = pair();
        let sizes = Sizes {
            request: 1_000_000,
            response: 1,
        };
        let run = RunState::new(
            Instant::now(),
            1,
            Some(Duration::from_millis(300)),
            None,
            Some(1000.0),
            false,
        );
        let tally = open_loop(client.as_fd(), Transport::Tcp, sizes, 0, &run);
        assert_eq!(tally.delays.count(), 0);
        assert!(
            tally.sent + tally.unsent == 300 && tally.unsent > 200,
            "{tally:?}"
        );
    }
}
