//! Samples to chunks: the first of a group is whole, each later one has what changed.

use crate::bytes::{push_difference, push_number};
use crate::chunk::{Streams, coding, stream};
use crate::group_reader::GroupReader;
use crate::identity::{Identity, IdentityRef};
use crate::values::{COLUMNS, Values};
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// A socket in a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Which socket.
    pub identity: Identity,
    /// Its values.
    pub values: Values,
}

/// Encodes the samples of one group, one after the other. Each is begun, takes its sockets one by one, and is finished: only what changed
/// is in memory twice. Of what identifies a socket it keeps a digest.
#[derive(Debug, Default)]
pub struct GroupWriter {
    digests: Digests,
    places: HashMap<u64, u32, BuildHasherDefault<DigestHasher>>,
    sockets: Vec<Written>,
    /// Of each socket the last sample that has it. Apart from the rest: of most sockets only this is read and written in a sample.
    seen: Vec<Seen>,
    samples: u32,
    at_ms: u64,
    sample: InHand,
    /// Number of different sockets of the last sample, or the one in hand.
    sample_len: usize,
}

/// The sample in hand.
#[derive(Debug, Default)]
struct InHand {
    /// Encoded difference of its time.
    time: Vec<u8>,
    /// Encoded new entries of the dictionary.
    identities: Vec<u8>,
    /// Sockets that changed or are back, with the values before; not those that are new.
    changed: Vec<(usize, Values)>,
    /// Place of the first socket that is new.
    first_new: usize,
    /// Sockets that were there already, with the later values, which count.
    again: Vec<(usize, Values)>,
}

/// What the last sample wrote of a socket.
#[derive(Debug)]
struct Written {
    /// The second half of the digest of its identity.
    digest: u64,
    values: Values,
}

/// The number of the last sample that has a socket, twice; 0: none since it was resumed. One more: no data of it was queued there.
#[derive(Debug, Clone, Copy)]
struct Seen(u32);

impl Seen {
    fn new(sample: u32, values: &Values) -> Self {
        Self(sample * 2 + u32::from(values.is_all_sent() && values.is_all_read()))
    }

    const fn sample(self) -> u32 {
        self.0 / 2
    }

    const fn is_idle(self) -> bool {
        self.0 % 2 == 1
    }
}

impl GroupWriter {
    /// Returns a writer that goes on after the last sample of a reader.
    #[must_use]
    pub fn resume(reader: GroupReader) -> Self {
        let at_ms = reader.at_ms();
        let mut resumed = Self {
            samples: 1,
            at_ms,
            ..Self::default()
        };
        for (identity, values, is_there) in reader.into_sockets() {
            resumed.sample_len += usize::from(is_there);
            // One that is there twice, which no writer does, keeps its place.
            let digest = resumed.digests.of(&identity.borrowed());
            if let Err(key) = resumed.find(digest) {
                resumed.places.insert(key, resumed.sockets.len() as u32);
            }
            resumed.seen.push(Seen::new(u32::from(is_there), &values));
            resumed.sockets.push(Written {
                digest: digest.1,
                values,
            });
        }
        resumed
    }

    /// Encodes a sample.
    pub fn push(&mut self, at_ms: u64, sample: Vec<Recorded>) -> Vec<u8> {
        self.begin(at_ms);
        for Recorded { identity, values } in sample {
            self.add(&identity.borrowed(), values);
        }
        self.finish()
    }

    /// Begins a sample.
    pub fn begin(&mut self, at_ms: u64) {
        (self.sample, self.sample_len) = (InHand::default(), 0);
        self.sample.first_new = self.sockets.len();
        push_difference(&mut self.sample.time, at_ms, self.at_ms);
        push_number(&mut self.sample.time, coding::NOW);
        self.at_ms = at_ms;
        self.samples += 1;
    }

    /// Adds a socket to the sample. Of sockets with the same identity the last counts. Returns its place, for [`Self::add_unchanged`].
    pub fn add(&mut self, identity: &IdentityRef<'_>, mut values: Values) -> u32 {
        let digest = self.digests.of(identity);
        let place = match self.find(digest) {
            Ok(place) => place,
            Err(key) => {
                identity.push(&mut self.sample.identities);
                self.enter(key, digest.1)
            }
        };
        let (written, seen) = (&mut self.sockets[place], &mut self.seen[place]);
        if seen.sample() == self.samples {
            self.sample.again.push((place, values));
            return place as u32;
        }
        let is_back = seen.sample() + 1 != self.samples;
        *seen = Seen::new(self.samples, &values);
        self.sample_len += 1;
        // One that was gone is there again, even if nothing changed.
        if values.settle(&written.values) != 0 || is_back {
            let before = std::mem::replace(&mut written.values, values);
            // Of a new one nothing is known before.
            if place < self.sample.first_new {
                self.sample.changed.push((place, before));
            }
        }
        place as u32
    }

