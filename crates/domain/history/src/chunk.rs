//! A chunk holds one sample as streams of bytes, one for each column; sections hold the chunks of a group, stream by stream.

use crate::bytes::{DecodeError, Reader, push_number, push_text};
use crate::identity::Identity;
use crate::identity_columns::{self, IdentityColumns, IdentityReader};
use crate::values::COLUMNS;

/// How the values of a sample are written: a number after its time; without it 0. Each includes those before.
pub(crate) mod coding {
    /// Times are differences to that of the sample. Before, they were differences to the value before.
    pub(crate) const TIMES_FROM_SAMPLE: u64 = 1;
    /// Round trip times are codes. Before, they were microseconds.
    pub(crate) const RTT_CODES: u64 = 2;
    /// How samples are written now.
    pub(crate) const NOW: u64 = RTT_CODES;
}

/// The streams of one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Streams(pub(crate) Vec<Vec<u8>>);

/// Places of streams; the columns of [`crate::Values`] follow.
pub(crate) mod stream {
    /// The time of the sample.
    pub(crate) const TIME: usize = 0;
    /// New entries of the dictionary.
    pub(crate) const IDENTITIES: usize = 1;
    /// Sockets that are gone.
    pub(crate) const GONE: usize = 2;
    /// Sockets that changed.
    pub(crate) const CHANGED: usize = 3;
    /// Which of their columns changed.
    pub(crate) const COLUMNS: usize = 4;
    /// The first column.
    pub(crate) const VALUES: usize = 5;
}

/// The most bytes of a length.
const LENGTH_BYTES_MAX: usize = 10;

/// Number of streams in a chunk.
pub(crate) const STREAMS: usize = stream::VALUES + COLUMNS.len();

impl Streams {
    pub(crate) fn empty() -> Self {
        Self(vec![Vec::new(); STREAMS])
    }

    /// Returns them as one chunk. Each is freed when it is copied: the first sample of a group is large.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        push_number(&mut out, self.0.len() as u64);
        for stream in self.0 {
            out.reserve_exact(stream.len() + LENGTH_BYTES_MAX);
            push_text(&mut out, &stream);
        }
        out
    }
}

/// Returns the streams of a chunk. One of an older version has fewer, one of a later version more.
pub(crate) fn streams(chunk: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut reader = Reader::new(chunk);
    let count: usize = reader.small("the number of streams")?;
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(reader.text("a stream")?);
    }
    streams.resize(streams.len().max(STREAMS), &[]);
    Ok(streams)
}

/// Passes the chunks of a group on as sections, in which each column is contiguous: first one that describes the others. Numbers of
/// seven bits a byte are taken apart: all first bytes, then all second ones. The last byte of most numbers is small and the others are
/// not, so that each section compresses for itself. One section at a time is in memory.
///
/// # Errors
/// If a chunk is damaged.
pub fn seal(chunks: &[Vec<u8>], emit: &mut dyn FnMut(Vec<u8>)) -> Result<(), DecodeError> {
    let chunks = chunks
        .iter()
        .map(|chunk| streams(chunk))
        .collect::<Result<Vec<_>, _>>()?;
    let count = chunks.iter().map(Vec::len).max().unwrap_or(0);
    let of_chunks = |index: usize| {
        let streams = chunks.iter();
        streams.map(move |streams| streams.get(index).copied().unwrap_or_default())
    };
    let mut head = Vec::new();
    push_number(&mut head, chunks.len() as u64);
    push_number(&mut head, count as u64);
    let mut identities = IdentityColumns::default();
    for index in 0..count {
        for stream in of_chunks(index) {
            let len = match index {
                stream::IDENTITIES => push_identities(&mut identities, stream)?,
                _ => stream.len(),
            };
            push_number(&mut head, len as u64);
        }
    }
    emit(head);
    for index in 0..count {
        if index != stream::IDENTITIES {
            emit_planes(of_chunks(index), emit);
            continue;
        }
        for (nth, column) in std::mem::take(&mut identities).finish().into_iter().enumerate() {
            if identity_columns::NUMBERS.contains(&nth) {
                emit_planes(std::iter::once(&column[..]), emit);
            } else {
                emit(column);
            }
        }
    }
    Ok(())
}

