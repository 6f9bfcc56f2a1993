//! Counters of many sockets, for the next look.

use crate::socket_counters::SocketCounters;
use sockeye_model::Inode;
use std::cell::Cell;

/// Counters by the inode of their socket. Most of them are 0 or small, so that a socket takes some twenty bytes.
#[derive(Debug, Default)]
pub(crate) struct CounterSamples {
    /// Sockets in the order in which they were added, each with the end of its counters in `bytes`.
    sockets: Vec<(Inode, u32)>,
    /// Of each socket which counters are not 0, and these, seven bits a byte.
    bytes: Vec<u8>,
    /// Places in `sockets`, sorted by inode.
    sorted: Vec<u32>,
    /// The place behind the one that was found last: the next look meets most sockets in the same order.
    next: Cell<usize>,
}

impl CounterSamples {
    /// Returns space for as many sockets as `earlier` has, and some more.
    pub(crate) fn with_space_of(earlier: Option<&Self>) -> Self {
        let space = |len: usize| len + len / 16;
        Self {
            sockets: Vec::with_capacity(space(earlier.map_or(0, Self::len))),
            bytes: Vec::with_capacity(space(earlier.map_or(0, |earlier| earlier.bytes.len()))),
            ..Self::default()
        }
    }

    /// Returns the number of sockets.
    pub(crate) const fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Adds a socket.
    pub(crate) fn add(&mut self, inode: Inode, counters: &SocketCounters) {
        let numbers = counters.numbers();
        let mut known: u16 = 0;
        for (bit, _) in numbers.iter().enumerate().filter(|(_, number)| **number != 0) {
            known |= 1 << bit;
        }
        push_number(&mut self.bytes, known.into());
        for number in numbers.into_iter().filter(|number| *number != 0) {
            push_number(&mut self.bytes, number);
        }
        self.sockets
            .push((inode, u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)));
    }

    /// Sorts what was added, and gives back the space that is left: before that, [`Self::of`] finds nothing for sure.
    #[must_use]
    pub(crate) fn sorted(mut self) -> Self {
        self.sockets.shrink_to_fit();
        self.bytes.shrink_to_fit();
        self.sorted = (0..self.sockets.len() as u32).collect();
        self.sorted
            .sort_unstable_by_key(|place| (self.sockets[*place as usize].0, *place));
        // Of those with the same inode, which the kernel does not have, the first counts.
        let sockets = &mut self.sockets;
        self.sorted.dedup_by(|place, before| {
            let is_again = sockets[*place as usize].0 == sockets[*before as usize].0;
            if is_again {
                sockets[*place as usize].0 = NONE;
            }
            is_again
        });
        self
    }

    /// Returns the counters of a socket; `None` if it was not there.
    pub(crate) fn of(&self, inode: Inode) -> Option<SocketCounters> {
        let is_at = |place: usize| {
            let socket = self.sockets.get(place);
            socket.is_some_and(|(at, _)| *at == inode && inode != NONE)
        };
        let next = self.next.get();
        let place = if is_at(next) {
            next
        } else {
            let inode_at = |place: &u32| self.sockets[*place as usize].0;
            let at = self.sorted.binary_search_by_key(&inode, inode_at).ok()?;
            self.sorted[at] as usize
        };
        self.next.set(place + 1);
        let begin = match place.checked_sub(1) {
            Some(before) => self.sockets[before].1,
            None => 0,
        };
        let mut bytes = self.bytes.get(begin as usize..)?.iter();
        let known = read_number(&mut bytes);
        let mut numbers = [0; SocketCounters::COUNT];
        for (bit, number) in numbers.iter_mut().enumerate() {
            if known & 1 << bit != 0 {
                *number = read_number(&mut bytes);
            }
        }
        Some(SocketCounters::of_numbers(numbers))
    }
}

/// The kernel gives it to no socket.
const NONE: Inode = Inode(0);

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> u64 {
    let (mut number, mut shift) = (0, 0);
    for byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(number: u32) -> SocketCounters {
        SocketCounters {
            drops: number,
            sent_bytes: u64::from(number) << 32,
            ..SocketCounters::default()
        }
    }

    #[test]
    fn sockets_are_found_in_whatever_order_they_were_added() {
        let mut samples = CounterSamples::default();
        for number in [7_u32, 3, 900, 5, 3] {
            samples.add(Inode(number), &counters(number));
        }
        let samples = samples.sorted();
        assert_eq!(samples.len(), 5);
        // In another order, and what is added twice from any place.
        for number in [3_u32, 5, 3, 7, 900, 5, 900, 7, 3, 900] {
            assert_eq!(samples.of(Inode(number)), Some(counters(number)));
        }
        assert_eq!(samples.of(Inode(4)), None);
        assert_eq!(samples.of(NONE), None);
        assert!(
            CounterSamples::with_space_of(Some(&samples))
                .of(Inode(3))
                .is_none()
        );
    }

    #[test]
    fn all_counters_survive() {
        let mut samples = CounterSamples::default();
        let all: [[u64; SocketCounters::COUNT]; 3] = [
            std::array::from_fn(|_| 0),
            std::array::from_fn(|place| place as u64 + 1),
            SocketCounters::of_numbers([u64::MAX; SocketCounters::COUNT]).numbers(),
        ];
        for (place, numbers) in (1..).zip(&all) {
            samples.add(Inode(place), &SocketCounters::of_numbers(*numbers));
        }
        let samples = samples.sorted();
        for (place, numbers) in (1..).zip(&all) {
            assert_eq!(
                samples.of(Inode(place)).map(|counters| counters.numbers()),
                Some(*numbers)
            );
        }
    }
}
