//! Work on as many threads as are useful.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` for each of `items`; returns the result of each thread.
pub(crate) fn for_each<T: Sync, R: Default + Send>(items: &[T], work: impl Fn(&T, &mut R) + Sync) -> Vec<R> {
    for_each_on(0, items, work)
}

/// Does as [`for_each`] on at most `threads_max` threads; 0: one per core, at most 8.
pub(crate) fn for_each_on<T: Sync, R: Default + Send>(
    threads_max: usize,
    items: &[T],
    work: impl Fn(&T, &mut R) + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    in_parallel(
        0..thread_count(threads_max, items.len() / ITEMS_PER_THREAD),
        |_| {
            let mut result = R::default();
            loop {
                let start = next.fetch_add(BATCH, Ordering::Relaxed);
                let Some(batch) = items.get(start..(start + BATCH).min(items.len())) else {
                    return result;
                };
                if batch.is_empty() {
                    return result;
                }
                batch.iter().for_each(|item| work(item, &mut result));
            }
        },
    )
}

/// Returns the number of threads for work that is worth `useful` threads; at most `threads_max`, or if that is 0, one per
/// core and [`THREADS_MAX`].
pub(crate) fn thread_count(threads_max: usize, useful: usize) -> usize {
    match threads_max {
        _ if useful < 2 => 1, // without asking for the number of cores
        0 => thread::available_parallelism()
            .map_or(1, NonZeroUsize::get)
            .min(THREADS_MAX)
            .min(useful),
        asked => asked.min(useful),
    }
}

/// Runs `work` for all `parts` at once, the first on the calling thread, and returns the results. A part whose thread cannot
/// be started is dropped: the parts take their work from a shared queue.
pub(crate) fn in_parallel<P: Send, T: Send>(
    parts: impl IntoIterator<Item = P>,
    work: impl Fn(P) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let mut parts = parts.into_iter();
        let own = parts.next();
        let others: Vec<_> = parts
            .map_while(|part| {
                thread::Builder::new()
                    .spawn_scoped(scope, move || work(part))
                    .ok()
            })
            .collect();
        let mut results: Vec<_> = own.into_iter().map(work).collect();
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Number of items that a thread takes at a time.
const BATCH: usize = 16;
/// Fewer items do not justify another thread: each is a process or the like.
const ITEMS_PER_THREAD: usize = 128;
const THREADS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_processed_once() {
        let items: Vec<usize> = (0..5000).collect();
        let mut seen = for_each(&items, |item, seen: &mut Vec<usize>| seen.push(*item)).concat();
        seen.sort_unstable();
        assert_eq!(seen, items);
        assert_eq!(for_each(&[], |(): &(), _: &mut ()| ()).len(), 1);
    }

    #[test]
    fn threads_are_as_many_as_the_work_is_worth() {
        assert_eq!(thread_count(5, 100), 5);
        assert_eq!(thread_count(5, 3), 3);
        assert_eq!(thread_count(5, 0), 1);
        assert!((1..=THREADS_MAX).contains(&thread_count(0, 100)));
        assert_eq!(in_parallel(0..3, |part| part), [0, 1, 2]);
    }
}
