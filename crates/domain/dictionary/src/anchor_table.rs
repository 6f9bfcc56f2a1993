//! Writes the table of [`Anchors`](crate::anchors::Anchors), for the build script and the tests.

use crate::anchors::{
    About, BITS_LEN, BUCKETS, IS_START, OF_PROGRAM, SHORT_LEN, bit, bucket, fingerprint, hash, sum,
};
use crate::pattern::SENTENCE_ENDS;
use std::num::TryFromIntError;

/// Writes the index of these texts, of which the most specific is the first one.
///
/// # Errors
/// If there are too many for two bytes.
pub(crate) fn pack(texts: &[(&str, About)]) -> Result<Vec<u8>, TryFromIntError> {
    // How many pieces have bytes of a division: the rarest say most.
    let mut counts = vec![0_u32; 1 << RARITY_BITS];
    let division = |bytes: u32| (hash(bytes) >> (32 - RARITY_BITS)) as usize;
    for (_, piece) in texts.iter().flat_map(|(text, _)| pieces(text)) {
        for (_, bytes) in groups(piece.as_bytes()) {
            counts[division(bytes)] += 1;
        }
    }
    let mut of_buckets = vec![Vec::new(); BUCKETS];
    let mut bits = [vec![0_u8; BITS_LEN], vec![0_u8; BITS_LEN]];
    let (mut abouts, mut short) = (Vec::new(), Vec::new());
    for (nth, (text, about)) in texts.iter().enumerate() {
        let index = u16::try_from(nth)?.to_le_bytes();
        // Two neighbours of four bytes: one of them is at an even place of the line.
        let long = pieces(text).filter(|(_, piece)| piece.len() > 4);
        let in_pieces = long.flat_map(|(begin, piece)| {
            let groups = groups(piece.as_bytes()).take_while(|(at, _)| *at < OFFSET_MAX);
            groups.map(move |(at, bytes)| (begin, piece, at, bytes))
        });
        let rarest = in_pieces.min_by_key(|(.., bytes)| counts[division(*bytes)]);
        let (begin, piece) = if let Some((begin, piece, at, bytes)) = rarest {
            let neighbour = if at + 4 < piece.len() { at + 1 } else { at - 1 };
            let other = groups(&piece.as_bytes()[neighbour..]).next();
            for (at, bytes) in [(at, bytes)]
                .into_iter()
                .chain(other.map(|(_, bytes)| (neighbour, bytes)))
            {
                let key = hash(bytes);
                let [low, high] = fingerprint(key).to_le_bytes();
                let anchor = [low, high, index[0], index[1], u8::try_from(at)?];
                of_buckets[bucket(key)].push(anchor);
                let (byte, bit) = bit(key);
                bits[0][byte] |= bit;
                bits[1][byte] |= if about.is_of_program { bit } else { 0 };
            }
            (begin, piece)
        } else {
            let longest = pieces(text).max_by_key(|(_, piece)| piece.len());
            let (_, piece) = longest.unwrap_or((0, ""));
            let mut bytes = [0; 4];
            bytes[..piece.len()].copy_from_slice(piece.as_bytes());
            short.extend([index[0], index[1], u8::try_from(piece.len())?]);
            short.extend(bytes);
            (usize::MAX, piece)
        };
        let checked = &piece.as_bytes()[..piece.len().min(PIECE_LEN_MAX)];
        let flags = about.severity as u8
            | if about.is_of_program { OF_PROGRAM } else { 0 }
            | if begin == 0 { IS_START } else { 0 };
        abouts.extend(u16::try_from(about.place)?.to_le_bytes());
        abouts.push(u8::try_from(checked.len())?);
        abouts.extend(sum(checked));
        abouts.push(flags);
    }
    let anchors: usize = of_buckets.iter().map(Vec::len).sum();
    let mut packed = Vec::new();
    for count in [anchors, texts.len(), short.len() / SHORT_LEN] {
        packed.extend(u32::try_from(count)?.to_le_bytes());
    }
    packed.extend(bits.concat());
    let mut begin = 0;
    packed.extend(begin_of_bucket(begin)?);
    for of_bucket in &of_buckets {
        begin += of_bucket.len();
        packed.extend(begin_of_bucket(begin)?);
    }
    packed.extend(of_buckets.concat().concat());
    packed.extend(abouts);
    packed.extend(short);
    Ok(packed)
}

fn begin_of_bucket(begin: usize) -> Result<[u8; 4], TryFromIntError> {
    Ok(u32::try_from(begin)?.to_le_bytes())
}

/// The pieces of a text that are neither placeholders nor digits, with their offset. The end of a sentence belongs to none: it may be
/// missing in a line.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.trim_end_matches(SENTENCE_ENDS);
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = &text[at..];
            match rest.as_bytes().first()? {
                b'{' => at += rest.find('}').map_or(rest.len(), |end| end + 1),
                b'0'..=b'9' => at += 1,
                _ => {
                    let mut bytes = rest.bytes();
                    let len = bytes.position(|byte| byte == b'{' || byte.is_ascii_digit());
                    let begin = at;
                    at += len.unwrap_or(rest.len());
                    return Some((begin, &text[begin..at]));
                }
            }
        }
    })
}

/// Each four bytes in a row, with their offset.
fn groups(text: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    text.windows(4).enumerate().filter_map(|(at, window)| {
        let &[a, b, c, d] = window else {
            return None;
        };
        Some((at, u32::from_le_bytes([a, b, c, d])))
    })
}

/// Anchors are not further behind the beginning of their piece: the offset has one byte.
const OFFSET_MAX: usize = 250;
/// More of a piece is not compared: the length has one byte.
const PIECE_LEN_MAX: usize = 255;
/// Division by which rare bytes are distinguished from frequent ones.
const RARITY_BITS: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_neither_placeholders_nor_digits() {
        let found: Vec<_> = pieces("a1 b{number}c{text} d. ").collect();
        assert_eq!(found, [(0, "a"), (2, " b"), (12, "c"), (19, " d")]);
    }
}
