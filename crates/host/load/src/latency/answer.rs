//! The server's threads: receive requests, send answers.

use super::closed_loop::send_datagram;
use super::exact_io::{BUFFER_LEN, Failure, ZEROS, receive_exact, receive_flags, send_exact};
use super::run_state::Sizes;
use crate::session::{Preamble, Role};
use rustix::io::Errno;
use rustix::net::{SendFlags, recv, send};
use sockeye_sys::ProcessorTime;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Requests that one thread has answered, which others only read; on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Answers(AtomicU64);

impl Answers {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds to the count, without an atomic read-modify-write: only one thread writes.
    fn add(&self, count: u64) {
        self.0.store(self.count() + count, Ordering::Relaxed);
    }
}

/// Runs a thread's work, and returns its processor time.
fn measured(work: impl FnOnce() -> Result<(), Failure>) -> Duration {
    let before = ProcessorTime::of_this_thread();
    // The client sees the end too, so the error is not reported.
    let _ = work();
    ProcessorTime::of_this_thread().since(&before).total()
}

/// Answers all requests of a connection until the client closes it, or another thread shuts it down.
#[must_use]
pub(super) fn answer_connection(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    busy_poll: bool,
    answers: &Answers,
) -> Duration {
    measured(|| {
        let mut buffer = [0; BUFFER_LEN];
        let first = (sizes.response as usize).min(ZEROS.len());
        let (first, more) = (&ZEROS[..first], sizes.response as usize - first);
        let flags = receive_flags(busy_poll);
        let request = u64::from(sizes.request.max(1));
        let at_once = (ZEROS.len() / first.len().max(1)) as u64;
        let mut received = 0_u64;
        loop {
            match recv(socket, &mut buffer, flags) {
                Ok((0, _)) => return Ok(()),
                Ok((count, _)) => received += count as u64,
                Err(Errno::AGAIN) if busy_poll => std::hint::spin_loop(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
            // Several requests can arrive at once. Short answers to them are one write: else a client that sends many in
            // one packet, and does not read, would cost a write for each.
            while received >= request {
                let count = if more > 0 {
                    1
                } else {
                    (received / request).min(at_once)
                };
                received -= count * request;
                send_exact(socket, &ZEROS[..first.len() * count as usize], more)?;
                answers.add(count);
            }
        }
    })
}

/// Answers datagrams of the connected peer, each with its number, until `is_over` is set and another thread shuts the
/// socket down.
pub(super) fn answer_datagrams(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    busy_poll: bool,
    is_over: &AtomicBool,
    answers: &Answers,
) -> Duration {
    measured(|| {
        let mut buffer = [0; BUFFER_LEN];
        let mut response = vec![0; sizes.response as usize];
        let flags = receive_flags(busy_poll);
        while !is_over.load(Ordering::Relaxed) {
            match recv(socket, &mut buffer, flags) {
                Ok((count, _)) if count != sizes.request as usize => ready_again(socket, &buffer[..count]),
                Ok((count, _)) => {
                    let number = count.min(response.len()).min(NUMBER_LEN);
                    response[..number].copy_from_slice(&buffer[..number]);
                    match send_datagram(socket, &response) {
                        // The client is gone already: a lost datagram.
                        Ok(()) => answers.add(1),
                        Err(failure) if failure.errno == Some(Errno::CONNREFUSED) => {}
                        Err(failure) => return Err(failure),
                    }
                }
                Err(Errno::AGAIN) if busy_poll => std::hint::spin_loop(),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
        }
        Ok(())
    })
}

/// Repeats the answer to a confirmation, since the first answer was lost.
fn ready_again(socket: BorrowedFd<'_>, bytes: &[u8]) {
    if let Some(preamble) = Preamble::parse(bytes)
        && preamble.role == Role::Confirm
    {
        let _ = send(socket, &preamble.ready().emit(), SendFlags::NOSIGNAL);
    }
}

/// Answers the one request of a connection. The caller closes it then: the end that closes first keeps the port in
/// TIME_WAIT, and clients have too few ports for that.
pub(super) fn answer_once(socket: BorrowedFd<'_>, sizes: Sizes, answers: &Answers) {
    let mut buffer = [0; BUFFER_LEN];
    let first = (sizes.response as usize).min(ZEROS.len());
    let answered = receive_exact(socket, &mut buffer, sizes.request as usize, false)
        .and_then(|()| send_exact(socket, &ZEROS[..first], sizes.response as usize - first));
    // The client sees a failure too, so it is not reported.
    if answered.is_ok() {
        answers.add(1);
    }
}

/// Length of the number at the beginning of a datagram, in bytes.
pub(super) const NUMBER_LEN: usize = 8;
