//! Aggregation of samples for `Sampler`: one count for each process and stack. `ADDRESSES_MAX` bounds the
//! memory; beyond it samples count without a stack.

use crate::{Incarnation, RawStack};
use foldhash::HashMap;

/// Number of samples by process and stack.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    counts: HashMap<(Incarnation, RawStack), u64>,
    addresses: usize,
}

impl Stacks {
    /// Counts a sample. Returns false if its stack did not fit: then it counts without a stack.
    pub(super) fn add(&mut self, process: Incarnation, stack: RawStack) -> bool {
        let addresses = stack.kernel.len() + stack.user.len() + ENTRY_ADDRESSES;
        let mut key = (process, stack);
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
            return true;
        }
        let fits = self.addresses + addresses <= ADDRESSES_MAX;
        match fits {
            true => self.addresses += addresses,
            // At most one such entry per process.
            false => key.1 = RawStack::default(),
        }
        *self.counts.entry(key).or_default() += 1;
        fits
    }

    /// Returns each process and stack with its number of samples.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, &RawStack, u64)> {
        self.counts
            .iter()
            .map(|((process, stack), &count)| (*process, stack, count))
    }
}

/// The most addresses of all stacks together: 64 MiB.
const ADDRESSES_MAX: usize = 8 << 20;
/// The size of an entry without its addresses, as a number of addresses.
const ENTRY_ADDRESSES: usize = size_of::<((Incarnation, RawStack), u64)>() / 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(number: u64, frames: usize) -> RawStack {
        RawStack {
            user: vec![number; frames],
            kernel: vec![],
        }
    }

    #[test]
    fn at_the_limit_samples_count_without_stack() {
        let mut stacks = Stacks::default();
        let process = Incarnation { pid: 1, execs: 0 };
        let frames = 1 << 20;
        let kept = (0..20)
            .filter(|&number| stacks.add(process, stack(number, frames)))
            .count();
        assert_eq!(kept, 7);
        assert!(stacks.add(process, stack(3, frames)), "a known stack");
        let sum: u64 = stacks.iter().map(|(.., count)| count).sum();
        assert_eq!(sum, 21);
        let none = stacks.iter().find(|(_, stack, _)| stack.user.is_empty());
        assert_eq!(none.map(|(.., count)| count), Some(13));
    }
}
