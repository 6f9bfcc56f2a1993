//! Finds which texts a line may have, by the rarest four bytes of each text's literal pieces. Much faster than an automaton of all
//! pieces: most places of a line have no such bytes, and only every second one is looked at, because the four bytes next to these are
//! indexed, too. Pieces end at digits, so that lines that differ in numbers only have the same candidates.
//!
//! The build script writes the index as a table (`anchor_table.rs`) that is read in place: nothing is built at start, and the words of a text are unpacked
//! when a line seems to have its piece. It has, all numbers with the low byte first:
//!
//! - how many anchors, texts and short pieces there are (4 bytes each);
//! - a bit for each bucket of a fine division that has an anchor, for all texts and for those of programs;
//! - where each bucket of a coarse division begins among the anchors, and the end of the last (4 bytes each);
//! - the anchors by bucket: 2 bytes of the hash of their four bytes, index of the text (2), offset of the four bytes in the piece (1);
//! - the texts, the most specific first: place in the files (2), length of the piece (1) and its hash (2), flags (1);
//! - pieces that are too short for two neighbours: index of the text (2), length (1), the bytes (4).

use crate::Severity;

/// What the index has of each text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct About {
    /// Number of texts before it in the files
    pub(crate) place: usize,
    pub(crate) severity: Severity,
    /// Whether a program may print it, not only the kernel
    pub(crate) is_of_program: bool,
}

/// The index of all texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchors<'b> {
    /// Small enough for the nearest cache
    bits: &'b [u8],
    bits_of_programs: &'b [u8],
    buckets: &'b [[u8; 4]],
    anchors: &'b [[u8; ANCHOR_LEN]],
    texts: &'b [[u8; TEXT_LEN]],
    short: &'b [[u8; SHORT_LEN]],
}

/// A text that a line may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Index of the text
    pub(crate) text: usize,
    /// Where the text begins in the line, if it begins with the piece that was found
    pub(crate) start: Option<usize>,
}

impl<'b> Anchors<'b> {
    /// The index that `anchor_table::pack` wrote; one of other bytes has no texts.
    pub(crate) fn read(packed: &'b [u8]) -> Self {
        Self::try_read(packed).unwrap_or(Self {
            bits: &[],
            bits_of_programs: &[],
            buckets: &[],
            anchors: &[],
            texts: &[],
            short: &[],
        })
    }

    fn try_read(mut packed: &'b [u8]) -> Option<Self> {
        let rest = &mut packed;
        let [anchors, texts, short] = [rows::<4>(rest, 1)?, rows(rest, 1)?, rows(rest, 1)?]
            .map(|count| u32::from_le_bytes(count[0]) as usize);
        Some(Self {
            bits: rest.split_off(..BITS_LEN)?,
            bits_of_programs: rest.split_off(..BITS_LEN)?,
            buckets: rows(rest, BUCKETS + 1)?,
            anchors: rows(rest, anchors)?,
            texts: rows(rest, texts)?,
            short: rows(rest, short)?,
        })
    }

    /// What is known of the text with this index.
    pub(crate) fn about(&self, text: usize) -> About {
        let [low, high, .., flags] = self.texts[text];
        About {
            place: usize::from(u16::from_le_bytes([low, high])),
            severity: Severity::ALL[usize::from(flags & SEVERITY)],
            is_of_program: flags & OF_PROGRAM != 0,
        }
    }