/// Adds the entries of a stream. Returns how many there are.
fn push_identities(columns: &mut IdentityColumns, stream: &[u8]) -> Result<usize, DecodeError> {
    let (mut reader, mut count) = (Reader::new(stream), 0);
    while !reader.is_empty() {
        columns.push(&Identity::read(&mut reader)?);
        count += 1;
    }
    Ok(count)
}

/// Passes on the bytes of numbers by their places.
fn emit_planes<'a>(streams: impl Iterator<Item = &'a [u8]> + Clone, emit: &mut dyn FnMut(Vec<u8>)) {
    for nth in 0..PLANES {
        let mut plane = Vec::new();
        for bytes in streams.clone() {
            let mut place = 0;
            for byte in bytes {
                if place == nth {
                    plane.push(*byte);
                }
                place = next_plane(place, *byte);
            }
        }
        emit(plane);
    }
}

/// Returns the first `count` chunks of a group from its sections.
///
/// # Errors
/// If they are damaged.
pub fn unseal(sections: &[Vec<u8>], count: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut sections = sections.iter();
    let mut section = || Reader::new(sections.next().map_or(&[], |bytes| bytes));
    let mut head = section();
    let all: usize = head.small("the number of samples")?;
    let streams: usize = head.small("the number of streams")?;
    // Streams of no sample take no bytes: a damaged number of them would never end.
    if all == 0 {
        return Ok(Vec::new());
    }
    let mut chunks = vec![Vec::new(); count.min(all).min(head.len())];
    for index in 0..streams {
        let mut lens: Vec<usize> = Vec::new();
        for _ in 0..all {
            lens.push(head.small("the length of a stream")?);
        }
        if index == stream::IDENTITIES {
            let mut columns = Vec::new();
            for nth in 0..identity_columns::COUNT {
                columns.push(if identity_columns::NUMBERS.contains(&nth) {
                    join_all((0..PLANES).map(|_| section()).collect())?
                } else {
                    let mut whole = section();
                    whole.take(whole.len(), "a column")?.to_vec()
                });
            }
            let mut reader = IdentityReader::new(columns.iter().map(Vec::as_slice));
            for (chunk, count) in chunks.iter_mut().zip(lens) {
                let mut stream = Vec::new();
                for _ in 0..count {
                    reader.read()?.push(&mut stream);
                }
                chunk.push(stream);
            }
            continue;
        }
        let mut planes: Vec<_> = (0..PLANES).map(|_| section()).collect();
        for (chunk, len) in chunks.iter_mut().zip(lens) {
            chunk.push(join(&mut planes, len)?);
        }
    }
    Ok(chunks
        .into_iter()
        .map(|streams| Streams(streams).encode())
        .collect())
}