    /// Adds a connection of the last sample again, which has its values except that no data waits to be read. Returns whether that is
    /// right: it is not if the last sample does not have it, or has data of it that waits to be sent.
    pub fn add_unchanged(&mut self, place: u32) -> bool {
        let place = place as usize;
        let Some(seen) = self.seen.get_mut(place) else {
            return false;
        };
        // A walk may come to it twice.
        if seen.sample() == self.samples {
            return true;
        }
        if seen.sample() + 1 != self.samples {
            return false;
        }
        if !seen.is_idle() {
            let written = &mut self.sockets[place];
            if !written.values.is_all_sent() {
                return false;
            }
            self.sample.changed.push((place, written.values));
            written.values.set_all_read();
        }
        *seen = Seen(self.samples * 2 + 1);
        self.sample_len += 1;
        true
    }

    /// Encodes the sample.
    pub fn finish(&mut self) -> Vec<u8> {
        let InHand {
            time,
            identities,
            mut changed,
            again,
            first_new,
        } = std::mem::take(&mut self.sample);
        changed.sort_unstable_by_key(|(place, _)| *place);
        for (place, mut values) in again {
            let written = &mut self.sockets[place];
            self.seen[place] = Seen::new(self.samples, &values);
            if place >= first_new {
                written.values = values;
                continue;
            }
            let before = match changed.binary_search_by_key(&place, |(place, _)| *place) {
                Ok(index) => changed[index].1,
                Err(index) => {
                    changed.insert(index, (place, written.values));
                    written.values
                }
            };
            values.settle(&before);
            written.values = values;
        }
        let mut streams = Streams::empty();
        streams.0[stream::TIME] = time;
        streams.0[stream::IDENTITIES] = identities;
        let before = self.samples.wrapping_sub(1);
        let gone = self.seen.iter().enumerate();
        let gone = gone.filter(|(_, seen)| seen.sample() == before);
        push_places(&mut streams.0[stream::GONE], gone.map(|(place, _)| place));
        let len = self.sockets.len();
        let new = (first_new..len).map(|place| (place, Values::UNKNOWN));
        let all = changed.iter().copied().chain(new);
        push_places(
            &mut streams.0[stream::CHANGED],
            all.clone().map(|(place, _)| place),
        );
        for (place, before) in all {
            let mut now = self.sockets[place].values;
            let columns = now.settle(&before);
            push_number(&mut streams.0[stream::COLUMNS], columns.into());
            for index in (0..COLUMNS.len()).filter(|index| columns & 1 << index != 0) {
                let base = if COLUMNS[index].is_time {
                    Some(self.at_ms / 1000)
                } else {
                    before.at(index)
                };
                push_value(&mut streams.0[stream::VALUES + index], now.at(index), base);
            }
        }
        streams.encode()
    }

    /// Returns the number of sockets of the last sample, or the one in hand.
    #[must_use]
    pub const fn sample_len(&self) -> usize {
        self.sample_len
    }

    /// Returns the number of sockets that the group has had: each takes memory until it ends.
    #[must_use]
    pub fn dictionary_len(&self) -> usize {
        self.sockets.len()
    }

    /// Returns the place of a socket in the dictionary by the digest of its identity, or where that is entered.
    fn find(&self, (mut key, digest): (u64, u64)) -> Result<usize, u64> {
        while let Some(place) = self.places.get(&key) {
            let place = *place as usize;
            if self
                .sockets
                .get(place)
                .is_some_and(|socket| socket.digest == digest)
            {
                return Ok(place);
            }
            // Another one with the same first half.
            key = key.wrapping_add(1);
        }
        Err(key)
    }

    /// Adds an entry to the dictionary.
    fn enter(&mut self, key: u64, digest: u64) -> usize {
        let place = self.sockets.len();
        if place == self.sockets.capacity() {
            // Doubled, half of it would stay empty on the largest hosts.
            self.sockets.reserve_exact(place / 8 + 64);
            self.seen.reserve_exact(place / 8 + 64);
        }
        self.places.insert(key, place as u32);
        self.sockets.push(Written {
            digest,
            values: Values::UNKNOWN,
        });
        self.seen.push(Seen(0));
        place
    }
}

/// Digests of identities, of 128 bits: that two of a host are the same by chance, or by intention of a peer, who does not know the keys,
/// need not be expected.
#[derive(Debug, Default)]
struct Digests(RandomState, RandomState);

impl Digests {
    fn of(&self, identity: &IdentityRef<'_>) -> (u64, u64) {
        (self.0.hash_one(identity), self.1.hash_one(identity))
    }
}

/// A hasher of what is a digest already.
#[derive(Debug, Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Appends how many places there are, and each as the distance to the one before.
fn push_places(out: &mut Vec<u8>, places: impl Iterator<Item = usize> + Clone) {
    push_number(out, places.clone().count() as u64);
    let mut before = 0;
    for place in places {
        push_number(out, (place - before) as u64);
        before = place;
    }
}

/// Appends 0 if the value is unknown now, otherwise one more than the difference to the value before.
fn push_value(out: &mut Vec<u8>, now: Option<u64>, before: Option<u64>) {
    let Some(now) = now else {
        return push_number(out, 0);
    };
    let difference = crate::bytes::zigzag(now.wrapping_sub(before.unwrap_or(0)));
    // The largest difference has no successor: it is written as one less, and no counter ever has it.
    push_number(out, difference.saturating_add(1));
}
