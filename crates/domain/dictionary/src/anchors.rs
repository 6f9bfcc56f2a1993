//! Finds which texts a line may have, by the rarest four bytes of each text's literal pieces. Much faster than an automaton of all
//! pieces: most places of a line have no such bytes, and only every second one is looked at, because the four bytes next to these are
//! indexed, too. Pieces end at digits, so that lines that differ in numbers only have the same candidates.

use crate::pattern::SENTENCE_ENDS;

/// A piece of each text, indexed by its rarest four bytes.
#[derive(Debug)]
pub(crate) struct Anchors {
    /// Where each bucket begins in `anchors`, and the end of the last
    buckets: Vec<u32>,
    anchors: Vec<Anchor>,
    /// A bit for each bucket of a finer division that has an anchor: small enough for the nearest cache
    bits: Vec<u64>,
    /// Pieces without five bytes
    short: Vec<Anchor>,
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    bytes: u32,
    /// Where the bytes are in the piece
    offset: u32,
    piece: &'static str,
    /// Index of the text
    text: u32,
    /// Whether the text begins with the piece
    is_start: bool,
}

/// A text that a line may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Index of the text
    pub(crate) text: usize,
    /// Where the text begins in the line, if it begins with the piece that was found
    pub(crate) start: Option<usize>,
}

/// For each text the offset of its rarest four bytes in a row in one of its pieces; `None`: no piece has five. The build script
/// chooses them.
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) fn offsets(texts: &[&str]) -> Vec<Option<usize>> {
    // How many pieces have bytes of a bucket: the rarest say most.
    let mut counts = vec![0_u32; BUCKETS];
    for (_, piece) in texts.iter().flat_map(|text| pieces(text)) {
        for (_, bytes) in groups(piece.as_bytes()) {
            counts[bucket(bytes)] += 1;
        }
    }
    let rarest = |text: &&str| {
        // Two neighbours of four bytes.
        let long = pieces(text).filter(|(_, piece)| piece.len() > 4);
        let in_pieces = long.flat_map(|(offset, piece)| {
            groups(piece.as_bytes()).map(move |(at, bytes)| (offset + at, bytes))
        });
        let rarest = in_pieces.min_by_key(|(_, bytes)| counts[bucket(*bytes)]);
        rarest.map(|(offset, _)| offset)
    };
    texts.iter().map(rarest).collect()
}