    /// The texts whose piece the line has, in ascending order; a text may stand there several times. Those that only the kernel prints
    /// are left out for a line of a program.
    pub(crate) fn candidates(&self, line: &str, is_of_program: bool) -> Vec<Candidate> {
        let mut found = Vec::new();
        let wanted = if is_of_program { OF_PROGRAM } else { 0 };
        let bits = if is_of_program {
            self.bits_of_programs
        } else {
            self.bits
        };
        let line_bytes = line.as_bytes();
        for at in (0..line_bytes.len().saturating_sub(3)).step_by(2) {
            let Some(bytes) = line_bytes[at..].first_chunk() else {
                break;
            };
            let key = hash(u32::from_le_bytes(*bytes));
            let (byte, bit) = bit(key);
            if bits[byte] & bit != 0 {
                self.add_candidates(line_bytes, at, key, wanted, &mut found);
            }
        }
        for [low, high, len, bytes @ ..] in self.short {
            let text = usize::from(u16::from_le_bytes([*low, *high]));
            let piece = std::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default();
            if self.texts[text][TEXT_LEN - 1] & wanted == wanted && line.contains(piece) {
                found.push(Candidate { text, start: None });
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Adds the texts whose piece has the bytes with this hash at this place of the line.
    fn add_candidates(&self, line: &[u8], at: usize, key: u32, wanted: u8, found: &mut Vec<Candidate>) {
        let nth = bucket(key);
        let [from, to] = [nth, nth + 1].map(|nth| u32::from_le_bytes(self.buckets[nth]) as usize);
        let fingerprint = fingerprint(key);
        for anchor in &self.anchors[from..to] {
            let [first, second, low, high, offset] = *anchor;
            if u16::from_le_bytes([first, second]) != fingerprint {
                continue;
            }
            let text = usize::from(u16::from_le_bytes([low, high]));
            let [.., len, sum_low, sum_high, flags] = self.texts[text];
            if flags & wanted == wanted
                && let Some(start) = at.checked_sub(usize::from(offset))
                && let Some(piece) = line[start..].get(..usize::from(len))
                && sum(piece) == [sum_low, sum_high]
            {
                found.push(Candidate {
                    text,
                    start: (flags & IS_START != 0).then_some(start),
                });
            }
        }
    }
}

/// Takes so many rows of a table.
fn rows<'b, const LEN: usize>(rest: &mut &'b [u8], count: usize) -> Option<&'b [[u8; LEN]]> {
    Some(rest.split_off(..LEN * count)?.as_chunks().0)
}

/// Fibonacci hashing. No two groups of four bytes have the same.
pub(crate) const fn hash(bytes: u32) -> u32 {
    bytes.wrapping_mul(0x9e37_79b1)
}

pub(crate) const fn bucket(key: u32) -> usize {
    (key >> (32 - BUCKET_BITS)) as usize
}

/// Of the hash, what the bucket does not say: all but the three last bits.
pub(crate) const fn fingerprint(key: u32) -> u16 {
    (key >> (16 - BUCKET_BITS)) as u16
}

/// Byte and bit of the fine division.
pub(crate) const fn bit(key: u32) -> (usize, u8) {
    let bit = key >> (32 - BIT_BITS);
    ((bit / 8) as usize, 1 << (bit % 8))
}

/// A checksum of a piece. One in 65,536 others has the same: it is compared when the text is tried.
pub(crate) fn sum(piece: &[u8]) -> [u8; 2] {
    let (eights, rest) = piece.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = eights.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let sum = words.fold(0, |sum: u64, word| {
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    ((sum >> 13) as u16).to_le_bytes()
}

const ANCHOR_LEN: usize = 5;
const TEXT_LEN: usize = 6;
pub(crate) const SHORT_LEN: usize = 7;
/// Flags of a text: its severity, and whether a program may print it, and it begins with its piece.
const SEVERITY: u8 = 0b11;
pub(crate) const OF_PROGRAM: u8 = 1 << 2;
pub(crate) const IS_START: u8 = 1 << 3;
/// Four anchors in a bucket with 17,000 texts.
const BUCKET_BITS: u32 = 13;
pub(crate) const BUCKETS: usize = 1 << BUCKET_BITS;
const BIT_BITS: u32 = 17;
pub(crate) const BITS_LEN: usize = 1 << (BIT_BITS - 3);
#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor_table::pack;

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
        let texts = texts.iter().enumerate().map(|(nth, text)| {
            let about = About {
                place: nth * 7,
                severity: Severity::ALL[nth % 4],
                is_of_program: nth == 1,
            };
            (*text, about)
        });
        let texts: Vec<_> = texts.collect();
        let packed = pack(&texts).unwrap();
        let anchors = Anchors::read(&packed);
        assert_eq!(anchors.texts.len(), texts.len());
        for (nth, (_, about)) in texts.iter().enumerate() {
            assert_eq!(anchors.about(nth), *about);
        }
        let check = |line: &str, expected: &[(usize, Option<usize>)]| {
            let found = anchors.candidates(line, false);
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
        let of_programs = anchors.candidates("eth0: link up, out of memory", true);
        let expected = Candidate {
            text: 1,
            start: Some(6),
        };
        assert_eq!(of_programs, [expected]);
    }
}
