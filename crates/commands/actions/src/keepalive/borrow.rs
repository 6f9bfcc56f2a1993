//! Other processes' sockets, one after the other, through whoever holds them.

use crate::targets::Target;
use rustix::io::Errno;
use sockeye_act::{BorrowedSocket, SocketOptionError, SocketOwner};
use sockeye_model::{Owner, Pid};
use sockeye_source::owners::Owners;
use std::collections::HashMap;
use std::thread;

/// What came of the way to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached<T> {
    /// It was borrowed, and this came of it.
    Done(T),
    /// Nobody holds it that we know of.
    Ownerless,
    /// Nobody of those who held it does any more.
    Gone,
    /// Nobody of those who hold it may be asked, or the call does not exist.
    Refused(Errno),
    /// The socket itself refused.
    Failed(SocketOptionError),
}

/// Does `act` to each target through one of its owners, in the order of `targets`; on several threads if they are many.
pub(super) fn each<T: Send>(
    targets: &[&Target],
    owners: &Owners,
    act: impl Fn(&BorrowedSocket) -> Result<T, SocketOptionError> + Sync,
) -> Vec<Reached<T>> {
    // Those of one process together, so that it is opened once.
    let mut order: Vec<(Pid, usize)> = targets
        .iter()
        .enumerate()
        .map(|(place, target)| {
            let first = target.owners(owners).first();
            (first.map_or(Pid(0), |owner| owner.process.pid), place)
        })
        .collect();
    order.sort_unstable();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores
        .min(THREADS_MAX)
        .min(order.len().div_ceil(WORTH_A_THREAD))
        .max(1);
    let share = order.len().div_ceil(threads).max(1);
    let work = |part: &[(Pid, usize)]| -> Vec<(usize, Reached<T>)> {
        let mut holders = Holders::default();
        part.iter()
            .map(|&(_, place)| {
                let target = targets[place];
                (place, through(&mut holders, target, target.owners(owners), &act))
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
                // Without another thread this one does it.
                Err(_) => done.extend(work(part)),
            }
        }
        done
    });
    let mut all: Vec<Option<Reached<T>>> = targets.iter().map(|_| None).collect();
    for (place, reached) in done {
        all[place] = Some(reached);
    }
    all.into_iter().map(|one| one.unwrap_or(Reached::Gone)).collect()
}

/// Tries one owner after the other, until one lets us.
fn through<T>(
    holders: &mut Holders,
    target: &Target,
    owners: &[Owner],
    act: &impl Fn(&BorrowedSocket) -> Result<T, SocketOptionError>,
) -> Reached<T> {
    let (Some(inode), false) = (target.inode, owners.is_empty()) else {
        return Reached::Ownerless;
    };
    let mut refusal = None;
    for owner in owners {
        let holder = match holders.of(owner.process.pid) {
            Ok(holder) => holder,
            Err(errno) => {
                refusal = Some(errno);
                continue;
            }
        };
        match holder.borrow(owner.fd, inode) {
            Ok(Some(borrowed)) => {
                return match act(&borrowed) {
                    Ok(done) => Reached::Done(done),
                    Err(failure) => Reached::Failed(failure),
                };
            }
            Ok(None) => {}
            Err(errno) => refusal = Some(errno),
        }
    }
    refusal.map_or(Reached::Gone, Reached::Refused)
}

/// Processes that were opened; few at a time, since each costs a descriptor.
#[derive(Default)]
struct Holders(HashMap<Pid, SocketOwner>);

impl Holders {
    fn of(&mut self, pid: Pid) -> Result<&SocketOwner, Errno> {
        if self.0.len() >= HOLDERS_MAX && !self.0.contains_key(&pid) {
            self.0.clear();
        }
        match self.0.entry(pid) {
            std::collections::hash_map::Entry::Occupied(found) => Ok(found.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => Ok(place.insert(SocketOwner::open(pid)?)),
        }
    }
}

const HOLDERS_MAX: usize = 16;
const THREADS_MAX: usize = 8;
/// A thread costs as much as a dozen sockets; below this nobody would notice it.
const WORTH_A_THREAD: usize = 2000;
