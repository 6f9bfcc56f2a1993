//! Chunks to samples.

use crate::bytes::{DecodeError, Reader, unzigzag};
use crate::chunk::{coding, stream, streams};
use crate::identity::Identity;
use crate::sums::{has_ended, is_connection};
use crate::values::{COLUMNS, RTT, Values, code};

/// Decodes the samples of one group, one after the other.
#[derive(Debug, Clone, Default)]
pub struct GroupReader {
    sockets: Vec<Read>,
    at_ms: u64,
    /// Places of the sockets that changed with the last sample.
    changed: Vec<usize>,
    /// Sockets of samples before that are listed too.
    kept: Vec<(Identity, Values)>,
}

#[derive(Debug, Clone)]
struct Read {
    identity: Identity,
    values: Values,
    /// The round trip time in microseconds, of samples that have it so: later ones are differences to it.
    rtt_us: Option<u64>,
    is_there: bool,
}

impl GroupReader {
    /// Goes on to the next sample.
    ///
    /// # Errors
    /// If the chunk is damaged; the sample is then incomplete.
    pub fn apply(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let streams = streams(chunk)?;
        let reader = |place: usize| Reader::new(streams.get(place).copied().unwrap_or_default());
        let mut time = reader(stream::TIME);
        self.at_ms = time.difference(self.at_ms, "the time of a sample")?;
        let coded = if time.is_empty() {
            0
        } else {
            time.number("a version")?
        };
        if coded > coding::NOW {
            return Err(time.error("a later version of sockeye has written this"));
        }
        let sample_s = (coded >= coding::TIMES_FROM_SAMPLE).then_some(self.at_ms / 1000);
        let mut identities = reader(stream::IDENTITIES);
        while !identities.is_empty() {
            self.sockets.push(Read {
                identity: Identity::read(&mut identities)?,
                values: Values::UNKNOWN,
                rtt_us: None,
                is_there: false,
            });
        }
        for place in read_places(reader(stream::GONE))? {
            self.socket(place)?.is_there = false;
        }
        let mut masks = reader(stream::COLUMNS);
        let mut columns: Vec<_> = (0..COLUMNS.len())
            .map(|index| reader(stream::VALUES + index))
            .collect();
        self.changed = read_places(reader(stream::CHANGED))?;
        for place in self.changed.clone() {
            let mask: u64 = masks.number("the columns of a socket")?;
            let socket = self.socket(place)?;
            socket.is_there = true;
            for (index, column) in columns.iter_mut().enumerate() {
                if mask & 1 << index == 0 {
                    continue;
                }
                let is_rtt_us = index == RTT && coded < coding::RTT_CODES;
                let base = sample_s.filter(|_| COLUMNS[index].is_time);
                let before = if is_rtt_us {
                    socket.rtt_us
                } else {
                    base.or(socket.values.at(index))
                };
                let number = column.number("a value")?.checked_sub(1);
                let mut value = number.map(|number| before.unwrap_or(0).wrapping_add(unzigzag(number)));
                if is_rtt_us {
                    socket.rtt_us = value;
                    value = value.map(code);
                }
                socket.values.set(index, value);
            }
        }
        Ok(())
    }

    /// Returns the time of the sample, in milliseconds since 1970.
    #[must_use]
    pub const fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Returns the sockets of the sample.
    pub fn sockets(&self) -> impl Iterator<Item = (&Identity, &Values)> {
        let there = self.sockets.iter().filter(|socket| socket.is_there);
        let kept = self.kept.iter().map(|(identity, values)| (identity, values));
        there.map(|socket| (&socket.identity, &socket.values)).chain(kept)
    }

    /// Returns the TCP connections that have ended since the sample before, with their counters at the end.
    pub fn ended(&self) -> impl Iterator<Item = (&Identity, &Values)> {
        // Each is in one sample only, in which it is new or changed.
        let changed = self.changed.iter().filter_map(|place| self.sockets.get(*place));
        changed
            .map(|socket| (&socket.identity, &socket.values))
            .filter(|(identity, values)| is_connection(identity.protocol, values) && has_ended(values))
    }

