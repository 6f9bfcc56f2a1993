use crate::{Incarnation, RawStack};
use foldhash::HashMap;

/// Samples by who was where.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    counts: HashMap<(Incarnation, RawStack), u64>,
    addresses: usize,
}

impl Stacks {
    /// Counts one more; says whether there was room for its stack. Without, it counts as one that has none.
    pub(super) fn add(&mut self, who: Incarnation, stack: RawStack) -> bool {
        let addresses = stack.kernel.len() + stack.user.len() + ENTRY_ADDRESSES;
        let mut key = (who, stack);
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
            return true;
        }
        let has_room = self.addresses + addresses <= ADDRESSES_MAX;
        match has_room {
            true => self.addresses += addresses,
            // There are at most as many of these as there are processes.
            false => key.1 = RawStack::default(),
        }
        *self.counts.entry(key).or_default() += 1;
        has_room
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, &RawStack, u64)> {
        self.counts
            .iter()
            .map(|((who, stack), &count)| (*who, stack, count))
    }
}

/// All stacks together have so many addresses: 64 MiB.
const ADDRESSES_MAX: usize = 8 << 20;
/// What a stack takes beside its addresses, in as many as would fill that.
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
    fn the_same_stack_counts_on_and_at_the_bound_only_the_stack_is_lost() {
        let mut stacks = Stacks::default();
        let who = Incarnation { pid: 1, execs: 0 };
        let frames = 1 << 20;
        let kept = (0..20)
            .filter(|&number| stacks.add(who, stack(number, frames)))
            .count();
        assert_eq!(kept, 7);
        assert!(stacks.add(who, stack(3, frames)), "it is there");
        let sum: u64 = stacks.iter().map(|(.., count)| count).sum();
        assert_eq!(sum, 21);
        let none = stacks.iter().find(|(_, stack, _)| stack.user.is_empty());
        assert_eq!(none.map(|(.., count)| count), Some(13));
    }
}
