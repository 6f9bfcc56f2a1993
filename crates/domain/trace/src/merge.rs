//! One result of the events of all shards, in the order in which one thread would report them.

use crate::finished::Finished;
use crate::shard::{SHARDS, ShardEvent, ShardEventKind};
use foldhash::{HashMap, HashSet};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Merges the events of shards: numbers the connections, and completes what no shard knows alone.
#[derive(Debug, Default)]
pub struct Merge {
    next_number: u32,
    numbers: [Numbers; SHARDS],
    /// Servers that accepted a connection; at most [`ACCEPTING_MAX`]
    accepting: HashSet<(IpAddr, u16)>,
}

impl ShardEvent {
    /// Frame, and place among the events of this frame.
    ///
    /// With it, events of all shards are sorted. A frame belongs to one shard.
    #[must_use]
    pub fn order(&self) -> (u64, EventOrder) {
        let order = match &self.kind {
            ShardEventKind::Opened(_) | ShardEventKind::Accepted(_) => EventOrder::Begin,
            ShardEventKind::Finished(_) => EventOrder::End,
        };
        (self.frame, order)
    }
}

/// Place of an event among those of the same frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventOrder {
    /// Before what is reported of the segment
    Begin,
    /// What is reported of the segment
    Segment,
    /// After it
    End,
}

impl Merge {
    /// Takes the next event; returns the connection that is over by it.
    pub fn add(&mut self, shard: usize, event: ShardEvent) -> Option<Box<Finished>> {
        match event.kind {
            ShardEventKind::Opened(number) => {
                self.numbers[shard].push(number, self.next_number);
                self.next_number += 1;
                None
            }
            ShardEventKind::Accepted(server) => {
                if self.accepting.len() < ACCEPTING_MAX {
                    self.accepting.insert(server);
                }
                None
            }
            ShardEventKind::Finished(mut finished) => {
                self.complete(shard, &mut finished);
                Some(finished)
            }
        }
    }

    /// Number in the capture of a connection with this number in its shard.
    #[must_use]
    pub fn number(&self, shard: usize, number: u32) -> u32 {
        self.numbers[shard].find(number).unwrap_or(number)
    }

    /// Number of the next connection.
    #[must_use]
    pub const fn next_number(&self) -> u32 {
        self.next_number
    }

    /// Completes a connection that a shard has finished.
    pub fn complete(&mut self, shard: usize, finished: &mut Finished) {
        let connection = &mut finished.connection;
        connection.number = self.numbers[shard].take(connection.number);
        let server = (connection.server.ip, connection.server.port);
        connection.has_server_answered = connection.syn_acks == 0 && self.accepting.contains(&server);
    }
}

/// Numbers in the capture of the connections of one shard.
///
/// Most connections end in about the order in which they began: four bytes for each from the oldest to the newest. If few of these
/// are open, the oldest are kept apart.
#[derive(Debug, Default)]
struct Numbers {
    /// Number of the first of `recent`
    first: u32,
    /// [`GONE`] if it is finished
    recent: VecDeque<u32>,
    open: usize,
    old: HashMap<u32, u32>,
}

impl Numbers {
    /// Adds a connection; `number` grows by one each time, or by more.
    fn push(&mut self, number: u32, global: u32) {
        if self.recent.is_empty() {
            self.first = number;
        }
        while self.first.wrapping_add(self.recent.len() as u32) < number {
            self.recent.push_back(GONE);
        }
        self.recent.push_back(global);
        self.open += 1;
        while self.recent.len() > 2 * self.open + RECENT_MIN
            && let Some(global) = self.recent.pop_front()
        {
            if global != GONE {
                self.old.insert(self.first, global);
                self.open -= 1;
            }
            self.first += 1;
        }
    }

    fn find(&self, number: u32) -> Option<u32> {
        let at = number.checked_sub(self.first);
        let recent = at.and_then(|at| self.recent.get(at as usize)).copied();
        recent
            .filter(|global| *global != GONE)
            .or_else(|| self.old.get(&number).copied())
    }

    fn take(&mut self, number: u32) -> u32 {
        let at = number.checked_sub(self.first);
        let Some(recent) = at.and_then(|at| self.recent.get_mut(at as usize)) else {
            return self.old.remove(&number).unwrap_or(number);
        };
        let global = std::mem::replace(recent, GONE);
        self.open = self.open.saturating_sub(1);
        while self.recent.front() == Some(&GONE) {
            self.recent.pop_front();
            self.first += 1;
        }
        global
    }
}

const GONE: u32 = u32::MAX;
/// Entries that need not be reclaimed.
const RECENT_MIN: usize = 1_024;
/// Servers that are remembered.
const ACCEPTING_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_whatever_ends_first() {
        let mut numbers = Numbers::default();
        for number in 0..10_000 {
            numbers.push(number, number * 3);
            if number % 10 != 0 {
                assert_eq!(numbers.take(number), number * 3);
            }
        }
        assert!(numbers.recent.len() < 4_000 && numbers.old.len() > 100);
        for number in (0..10_000).step_by(10) {
            assert_eq!(numbers.find(number), Some(number * 3));
            assert_eq!(numbers.take(number), number * 3);
        }
        assert!(numbers.recent.is_empty() && numbers.old.is_empty());
    }
}
