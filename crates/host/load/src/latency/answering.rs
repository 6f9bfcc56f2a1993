//! The other end: whole requests in, answers out.

use super::closed::send_datagram;
use super::course::Sizes;
use super::whole::{Failure, NOTHING, ROOM, receive_whole, send_whole};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sockeye_sys::ProcessorTime;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What answering took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answering {
    /// Requests answered.
    pub(super) answered: u64,
    /// Processor time of the thread.
    pub(super) cpu: Duration,
}

impl Answering {
    fn counted(run: impl FnOnce(&mut u64) -> Result<(), Failure>) -> Self {
        let before = ProcessorTime::of_this_thread();
        let mut answered = 0;
        // However it ended, the client knows it too.
        let _ = run(&mut answered);
        Self {
            answered,
            cpu: ProcessorTime::of_this_thread().since(&before).total(),
        }
    }
}

/// Answers all requests of a connection until the client closes it, or somebody here shuts it down.
#[must_use]
pub(super) fn answer_connection(socket: BorrowedFd<'_>, sizes: Sizes, spins: bool) -> Answering {
    Answering::counted(|answered| {
        let mut room = [0; ROOM];
        let first = (sizes.response as usize).min(NOTHING.len());
        let (first, more) = (&NOTHING[..first], sizes.response as usize - first);
        let flags = flags(spins);
        let mut received = 0_u64;
        loop {
            match recv(socket, &mut room, flags) {
                Ok((0, _)) => return Ok(()),
                Ok((count, _)) => received += count as u64,
                Err(Errno::AGAIN) if spins => std::hint::spin_loop(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
            // Several may have come at once.
            while received >= u64::from(sizes.request.max(1)) {
                received -= u64::from(sizes.request.max(1));
                send_whole(socket, first, more)?;
                *answered += 1;
            }
        }
    })
}

/// Answers datagrams of whom the socket is connected to, each with its number, until it is over and somebody shuts the
/// socket down.
#[must_use]
pub(super) fn answer_datagrams(
    socket: BorrowedFd<'_>,
    sizes: Sizes,
    spins: bool,
    is_over: &AtomicBool,
) -> Answering {
    Answering::counted(|answered| {
        let mut room = [0; ROOM];
        let mut response = vec![0; sizes.response as usize];
        let flags = flags(spins);
        while !is_over.load(Ordering::Relaxed) {
            match recv(socket, &mut room, flags) {
                // The first bytes of a flow are no request, and may come twice.
                Ok((count, _)) if count != sizes.request as usize => {}
                Ok((count, _)) => {
                    let number = count.min(response.len()).min(NUMBER_LEN);
                    response[..number].copy_from_slice(&room[..number]);
                    match send_datagram(socket, &response) {
                        // The client is gone already, or its queue is full: a lost datagram, no more.
                        Ok(()) => *answered += 1,
                        Err(failure) if failure.errno == Some(Errno::CONNREFUSED) => {}
                        Err(failure) => return Err(failure),
                    }
                }
                Err(Errno::AGAIN) if spins => std::hint::spin_loop(),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
                Err(errno) => return Err(Failure::of("receive", errno)),
            }
        }
        Ok(())
    })
}

/// Answers the one request of a connection. It is to be closed then: whoever closes first keeps its port in TIME_WAIT, and
/// clients have too few ports for that.
#[must_use]
pub(super) fn answer_once(socket: BorrowedFd<'_>, sizes: Sizes) -> Answering {
    Answering::counted(|answered| {
        let mut room = [0; ROOM];
        receive_whole(socket, &mut room, sizes.request as usize, false)?;
        let first = (sizes.response as usize).min(NOTHING.len());
        send_whole(socket, &NOTHING[..first], sizes.response as usize - first)?;
        *answered += 1;
        Ok(())
    })
}

fn flags(spins: bool) -> RecvFlags {
    if spins {
        RecvFlags::DONTWAIT
    } else {
        RecvFlags::empty()
    }
}

/// Of the number at the beginning of a datagram.
pub(super) const NUMBER_LEN: usize = 8;
