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
static SPELLINGS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spellings.bin"));
static WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/words.bin"));
static PLACES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/places.bin"));
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
    numbers_named(spelling).map(entry).collect()
}

/// The numbers of the entries that have this spelling, in [`normal`](crate::names::normal) form.
pub(crate) fn numbers_named(spelling: &str) -> impl Iterator<Item = usize> {
    let key = key(spelling);
    let (names, _) = NAMES.as_chunks::<6>();
    let first = names.partition_point(|name| name_key(name) < key);
    let same = names[first..]
        .iter()
        .take_while(move |name| name_key(name) == key);
    same.map(|&[.., low, high]| usize::from(u16::from_le_bytes([low, high])))
        .filter(move |&number| spellings(entry(number)).iter().any(|known| known == spelling))
}

fn name_key(&[a, b, c, d, ..]: &[u8; 6]) -> u32 {
    u32::from_le_bytes([a, b, c, d])
}

/// Number of the entry of the family that has this driver.
pub(crate) fn driver(name: &str) -> Option<usize> {
    let exact = DRIVERS.binary_search_by(|(driver, _)| driver.cmp(&name));
    let number = match exact {
        Ok(nth) => DRIVERS[nth].1,
        // The longest beginning says most.
        Err(_) => {
            let beginnings = DRIVERS.iter().filter(|(driver, _)| {
                driver
                    .strip_suffix('*')
                    .is_some_and(|beginning| name.starts_with(beginning))
            });
            beginnings.max_by_key(|(driver, _)| driver.len())?.1
        }
    };
    Some(usize::from(number))
}

/// The texts of all messages, one a line: number of the entry, place in it, severity, whether a program may print it, offset of the
/// anchor (see [`anchors`](crate::anchors)), text.
pub(crate) fn texts() -> &'static str {
    static UNPACKED: OnceLock<String> = OnceLock::new();
    UNPACKED.get_or_init(|| unpacked(TEXTS, TEXTS_LEN))
}

/// All spellings of all names, in [`normal`](crate::names::normal) form, with the numbers of their entries.
pub(crate) fn all_spellings() -> impl Iterator<Item = (&'static str, impl Iterator<Item = usize> + Clone)> {
    static UNPACKED: OnceLock<String> = OnceLock::new();
    let mut rest = UNPACKED
        .get_or_init(|| unpacked(SPELLINGS, SPELLINGS_LEN))
        .as_str();
    std::iter::from_fn(move || {
        let blank = memchr::memchr(b' ', rest.as_bytes())?;
        let end = blank + memchr::memchr(b'\n', &rest.as_bytes()[blank..])?;
        let (name, numbers) = (&rest[..blank], &rest[blank + 1..end]);
        rest = &rest[end + 1..];
        Some((name, numbers.split(' ').filter_map(|number| number.parse().ok())))
    })
}

/// All words of the names, texts and meanings of entries, one a line.
pub(crate) fn words() -> &'static str {
    static UNPACKED: OnceLock<String> = OnceLock::new();
    UNPACKED.get_or_init(|| unpacked(WORDS, WORDS_LEN))
}

/// Calls `each` with each of the [`words`] and a reader of the numbers of its entries, which need not be read.
pub(crate) fn for_each_word(mut each: impl FnMut(&'static str, &mut Numbers<'_>)) {
    let mut places = PLACES;
    for word in words().lines() {
        let count = next_number(&mut places);
        let mut numbers = Numbers {
            places: &mut places,
            left: count,
            number: 0,
        };
        each(word, &mut numbers);
        numbers.for_each(drop);
    }
}

/// Reads the numbers of the entries that have a word.
pub(crate) struct Numbers<'p> {
    places: &'p mut &'static [u8],
    left: usize,
    number: usize,
}

impl Iterator for Numbers<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        self.number += next_number(self.places);
        Some(self.number)
    }
}

/// Takes a number of `places.bin`; 0 at the end.
fn next_number(places: &mut &'static [u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = places.split_first() {
        *places = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 1 << 7 == 0 {
            break;
        }
    }
    number
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

    /// Packed they take hardly more in the binary than the first version of the dictionary did, whose text was not packed and a fraction of
    /// this. It may grow by 1.5 MB over that; the test notices steps that are larger than a few hundred texts.
    #[test]
    fn packed_entries_are_small() {
        let sizes = [PACKED, NAMES, TEXTS, SPELLINGS, WORDS, PLACES].map(<[u8]>::len);
        let size: usize = sizes.iter().sum();
        println!("{sizes:?}: {size} bytes");
        assert!(size < FIRST_VERSION_BYTES + GROWTH_BYTES_MAX, "{size}");
    }

    const FIRST_VERSION_BYTES: usize = 1_731_851;
    const GROWTH_BYTES_MAX: usize = 400_000;

    #[test]
    fn spellings_and_words_are_those_of_the_entries() {
        let mut count = 0;
        for (name, numbers) in all_spellings() {
            for number in numbers {
                assert!(
                    spellings(entry(number)).iter().any(|known| known == name),
                    "{name}"
                );
                count += 1;
            }
        }
        assert_eq!(
            count,
            entries().map(|entry| spellings(entry).len()).sum::<usize>()
        );
        let mut last = "";
        let mut words = 0;
        for_each_word(|word, numbers| {
            assert!(last < word, "{last} {word}");
            last = word;
            words += 1;
            // Only some are read: the next word must begin at its own numbers all the same.
            if let Some(number) = numbers.next() {
                let entry = entry(number);
                let texts = entry
                    .texts
                    .iter()
                    .chain(&entry.also)
                    .chain([&entry.name, &entry.meaning]);
                let mut words = texts.flat_map(|text| {
                    let lower = text.to_lowercase();
                    crate::words::words(&lower).map(str::to_owned).collect::<Vec<_>>()
                });
                assert!(words.any(|known| known == word), "{word}: {}", entry.name);
            }
        });
        assert!(words > 1_000, "{words}");
    }

    #[test]
    fn unknown_spelling_has_no_entry() {
        assert!(named("frobnication").is_empty());
        assert_eq!(named("close-wait").len(), 1);
    }
}
