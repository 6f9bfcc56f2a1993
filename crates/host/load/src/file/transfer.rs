//! One transfer of a file, with its two threads.

use super::failure::{Failure, Step, TIMEOUT};
use super::method::Method;
use super::receiver::Receiver;
use super::route::Route;
use super::sender::Sender;
use super::test_file::TestFile;
use crate::processors::thread_cpu_time;
use rustix::io::Errno;
use sockeye_measure::{FileRun, ZeroCopy};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// What one transfer sends.
#[derive(Debug)]
pub(super) struct Workload {
    /// Length of the file, or of the sent part.
    bytes: u64,
    /// The file is sent repeatedly for this time, but at least once.
    time: Duration,
    /// Expected digests, to compare all bytes.
    digests: Option<Vec<u64>>,
}

impl Workload {
    pub(super) const fn measure(bytes: u64, time: Duration) -> Self {
        Self {
            bytes,
            time,
            digests: None,
        }
    }

    pub(super) fn verify(bytes: u64, file: &TestFile) -> Result<Self, Failure> {
        Ok(Self {
            bytes,
            time: Duration::ZERO,
            digests: Some(file.digests(bytes)?),
        })
    }
}

/// Result of the sending thread.
struct Sent {
    files: u64,
    calls: u64,
    cpu: Duration,
    start: Instant,
    zero_copy: Option<ZeroCopy>,
}

/// Result of the receiving thread.
struct Arrived {
    bytes: u64,
    cpu: Duration,
    end: Instant,
}

/// Sends the file over a new connection. `stop` is called every few hundredths of a second, and wakes up both threads.
pub(super) fn transfer(
    route: &Route,
    method: Method,
    file: &TestFile,
    workload: &Workload,
    stop: &mut dyn FnMut() -> bool,
) -> Result<FileRun, Failure> {
    let (near, far) = route.connect()?;
    let counted = route.received_bytes();
    let (progress, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sent, arrived, broken) = std::thread::scope(|scope| {
        let receiving = Builder::new().spawn_scoped(scope, || {
            let arrived = receive(file, workload, &far, &progress);
            // The sender must not wait for us.
            let _ = far.shutdown(Shutdown::Both);
            arrived
        });
        let sending = Builder::new().spawn_scoped(scope, || {
            let sent = send(method, file, workload, &near, &is_over);
            // No more data; after a failure the receiver must not wait for it.
            let how = if sent.is_ok() {
                Shutdown::Write
            } else {
                Shutdown::Both
            };
            let _ = near.shutdown(how);
            sent
        });
        let (receiving, sending) = match (receiving, sending) {
            (Ok(receiving), Ok(sending)) => (receiving, sending),
            (Err(error), _) | (_, Err(error)) => {
                let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
                return Err(Step::Thread.failed_io(&error));
            }
        };
        let mut broken = None;
        let mut moved = (0, Instant::now());
        while !(receiving.is_finished() && sending.is_finished()) {
            std::thread::park_timeout(POLL_INTERVAL);
            let now = progress.load(Ordering::Relaxed);
            if now != moved.0 {
                moved = (now, Instant::now());
            }
            let reason = if stop() {
                Some(Step::Stopped.failed(Errno::INTR))
            } else if moved.1.elapsed() > TIMEOUT {
                Some(Step::Stuck.failed(Errno::TIMEDOUT))
            } else {
                None
            };
            if let (None, Some(reason)) = (&broken, reason) {
                broken = Some(reason);
                is_over.store(true, Ordering::Relaxed);
                let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
            }
        }
        let join = |_| Step::Thread.failed(Errno::IO);
        let sent = sending.join().map_err(join)?;
        let arrived = receiving.join().map_err(join)?;
        Ok((sent, arrived, broken))
    })?;
    if let Some(broken) = broken {
        return Err(broken);
    }
    // Wrong data at the receiver is the cause of a failure at the sender.
    let (sent, arrived) = match (sent, arrived) {
        (_, Err(failure)) if matches!(failure.step, Step::Differs(_)) => return Err(failure),
        (Err(failure), _) | (_, Err(failure)) => return Err(failure),
        (Ok(sent), Ok(arrived)) => (sent, arrived),
    };
    let bytes = workload.bytes * sent.files;
    if arrived.bytes != bytes {
        return Err(Step::Count {
            sent: bytes,
            arrived: arrived.bytes,
        }
        .failed(Errno::IO));
    }
    let interface_bytes = counted
        .zip(route.received_bytes())
        .and_then(|(before, after)| after.checked_sub(before));
    Ok(FileRun {
        bytes,
        files: sent.files,
        seconds: arrived
            .end
            .saturating_duration_since(sent.start)
            .as_secs_f64()
            .max(1e-9),
        sender_cpu_s: sent.cpu.as_secs_f64(),
        receiver_cpu_s: arrived.cpu.as_secs_f64(),
        calls: sent.calls,
        zero_copy: sent.zero_copy,
        interface_bytes,
    })
}

fn send(
    method: Method,
    file: &TestFile,
    workload: &Workload,
    socket: &TcpStream,
    is_over: &AtomicBool,
) -> Result<Sent, Failure> {
    let mut sender = Sender::new(method, file.file(), socket)?;
    let (start, before) = (Instant::now(), thread_cpu_time());
    let mut files = 0;
    while files == 0 || (start.elapsed() < workload.time && !is_over.load(Ordering::Relaxed)) {
        sender.file(workload.bytes)?;
        files += 1;
    }
    let zero_copy = sender.finish()?;
    Ok(Sent {
        files,
        calls: sender.calls(),
        cpu: thread_cpu_time().saturating_sub(before),
        start,
        zero_copy,
    })
}

fn receive(
    file: &TestFile,
    workload: &Workload,
    socket: &TcpStream,
    progress: &AtomicU64,
) -> Result<Arrived, Failure> {
    let before = thread_cpu_time();
    let receiver = Receiver::new(file, workload.bytes, workload.digests.as_deref());
    let bytes = receiver.drain(socket, progress)?;
    Ok(Arrived {
        bytes,
        cpu: thread_cpu_time().saturating_sub(before),
        end: Instant::now(),
    })
}

/// Interval between two checks of the threads.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
