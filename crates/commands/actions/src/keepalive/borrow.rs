//! Borrows the sockets of other processes, one after the other.

use crate::targets::Target;
use rustix::io::Errno;
use sockeye_act::{BorrowedSocket, SocketOptionError, SocketOwner};
use sockeye_model::{Owner, Pid};
use sockeye_source::owners::Owners;
use std::collections::HashMap;
use std::thread;

/// Outcome of borrowing a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Borrowed<T> {
    /// It was borrowed, with this result.
    Done(T),
    /// It has no known owner.
    Ownerless,
    /// No owner holds it any more.
    Gone,
    /// It may not be borrowed from any owner, or the kernel lacks the system call.
    Refused(Errno),
    /// It was borrowed, but a socket option failed.
    Failed(SocketOptionError),
}

/// Borrows each target from one of its owners and does `act` to it, on several threads if they are many. Returns the
/// outcomes in the order of `targets`.
pub(super) fn each<T: Send>(
    targets: &[&Target],
    owners: &Owners,
    act: impl Fn(&BorrowedSocket) -> Result<T, SocketOptionError> + Sync,
) -> Vec<Borrowed<T>> {
    // Sorted by process, so that each process is opened once.
    let mut order: Vec<(Pid, usize)> = targets
        .iter()
        .enumerate()
        .map(|(index, target)| {
            let first = target.owners(owners).first();
            (first.map_or(Pid(0), |owner| owner.process.pid), index)
        })
        .collect();
    order.sort_unstable();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores
        .min(THREADS_MAX)
        .min(order.len().div_ceil(PER_THREAD_MIN))
        .max(1);
    let share = order.len().div_ceil(threads).max(1);
    let work = |part: &[(Pid, usize)]| -> Vec<(usize, Borrowed<T>)> {
        let mut open_owners = OpenOwners::default();
        part.iter()
            .map(|&(_, index)| {
                let target = targets[index];
                (
                    index,
                    borrow_from_owners(&mut open_owners, target, target.owners(owners), &act),
                )
            })
            .collect()
    };
    let done = thread::scope(|scope| {
        let (mine, others) = order.split_at(share.min(order.len()));
        let others: Vec<_> = others
            .chunks(share)
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, || work(part))))
            .collect();
        let mut done = work(mine);
        for (part, thread) in others {
            match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(theirs)) => done.extend(theirs),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The thread could not be started.
                Err(_) => done.extend(work(part)),
            }
        }
        done
    });
    let mut all: Vec<Option<Borrowed<T>>> = targets.iter().map(|_| None).collect();
    for (index, borrowed) in done {
        all[index] = Some(borrowed);
    }
    all.into_iter().map(|one| one.unwrap_or(Borrowed::Gone)).collect()
}

/// Tries one owner after the other, until the socket can be borrowed.
fn borrow_from_owners<T>(
    open_owners: &mut OpenOwners,
    target: &Target,
    owners: &[Owner],
    act: &impl Fn(&BorrowedSocket) -> Result<T, SocketOptionError>,
) -> Borrowed<T> {
    let (Some(inode), false) = (target.inode, owners.is_empty()) else {
        return Borrowed::Ownerless;
    };
    let mut refusal = None;
    for owner in owners {
        let owner_process = match open_owners.of(owner.process.pid) {
            Ok(owner_process) => owner_process,
            Err(errno) => {
                refusal = Some(errno);
                continue;
            }
        };
        match owner_process.borrow(owner.fd, inode) {
            Ok(Some(borrowed)) => {
                return match act(&borrowed) {
                    Ok(done) => Borrowed::Done(done),
                    Err(failure) => Borrowed::Failed(failure),
                };
            }
            Ok(None) => {}
            Err(errno) => refusal = Some(errno),
        }
    }
    refusal.map_or(Borrowed::Gone, Borrowed::Refused)
}

/// Open processes; few at a time, since each needs a descriptor.
#[derive(Default)]
struct OpenOwners(HashMap<Pid, SocketOwner>);

impl OpenOwners {
    fn of(&mut self, pid: Pid) -> Result<&SocketOwner, Errno> {
        if self.0.len() >= OPEN_MAX && !self.0.contains_key(&pid) {
            self.0.clear();
        }
        match self.0.entry(pid) {
            std::collections::hash_map::Entry::Occupied(found) => Ok(found.into_mut()),
            std::collections::hash_map::Entry::Vacant(vacant) => Ok(vacant.insert(SocketOwner::open(pid)?)),
        }
    }
}

const OPEN_MAX: usize = 16;
const THREADS_MAX: usize = 8;
/// Least number of sockets per thread. Starting a thread takes as long as a dozen sockets.
const PER_THREAD_MIN: usize = 2000;