    /// Returns the same sample with sockets of samples before, as if it had them.
    #[must_use]
    pub fn with(mut self, kept: Vec<(Identity, Values)>) -> Self {
        self.kept = kept;
        self
    }

    /// Returns all sockets of the group, each with whether the sample has it.
    pub(crate) fn into_sockets(self) -> impl Iterator<Item = (Identity, Values, bool)> {
        let all = self.sockets.into_iter();
        all.map(|socket| (socket.identity, socket.values, socket.is_there))
    }

    fn socket(&mut self, place: usize) -> Result<&mut Read, DecodeError> {
        self.sockets.get_mut(place).ok_or(DecodeError {
            what: "a socket that the dictionary lacks",
            left: 0,
        })
    }
}

fn read_places(mut reader: Reader<'_>) -> Result<Vec<usize>, DecodeError> {
    let count: usize = reader.small("the number of sockets")?;
    let (mut places, mut place) = (Vec::new(), 0_usize);
    for _ in 0..count {
        place = place.saturating_add(reader.small("the place of a socket")?);
        places.push(place);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupWriter, Recorded, seal, unseal};
    use sockeye_model::{Cookie, Entry, Protocol, Queues, Socket, State, TcpInfo};

    fn connection(cookie: u64, bytes: u64) -> Recorded {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.cookie = Some(Cookie(cookie));
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(bytes),
            ..TcpInfo::default()
        });
        Recorded {
            identity: Identity::of(&Entry::new(&socket), &mut |_| None),
            values: Values::of(&socket, 0),
        }
    }

    /// Three samples: a connection that transfers, one that ends and comes back, one that is idle.
    fn samples() -> [Vec<Recorded>; 3] {
        [
            vec![connection(1, 10), connection(2, 5), connection(3, 0)],
            vec![connection(3, 0), connection(1, 1_000)],
            vec![
                connection(1, 900),
                connection(2, 5),
                connection(3, 0),
                connection(4, 1),
            ],
        ]
    }

    fn chunks() -> Vec<Vec<u8>> {
        let mut writer = GroupWriter::default();
        let pushed = samples().into_iter().zip([1_000, 2_000, 1_500]);
        pushed.map(|(sample, at_ms)| writer.push(at_ms, sample)).collect()
    }

    #[track_caller]
    fn check(chunks: &[Vec<u8>]) {
        let mut reader = GroupReader::default();
        for ((chunk, sample), at_ms) in chunks.iter().zip(samples()).zip([1_000, 2_000, 1_500]) {
            reader.apply(chunk).unwrap();
            assert_eq!(reader.at_ms(), at_ms);
            let mut expected: Vec<_> = sample.iter().map(|one| (&one.identity, &one.values)).collect();
            expected.sort_by_key(|(identity, _)| identity.cookie);
            assert_eq!(reader.sockets().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn samples_survive_chunks_and_blocks() {
        check(&chunks());
        let mut sections = Vec::new();
        seal(&chunks(), &mut |section| sections.push(section)).unwrap();
        check(&unseal(&sections, usize::MAX).unwrap());
    }

    #[test]
    fn unchanged_connection_stays_without_its_values() {
        let with_queues = |cookie, receive_bytes, send_bytes| {
            let mut socket = Socket::new(Protocol::Tcp, State::Established);
            socket.cookie = Some(Cookie(cookie));
            socket.queues = Queues::Data {
                receive_bytes,
                send_bytes,
            };
            (
                Identity::of(&Entry::new(&socket), &mut |_| None),
                Values::of(&socket, 0),
            )
        };
        let (mut writer, mut reader) = (GroupWriter::default(), GroupReader::default());
        let all = [with_queues(1, 0, 0), with_queues(2, 7, 0), with_queues(3, 0, 9)];
        writer.begin(1_000);
        let places = all
            .each_ref()
            .map(|(identity, values)| writer.add(&identity.borrowed(), *values));
        reader.apply(&writer.finish()).unwrap();
        writer.begin(2_000);
        // What waited to be read was read; what waits to be sent is not quiet.
        assert_eq!(
            places.map(|place| writer.add_unchanged(place)),
            [true, true, false]
        );
        assert!(writer.add_unchanged(places[0]), "a walk met it twice");
        assert!(!writer.add_unchanged(99));
        assert_eq!(writer.sample_len(), 2);
        reader.apply(&writer.finish()).unwrap();
        let expected = [with_queues(1, 0, 0), with_queues(2, 0, 0)];
        let read: Vec<_> = reader
            .sockets()
            .map(|(one, values)| (one.clone(), *values))
            .collect();
        assert_eq!(read, expected);
        // The last sample has not the third one.
        writer.begin(3_000);
        assert!(!writer.add_unchanged(places[2]) && writer.add_unchanged(places[1]));
        reader.apply(&writer.finish()).unwrap();
        assert_eq!(reader.sockets().count(), 1);
    }

    #[test]
    fn resumed_writer_goes_on_where_the_group_ended() {
        for resumed_after in 1..3 {
            let mut chunks = chunks();
            chunks.truncate(resumed_after);
            let mut reader = GroupReader::default();
            chunks.iter().for_each(|chunk| reader.apply(chunk).unwrap());
            let mut writer = GroupWriter::resume(reader);
            let rest = samples()
                .into_iter()
                .zip([1_000, 2_000, 1_500])
                .skip(resumed_after);
            chunks.extend(rest.map(|(sample, at_ms)| writer.push(at_ms, sample)));
            check(&chunks);
        }
    }

    #[test]
    fn of_a_socket_that_a_sample_has_twice_the_last_counts() {
        let mut writer = GroupWriter::default();
        let (mut reader, one) = (GroupReader::default(), |bytes| connection(1, bytes));
        for sample in [
            vec![one(5), one(7)],
            vec![one(7), one(8)],
            vec![one(10)],
            vec![one(20), one(30)],
            vec![one(30), one(30)],
            vec![one(40), one(30)],
            vec![one(31)],
        ] {
            let last = sample.last().unwrap().clone();
            reader.apply(&writer.push(0, sample)).unwrap();
            let expected = [(&last.identity, &last.values)];
            assert_eq!(reader.sockets().collect::<Vec<_>>(), expected);
            assert_eq!(writer.sample_len(), 1);
        }
    }

    #[test]
    fn times_are_small_numbers_and_those_of_older_chunks_are_read() {
        let sample = |number: u64| {
            let mut socket = Socket::new(Protocol::Tcp, State::Established);
            socket.cookie = Some(Cookie(1));
            socket.tcp_info = Some(TcpInfo {
                last_data_sent_ms: Some(3_000),
                ..TcpInfo::default()
            });
            let at_ms = 1_795_000_000_000 + number * 600_000;
            let recorded = Recorded {
                identity: Identity::of(&Entry::new(&socket), &mut |_| None),
                values: Values::of(&socket, at_ms),
            };
            (at_ms, recorded)
        };
        let mut writer = GroupWriter::default();
        let mut reader = GroupReader::default();
        for number in 0..2 {
            let (at_ms, recorded) = sample(number);
            let chunk = writer.push(at_ms, vec![recorded.clone()]);
            let streams = streams(&chunk).unwrap();
            let place = COLUMNS
                .iter()
                .position(|column| column.name == "last_data_sent_at_s");
            // Three seconds before: zigzag, and one.
            assert_eq!(streams[stream::VALUES + place.unwrap()], [6]);
            reader.apply(&chunk).unwrap();
            assert_eq!(reader.sockets().next().unwrap().1, &recorded.values);
        }
        // A chunk of one entry whose time has no version: its second number is a difference to the value before, which is none.
        let mut old = crate::chunk::Streams::empty();
        let (at_ms, recorded) = sample(0);
        crate::bytes::push_difference(&mut old.0[stream::TIME], at_ms, 0);
        recorded.identity.push(&mut old.0[stream::IDENTITIES]);
        old.0[stream::GONE] = vec![0];
        old.0[stream::CHANGED] = vec![1, 0];
        crate::bytes::push_number(&mut old.0[stream::COLUMNS], 1 << 17);
        crate::bytes::push_number(&mut old.0[stream::VALUES + 17], 2 * 1_794_999_997 + 1);
        let mut reader = GroupReader::default();
        reader.apply(&old.encode()).unwrap();
        let (_, values) = reader.sockets().next().unwrap();
        assert_eq!(values.number("last_data_sent_at_s"), Some(1_794_999_997));
    }

    /// Samples of older versions have round trip times in microseconds; a later writer goes on with codes.
    #[test]
    fn round_trip_times_of_older_samples_are_read() {
        let recorded = |rtt_us| {
            let mut socket = Socket::new(Protocol::Tcp, State::Established);
            socket.cookie = Some(Cookie(1));
            socket.tcp_info = Some(TcpInfo {
                rtt_us: Some(rtt_us),
                ..TcpInfo::default()
            });
            Recorded {
                identity: Identity::of(&Entry::new(&socket), &mut |_| None),
                values: Values::of(&socket, 0),
            }
        };
        let mut reader = GroupReader::default();
        for (nth, difference) in [12_345_u64, 1_000, 0].into_iter().enumerate() {
            let mut old = crate::chunk::Streams::empty();
            crate::bytes::push_difference(&mut old.0[stream::TIME], 1, 0);
            crate::bytes::push_number(&mut old.0[stream::TIME], coding::TIMES_FROM_SAMPLE);
            if nth == 0 {
                recorded(1).identity.push(&mut old.0[stream::IDENTITIES]);
            }
            old.0[stream::GONE] = vec![0];
            old.0[stream::CHANGED] = vec![1, 0];
            crate::bytes::push_number(&mut old.0[stream::COLUMNS], 1 << RTT);
            crate::bytes::push_number(&mut old.0[stream::VALUES + RTT], 2 * difference + 1);
            reader.apply(&old.encode()).unwrap();
        }
        let rtt_us = |reader: &GroupReader| {
            let (_, values) = reader.sockets().next().unwrap();
            values.number("rtt_us").unwrap()
        };
        assert!(rtt_us(&reader).abs_diff(13_345) <= 133, "{}", rtt_us(&reader));
        let mut writer = GroupWriter::resume(reader.clone());
        for expected_us in [20_000, 20_001, 90] {
            reader
                .apply(&writer.push(5, vec![recorded(expected_us)]))
                .unwrap();
            let read_us = rtt_us(&reader);
            assert!(
                read_us.abs_diff(expected_us.into()) <= u64::from(expected_us) / 100,
                "{read_us}"
            );
        }
    }

    #[test]
    fn idle_connection_costs_nothing() {
        let mut writer = GroupWriter::default();
        let sample = || (0..100).map(|cookie| connection(cookie, 7)).collect();
        let whole = writer.push(0, sample());
        let idle = writer.push(0, sample());
        assert!(
            whole.len() > 1_000 && idle.len() < 40,
            "{} {}",
            whole.len(),
            idle.len()
        );
    }

    #[test]
    fn damaged_chunks_never_panic() {
        let chunk = &chunks()[0];
        for len in 0..chunk.len() {
            assert!(GroupReader::default().apply(&chunk[..len]).is_err(), "{len}");
        }
        for index in 0..chunk.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = chunk.clone();
                damaged[index] = byte;
                let _ = GroupReader::default().apply(&damaged);
            }
        }
    }
}
