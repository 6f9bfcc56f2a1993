//! Visits many network namespaces, on as many threads as are useful.

use crate::threads::{in_parallel, thread_count};
use sockeye_sys::netns::{NetnsThread, on_netns_thread};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Distributes the numbers below `count`, each once, to threads that may visit namespaces. Each thread calls `work` once
/// with an iterator over its numbers. Returns the results in the order of the numbers; `None` if no thread could visit.
pub(crate) fn spread<T: Send>(
    count: usize,
    work: impl Fn(&mut NetnsThread, &mut dyn Iterator<Item = usize>, &mut Vec<(usize, T)>) + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let work = |visitor: &mut NetnsThread| {
        let mut numbers = std::iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number < count).then_some(number)
        });
        let mut found = Vec::new();
        work(visitor, &mut numbers, &mut found);
        found
    };
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let parts = in_parallel(0..thread_count(0, count / VISITS_PER_THREAD), |_| {
        on_netns_thread(work)
    });
    for (number, found) in parts.into_iter().flatten().flatten() {
        results[number] = Some(found);
    }
    results
}

/// Fewer visits do not justify another thread.
const VISITS_PER_THREAD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_visited_once() {
        for count in [0, 1, 31, 1000] {
            let found = spread(count, |_, numbers, found| {
                found.extend(numbers.map(|number| (number, number)));
            });
            let expected: Vec<_> = (0..count).map(Some).collect();
            assert_eq!(found, expected);
        }
    }
}
