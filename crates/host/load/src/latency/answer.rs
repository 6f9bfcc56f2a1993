//! The server's threads: receive requests, send answers.

use super::closed_loop::send_datagram;
use super::exact_io::{BUFFER_LEN, Failure, ZEROS, receive_exact, receive_flags, send_exact};
use super::run_state::Sizes;
use rustix::io::Errno;
use rustix::net::recv;
use sockeye_sys::ProcessorTime;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a thread answered, and its cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answered {
    /// Requests answered.
    pub(super) answered: u64,
    /// Processor time of the thread.
    pub(super) cpu: Duration,
}

impl Answered {
    fn counted(run: impl FnOnce(&mut u64) -> Result<(), Failure>) -> Self {
        let before = ProcessorTime::of_this_thread();
        let mut answered = 0;
        // The client sees the end too, so the error is not reported.
        let _ = run(&mut answered);
        Self {
            answered,
            cpu: ProcessorTime::of_this_thread().since(&before).total(),
        }
    }
}

/// Answers all requests of a connection until the client closes it, or another thread shuts it down.
pub(super) fn answer_connection(socket: BorrowedFd<'_>, sizes: Sizes, busy_poll: bool) -> Answered {
    Answered::counted(|answered| {
        let mut buffer = [0; BUFFER_LEN];
        let first = (sizes.response as usize).min(ZEROS.len());
        let (first, more) = (&ZEROS[..first], sizes.response as usize - first);
        let flags = receive_flags(busy_poll);
        let mut received = 0_u64;
        loop {
            match recv(socket, &mut buffer, flags) {
                Ok((0, _)) => return Ok(()),
                Ok((count, _)) => received += count as u64,
                Err(Errno::AGAIN) if busy_poll => std::hint::spin_loop(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
            // Several requests can arrive at once.
            while received >= u64::from(sizes.request.max(1)) {
                received -= u64::from(sizes.request.max(1));
                send_exact(socket, first, more)?;
                *answered += 1;
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
) -> Answered {
    Answered::counted(|answered| {
        let mut buffer = [0; BUFFER_LEN];
        let mut response = vec![0; sizes.response as usize];
        let flags = receive_flags(busy_poll);
        while !is_over.load(Ordering::Relaxed) {
            match recv(socket, &mut buffer, flags) {
                // A preamble is no request, and can be repeated.
                Ok((count, _)) if count != sizes.request as usize => {}
                Ok((count, _)) => {
                    let number = count.min(response.len()).min(NUMBER_LEN);
                    response[..number].copy_from_slice(&buffer[..number]);
                    match send_datagram(socket, &response) {
                        // The client is gone already: a lost datagram.
                        Ok(()) => *answered += 1,
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

/// Answers the one request of a connection. The caller closes it then: the end that closes first keeps the port in
/// TIME_WAIT, and clients have too few ports for that.
pub(super) fn answer_once(socket: BorrowedFd<'_>, sizes: Sizes) -> Answered {
    Answered::counted(|answered| {
        let mut buffer = [0; BUFFER_LEN];
        receive_exact(socket, &mut buffer, sizes.request as usize, false)?;
        let first = (sizes.response as usize).min(ZEROS.len());
        send_exact(socket, &ZEROS[..first], sizes.response as usize - first)?;
        *answered += 1;
        Ok(())
    })
}

/// Length of the number at the beginning of a datagram, in bytes.
pub(super) const NUMBER_LEN: usize = 8;
