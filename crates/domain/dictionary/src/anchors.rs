//! Finds which texts a line may have, by four bytes of each text's longest literal piece. Much faster than an automaton of all
//! pieces: most places of a line have no such bytes.

/// Pieces of texts, indexed by their rarest four bytes.
#[derive(Debug, Clone)]
pub(crate) struct Anchors<'d> {
    pieces: Vec<&'d str>,
    /// Where each bucket begins in `anchors`, and the end of the last
    buckets: Vec<u32>,
    anchors: Vec<Anchor>,
    /// A bit for each bucket of a finer division that has an anchor: small enough for the nearest cache
    bits: Vec<u64>,
    /// Pieces without four bytes
    short: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    bytes: u32,
    /// Index of the piece
    piece: u32,
    /// Where the bytes are in the piece
    offset: u32,
}

impl<'d> Anchors<'d> {
    pub(crate) fn new(pieces: Vec<&'d str>) -> Self {
        // How many pieces have bytes of a bucket: the rarest say most.
        let mut counts = vec![0_u32; BUCKETS];
        for piece in &pieces {
            for (_, bytes) in groups(piece.as_bytes()) {
                counts[bucket(bytes)] += 1;
            }
        }
        let mut anchors = Vec::with_capacity(pieces.len());
        let mut short = Vec::new();
        for (piece, text) in (0_u32..).zip(&pieces) {
            let rarest = groups(text.as_bytes()).min_by_key(|(_, bytes)| counts[bucket(*bytes)]);
            match rarest {
                Some((offset, bytes)) => anchors.push(Anchor {
                    bytes,
                    piece,
                    offset: u32::try_from(offset).unwrap_or(u32::MAX),
                }),
                None => short.push(piece),
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
            pieces,
            buckets,
            anchors,
            bits,
            short,
        }
    }

    /// Indices of the pieces that a line contains, in ascending order.
    pub(crate) fn contained_in(&self, line: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let line_bytes = line.as_bytes();
        for (at, bytes) in groups(line_bytes) {
            let bit = hash(bytes, BIT_BITS);
            if self.bits[bit / 64] & (1 << (bit % 64)) == 0 {
                continue;
            }
            let nth = bucket(bytes);
            let (from, to) = (self.buckets[nth] as usize, self.buckets[nth + 1] as usize);
            for anchor in &self.anchors[from..to] {
                if anchor.bytes == bytes
                    && let Some(start) = at.checked_sub(anchor.offset as usize)
                    && line_bytes[start..].starts_with(self.pieces[anchor.piece as usize].as_bytes())
                {
                    found.push(anchor.piece as usize);
                }
            }
        }
        let short = self.short.iter().map(|&piece| piece as usize);
        found.extend(short.filter(|&piece| line.contains(self.pieces[piece])));
        found.sort_unstable();
        found.dedup();
        found
    }
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

const BUCKET_BITS: u32 = 14;
const BIT_BITS: u32 = 16;
const BUCKETS: usize = 1 << BUCKET_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contained_pieces_are_found() {
        let anchors = Anchors::new(vec![
            ": link up",
            "link",
            "out of memory",
            "abc",
            ": link up",
            "é is up",
        ]);
        assert_eq!(anchors.contained_in("eth0: link up"), [0, 1, 4]);
        assert_eq!(anchors.contained_in("link"), [1]);
        assert_eq!(anchors.contained_in("abc"), [3]);
        assert_eq!(anchors.contained_in("TCP: out of memory"), [2]);
        assert_eq!(anchors.contained_in("out of memor"), [0_usize; 0]);
        assert_eq!(anchors.contained_in("ab é is up"), [5]);
        assert_eq!(anchors.contained_in(""), [0_usize; 0]);
    }
}
