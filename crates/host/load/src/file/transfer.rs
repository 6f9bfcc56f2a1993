use super::content::Content;
use super::failure::{Failure, Step};
use super::receiver::Receiver;
use super::road::Road;
use super::sender::{Sender, Way};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sockeye_measure::{FileRun, ZeroCopy};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How much is sent.
#[derive(Debug)]
pub(super) struct Goal {
    /// The length of the file, or of its part.
    bytes: u64,
    /// It is sent again and again until then, but at least once.
    time: Duration,
    /// What has to arrive, if all of it is compared.
    digests: Option<Vec<u64>>,
}

impl Goal {
    pub(super) const fn measure(bytes: u64, time: Duration) -> Self {
        Self {
            bytes,
            time,
            digests: None,
        }
    }

    pub(super) fn verify(bytes: u64, content: &Content) -> Result<Self, Failure> {
        Ok(Self {
            bytes,
            time: Duration::ZERO,
            digests: Some(content.digests(bytes)?),
        })
    }
}

/// What the sending thread did.
struct Sent {
    files: u64,
    calls: u64,
    cpu: Duration,
    start: Instant,
    zero_copy: Option<ZeroCopy>,
}

/// What the receiving thread saw.
struct Arrived {
    bytes: u64,
    cpu: Duration,
    end: Instant,
}

/// Sends the file over a new connection. `stop` is asked every few hundredths of a second; whatever hangs then is woken up.
pub(super) fn transfer(
    road: &Road,
    way: Way,
    content: &Content,
    goal: &Goal,
    stop: &mut dyn FnMut() -> bool,
) -> Result<FileRun, Failure> {
    let (near, far) = road.connect()?;
    let counted = road.received_bytes();
    let (progress, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sent, arrived, broken) = std::thread::scope(|scope| {
        let receiving = Builder::new().spawn_scoped(scope, || {
            let arrived = receive(content, goal, &far, &progress);
            // Whoever still sends shall not wait for us.
            let _ = far.shutdown(Shutdown::Both);
            arrived
        });
        let sending = Builder::new().spawn_scoped(scope, || {
            let sent = send(way, content, goal, &near, &is_over);
            // Nothing more comes; and after a failure nobody shall wait for it.
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
            std::thread::park_timeout(TURN);
            let now = progress.load(Ordering::Relaxed);
            if now != moved.0 {
                moved = (now, Instant::now());
            }
            let reason = if stop() {
                Some(Step::Stopped.failed(Errno::INTR))
            } else if moved.1.elapsed() > PATIENCE {
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
    // What arrived wrong explains why it could not be sent any more.
    let (sent, arrived) = match (sent, arrived) {
        (_, Err(failure)) if matches!(failure.step, Step::Differs(_)) => return Err(failure),
        (Err(failure), _) | (_, Err(failure)) => return Err(failure),
        (Ok(sent), Ok(arrived)) => (sent, arrived),
    };
    let bytes = goal.bytes * sent.files;
    if arrived.bytes != bytes {
        return Err(Step::Count {
            sent: bytes,
            arrived: arrived.bytes,
        }
        .failed(Errno::IO));
    }
    let interface_bytes = counted
        .zip(road.received_bytes())
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
    way: Way,
    content: &Content,
    goal: &Goal,
    socket: &TcpStream,
    is_over: &AtomicBool,
) -> Result<Sent, Failure> {
    let mut sender = Sender::new(way, content.file(), socket)?;
    let (start, before) = (Instant::now(), thread_cpu());
    let mut files = 0;
    while files == 0 || (start.elapsed() < goal.time && !is_over.load(Ordering::Relaxed)) {
        sender.file(goal.bytes)?;
        files += 1;
    }
    let zero_copy = sender.finish()?;
    Ok(Sent {
        files,
        calls: sender.calls(),
        cpu: thread_cpu().saturating_sub(before),
        start,
        zero_copy,
    })
}

fn receive(
    content: &Content,
    goal: &Goal,
    socket: &TcpStream,
    progress: &AtomicU64,
) -> Result<Arrived, Failure> {
    let before = thread_cpu();
    let receiver = Receiver::new(content, goal.bytes, goal.digests.as_deref());
    let bytes = receiver.drain(socket, progress)?;
    Ok(Arrived {
        bytes,
        cpu: thread_cpu().saturating_sub(before),
        end: Instant::now(),
    })
}

/// Of the calling thread. What it does for others in interrupts may be part of it, or not, as the kernel was built.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Whether both are done is looked at this often.
const TURN: Duration = Duration::from_millis(5);
/// So long nothing may move.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
