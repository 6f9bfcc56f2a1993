//! A chunk holds one sample as streams of bytes, one for each column; a block holds the chunks of a group, stream by stream.

use crate::bytes::{DecodeError, Reader, push_number, push_text};
use crate::values::COLUMNS;

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

/// Number of streams in a chunk.
pub(crate) const STREAMS: usize = stream::VALUES + COLUMNS.len();

impl Streams {
    pub(crate) fn empty() -> Self {
        Self(vec![Vec::new(); STREAMS])
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_number(&mut out, self.0.len() as u64);
        for stream in &self.0 {
            push_text(&mut out, stream);
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

/// Returns the chunks of a group as one block, in which each column is contiguous.
///
/// # Errors
/// If a chunk is damaged.
pub fn seal(chunks: &[Vec<u8>]) -> Result<Vec<u8>, DecodeError> {
    let chunks = chunks
        .iter()
        .map(|chunk| streams(chunk))
        .collect::<Result<Vec<_>, _>>()?;
    let count = chunks.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = Vec::new();
    push_number(&mut out, chunks.len() as u64);
    push_number(&mut out, count as u64);
    for index in 0..count {
        let of_chunks = chunks
            .iter()
            .map(|streams| streams.get(index).copied().unwrap_or_default());
        for stream in of_chunks.clone() {
            push_number(&mut out, stream.len() as u64);
        }
        of_chunks.for_each(|stream| out.extend_from_slice(stream));
    }
    Ok(out)
}

/// Returns the first `count` chunks of a block.
///
/// # Errors
/// If the block is damaged.
pub fn unseal(block: &[u8], count: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
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

    #[test]
    fn block_has_streams_of_all_chunks_together() {
        let chunk = |first: &[u8], second: &[u8]| Streams(vec![first.to_vec(), second.to_vec()]).encode();
        let chunks = [chunk(b"a", b""), chunk(b"b", b"xyz")];
        assert_eq!(chunks[1], b"\x02\x01b\x03xyz");
        let short = seal(&chunks.clone().map(|chunk| chunk.clone())).unwrap();
        assert!(short.windows(2).any(|pair| pair == b"ab"));
        let whole = |chunk: &Vec<u8>| streams(chunk).unwrap().concat();
        let back = unseal(&short, usize::MAX).unwrap();
        assert_eq!(
            back.iter().map(whole).collect::<Vec<_>>(),
            [b"a".to_vec(), b"bxyz".to_vec()]
        );
        assert_eq!(unseal(&short, 1).unwrap().len(), 1);
    }

    #[test]
    fn damaged_block_is_an_error() {
        let block = seal(&[Streams(vec![b"abc".to_vec()]).encode()]).unwrap();
        for len in 0..block.len() {
            assert!(unseal(&block[..len], 9).is_err(), "{len}");
        }
        assert!(unseal(&[0xff, 0xff, 0xff, 0xff, 0x7f, 1], 9).is_err());
        assert!(unseal(&[0xff, 0xff, 0xff, 0xff, 0x7f, 0], usize::MAX).is_ok());
        let endless = [&[0][..], &[0xff; 9], &[1]].concat();
        assert_eq!(unseal(&endless, 9), Ok(Vec::new()));
    }
}