impl Anchors {
    /// Indexes these texts: their number, their words, and their offset of [`offsets`].
    pub(crate) fn new(texts: impl Iterator<Item = (usize, &'static str, Option<usize>)>) -> Self {
        let mut anchors = Vec::new();
        let mut short = Vec::new();
        for (nth, text, offset) in texts {
            let anchor = |offset: usize, bytes, piece, is_start| Anchor {
                bytes,
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
                piece,
                text: u32::try_from(nth).unwrap_or(u32::MAX),
                is_start,
            };
            let found = offset.and_then(|offset| {
                let mut pieces = pieces(text);
                let (begin, piece) =
                    pieces.find(|(begin, piece)| (*begin..begin + piece.len()).contains(&offset))?;
                let at = |offset: usize| {
                    let bytes = piece.as_bytes().get(offset..)?.first_chunk()?;
                    Some(anchor(offset, u32::from_le_bytes(*bytes), piece, begin == 0))
                };
                let offset = offset - begin;
                // One of two neighbours is at an even place of the line.
                Some([
                    at(offset)?,
                    at(offset + 1).or_else(|| at(offset.checked_sub(1)?))?,
                ])
            });
            match found {
                Some(both) => anchors.extend(both),
                None => {
                    let longest = pieces(text).max_by_key(|(_, piece)| piece.len());
                    short.push(anchor(0, 0, longest.map_or("", |(_, piece)| piece), false));
                }
            }
        }
        anchors.sort_by_key(|anchor| bucket(anchor.bytes));
        let mut buckets = vec![0; BUCKETS + 1];
        for anchor in &anchors {
            buckets[bucket(anchor.bytes) + 1] += 1;
        }
        for nth in 1..buckets.len() {
            buckets[nth] += buckets[nth - 1];
        }
        let mut bits = vec![0; 1 << (BIT_BITS - 6)];
        for anchor in &anchors {
            let bit = hash(anchor.bytes, BIT_BITS);
            bits[bit / 64] |= 1 << (bit % 64);
        }
        Self {
            buckets,
            anchors,
            bits,
            short,
        }
    }

    /// The texts whose piece the line has, in ascending order; a text may stand there several times.
    pub(crate) fn candidates(&self, line: &str) -> Vec<Candidate> {
        let mut found = Vec::new();
        let line_bytes = line.as_bytes();
        for at in (0..line_bytes.len().saturating_sub(3)).step_by(2) {
            let Some(bytes) = line_bytes[at..].first_chunk() else {
                break;
            };
            let bytes = u32::from_le_bytes(*bytes);
            let bit = hash(bytes, BIT_BITS);
            if self.bits[bit / 64] & (1 << (bit % 64)) != 0 {
                self.add_candidates(line_bytes, at, bytes, &mut found);
            }
        }
        let short = self.short.iter().filter(|anchor| line.contains(anchor.piece));
        found.extend(short.map(|anchor| Candidate {
            text: anchor.text as usize,
            start: None,
        }));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Adds the texts whose piece has these bytes at this place of the line.
    fn add_candidates(&self, line: &[u8], at: usize, bytes: u32, found: &mut Vec<Candidate>) {
        let nth = bucket(bytes);
        let (from, to) = (self.buckets[nth] as usize, self.buckets[nth + 1] as usize);
        for anchor in &self.anchors[from..to] {
            if anchor.bytes == bytes
                && let Some(start) = at.checked_sub(anchor.offset as usize)
                && line[start..].starts_with(anchor.piece.as_bytes())
            {
                found.push(Candidate {
                    text: anchor.text as usize,
                    start: anchor.is_start.then_some(start),
                });
            }
        }
    }
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

fn bucket(bytes: u32) -> usize {
    hash(bytes, BUCKET_BITS)
}

/// Fibonacci hashing to this many bits.
fn hash(bytes: u32, bits: u32) -> usize {
    (bytes.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

const BUCKET_BITS: u32 = 15;
const BIT_BITS: u32 = 17;
const BUCKETS: usize = 1 << BUCKET_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_whose_piece_is_in_the_line_are_candidates() {
        let texts = [
            "{interface}: link up",
            "link {name}",
            "out of memory",
            "abc",
            "{text}: link up",
            "{text}é is up",
            "0x{number} frobs 12.",
        ];
        let offsets = offsets(&texts);
        let texts = texts.iter().zip(offsets).enumerate();
        let anchors = Anchors::new(texts.map(|(nth, (text, offset))| (nth, *text, offset)));
        let check = |line: &str, expected: &[(usize, Option<usize>)]| {
            let found = anchors.candidates(line);
            let found: Vec<_> = found.iter().map(|found| (found.text, found.start)).collect();
            assert_eq!(found, expected, "{line}");
        };
        check("eth0: link up", &[(0, None), (1, Some(6)), (4, None)]);
        check("link x", &[(1, Some(0))]);
        check("abc", &[(3, None)]);
        check("TCP: out of memory", &[(2, Some(5))]);
        check("out of memor", &[]);
        check("ab é is up", &[(5, None)]);
        check("0x12 frobs 12", &[(6, None)]);
        check("a 0x12 frobs 12", &[(6, None)]);
        check("", &[]);
        let found: Vec<_> = pieces("a1 b{number}c{text} d. ").collect();
        assert_eq!(found, [(0, "a"), (2, " b"), (12, "c"), (19, " d")]);
    }
}
