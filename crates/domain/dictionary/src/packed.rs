//! The entries in the binary, as `build.rs` packs them. A block of entries is unpacked when one of them is needed, and stays.

use crate::names::{key, spellings};
use crate::{Entry, Kind, stanza};
use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use std::sync::OnceLock;

/// Some entries of one kind.
struct Block {
    kind: Kind,
    /// Number of the first entry
    first: usize,
    /// Where it begins in [`PACKED`]
    offset: usize,
    packed_len: usize,
    /// Length of its stanzas
    len: usize,
}

include!(concat!(env!("OUT_DIR"), "/packed.rs"));
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocks.bin"));
static NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/names.bin"));
static TEXTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.bin"));
static UNPACKED: [OnceLock<Vec<Entry<'static>>>; BLOCKS.len()] = [const { OnceLock::new() }; BLOCKS.len()];

/// Number of all entries.
pub(crate) const fn len() -> usize {
    ENTRIES
}

/// The entry with this number.
///
/// # Panics
/// If the number is not less than [`len`].
pub(crate) fn entry(number: usize) -> &'static Entry<'static> {
    let nth = BLOCKS.partition_point(|block| block.first <= number) - 1;
    &block(nth)[number - BLOCKS[nth].first]
}

/// All entries by kind, in the order of the files.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry<'static>> {
    (0..BLOCKS.len()).flat_map(block)
}

/// The entries that have this spelling, in [`normal`](crate::names::normal) form.
pub(crate) fn named(spelling: &str) -> Vec<&'static Entry<'static>> {
    let key = key(spelling);
    let (names, _) = NAMES.as_chunks::<6>();
    let first = names.partition_point(|name| name_key(name) < key);
    let same = names[first..].iter().take_while(|name| name_key(name) == key);
    same.map(|&[.., low, high]| entry(usize::from(u16::from_le_bytes([low, high]))))
        .filter(|entry| spellings(entry).iter().any(|known| known == spelling))
        .collect()
}

fn name_key(&[a, b, c, d, ..]: &[u8; 6]) -> u32 {
    u32::from_le_bytes([a, b, c, d])
}

/// The texts of all messages, one a line: number of the entry, severity, whether a program may print it, text.
pub(crate) fn texts() -> &'static str {
    static UNPACKED: OnceLock<String> = OnceLock::new();
    UNPACKED.get_or_init(|| unpacked(TEXTS, TEXTS_LEN))
}

fn block(nth: usize) -> &'static [Entry<'static>] {
    UNPACKED[nth].get_or_init(|| {
        let Block {
            kind,
            offset,
            packed_len,
            len,
            ..
        } = BLOCKS[nth];
        // The entries borrow from it, and stay.
        let stanzas = unpacked(&PACKED[offset..offset + packed_len], len).leak();
        stanza::entries(kind, stanzas).flatten().collect()
    })
}

/// The text of compressed bytes. Damaged ones, which `build.rs` does not write, give an empty text.
fn unpacked(packed: &[u8], len: usize) -> String {
    let mut text = vec![0; len];
    let outcome = decompress_slice_iter_to_slice(&mut text, std::iter::once(packed), false, true);
    debug_assert_eq!(outcome, Ok(len));
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_the_entries_of_its_numbers() {
        let mut count = 0;
        for (nth, of_table) in BLOCKS.iter().enumerate() {
            assert_eq!(of_table.first, count, "{nth}");
            let entries = block(nth);
            assert!(!entries.is_empty() && entries.iter().all(|entry| entry.kind == of_table.kind));
            count += entries.len();
        }
        assert_eq!(count, len());
        assert!(std::ptr::eq(entry(0), &raw const block(0)[0]));
        assert!(std::ptr::eq(
            entry(len() - 1),
            block(BLOCKS.len() - 1).last().unwrap()
        ));
    }

    /// The limit of the size in the binary, 1.5 MB, is for what was added since the first version of the dictionary.
    #[test]
    fn packed_entries_are_small() {
        let size = PACKED.len() + NAMES.len() + TEXTS.len();
        println!(
            "{} + {} + {} = {size} bytes",
            PACKED.len(),
            NAMES.len(),
            TEXTS.len()
        );
        assert!(size < 1_000_000, "{size}");
    }

    #[test]
    fn unknown_spelling_has_no_entry() {
        assert!(named("frobnication").is_empty());
        assert_eq!(named("close-wait").len(), 1);
    }
}