/// Puts the next `len` bytes together from the places of their numbers.
fn join(planes: &mut [Reader<'_>], len: usize) -> Result<Vec<u8>, DecodeError> {
    let (mut bytes, mut place) = (Vec::new(), 0);
    for _ in 0..len {
        let byte = planes[place].take(1, "a number")?[0];
        bytes.push(byte);
        place = next_plane(place, byte);
    }
    Ok(bytes)
}

/// Puts all bytes together.
fn join_all(mut planes: Vec<Reader<'_>>) -> Result<Vec<u8>, DecodeError> {
    let len = planes.iter().map(Reader::len).sum();
    join(&mut planes, len)
}

/// Returns where the byte after this one belongs.
const fn next_plane(place: usize, byte: u8) -> usize {
    if byte & 0x80 == 0 {
        0
    } else if place + 1 < PLANES {
        place + 1
    } else {
        place
    }
}

/// Places of a byte in its number that have sections of their own; the last one has all further bytes.
const PLANES: usize = 4;

/// Returns the first `count` chunks of a block of version 1, in which the streams of all chunks follow each other.
///
/// # Errors
/// If the block is damaged.
pub fn unseal_version_1(block: &[u8], count: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut reader = Reader::new(block);
    let all: usize = reader.small("the number of samples")?;
    let streams: usize = reader.small("the number of streams")?;
    // Streams of no sample take no bytes: a damaged number of them would never end.
    if all == 0 {
        return Ok(Vec::new());
    }
    let mut chunks = vec![Vec::new(); count.min(all).min(block.len())];
    for _ in 0..streams {
        let mut lens: Vec<usize> = Vec::new();
        for _ in 0..all {
            lens.push(reader.small("the length of a stream")?);
        }
        for (index, len) in lens.into_iter().enumerate() {
            let bytes = reader.take(len, "a stream")?;
            if let Some(chunk) = chunks.get_mut(index) {
                chunk.push(bytes.to_vec());
            }
        }
    }
    Ok(chunks
        .into_iter()
        .map(|streams| Streams(streams).encode())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut sections = Vec::new();
        seal(chunks, &mut |section| sections.push(section)).unwrap();
        sections
    }

    /// A chunk with a time, no entries, and these bytes of a column.
    fn chunk(time: u8, column: &[u8]) -> Vec<u8> {
        Streams(vec![vec![time], Vec::new(), column.to_vec()]).encode()
    }

    #[test]
    fn bytes_of_numbers_are_together_by_their_places() {
        let first = chunk(5, b"\x81\x02\x03");
        let second = chunk(6, b"\x82\x83\x84\x85\x86\x07");
        assert_eq!(first, b"\x03\x01\x05\x00\x03\x81\x02\x03");
        let all = sections(&[first.clone(), second.clone()]);
        assert_eq!(all[1], b"\x05\x06");
        let before = 1 + PLANES + identity_columns::COUNT + identity_columns::NUMBERS.len() * (PLANES - 1);
        let planes: Vec<&[u8]> = all[before..][..PLANES].iter().map(Vec::as_slice).collect();
        assert_eq!(
            planes,
            [&b"\x81\x03\x82"[..], b"\x02\x83", b"\x84", b"\x85\x86\x07"]
        );
        let back = |chunk: &[u8]| streams(chunk).unwrap().concat();
        let expected = [&first, &second].map(|chunk| back(chunk));
        let read = |count| unseal(&all, count).unwrap();
        let shown = |count| read(count).iter().map(|chunk| back(chunk)).collect::<Vec<_>>();
        assert_eq!(shown(usize::MAX), expected);
        assert_eq!(shown(1), expected[..1]);
    }

    /// A stream may end within a number: what is sealed is what was there.
    #[test]
    fn cut_off_numbers_survive() {
        let chunks = [chunk(1, b"\xff"), chunk(2, b"\xff\xff")];
        let back = unseal(&sections(&chunks), usize::MAX).unwrap();
        for (chunk, back) in chunks.iter().zip(&back) {
            assert_eq!(streams(chunk), streams(back));
        }
        // An entry that is cut off is not.
        let cut_off = Streams(vec![vec![1], vec![3, b't', b'c']]).encode();
        assert!(seal(&[cut_off], &mut drop).is_err());
    }

    #[test]
    fn damaged_sections_are_an_error() {
        let whole = sections(&[chunk(1, b"\x81\x02")]);
        for (place, section) in whole
            .iter()
            .enumerate()
            .filter(|(_, section)| !section.is_empty())
        {
            for len in 0..section.len() {
                let mut damaged = whole.clone();
                damaged[place].truncate(len);
                assert!(unseal(&damaged, 9).is_err(), "{place} {len}");
            }
        }
        assert!(unseal(&[], 9).is_err());
        let endless = [&[0][..], &[0xff; 9], &[1]].concat();
        assert_eq!(unseal(&[endless], 9), Ok(Vec::new()));
    }

    #[test]
    fn block_of_version_1_is_read() {
        // Two chunks of two streams: a and b, nothing and xyz.
        let block = b"\x02\x02\x01\x01ab\x00\x03xyz";
        let whole = |chunk: &Vec<u8>| streams(chunk).unwrap().concat();
        let back = unseal_version_1(block, usize::MAX).unwrap();
        assert_eq!(
            back.iter().map(whole).collect::<Vec<_>>(),
            [b"a".to_vec(), b"bxyz".to_vec()]
        );
        assert_eq!(unseal_version_1(block, 1).unwrap().len(), 1);
        for len in 0..block.len() {
            assert!(unseal_version_1(&block[..len], 9).is_err(), "{len}");
        }
        assert!(unseal_version_1(&[0xff, 0xff, 0xff, 0xff, 0x7f, 1], 9).is_err());
        assert!(unseal_version_1(&[0xff, 0xff, 0xff, 0xff, 0x7f, 0], usize::MAX).is_ok());
        let endless = [&[0][..], &[0xff; 9], &[1]].concat();
        assert_eq!(unseal_version_1(&endless, 9), Ok(Vec::new()));
    }
}
