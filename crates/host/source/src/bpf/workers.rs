//! Job of a program by several threads, what they bring read by one.
//!
//! To convert and print what a run brought takes about as long as the run itself. So where there is work for them,
//! other threads run the program ahead, each into slots of its own, and hand these over; the calling thread reads
//! them, gives them back, and runs the program itself when none is waiting.

use super::kernel::Unavailable;
use sockeye_sys::bpf::Slot;
use std::sync::mpsc::{self, SendError, TryRecvError};
use std::thread;

/// Work that is done in runs.
pub(super) trait Job: Sync {
    /// What one thread has begun, and what it has to say in the end.
    type State: Default + Send;
    /// What a run says.
    type Reply: Send;

    /// Job the program over what is next, into this slot. `None`: there is nothing left.
    fn fill(&self, state: &mut Self::State, slot: &mut Slot) -> Result<Option<Self::Reply>, Unavailable>;

    /// Nobody wants to know more: there is nothing left from now on.
    fn stop(&self);
}

/// A slot with what one run brought.
struct Filled<Reply> {
    worker: usize,
    slot: Slot,
    reply: Reply,
}

/// Does all that is left to do. `state` is what this thread has begun, `own` its slot; `workers` others are started, if
/// that many slots are there. What each thread had to say comes back, this one's last.
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
            // What the others have brought comes first: they wait for their slots.
            let next = if has_more {
                filled.try_recv()
            } else {
                filled.recv().map_err(|_| TryRecvError::Disconnected)
            };
            let turn = match next {
                Ok(Ok(Filled { worker, slot, reply })) => {
                    read(&slot, &reply);
                    let _ = give_back[worker].send(slot); // it may have come to its end
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

/// Fills slots as long as there is work, then collects those that come back.
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
                let _ = hand_over.send(Err(unavailable)); // whoever is gone need not know
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
