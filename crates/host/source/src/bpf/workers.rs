//! Runs a program on several threads and reads the results on one.
//!
//! Converting and printing the result of a run takes about as long as the run itself. So other threads run the program
//! ahead into slots and send them to the calling thread. It reads them, returns them, and runs the program itself when
//! no slot is waiting.

use crate::unavailable::Unavailable;
use sockeye_sys::bpf::Slot;
use std::sync::mpsc::{self, SendError, TryRecvError};
use std::thread;

/// Work that consists of runs of a program.
pub(super) trait Job: Sync {
    /// The progress of one thread, returned at the end.
    type State: Default + Send;
    /// The result of a run.
    type Reply: Send;

    /// Runs the program over the next part, into this slot. `None`: there is no part left.
    fn fill(&self, state: &mut Self::State, slot: &mut Slot) -> Result<Option<Self::Reply>, Unavailable>;

    /// Stops the work: later calls of `fill` return `None`.
    fn stop(&self);
}

/// A slot with the result of one run.
struct Filled<Reply> {
    worker: usize,
    slot: Slot,
    reply: Reply,
}

/// Does the rest of the work. `state` and `own` are the progress and the slot of this thread; up to `workers` other threads
/// are started, at most one per slot. Returns the progress of each thread, that of this one last.
pub(super) fn run<R: Job>(
    job: &R,
    mut state: R::State,
    workers: usize,
    own: &mut Slot,
    slots: &mut Vec<Slot>,
    read: &mut dyn FnMut(&Slot, &R::Reply),
) -> Result<Vec<R::State>, Unavailable> {
    let workers = workers.min(slots.len());
    let (hand_over, filled) = mpsc::channel::<Result<Filled<R::Reply>, Unavailable>>();
    thread::scope(|scope| {
        let (mut give_back, mut threads) = (Vec::new(), Vec::new());
        for worker in 0..workers {
            let (give, free) = mpsc::channel::<Slot>();
            give_back.push(give);
            let hand_over = hand_over.clone();
            let ahead = move || run_ahead(job, worker, &free, hand_over);
            threads.extend(thread::Builder::new().spawn_scoped(scope, ahead));
        }
        drop(hand_over);
        if workers > 0 {
            for (place, slot) in std::mem::take(slots).into_iter().enumerate() {
                if let Err(SendError(slot)) = give_back[place % workers].send(slot) {
                    slots.push(slot); // the thread could not be started
                }
            }
        }
        let (mut has_more, mut outcome) = (true, Ok(()));
        loop {
            // Results of the others come first: they wait for their slots.
            let next = if has_more {
                filled.try_recv()
            } else {
                filled.recv().map_err(|_| TryRecvError::Disconnected)
            };
            let turn = match next {
                Ok(Ok(Filled { worker, slot, reply })) => {
                    read(&slot, &reply);
                    let _ = give_back[worker].send(slot); // the thread may have ended
                    Ok(())
                }
                Ok(Err(unavailable)) => Err(unavailable),
                Err(TryRecvError::Disconnected) if !has_more => break,
                Err(_) => job.fill(&mut state, own).map(|reply| match reply {
                    Some(reply) => read(own, &reply),
                    None => has_more = false,
                }),
            };
            if let Err(unavailable) = turn {
                (outcome, has_more) = (Err(unavailable), false);
                job.stop();
            }
        }
        drop(give_back);
        let mut all = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok((back, state)) => {
                    slots.extend(back);
                    all.push(state);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all.push(state);
        outcome.map(|()| all)
    })
}

/// Fills slots while there is work, then collects the returned ones.
fn run_ahead<R: Job>(
    job: &R,
    worker: usize,
    free: &mpsc::Receiver<Slot>,
    hand_over: mpsc::Sender<Result<Filled<R::Reply>, Unavailable>>,
) -> (Vec<Slot>, R::State) {
    let (mut state, mut back) = (R::State::default(), Vec::new());
    while let Ok(mut slot) = free.recv() {
        let message = match job.fill(&mut state, &mut slot) {
            Ok(Some(reply)) => Ok(Filled { worker, slot, reply }),
            Ok(None) => {
                back.push(slot);
                break;
            }
            Err(unavailable) => {
                back.push(slot);
                let _ = hand_over.send(Err(unavailable)); // the receiver may have ended
                break;
            }
        };
        if hand_over.send(message).is_err() {
            break;
        }
    }
    drop(hand_over);
    back.extend(free.iter());
    (back, state)
}
