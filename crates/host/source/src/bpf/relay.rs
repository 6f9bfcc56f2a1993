//! Runs of a program by several threads, what they bring read by one.
//!
//! To convert and print what a run brought takes about as long as the run itself. So where there is work for them,
//! other threads run the program ahead, each into slots of its own, and hand these over; the calling thread reads
//! them, gives them back, and runs the program itself when none is waiting.

use super::kernel::Obstacle;
use sockeye_sys::bpf::Slot;
use std::sync::mpsc::{self, SendError, TryRecvError};
use std::thread;

/// Work that is done in runs.
pub(super) trait Runs: Sync {
    /// What one thread has begun, and what it has to say in the end.
    type Mine: Default + Send;
    /// What a run says.
    type Reply: Send;

    /// Runs the program over what is next, into this slot. `None`: there is nothing left.
    fn fill(&self, mine: &mut Self::Mine, slot: &mut Slot) -> Result<Option<Self::Reply>, Obstacle>;

    /// Nobody wants to know more: there is nothing left from now on.
    fn stop(&self);
}

/// A slot with what one run brought.
struct Filled<Reply> {
    worker: usize,
    slot: Slot,
    reply: Reply,
}

/// Does all that is left to do. `mine` is what this thread has begun, `own` its slot; `workers` others are started, if
/// that many slots are there. What each thread had to say comes back, this one's last.
pub(super) fn run<R: Runs>(
    runs: &R,
    mut mine: R::Mine,
    workers: usize,
    own: &mut Slot,
    slots: &mut Vec<Slot>,
    read: &mut dyn FnMut(&Slot, &R::Reply),
) -> Result<Vec<R::Mine>, Obstacle> {
    let workers = workers.min(slots.len());
    let (hand_over, filled) = mpsc::channel::<Result<Filled<R::Reply>, Obstacle>>();
    thread::scope(|scope| {
        let (mut give_back, mut threads) = (Vec::new(), Vec::new());
        for worker in 0..workers {
            let (give, free) = mpsc::channel::<Slot>();
            give_back.push(give);
            let hand_over = hand_over.clone();
            let ahead = move || run_ahead(runs, worker, &free, hand_over);
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
                Ok(Err(obstacle)) => Err(obstacle),
                Err(TryRecvError::Disconnected) if !has_more => break,
                Err(_) => runs.fill(&mut mine, own).map(|reply| match reply {
                    Some(reply) => read(own, &reply),
                    None => has_more = false,
                }),
            };
            if let Err(obstacle) = turn {
                (outcome, has_more) = (Err(obstacle), false);
                runs.stop();
            }
        }
        drop(give_back);
        let mut all = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok((back, mine)) => {
                    slots.extend(back);
                    all.push(mine);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all.push(mine);
        outcome.map(|()| all)
    })
}

/// Fills slots as long as there is work, then collects those that come back.
fn run_ahead<R: Runs>(
    runs: &R,
    worker: usize,
    free: &mpsc::Receiver<Slot>,
    hand_over: mpsc::Sender<Result<Filled<R::Reply>, Obstacle>>,
) -> (Vec<Slot>, R::Mine) {
    let (mut mine, mut back) = (R::Mine::default(), Vec::new());
    while let Ok(mut slot) = free.recv() {
        let message = match runs.fill(&mut mine, &mut slot) {
            Ok(Some(reply)) => Ok(Filled { worker, slot, reply }),
            Ok(None) => {
                back.push(slot);
                break;
            }
            Err(obstacle) => {
                back.push(slot);
                let _ = hand_over.send(Err(obstacle)); // whoever is gone need not know
                break;
            }
        };
        if hand_over.send(message).is_err() {
            break;
        }
    }
    drop(hand_over);
    back.extend(free.iter());
    (back, mine)
}
