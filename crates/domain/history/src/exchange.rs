//! When a connection last sent and received data: two hosts that saw the same last data of a connection can compare their clocks.

use crate::bytes::{DecodeError, Reader, push_difference, push_number};
use crate::seen_translation::{push_end, read_end, read_netns};
use sockeye_model::{ConnectionEnds, NetnsInode};
use std::collections::BTreeSet;

/// The last data of a connection, as one end saw it. Bytes identify it: the other end has the same numbers if it saw the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exchange {
    /// Network namespace; `None` if only one is recorded.
    pub netns: Option<NetnsInode>,
    /// Whether this is the end that listens.
    pub is_server: bool,
    /// The ends.
    pub ends: ConnectionEnds,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// When this end last sent data, by its clock, in milliseconds since 1970.
    pub sent_ms: u64,
    /// When it last received data.
    pub received_ms: u64,
}

impl Exchange {
    /// Returns them as bytes.
    #[must_use]
    pub fn encode<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<u8> {
        let mut out = Vec::new();
        for one in all {
            push_number(&mut out, one.netns.map_or(0, |netns| u64::from(netns.0) + 1));
            push_number(&mut out, one.is_server.into());
            push_end(&mut out, one.ends.client);
            push_end(&mut out, one.ends.server);
            push_number(&mut out, one.request_bytes);
            push_number(&mut out, one.response_bytes);
            push_number(&mut out, one.sent_ms);
            push_difference(&mut out, one.received_ms, one.sent_ms);
        }
        out
    }

    /// Reads what [`Self::encode`] returned.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut all = Vec::new();
        while !reader.is_empty() {
            let mut one = Self {
                netns: read_netns(&mut reader)?,
                is_server: reader.number("an end")? != 0,
                ends: ConnectionEnds {
                    client: read_end(&mut reader)?,
                    server: read_end(&mut reader)?,
                },
                request_bytes: reader.number("bytes")?,
                response_bytes: reader.number("bytes")?,
                sent_ms: reader.number("a time")?,
                received_ms: 0,
            };
            one.received_ms = reader.difference(one.sent_ms, "a time")?;
            all.push(one);
        }
        Ok(all)
    }
}

/// Picks some of many connections so that both ends pick the same ones: those whose ends have the smallest digests.
#[derive(Debug)]
pub struct ExchangePicker {
    picked: BTreeSet<(u64, Exchange)>,
    max: usize,
}

impl ExchangePicker {
    /// Begins to pick at most `max`.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self {
            picked: BTreeSet::new(),
            max,
        }
    }

    /// Adds a connection.
    pub fn add(&mut self, one: Exchange) {
        self.picked.insert((digest(&one.ends), one));
        if self.picked.len() > self.max {
            self.picked.pop_last();
        }
    }

    /// Returns those that were picked.
    #[must_use]
    pub fn finish(self) -> Vec<Exchange> {
        self.picked.into_iter().map(|(_, one)| one).collect()
    }
}

/// Returns a digest that is the same on all hosts: FNV-1a of the addresses and ports, the smaller end first, since which one listens may
/// not be known yet.
fn digest(ends: &ConnectionEnds) -> u64 {
    let mut both = [ends.client, ends.server];
    both.sort_unstable();
    let mut bytes = Vec::new();
    both.into_iter().for_each(|end| push_end(&mut bytes, end));
    let digest = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // Ends that differ in their last bytes alone differ in few of its upper bits.
    (digest ^ digest >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(client: u16, is_server: bool) -> Exchange {
        Exchange {
            netns: None,
            is_server,
            ends: ConnectionEnds {
                client: ([10, 0, 0, 1].into(), client),
                server: ([10, 0, 0, 2].into(), 80),
            },
            request_bytes: 100,
            response_bytes: 5_000_000_000,
            sent_ms: 1_795_000_000_123,
            received_ms: 1_795_000_000_100,
        }
    }

    #[test]
    fn exchanges_survive_and_damaged_ones_are_errors() {
        let all = [exchange(1, false), exchange(2, true)];
        let bytes = Exchange::encode(&all);
        assert_eq!(Exchange::decode(&bytes), Ok(all.to_vec()));
        for len in (1..bytes.len()).filter(|len| *len != bytes.len() / 2) {
            assert!(Exchange::decode(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn both_ends_pick_the_same_connections() {
        let pick = |is_server: bool, order: &mut dyn Iterator<Item = u16>| {
            let mut picker = ExchangePicker::new(20);
            order.for_each(|port| picker.add(exchange(port, is_server)));
            let mut ports: Vec<_> = picker.finish().iter().map(|one| one.ends.client.1).collect();
            ports.sort_unstable();
            ports
        };
        let of_client = pick(false, &mut (40_000..41_000));
        assert_eq!(of_client, pick(true, &mut (40_000..41_000).rev()));
        assert_eq!(of_client.len(), 20);
        // Not simply the first ones.
        assert!(of_client.iter().any(|port| *port > 40_500));
    }
}
